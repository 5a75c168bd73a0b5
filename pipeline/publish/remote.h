/*
 * Where a result goes: the address of a git remote, taken apart and judged. Pure: it opens
 * nothing and resolves nothing. Linked into the supervisor, so it knows neither libgit2 nor
 * curl.
 *
 * Accepted (git-push(1), "GIT URLS"):
 *	/path, ./path, path, file:///path         a repository on this machine
 *	https://[user@]host[:port]/path
 *	ssh://[user@]host[:port]/path, [user@]host:path
 *
 * Refused, with the reason and the way out: remote helpers (ext::, fd::, any name::), git://,
 * http://, ftp:// and every other scheme, a password or token inside the URL, hosts, users and
 * paths that begin with '-', control and invisible characters, queries and fragments.
 */
#ifndef PUBLISH_REMOTE_H
#define PUBLISH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;

#define REMOTE_URL_MAX 4096 /* bytes */

enum remote_kind { REMOTE_LOCAL, REMOTE_HTTPS, REMOTE_SSH };

struct remote {
	enum remote_kind kind;
	char *url;  /* owned: what git is given and what is shown; https: without the user;
		       local: path */
	char *host; /* owned: lower case, IPv6 without brackets; NULL for local */
	int port;   /* 443 and 22 when the URL names none; 0 for local */
	char *user; /* owned: decoded; NULL when the URL names none */
	char *
	    path; /* owned: local: absolute; ssh: as the server gets it; https: as in the URL */
};

/*
 * Parses a remote's URL. base is the absolute directory that a relative path is relative to
 * (the work tree, or a bare repository's git directory), or NULL to refuse relative ones. 0; or
 * ERROR_USAGE with err, and remote is then empty. remote_release frees what it holds; releasing
 * twice is fine.
 */
int remote_parse(const char *text, const char *base, struct remote *remote, struct error *err);
void remote_release(struct remote *remote);

const char *remote_kind_text(enum remote_kind kind); /* "local", "https", "ssh" */

/*
 * The "remote" object of agent-publish's job: kind, url, host, port, user, path. New. The
 * supervisor adds known_hosts and ca, and for ssh without a user the name of whoever started it
 * (as ssh would).
 */
struct json *remote_to_json(const struct remote *remote);

/* Reads it again: the URL is parsed afresh and must say the same. 0 or ERROR_USAGE. */
int remote_from_json(const struct json *object, struct remote *remote, struct error *err);

/* "host:port" with brackets around IPv6: as in CONNECT (RFC 9110 section 9.3.6). The caller
 * frees. */
char *remote_authority(const struct remote *remote);

/* Where the path begins in an https URL. Borrowed. */
const char *remote_url_path(const struct remote *remote);

/* The name that known_hosts has for it: "host", or "[host]:port" when the port is not 22
 * (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT). The caller frees. */
char *remote_host_key_name(const struct remote *remote);

#endif
