/*
 * The git directory that git push runs with: made by us in the scratch directory, with a
 * configuration of ours, no refs, and alternates to the objects (law L9: git never runs with
 * the user's repository as its git dir). Made afresh each time.
 */
#ifndef PUBLISH_GITDIR_H
#define PUBLISH_GITDIR_H

struct error;
struct json;

#define GITDIR_NAME "git" /* in the scratch directory */
#define GITDIR_TIP "tip"

/*
 * scratch_fd: the scratch directory. paths: the job's "paths": repo, common, alternates,
 * objects (may be missing). Copies the repository's list of shallow commits, which alternates do not carry
 * (gitrepository-layout(5), shallow). 0; ERROR_USAGE when that list is malformed or a path
 * cannot be written into info/alternates; ERROR_FAILED.
 */
int gitdir_make(int scratch_fd, const struct json *paths, struct error *err);

/* One without alternates, for what is fetched: GITDIR_TIP in the scratch directory. 0 or ERROR_FAILED. */
int gitdir_make_empty(int scratch_fd, struct error *err);

#endif
