/* Jails as the supervisor plans them: the spec before, the facts after, what they mean for
 * people. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/audit.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/jailconf.h"
#include "sandbox/jail_applied.h"
#include "sandbox/jail_find.h"
#include "sandbox/jail_manifest.h"
#include "sandbox/jail_spec.h"

#define TRY_MS 20000
#define TRY_PROCESSES 64
#define TRY_INODES 4096
#define FACTS_MS 20000 /* agent-jail has ended or is about to: it sends the facts last */

/* What is no program, but a word of the shell's. */
static bool is_builtin(const char *command)
{
	static const char *const words[] = {
	    ".",     ":",     "alias", "bg",	   "break",  "cd",	"command", "continue",
	    "eval",  "exec",  "exit",  "export",   "fc",     "fg",	"getopts", "hash",
	    "jobs",  "local", "read",  "readonly", "return", "set",	"shift",   "source",
	    "times", "trap",  "type",  "ulimit",   "umask",  "unalias", "unset",   "wait"};
	const char *word = command + strspn(command, " \t\n");
	size_t len = strcspn(word, " \t\n");

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strlen(words[i]) == len && strncmp(words[i], word, len) == 0)
			return true;
	return false;
}

/* Whether only a shell can make sense of a command line. What stands in quotes is plain. */
static bool needs_shell(const char *command)
{
	char quote = '\0';

	if (is_builtin(command))
		return true;
	for (const char *p = command; *p; p++) {
		if (quote == '\'') {
			if (*p == quote)
				quote = '\0';
		} else if (quote == '"') {
			if (*p == quote)
				quote = '\0';
			else if (strchr("$`\\", *p))
				return true;
		} else if (*p == '\'' || *p == '"') {
			quote = *p;
		} else if (strchr("|&;<>()$`*?[]#~{}!\\\n", *p)) {
			return true;
		}
	}
	return quote != '\0';
}

/* A command that needs no shell is run without one, so that "not found" is told apart from
 * status 127. */
static void add_command(struct jail_spec *spec, const char *command)
{
	char **words = needs_shell(command) ? NULL : text_split_words(command);

	if (words && !strchr(words[0], '=')) {
		for (size_t i = 0; words[i]; i++)
			jail_spec_add_arg(spec, words[i]);
	} else {
		jail_spec_add_arg(spec, "/bin/sh");
		jail_spec_add_arg(spec, "-c");
		jail_spec_add_arg(spec, command);
	}
	text_free_words(words);
}

/* Whether dir is what, or what lies below it. */
static bool holds(const char *dir, const char *what)
{
	size_t len = strlen(dir);

	return strncmp(dir, what, len) == 0 && (!what[len] || what[len] == '/' || len == 1);
}

/* A toolchain is admitted, never a directory that holds a home, our own state or what the jail makes itself. */
static int check_path(const char *path, const char *state, struct error *err)
{
	const char *const guarded[] = {getenv("HOME"), state,  "/etc",	"/proc",
				       "/sys",	       "/dev", "/run",	"/home",
				       "/var",	       "/tmp", "/work", "/usr"};
	char *real AUTO_FREE = realpath(path, NULL);

	for (size_t i = 0; real && i < ARRAY_LEN(guarded); i++) {
		char *other AUTO_FREE = guarded[i] ? realpath(guarded[i], NULL) : NULL;

		if (!holds(real, other ? other : (guarded[i] ? guarded[i] : "/")))
			continue;
		error_set(err, ERROR_USAGE, "jail.path = %s holds %s", path,
			  guarded[i] ? guarded[i] : "/");
		return error_next(err, "name the directory of the toolchain itself, such as "
				       "~/.rustup/toolchains/NAME, written in full");
	}
	return 0;
}

/* [jail] path: a toolchain outside /usr, at the same place inside. */
static int add_paths(const struct config *config, const char *state, struct jail_spec *spec,
		     struct error *err)
{
	const char *path;

	for (size_t i = 0; (path = config_item(config, "jail.path", i)); i++) {
		if (check_path(path, state, err))
			return err->kind;
		if (jail_manifest_add_path(spec, path, err))
			return error_wrap(err, "jail.path");
	}
	return 0;
}

static void add_env(const struct config *config, const char *key, struct jail_spec *spec)
{
	const char *pair;

	for (size_t i = 0; (pair = config_item(config, key, i)); i++) {
		size_t len = strcspn(pair, "=");
		char *name AUTO_FREE = mem_strndup(pair, len);

		jail_spec_add_env(spec, name, pair + len + 1);
	}
}

void jailplan_limits(const struct config *config, struct jail_limits *limits)
{
	limits->wall_ms = (uint64_t)config_number(config, "test.timeout") * 1000;
	limits->idle_ms = (uint64_t)config_number(config, "jail.idle") * 1000;
	limits->cpu_s = (uint64_t)config_number(config, "jail.cpuTime");
	limits->memory_bytes = (uint64_t)config_number(config, "jail.memory");
	limits->cpus = (uint64_t)config_number(config, "jail.cpus");
	limits->processes = (uint64_t)config_number(config, "jail.processes");
	limits->disk_bytes = (uint64_t)config_number(config, "jail.disk");
	limits->inodes = (uint64_t)config_number(config, "jail.inodes");
	limits->file_bytes = limits->disk_bytes;
	limits->degraded_ok = strcmp(config_get(config, "jail.limits"), "degraded-ok") == 0;
}

/* All of a test's jail but its command. */
static int plan_jail(const struct config *config, const char *state, const char *scratch,
		     enum fetch_recipe recipe, struct jail_spec *spec, struct error *err)
{
	jail_manifest_default(spec);
	fetch_test_env(recipe, spec);
	add_env(config, "test.env", spec);
	if (add_paths(config, state, spec, err))
		return err->kind;
	spec->cwd = mem_strdup(JAIL_WORK);
	spec->store = mem_printf("%s/store", state);
	spec->scratch = scratch ? mem_strdup(scratch) : NULL;
	if (jailconf_backend(config, spec, err))
		return err->kind;
	spec->subuid = strcmp(config_get(config, "jail.uid"), "shared") != 0;
	spec->copy_layers = strcmp(config_get(config, "jail.layers"), "copy") == 0;
	spec->on_disk = jailconf_on_disk(config);
	spec->observe = strcmp(config_get(config, "jail.observe"), "on") == 0;
	jailplan_limits(config, &spec->limits);
	return 0;
}

int jailplan_test(const struct config *config, const char *state, const char *scratch,
		  enum fetch_recipe recipe, char *const *argv, struct jail_spec *spec,
		  struct error *err)
{
	if (plan_jail(config, state, scratch, recipe, spec, err))
		return err->kind;
	for (size_t i = 0; argv && argv[i]; i++)
		jail_spec_add_arg(spec, argv[i]);
	if (!argv)
		add_command(spec, config_get(config, "test.command"));
	return 0;
}

int jailplan_change(const struct config *config, const char *state, const char *scratch,
		    enum fetch_recipe recipe, const char *command, struct jail_spec *spec,
		    struct error *err)
{
	if (plan_jail(config, state, scratch, recipe, spec, err))
		return err->kind;
	add_command(spec, command);
	spec->limits.wall_ms = (uint64_t)config_number(config, "command.timeout") * 1000;
	spec->take = true;
	return 0;
}

int jailplan_memfd(const struct jail_spec *spec, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd;

	strbuf_init(&text, JAIL_SPEC_MAX);
	jail_spec_format(spec, &text);
	if (text.full) {
		error_set(err, ERROR_USAGE,
			  "command and environment of the jail are too large");
		return -1;
	}
	fd = fd_memfd_sealed("jail-spec", text.data, text.len);
	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "memfd_create");
	return fd;
}

int jailplan_stream(int fds[2], struct error *err)
{
	const int size = 2 * JAIL_APPLIED_MAX;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size,
		   sizeof(size)); /* the system's own is more */
	return 0;
}

/* Applied records, then the facts. */
static int take_facts(const struct strbuf *text, struct jail_facts *facts, struct json **audit,
		      struct error *err)
{
	size_t size = jail_applied_size(text->data, text->len);

	if (jail_facts_parse(text->data + size, text->len - size, facts, err)) {
		err->kind = ERROR_FAILED;
		return error_wrap(err, "exit facts of agent-jail");
	}
	if (audit && size && !(*audit = audit_parse(text->data, size, err)))
		return err->kind;
	return 0;
}

int jailplan_read_facts(struct supervisor *sup, int fd, struct jail_facts *facts,
			struct json **audit, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	long long until = fd_now_ms() + FACTS_MS;

	strbuf_init(&text, 65536 + 2 * JAIL_APPLIED_MAX);
	if (audit)
		*audit = NULL;
	for (;;) {
		char chunk[4096];
		ssize_t n;
		int left = (int)(until - fd_now_ms());
		int ready = sup ? supervise_until_readable(sup, fd, left, err)
				: poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, left);

		if (ready < 0 && sup)
			return ready;
		if (ready == 0)
			errno = ETIMEDOUT;
		n = ready > 0 ? read(fd, chunk, sizeof(chunk)) : -1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || (n > 0 && strbuf_add(&text, chunk, (size_t)n) < 0))
			return error_set(err, ERROR_FAILED,
					 "agent-jail sent no usable exit facts");
		if (n == 0)
			break;
	}
	if (!text.len) {
		error_set(err, ERROR_FAILED, "agent-jail ended without exit facts");
		return error_next(
		    err, "it was killed from outside, or is a defect: try agent resume");
	}
	return take_facts(&text, facts, audit, err);
}

/* Writes an empty go and keeps the socket open: agent-jail ends with whoever started it. */
static int empty_go(int go[2], struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct jail_go words;

	strbuf_init(&text, STRBUF_MAX);
	jail_go_init(&words);
	jail_go_format(&words, &text);
	jail_go_release(&words);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0 ||
	    fd_write_all(go[0], text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	return 0;
}

int jailplan_begin(struct supervisor *sup, const struct jail_spec *spec, int input_fd,
		   int output_fd, struct jail_start *start, struct error *err)
{
	int spec_fd AUTO_FD = jailplan_memfd(spec, err);
	int null_fd AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);
	int facts[2] = {-1, -1}, go[2] = {-1, -1}, result;

	*start = (struct jail_start){.facts_fd = -1, .go_fd = -1};
	if (spec_fd < 0 || empty_go(go, err))
		return err->kind;
	if (null_fd < 0) {
		result = error_errno(err, ERROR_FAILED, errno, "/dev/null");
	} else if ((result = jailplan_stream(facts, err)) == 0) {
		int out = output_fd < 0 ? null_fd : output_fd;
		int in = input_fd < 0 ? null_fd : input_fd;
		struct spawn_fd fds[] = {{FD_FACTS, facts[1]}, {FD_SPEC, spec_fd},
					 {FD_GO, go[1]},       {FD_STDIN, in},
					 {FD_STDOUT, out},     {FD_STDERR, out}};

		result = supervise_start(sup, &start->jail, STAGE_JAIL, NULL, fds,
					 ARRAY_LEN(fds), 120, NULL, NULL, err);
	}
	fd_close_ptr(&facts[1]);
	fd_close_ptr(&go[1]);
	start->facts_fd = facts[0];
	start->go_fd = go[0];
	return result;
}

int jailplan_end(struct supervisor *sup, struct jail_start *start, int result,
		 struct jail_facts *facts, struct json **audit, struct error *err)
{
	if (result == 0)
		result = jailplan_read_facts(sup, start->facts_fd, facts, audit, err);
	fd_close_ptr(&start->go_fd);
	fd_close_ptr(&start->facts_fd);
	supervise_end(sup, &start->jail);
	return result;
}

int jailplan_try(struct supervisor *sup, const struct config *config, const char *state,
		 enum fetch_recipe recipe, char *const *argv, struct jail_facts *facts,
		 struct json **audit, struct error *err)
{
	char nothing[] = "true";
	char *const just_true[] = {nothing, NULL};
	struct jail_start start = {.facts_fd = -1, .go_fd = -1};
	struct jail_spec spec;
	int result;

	jail_spec_init(&spec);
	result =
	    jailplan_test(config, state, NULL, recipe, argv ? argv : just_true, &spec, err);
	spec.limits.wall_ms = TRY_MS;
	spec.audit = audit != NULL;
	/* what a shell needs, however narrow the tests' own limits are */
	if (spec.limits.processes < TRY_PROCESSES)
		spec.limits.processes = TRY_PROCESSES;
	if (spec.limits.inodes < TRY_INODES)
		spec.limits.inodes = TRY_INODES;
	if (result == 0)
		result =
		    jailplan_end(sup, &start, jailplan_begin(sup, &spec, -1, -1, &start, err),
				 facts, audit, err);
	jail_spec_release(&spec);
	return result;
}

int jailplan_reclaim(struct supervisor *sup, const char *path, struct error *err)
{
	struct jail_start start = {.facts_fd = -1, .go_fd = -1};
	struct jail_facts facts;
	struct jail_spec spec;
	int result;

	jail_spec_init(&spec);
	spec.reclaim = true;
	spec.scratch = mem_strdup(path);
	spec.cwd = mem_strdup("/");
	jail_spec_add_arg(&spec, "true"); /* runs nothing, but a spec has a command */
	result = jailplan_end(sup, &start, jailplan_begin(sup, &spec, -1, -1, &start, err),
			      &facts, NULL, err);
	jail_spec_release(&spec);
	if (result || facts.outcome == JAIL_EXITED)
		return result;
	error_set(err, ERROR_ISOLATION, "%s", facts.detail);
	return error_next(err, "%s", facts.next);
}

/* An absolute path that exists here and that no change can make or break. */
static bool is_of_the_machine(const char *command)
{
	char **words = text_split_words(command);
	bool is = words && words[0][0] == '/' &&
		  strncmp(words[0], JAIL_WORK "/", strlen(JAIL_WORK "/")) != 0 &&
		  access(words[0], X_OK) == 0;

	text_free_words(words);
	return is;
}

static int judge_missing(const struct jail_facts *facts, const char *command, struct error *err)
{
	char **words = text_split_words(command);
	char *line AUTO_FREE = NULL, *found AUTO_FREE = NULL;
	const char *slash = words ? strrchr(words[0], '/') : NULL;
	char *dir AUTO_FREE = slash ? mem_strndup(words[0], (size_t)(slash - words[0])) : NULL;

	error_set(err, ERROR_USAGE, "command %s cannot be run: %s", command,
		  facts->detail[0] ? facts->detail : strerror(facts->value));
	if (words)
		found = jail_find_command(getenv("HOME"), dir ? dir : getenv("PATH"),
					  slash ? slash + 1 : words[0], &line);
	if (found)
		error_next(err, "it lies in %s, which the jail does not see; to admit it: %s",
			   found, line);
	else
		error_next(
		    err,
		    "install it below /usr, or admit its toolchain with [jail] path = DIR");
	text_free_words(words);
	return err->kind;
}

int jailplan_judge(const struct jail_facts *facts, const char *command, struct error *err)
{
	if (facts->outcome == JAIL_SETUP) {
		error_set(err, ERROR_ISOLATION, "jail: %s", facts->detail);
		return error_next(err, "%s", facts->next);
	}
	if (facts->outcome == JAIL_INTERNAL)
		return error_set(err, ERROR_FAILED, "jail: internal error: %s", facts->detail);
	/* A command that is a path of the tree may be the change's own fault: that is a red
	 * test. */
	if (facts->outcome == JAIL_NOT_RUN &&
	    (!strchr(command, '/') || is_of_the_machine(command)))
		return judge_missing(facts, command, err);
	return 0;
}

void jailplan_describe(const struct jail_facts *facts, char *dst, size_t size)
{
	switch (facts->outcome) {
	case JAIL_EXITED:
		snprintf(dst, size, "exit status %d", facts->value);
		break;
	case JAIL_SIGNALED:
		snprintf(dst, size, "ended by signal %d (%s)", facts->value,
			 strsignal(facts->value));
		break;
	case JAIL_TIMEOUT:
		if (strncmp(facts->detail, JAIL_IDLE_TOLD, strlen(JAIL_IDLE_TOLD)) == 0)
			snprintf(dst, size, "timeout: %s %d s (jail.idle)", JAIL_IDLE_TOLD,
				 facts->value / 1000);
		else
			snprintf(dst, size, "timeout: not done within %d s",
				 facts->value / 1000);
		break;
	case JAIL_OOM:
		snprintf(dst, size, "out of memory");
		break;
	case JAIL_LIMIT:
		if (strcmp(facts->detail, JAIL_PROCESSES_TOLD) == 0)
			snprintf(dst, size, "limit reached: %s", facts->detail);
		else
			snprintf(dst, size, "limit reached (signal %d)", facts->value);
		break;
	case JAIL_KILLED:
		snprintf(dst, size, "killed by the system call filter");
		break;
	case JAIL_NOT_RUN:
		snprintf(dst, size, "could not be started: %s", strerror(facts->value));
		break;
	case JAIL_SETUP:
	case JAIL_INTERNAL:
		snprintf(dst, size, "jail: %.200s", facts->detail);
		break;
	}
}

struct json *jailplan_verdict(const struct jail_facts *facts, const char *tree,
			      const char *command)
{
	struct json *verdict = js_artefact_new("verdict", 1);
	char text[512];

	jailplan_describe(facts, text, sizeof(text));
	js_set_str(verdict, "tree", tree);
	js_set_str(verdict, "command", command);
	js_set_str(verdict, "outcome", jail_outcome_text(facts->outcome));
	js_set_int(verdict, "value", facts->value);
	js_set_bool(verdict, "green", facts->outcome == JAIL_EXITED && facts->value == 0);
	js_set_str(verdict, "text", text);
	js_set_int(verdict, "elapsed_ms", (long long)facts->elapsed_ms);
	js_set_int(verdict, "memory_peak_bytes", (long long)facts->memory_peak_bytes);
	js_set_int(verdict, "oom_count", (long long)facts->oom_count);
	js_set_int(verdict, "leftover", (long long)facts->leftover);
	js_set_str(verdict, "uid", facts->uid);
	js_set_str(verdict, "limits", facts->limits);
	js_set_str(verdict, "work", facts->work);
	js_set_str(verdict, "backend", facts->backend);
	js_set_str(verdict, "scratch", facts->scratch);
	js_set_str(verdict, "isolation", facts->layers);
	denied_put(verdict, facts);
	return verdict;
}
