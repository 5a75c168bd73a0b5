/*
 * The stage table: what each process of a run may hold. One row a program and mode; the
 * supervisor obeys it before exec (pipeline/spawn.c), the process after (pipeline/stage.c).
 * `agent help stages` and the README print it. Adding a right is adding a line in stages.c,
 * with a wall test in the same commit.
 */
#ifndef PIPELINE_STAGES_H
#define PIPELINE_STAGES_H

#include <stdbool.h>
#include <stddef.h>

enum stage_id {
	STAGE_DIAL,
	STAGE_BASE,
	STAGE_STATUS,
	STAGE_LAYER,
	STAGE_FETCH,
	STAGE_EGRESS,
	STAGE_MODEL,
	STAGE_EDIT,
	STAGE_TRY,
	STAGE_TEST,
	STAGE_JAIL,
	STAGE_PUBLISH,
	STAGE_VERIFY,
	STAGE_FORGE_ISSUE,
	STAGE_WORDS,
	STAGE_FORGE_PULL,
	STAGE_PUSHED,
	STAGE_TASKS,
	STAGE_CHANGE,
	STAGE_MIRROR,
	STAGE_COUNT,
};

enum stage_net {
	NET_NONE,     /* empty network namespace, socket(2) denied */
	NET_DIAL,     /* as NET_NONE; bytes to one host:port through agent-dial on FD_NET */
	NET_LOOPBACK, /* empty namespace with its own loopback, plus agent-dial on FD_NET: git
			 and ssh need TCP */
	NET_HOST,     /* the host's network: agent-dial and agent-egress only */
	NET_JAIL,     /* agent-jail makes an empty namespace for its payload itself */
};

enum secret_id {
	SECRET_NONE,
	SECRET_MODEL_KEY,   /* provider's API key */
	SECRET_PUSH,	    /* token, user:token, or SSH private key */
	SECRET_SIGN,	    /* SSH private key: beside the push credential */
	SECRET_PROXY,	    /* user:password of an HTTP proxy on the way to a server */
	SECRET_GIT_READ,    /* token, user:token, or SSH private key that may read */
	SECRET_FORGE_READ,  /* token of a forge's API that reads */
	SECRET_FORGE_WRITE, /* one that writes issues and pull requests */
};

enum stage_filter {
	FILTER_QUIET, /* compute and files already allowed by Landlock; no sockets, no exec */
	FILTER_PUMP,  /* FILTER_QUIET + outgoing TCP and name resolution: agent-dial,
			 agent-egress */
	FILTER_LAUNCHER, /* FILTER_PUMP's sockets + fork and exec of the listed children:
			    agent-publish */
	FILTER_JAIL, /* none on the set-up helper itself: it builds namespaces; its payload has
			its own */
};

enum path_use {
	PATH_READ,    /* below the path: read files, list directories */
	PATH_WRITE,   /* PATH_READ + create, write, rename, remove below it */
	PATH_EXECUTE, /* PATH_READ + execute */
};

struct stage_path {
	const char *name; /* absolute path; or "{key}": the path in the job's "paths" object,
			     skipped when the key is absent there */
	enum path_use use;
};

struct stage_env {
	const char *name;
	const char *value; /* fixed by us */
};

struct stage_row {
	const char *name;    /* as printed: program and mode */
	const char *program; /* file name of the executable */
	const char *mode;    /* argv[1], or NULL */
	const char *does;    /* one line for the table */
	enum stage_net net;
	const char *net_what;	       /* for the table: which host */
	enum secret_id secret, second; /* on FD_SECRET and FD_SIGN */
	enum stage_filter filter;
	bool reads_any_owner; /* started by root: keeps CAP_DAC_READ_SEARCH, bounded by
				 Landlock, to read a repository that another user owns */
	bool needs_user; /* its children want an entry in /etc/passwd for the uid that they run
			    as (ssh refuses to start without): one is made where there is none,
			    seen by this row only */
	bool
	    starts_jail; /* starts agent-jail before it gives up power (sandbox/jail_start.h) */
	const int *fds;	 /* enum stage_fd it may hold; ends with -1 */
	const struct stage_path *paths; /* ends with NULL name */
	const struct stage_env *env;	/* the whole environment; ends with NULL name */
	const char *const *children;	/* programs it may run; NULL-terminated */
	unsigned
	    wall_s; /* deadline, seconds; 0: given with the job (a test's own time limit) */
	unsigned data_bytes_mib; /* RLIMIT_DATA in MiB; 0: none */
	unsigned file_bytes_mib; /* RLIMIT_FSIZE in MiB; 0: none */
	unsigned nofile;	 /* RLIMIT_NOFILE */
};

const struct stage_row *stage_row(enum stage_id id);

/* Finds a row by program name and mode (NULL when the program has one row only); NULL if none.
 */
const struct stage_row *stage_find(const char *program, const char *mode);
enum stage_id stage_id_of(const struct stage_row *row);

const char *stage_net_text(enum stage_net net);
const char *stage_secret_text(enum secret_id secret);
const char *stage_fd_text(int number); /* of enum stage_fd; "?" for others */

/* The README's table (Markdown), appended to out. */
struct strbuf;
void stage_print_table(struct strbuf *out);

/* First unprivileged uid of the range that rows use when started by root: row N runs as base +
 * N. Payloads take base + 4096 + pid. */
#define STAGE_UID_BASE                                                                         \
	1879048192u /* 0x70000000: outside of what distributions and subuid hand out */

#endif
