/*
 * Fetches all refs of a remote repository into a bare one that is ours alone: its configuration and HEAD are written
 * here, never taken from the server, hooks are not run. Every object that comes is checked; what comes is counted. What
 * a killed fetch left is swept before the next one: the caller holds the lock of the mirror.
 */
#ifndef PUBLISH_MIRROR_H
#define PUBLISH_MIRROR_H

struct error;
struct json;

/*
 * The job: {"paths":{"mirror","scratch","libexec","ca"?},"remote":{as pipeline/publish/remote.h has it, "known_hosts"},
 * "deadline_s":N,"max_bytes":N}. Uses FD_NET and, where it is open, FD_SECRET. Sends {"event":"result","changed":N refs,
 * "head":REF|null}. 0; ERROR_NO when the server says no or a limit is met; ERROR_USAGE; ERROR_FAILED.
 */
int mirror_fetch(const struct json *job, struct error *err);

/*
 * Lets git pack it where that is due (git-gc(1), --auto). The job: {"paths":{"mirror","scratch"},"pack":true,"keep_all":bool,
 * "deadline_s":N}. Uses no other descriptor, and so reaches nothing. Sends {"event":"result","packed":bool} and, when it was,
 * "before" and "after", each {"packs","loose","bytes"}. 0; ERROR_USAGE; ERROR_FAILED.
 */
int mirror_pack(const struct json *job, struct error *err);

#endif
