/*
 * Whether a commit that some ref of a remote points at was made by this program, though no receipt
 * says so (they are kept by a machine and may be gone): it verifies under our own signing key, and
 * its message, which is signed with the rest, names the issue that is worked on. Who it says wrote
 * it counts for nothing: that is text.
 *
 * The objects are the remote's, so hostile: one commit of at most COMMIT_BYTES_MAX is read, and
 * only if its id is what the remote said.
 */
#ifndef PUBLISH_OURS_H
#define PUBLISH_OURS_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;

#define OURS_TRAILER "Agent-Issue: "
#define OURS_ISSUE_DIGITS 32 /* hex digits that name an issue there */

/* Whether the message of commit bytes has the trailer with this issue, in its last paragraph. Pure. */
bool ours_names_issue(const char *bytes, size_t len, const char *issue);

/*
 * The working directory is the scratch directory, in which signer_open has left the public key.
 * objects: object directories of the remote, a string or an array; paths: the job's. 1: ours; 0: not,
 * with the reason in why; an error kind when it could not be found out.
 */
int ours_check(const struct json *paths, const struct json *objects, const char *commit,
	       const char *issue, char why[256], struct error *err);

#endif
