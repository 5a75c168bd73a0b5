/*
 * `git receive-pack` for a repository on this machine: which command line and which environment
 * the supervisor starts it with, outside of any stage, so that the repository's own hooks run
 * as they would for any pusher. Pure; linked into the supervisor.
 */
#ifndef PUBLISH_RECEIVE_H
#define PUBLISH_RECEIVE_H

#define RECEIVE_ENV 64

struct receive {
	const char *argv[4];	      /* NULL-terminated; argv[0] is looked up in PATH of env */
	const char *env[RECEIVE_ENV]; /* NULL-terminated: the whole environment; nothing of
					 ours, no GIT_* */
	char *owned[RECEIVE_ENV];     /* strings that release frees */
};

/* path: the repository. home: the home directory of whoever it runs as, or NULL. user: their
 * name, or NULL. run: the run's id, for hooks that want to tell. The strings path is borrowed.
 */
void receive_init(struct receive *receive, const char *path, const char *home, const char *user,
		  const char *run);
/* A further NAME=VALUE, in place of one of the same name. 0; -1 when it is
 * none, or there are too many. */
int receive_add(struct receive *receive, const char *pair);
void receive_release(struct receive *receive);

#endif
