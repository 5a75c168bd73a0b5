/*
 * agent-publish as a child of itself: git starts it as its GIT_ASKPASS (to be told user and
 * token) and as its GIT_SSH (to start ssh with our options). Neither way goes through a shell.
 * What a helper needs to know is in its environment, which holds no secret; the token it reads
 * from the inherited FD_SECRET.
 *
 * Must not: answer a prompt that is not for our host, start ssh for another command than git's
 * own.
 */
#ifndef PUBLISH_HELPER_H
#define PUBLISH_HELPER_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/* Names in the helper's environment (set by pipeline/publish/gitenv.c). */
#define HELPER_ENV "AGENT_PUBLISH_HELPER"    /* "askpass" or "ssh" */
#define HELPER_ENV_URL "AGENT_PUBLISH_URL"   /* askpass: "https://host[:port]" */
#define HELPER_ENV_USER "AGENT_PUBLISH_USER" /* user; "" when the operator named none */
#define HELPER_ENV_PORT "AGENT_PUBLISH_PORT" /* ssh: port of the listener on 127.0.0.1 */
#define HELPER_ENV_HOST_KEY "AGENT_PUBLISH_HOST_KEY" /* ssh: name in known_hosts */

/* Files in the scratch directory, which is the working directory of every child. */
#define HELPER_KNOWN_HOSTS "known_hosts"
#define HELPER_AGENT_SOCKET "agent.sock"

/* The user that is given with a token when nobody named one: what the large forges expect. */
#define HELPER_DEFAULT_USER "x-access-token"

/* Whether this process is such a child; *status is then its exit status. */
bool helper_main(int argc, char **argv, int *status);

enum askpass_question { ASKPASS_OTHER, ASKPASS_USERNAME, ASKPASS_PASSWORD };

/* What git asks (credential.c: "Username for 'URL': ", "Password for 'scheme://USER@…': "),
 * when it is exactly about url and user; anything else is ASKPASS_OTHER. Pure. */
enum askpass_question askpass_match(const char *prompt, const char *url, const char *user);

/*
 * Takes a secret apart: "user:token" when no user is named (named is "") or when it begins with
 * the named user and a colon; else all of it is the token. The user, which the caller frees,
 * and *token (into secret, which stays owned); NULL with err (ERROR_USAGE) when a part is empty
 * or holds a line break or NUL. Pure.
 */
char *askpass_split(const char *secret, size_t len, const char *named, const char **token,
		    size_t *token_len, struct error *err);

/*
 * The arguments of ssh for one command of git, NULL-terminated; the caller frees the array and
 * nothing in it (strings are static or the caller's). port and host_key are option values:
 * "Port=…", "HostKeyAlias=…". Pure.
 */
const char **ssh_arguments(const char *port, const char *host_key, const char *user,
			   const char *command);

/* Whether git may have a command run on the server: git-receive-pack or git-upload-pack and one
 * quoted path. Pure. */
bool ssh_command_is_gits(const char *command);

#endif
