/* agent doctor: the tries. What a machine offers is tried by agent-probe, a jail by starting one. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/remote.h"
#include "pipeline/spawn.h"
#include "sandbox/jail_spec.h"

#define LIBGIT2_LEAST "1.5.1+ds-1+deb12u2"
#define OUTPUT_MAX 65536
#define MACHINE_MS 10000
#define TOOL_MS 700

extern char **environ;

/* ---- programs ---- */

static void read_until(int fd, long long until, struct strbuf *out)
{
	for (;;) {
		struct pollfd polled = {.fd = fd, .events = POLLIN};
		long long left = until - fd_now_ms();
		char chunk[4096];
		ssize_t n;

		if (left <= 0 || poll(&polled, 1, (int)left) <= 0)
			return;
		n = read(fd, chunk, sizeof(chunk));
		if (n <= 0)
			return;
		strbuf_add(out, chunk, (size_t)n);
	}
}

int doctor_ask(const char *const *argv, int deadline_ms, struct strbuf *out)
{
	union {
		char **ours;
		const char *const *given; /* spawn_outside only reads it */
	} env = {.ours = environ};
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);
	long long until = fd_now_ms() + deadline_ms;
	struct error ignored = {0};
	struct child child;
	siginfo_t info = {0};
	int ends[2], status = -1;

	if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	if (spawn_outside(argv, env.given, null, ends[1], ends[1], (uid_t)-1, &child,
			  &ignored) != 0) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[1]);
	read_until(ends[0], until, out);
	close(ends[0]);
	while (fd_now_ms() < until) {
		struct pollfd polled = {.fd = child.pidfd, .events = POLLIN};

		if (poll(&polled, 1, (int)(until - fd_now_ms())) > 0)
			break;
	}
	if (waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid && info.si_code == CLD_EXITED)
		status = info.si_status;
	kill(-child.pid, SIGKILL);
	spawn_release(&child);
	return status;
}

/* ---- the machine ---- */

/* The next field of a line of agent-probe, which is cut at its tab. */
static char *next_field(char **at)
{
	char *field = *at, *tab = strchr(field, '\t');

	if (tab)
		*tab = '\0';
	*at = tab ? tab + 1 : field + strlen(field);
	return field;
}

bool doctor_machine(struct json *rows, const char *dir)
{
	struct error err = {0};
	const char *programs = spawn_program_dir(&err);
	char *probe AUTO_FREE = programs ? mem_printf("%s/agent-probe", programs) : NULL;
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, OUTPUT_MAX);
	if (!probe || doctor_ask((const char *const[]){probe, "--machine", dir, NULL},
				 MACHINE_MS, &out) != 0) {
		doctor_row(rows, "machine", "agent-probe", "no",
			   probe ? "it did not end well" : err.message,
			   "install all programs of this project into one directory");
		return false;
	}
	for (char *line = out.data; *line;) {
		char *end = strchrnul(line, '\n'), *at = line;
		char *name, *state, *detail;
		bool last = !*end;

		*end = '\0';
		name = next_field(&at);
		state = next_field(&at);
		detail = next_field(&at);
		doctor_row(rows, "machine", name, state, detail, at);
		line = last ? end : end + 1;
	}
	return true;
}

/* ---- tools ---- */

static bool tool_row(struct json *rows, const char *name, const char *const *argv,
		     const char *missing)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	int status;

	strbuf_init(&out, OUTPUT_MAX);
	status = doctor_ask(argv, TOOL_MS, &out);
	out.data[strcspn(out.data, "\n")] = '\0';
	if (status == 0)
		doctor_row(rows, "tools", name, "yes", out.data[0] ? out.data : "there", "");
	else
		doctor_row(rows, "tools", name, "no", "not found in PATH, or it does not run",
			   missing);
	return status == 0;
}

/* Its path, owned by the caller; NULL when it is nowhere in PATH. */
static char *find_tool(const char *name)
{
	struct error ignored = {0};
	union {
		char **ours;
		const char *const *given;
	} env = {.ours = environ};

	return spawn_find(name, env.given, &ignored);
}

/* Tools that are needed by some only: their absence is no defect. */
static void optional_row(struct json *rows, const char *name, const char *what)
{
	char *path AUTO_FREE = find_tool(name);
	char text[512];

	snprintf(text, sizeof(text), "%.200s%s%s", path ? path : "not found in PATH",
		 path ? ", " : ": ", what);
	doctor_row(rows, "tools", name, path ? "yes" : "not tried", text, "");
}

/*
 * Debian's libgit2 1.5 has had defects mended that hostile objects reach (CVE-2024-24575, -24577, CVE-2026-53584 to
 * -53586, CVE-2026-5917), without another version number of the library's own: only the package tells. Nothing is
 * said where there is no such package.
 */
static void libgit2_row(struct json *rows)
{
	static const char *const ask[] = {"dpkg-query", "-W",	       "-f",
					  "${Version}", "libgit2-1.5", NULL};
	struct strbuf out AUTO_STRBUF = STRBUF_NONE, none AUTO_STRBUF = STRBUF_NONE;
	const char *compare[] = {"dpkg", "--compare-versions", NULL, "ge", LIBGIT2_LEAST, NULL};

	strbuf_init(&out, OUTPUT_MAX);
	strbuf_init(&none, OUTPUT_MAX);
	if (doctor_ask(ask, TOOL_MS, &out) != 0 || out.len == 0 || out.data[0] == '-')
		return;
	compare[2] = out.data;
	if (doctor_ask(compare, TOOL_MS, &none) == 0)
		doctor_row(rows, "tools", "libgit2", "yes", out.data, "");
	else
		doctor_row(rows, "tools", "libgit2", "part", out.data,
			   "upgrade the package libgit2-1.5 to " LIBGIT2_LEAST
			   " or later: hostile objects reach what was mended there");
}

/* Whether the operator's configuration says that results go to a server by SSH. */
static bool publishes_by_ssh(const struct config *config)
{
	struct error ignored = {0};
	struct remote remote = {0};
	bool ssh =
	    remote_parse(config_get(config, "publish.remote"), "/", &remote, &ignored) == 0 &&
	    remote.kind == REMOTE_SSH;

	remote_release(&remote);
	return ssh;
}

bool doctor_tools(struct json *rows, const struct config *config)
{
	bool publishes = tool_row(rows, "git", (const char *const[]){"git", "--version", NULL},
				  "install git: publishing needs it");

	if (publishes_by_ssh(config))
		publishes &= tool_row(rows, "ssh", (const char *const[]){"ssh", "-V", NULL},
				      "install the OpenSSH client, which publish.remote needs, "
				      "or publish over HTTPS");
	else
		optional_row(rows, "ssh", "which publishing over SSH needs");
	if (config_get(config, "publish.signingKey")) {
		char *path AUTO_FREE = find_tool("ssh-keygen");

		doctor_row(rows, "tools", "ssh-keygen", path ? "yes" : "no",
			   path ? path : "not found in PATH",
			   path ? ""
				: "install the OpenSSH client: publish.signingKey needs it");
		publishes &= path != NULL;
	}
	libgit2_row(rows);
	optional_row(rows, "npm", "which the npm recipe warms dependencies with");
	optional_row(rows, "node", "which tests of npm projects run on");
	optional_row(rows, "runsc", "which the gvisor backend runs tests in");
	return publishes;
}

/* ---- jails ---- */

/* Layers of agent-jail (JAIL_STEPS of sandbox/jail/run.h), and what each one keeps. */
static const struct {
	const char *name, *keeps;
	const char *without; /* what it means when it is not there; NULL: it must be */
	bool native;
} layers[] = {
    {"cgroup", "memory and processes of all of the jail are limited",
     "degraded: memory is limited a process at a time, and not for the jail as a whole", true},
    {"uid", "the payload has a uid that nothing else uses",
     "shared: the payload has your uid, as every start by a user without a range", true},
    {"keyring", "a session keyring of its own", "this kernel has no keyrings", true},
    {"userns", "no right over anything that is the host's", NULL, true},
    {"mountns", "mounts of its own", NULL, true},
    {"pidns", "sees and signals no process outside", NULL, true},
    {"ipcns", "no shared memory or queue of the host", NULL, true},
    {"utsns", "a host name of its own", NULL, true},
    {"netns", "no network but a loopback of its own", NULL, true},
    {"init", "ends as a whole, with its first process", NULL, true},
    {"session", "no terminal of yours", NULL, true},
    {"proc", "a proc of its own, with the kernel's files masked", NULL, true},
    {"root", "an enumerated root, never that of the host", NULL, true},
    {"dev", "seven devices, no disk, no memory", NULL, true},
    {"work", "a work tree that is thrown away", NULL, true},
    {"home", "a HOME that is thrown away", NULL, true},
    {"pivot", "the old root is gone", NULL, true},
    {"cgroupns", "does not see the host's control groups", NULL, true},
    {"ids", "uid 1000 inside, and no other", NULL, true},
    {"nesting", "no further user namespace", NULL, true},
    {"rlimits", "limits of a process, no core files", NULL, true},
    {"caps", "no capability, in any set", NULL, true},
    {"nnp", "no new privileges by exec", NULL, true},
    {"landlock", "writes only to the work tree, HOME, /tmp and devices", NULL, true},
    {"seccomp", "system calls by a list; what is newer does not exist", NULL, true},
    {"gvisor", "system calls are served by a kernel in user space", NULL, false},
    {"selftest", "looks from inside found it so", NULL, true},
};

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += len)
		if ((at == words || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
	return false;
}

static const char *keeps_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		if (strcmp(layers[i].name, name) == 0)
			return layers[i].keeps;
	return "";
}

/* Of the native jail also what is not there; of others what there is: each has a list of its own. */
static void layer_rows(struct json *rows, const char *group, bool native,
		       const struct jail_facts *facts)
{
	char **words = text_split_words(facts->layers);

	for (size_t i = 0; native && i < ARRAY_LEN(layers); i++) {
		if (has_word(facts->layers, layers[i].name) || !layers[i].native)
			continue;
		doctor_row(rows, group, layers[i].name, layers[i].without ? "part" : "no",
			   layers[i].without ? layers[i].without : "not reached", "");
	}
	for (size_t i = 0; words && words[i]; i++)
		doctor_row(rows, group, words[i], "yes", keeps_of(words[i]), "");
	text_free_words(words);
}

struct config *doctor_config(const struct options *options, const char *pair)
{
	struct config *config = config_new();
	struct error ignored = {0}; /* what is wrong in the files has a row of its own */

	config_add_operator(config, &ignored);
	for (size_t i = 0; i < js_len(options->pairs); i++)
		config_add_pair(config, js_text(js_at(options->pairs, i)), &ignored);
	config_add_pair(config, pair, &ignored);
	return config;
}

bool doctor_jail(struct json *rows, struct supervisor *sup, const struct options *options,
		 const char *state, const char *backend, bool chosen)
{
	char *pair AUTO_FREE = mem_printf("jail.backend=%s", backend);
	char *group AUTO_FREE = mem_printf("jail: %s", backend);
	struct config *config AUTO_CONFIG = doctor_config(options, pair);
	const char *bad = chosen ? "no" : "not tried";
	bool native = strcmp(backend, "native") == 0, fit;
	struct jail_facts facts = {0}, degraded = {0};
	struct error err = {0}, ignored = {0};

	if (jailplan_try(sup, config, state, FETCH_NONE, NULL, &facts, NULL, &err) != 0) {
		doctor_row(rows, group, "start", bad, err.message, err.next);
		return false;
	}
	fit = facts.outcome == JAIL_EXITED && facts.value == 0;
	if (fit) {
		char text[160];

		snprintf(text, sizeof(text), "it starts; limits by %s, uid %s%s", facts.limits,
			 facts.uid, chosen ? "" : "; not the backend that is chosen");
		doctor_row(rows, group, "start", "yes", text, "");
		layer_rows(rows, group, native, &facts);
		return true;
	}
	doctor_row(rows, group, "start", bad, facts.detail, facts.next);
	/* The others, too, where only the limits are missing: with them left out, which nothing is run with. */
	if (native && !has_word(facts.layers, "cgroup") &&
	    config_add_pair(config, "jail.limits=degraded-ok", &ignored) == 0 &&
	    jailplan_try(sup, config, state, FETCH_NONE, NULL, &degraded, NULL, &ignored) == 0)
		layer_rows(rows, group, native, &degraded);
	else if (native)
		layer_rows(rows, group, native, &facts);
	return false;
}
