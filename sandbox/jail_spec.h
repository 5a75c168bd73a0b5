/*
 * What agent-jail is told (the spec, by the supervisor alone), when it may begin (the "go", by
 * the program that started it) and what it says at the end (the facts, straight to the
 * supervisor).
 *
 * All three are NUL-separated records "key=value\0" without any escaping, so that the static
 * agent-jail needs no JSON library and values may hold any byte but NUL. Unknown keys, missing
 * keys and malformed values are errors. The parsers and formatters are pure.
 */
#ifndef SANDBOX_JAIL_SPEC_H
#define SANDBOX_JAIL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

#define JAIL_SPEC_MAX (1 << 20)		  /* bytes of a spec */
#define JAIL_WORK "/work"		  /* where the work tree is inside */
#define JAIL_HOME "/home/agent"		  /* HOME inside */
#define JAIL_RUNTIME "/tmp/runtime-agent" /* XDG_RUNTIME_DIR inside: the user's own, 0700 */
#define JAIL_PROXY_PORT 3128		  /* egress: http://127.0.0.1:3128 inside */

/* Who runs the command, once the namespaces, the file system and the limits are there. */
enum jail_backend {
	JAIL_NATIVE, /* the host's kernel, behind Landlock and a system call filter */
	JAIL_GVISOR, /* runsc: a kernel of its own in user space */
	JAIL_BACKEND_COUNT
};

const char *jail_backend_text(enum jail_backend backend);	      /* "native", "gvisor" */
int jail_backend_parse(const char *text, enum jail_backend *backend); /* 0, -1: no such one */

/* "memory", "disk" */
const char *jail_scratch_text(bool on_disk);

enum jail_bind {
	JAIL_BIND_RO,	 /* recursive, read-only, nosuid, nodev: toolchains, single files */
	JAIL_BIND_STORE, /* as RO, idmapped to the payload's uid when started by root */
	JAIL_BIND_RW, /* writable, nosuid, nodev, idmapped to the payload's uid when started by
			 root: only for a warm's output directory in its run directory */
};

struct jail_mount {
	enum jail_bind how;
	bool optional; /* a missing source is skipped (toolchain manifest) instead of fatal */
	char *source;  /* absolute, resolved without following links except for JAIL_BIND_RO
			 manifest   entries, whose link is re-made as a link inside (merged /usr) */
	char *target;  /* absolute inside */
};

struct jail_limits {
	uint64_t wall_ms;      /* CLOCK_MONOTONIC deadline; 0 is not allowed */
	uint64_t idle_ms;      /* no output for so long: the starter says so; 0: none */
	uint64_t cpu_s;	       /* RLIMIT_CPU a process; 0: none */
	uint64_t cpus;	       /* cpu cgroup: processors' worth of time; 0: no limit */
	uint64_t memory_bytes; /* memory cgroup */
	uint64_t processes;    /* pids cgroup */
	uint64_t disk_bytes; /* one file system: scratch layer, HOME, /tmp, /dev/shm together */
	uint64_t inodes;     /* of that */
	uint64_t file_bytes; /* RLIMIT_FSIZE */
	bool degraded_ok;    /* no cgroup to be had: go on with rlimits, recorded */
};

struct jail_spec {
	enum jail_backend backend;
	char
	    *runtime; /* absolute: program of the backend, by the operator; NULL: looked up in a
			  fixed list */
	char **argv;  /* argv[0] is looked up in the PATH of env, inside */
	char **env;   /* NAME=VALUE: the whole environment of the payload */
	char *cwd;    /* absolute inside */
	char *store;  /* absolute: layers named in the go lie below it; may be NULL */
	char *scratch;	/* absolute: the run's directory; layers named "run/…" in the go lie
			   below it */
	char *work_dir; /* absolute: bind this directory (dirty view) as lowest layer; may be
			   NULL */
	struct jail_mount *mounts; /* in order */
	size_t mount_count;
	struct jail_limits limits;
	bool egress;	  /* make the proxy listener and hand it out on FD_EGRESS */
	bool work_rw;	  /* warm only: the work tree is the directory work_dir itself, writable
			     (idmapped) */
	bool copy_layers; /* no overlay: copy the layers into the scratch */
	bool on_disk; /* the scratch is no tmpfs, but a file system in a file below scratch, or
			     below store: started by root only (jail/disk.h) */
	bool observe; /* tell what it tried to reach; default true (jail/observe.h) */
	bool
	    tested; /* the whole self-test held for such a jail since the machine was booted: only its
			     vital probes (pipeline/jailtested.h) */
	bool
	    subuid; /* started by a user: give the payload an id of their subordinate range, where there is
			one (sandbox/subuid.h) */
	bool
	    reclaim; /* run nothing: give what is below scratch back to the user, from ids of their range
			 that a killed jail left it with */
	bool
	    take; /* keep the changed files of the work tree until the starter has read them from
		      FD_TAKE (sandbox/jail_take.h) */
	bool separate_uid; /* refuse to start where the payload would have its starter's uid */
	bool audit; /* send what was applied in front of the facts (sandbox/jail_applied.h) */
};

void jail_spec_init(struct jail_spec *spec);
void jail_spec_release(struct jail_spec *spec);
void jail_spec_add_arg(struct jail_spec *spec, const char *arg);
/* A later value of the same name replaces the earlier one. */
void jail_spec_add_env(struct jail_spec *spec, const char *name, const char *value);
void jail_spec_remove_env(struct jail_spec *spec, const char *name);
void jail_spec_add_mount(struct jail_spec *spec, enum jail_bind how, bool optional,
			 const char *source, const char *target);
void jail_spec_format(const struct jail_spec *spec, struct strbuf *out);
int jail_spec_parse(const char *data, size_t len, struct jail_spec *spec, struct error *err);

/*
 * The go: layers from the top down, names relative to the store ("base/<hex>/tree") or, with
 * the prefix "run/", to the scratch directory; each component [A-Za-z0-9._-]+, never "." or
 * "..". home_layers go below HOME in the same way.
 */
struct jail_go {
	char **layers;
	size_t layer_count;
	char **home_layers;
	size_t home_count;
};

/* A byte behind the go: no output came for limits.idle_ms. It counts only where the spec has that
 * limit, and only while the command runs. */
#define JAIL_GO_IDLE 'i'

void jail_go_init(struct jail_go *go);
void jail_go_release(struct jail_go *go);
void jail_go_add(struct jail_go *go, const char *layer);
void jail_go_add_home(struct jail_go *go, const char *layer);
void jail_go_format(const struct jail_go *go, struct strbuf *out);
int jail_go_parse(const char *data, size_t len, struct jail_go *go, struct error *err);

#define JAIL_IDLE_TOLD "no output for"
#define JAIL_PROCESSES_TOLD                                                                    \
	"too many processes and threads at once: the sandbox got no more (jail.processes)"

enum jail_outcome {
	JAIL_EXITED,   /* value: exit status */
	JAIL_SIGNALED, /* value: signal number */
	JAIL_TIMEOUT, /* value: limit in ms; detail begins with JAIL_IDLE_TOLD when it is the idle one */
	JAIL_OOM, /* the payload was SIGKILLed and the group's oom count rose */
	JAIL_LIMIT, /* another limit ended it (cpu, file size); value: the signal; detail is JAIL_PROCESSES_TOLD
		       when it is that one */
	JAIL_KILLED,  /* SIGSYS: the filter killed it; value: syscall number when known */
	JAIL_NOT_RUN, /* command not found or not executable; value: errno (126, 127 for `agent
			  jail`) */
	JAIL_SETUP,   /* a set-up step failed: the payload never started; detail names the layer
		     */
	JAIL_INTERNAL, /* agent-jail itself failed while the payload ran: never a green or red
			  test */
};

enum jail_observe {
	JAIL_OBSERVE_NONE, /* the backend does not observe, or no payload was started */
	JAIL_OBSERVE_OFF,  /* the spec said so */
	JAIL_OBSERVE_ON,
};

#define JAIL_EGRESS_MAX 100 /* distinct attempts that are told one by one */

/* Something that was tried to reach, and denied. All text is printable, without newlines. */
struct jail_egress {
	char proto[8];	/* tcp, udp, icmp; dns: a name was looked up; "?" */
	unsigned port;	/* 0: none, or not known */
	uint64_t count; /* how often */
	char host[256]; /* address, or name; no blank in it; "?" when it could not be read */
	char program
	    [200]; /* "/usr/bin/curl", "pytest (/usr/bin/python3.11)": the payload's own word */
};

struct jail_facts {
	enum jail_outcome outcome;
	int value;
	uint64_t elapsed_ms;
	uint64_t memory_peak_bytes; /* 0: not measured */
	uint64_t oom_count; /* processes of the group that the kernel killed for memory */
	uint64_t leftover;  /* processes still alive when the payload ended */
	char uid[16];	    /* "separate", "subuid" (of the starter's range) or "shared" */
	char limits[32];    /* "cgroup2", "cgroup1", "systemd", "degraded" */
	char work[16];	    /* "overlay", "copy", "bind" */
	char backend[16];   /* "native" */
	char scratch[16];   /* "memory", "disk" */
	char layers[256];   /* active layers of isolation, blank-separated, in build order */
	char detail[768];   /* for SETUP, NOT_RUN, INTERNAL: layer, reason */
	char next[512];	    /* remedy */
	enum jail_observe observe;
	struct jail_egress
	    egress[JAIL_EGRESS_MAX]; /* the first egress_count, in order of time */
	size_t egress_count;
	uint64_t egress_more; /* attempts beyond those, not told apart */
	uint64_t listeners; /* seccomp listeners that the payload was refused because of ours */
};

const char *
jail_outcome_text(enum jail_outcome outcome); /* "exited", "signalled", "timeout", … */
const char *jail_observe_text(enum jail_observe observe); /* "on", "off", "not observed" */
void jail_facts_format(const struct jail_facts *facts, struct strbuf *out);
int jail_facts_parse(const char *data, size_t len, struct jail_facts *facts, struct error *err);

#endif
