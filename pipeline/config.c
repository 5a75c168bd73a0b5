#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gitops/glob.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define FILE_MAX_BYTES 65536
#define DAY_S 86400

/* ---- the table: every key, who may set it, what it is ---- */

static const struct config_key keys[] = {
    {"test.command", CONFIG_STRING, true, NULL, NULL,
     "build and test command, run in the jail (by /bin/sh -c there when it needs a shell)"},
    {"test.timeout", CONFIG_SECONDS, true, "600", NULL, "wall clock of one test run"},
    {"test.env", CONFIG_PAIRS, true, NULL, NULL,
     "NAME=VALUE for the test command; replaces what the jail sets"},
    {"test.git", CONFIG_CHOICE, true, "none", "none snapshot",
     "snapshot: the tests find the tested tree as the one commit of a throw-away repository"},
    {"command.network", CONFIG_CHOICE, false, "none", "none registries",
     "most that a command which makes a change may reach: registries as a warm does"},
    {"command.timeout", CONFIG_SECONDS, false, "900", NULL, "its wall clock"},
    {"run.rounds", CONFIG_SIZE, true, "3", NULL, "most rounds of model and test",
     .most = CONFIG_ROUNDS_MAX},
    {"model.name", CONFIG_STRING, false, "anthropic:claude-sonnet-4-5", NULL,
     "PROVIDER:NAME with anthropic or openai, or replay:FILE"},
    {"model.baseUrl", CONFIG_URL, false, NULL, NULL,
     "where the provider's API is; https, or http on loopback"},
    {"model.key", CONFIG_SECRET, false, NULL, NULL,
     "source of the API key; default env:ANTHROPIC_API_KEY or env:OPENAI_API_KEY"},
    {"model.maxOutputTokens", CONFIG_SIZE, false, "16384", NULL, "most tokens of one answer",
     .least = 16, .most = 10000000},
    {"model.idleTimeout", CONFIG_SECONDS, false, "120", NULL, "longest silence of the provider",
     .most = DAY_S},
    {"model.callTimeout", CONFIG_SECONDS, false, "900", NULL, "longest single call",
     .most = DAY_S},
    {"model.turns", CONFIG_SIZE, false, "80", NULL, "most calls a round", .most = 10000},
    {"model.edits", CONFIG_CHOICE, false, "auto", "auto tools text",
     "how the model edits: by tool calls, or by text; auto: text where its server says that it "
     "has no tools"},
    {"model.private", CONFIG_CHOICE, false, "no", "no yes",
     "whether the provider may have a private network address (loopback names always may)"},
    {"budget.runTokens", CONFIG_SIZE, false, "2m", NULL, "most tokens a run, input and output"},
    {"budget.dayTokens", CONFIG_SIZE, false, "20m", NULL,
     "most tokens a day, all runs together"},
    {"publish.remote", CONFIG_URL, false, "origin", NULL, "name of a remote, or a URL or path"},
    {"publish.ref", CONFIG_STRING, false, "refs/heads/agent/*", NULL,
     "ref that a result goes to; * becomes the issue's name. refs/agent/* is no branch: most "
     "servers start no CI on it"},
    {"publish.token", CONFIG_SECRET, false, NULL, NULL, "source of the token for HTTPS"},
    {"publish.sshKey", CONFIG_SECRET, false, NULL, NULL, "source of the private key for SSH"},
    {"publish.signingKey", CONFIG_SECRET, false, NULL, NULL,
     "source of an SSH private key: commits are signed with it"},
    {"publish.attest", CONFIG_CHOICE, false, "yes", "yes no",
     "whether a signed commit gets an attestation, pushed with it to refs/agent/attest/"},
    {"publish.user", CONFIG_STRING, false, NULL, NULL, "user name that goes with the token"},
    {"publish.knownHosts", CONFIG_STRING, false, NULL, NULL,
     "known_hosts file for SSH; default ~/.ssh/known_hosts"},
    {"publish.ca", CONFIG_STRING, false, NULL, NULL,
     "CA bundle for the git server; default: git's own"},
    {"publish.private", CONFIG_CHOICE, false, "no", "no yes",
     "whether the git server may have a private network address (loopback names always may)"},
    {"publish.env", CONFIG_PAIRS, false, NULL, NULL,
     "NAME=VALUE for the hooks of a repository on this machine that is pushed to"},
    {"publish.timeout", CONFIG_SECONDS, false, "300", NULL,
     "deadline of the push, its hooks included", .most = DAY_S},
    {"verify.allowedSigners", CONFIG_STRING, false, NULL, NULL,
     "file of who may sign, for agent verify (ssh-keygen(1), ALLOWED SIGNERS)"},
    {"forge.kind", CONFIG_CHOICE, false, "auto", "auto github gitlab gitea",
     "what the remote's host is; auto: by its name"},
    {"forge.api", CONFIG_URL, false, NULL, NULL,
     "where its API is; https, or http on loopback; default: the usual place on the host"},
    {"forge.repository", CONFIG_URL, false, NULL, NULL,
     "the repository of issues and pull requests, where it is not publish.remote (a fork)"},
    {"forge.readToken", CONFIG_SECRET, false, NULL, NULL,
     "source of a token that reads issues"},
    {"forge.writeToken", CONFIG_SECRET, false, NULL, NULL,
     "source of a token that makes pull requests and comments; without it none are made"},
    {"forge.pull", CONFIG_CHOICE, false, "draft", "draft ready no",
     "what kind of pull request is made"},
    {"forge.base", CONFIG_STRING, false, NULL, NULL,
     "branch that it is for; default: the run's base branch, else the repository's"},
    {"forge.strangers", CONFIG_CHOICE, false, "no", "no yes",
     "whether comments by people who may not write to the repository count"},
    {"forge.private", CONFIG_CHOICE, false, "no", "no yes",
     "whether the forge may have a private network address (loopback names always may)"},
    {"author.name", CONFIG_PERSON, false, "agent", NULL, "author and committer of the commits"},
    {"author.email", CONFIG_PERSON, false, "agent@localhost", NULL, "their address"},
    {"jail.backend", CONFIG_CHOICE, false, "native", "native gvisor",
     "what the jail runs commands on: this kernel, hardened, or gVisor's (package runsc)"},
    {"jail.runsc", CONFIG_STRING, false, NULL, NULL,
     "the program runsc, written in full; default: in /usr/bin, /usr/local/bin or their sbin"},
    {"jail.path", CONFIG_LIST, false, NULL, NULL,
     "directory or file outside /usr that the jail may read and run (a toolchain, a "
     "program); its bin goes into PATH"},
    {"jail.idle", CONFIG_SECONDS, true, NULL, NULL,
     "a test that prints nothing for so long is ended; default: only test.timeout"},
    {"jail.cpuTime", CONFIG_SECONDS, true, NULL, NULL,
     "processor time of each process of a jail; default: no limit"},
    {"jail.memory", CONFIG_SIZE, true, "4g", NULL, "memory of one jail", .least = 16 << 20},
    {"jail.processes", CONFIG_SIZE, true, "1024", NULL, "processes and threads of one jail"},
    {"jail.cpus", CONFIG_SIZE, true, NULL, NULL,
     "processors' worth of time that one jail may use; default: all"},
    {"jail.disk", CONFIG_SIZE, true, "4g", NULL, "bytes that the tests may write",
     .least = 1 << 20},
    {"jail.scratch", CONFIG_CHOICE, false, "memory", "memory disk",
     "where that is kept: in memory, counted as the jail's; or in a file of its size on disk, "
     "for "
     "jails that root starts"},
    {"jail.inodes", CONFIG_SIZE, true, "1m", NULL, "files that the tests may make", .least = 96,
     .most = 1LL << 40},
    {"jail.output", CONFIG_SIZE, true, "1m", NULL, "bytes of output kept: first and last half",
     .most = 1LL << 30},
    {"jail.layers", CONFIG_CHOICE, false, "overlay", "overlay copy",
     "how the work tree is laid out"},
    {"jail.limits", CONFIG_CHOICE, false, "required", "required degraded-ok",
     "degraded-ok: run without memory and process caps where no cgroup can be had; recorded"},
    {"jail.uid", CONFIG_CHOICE, false, "auto", "auto shared",
     "whose uid tests have when a user starts them: auto: one of the user's subordinate range, "
     "where there is one; "
     "shared: the user's"},
    {"jail.observe", CONFIG_CHOICE, false, "on", "on off",
     "whether a verdict tells what the command tried to reach; off for tests that use seccomp "
     "listeners"},
    {"fetch.recipe", CONFIG_CHOICE, false, "auto", "auto none", "none: warm no dependencies"},
    {"fetch.warm", CONFIG_WORDS, true, NULL, NULL, "general warm: the command that fetches"},
    {"fetch.inputs", CONFIG_LIST, true, NULL, NULL, "general warm: files it needs (globs)"},
    {"fetch.output", CONFIG_LIST, true, NULL, NULL,
     "general warm: what it makes, below the work tree or ~/"},
    {"fetch.verify", CONFIG_WORDS, true, NULL, NULL, "general warm: a check without network"},
    {"fetch.env", CONFIG_PAIRS, true, NULL, NULL, "NAME=VALUE for the warm"},
    {"fetch.host", CONFIG_LIST, false, NULL, NULL, "HOST:PORT that a warm may reach"},
    {"fetch.private", CONFIG_LIST, false, NULL, NULL,
     "HOST:PORT of fetch.host that may have a private network address"},
    {"fetch.timeout", CONFIG_SECONDS, false, "900", NULL, "deadline of a warm"},
    {"fetch.disk", CONFIG_SIZE, false, "8g", NULL, "bytes that a warm may write"},
    {"apply.maxFiles", CONFIG_SIZE, true, "200", NULL, "most files that a change may touch",
     .most = 1000000},
    {"apply.maxBytes", CONFIG_SIZE, true, "8m", NULL, "most bytes that a change may write",
     .most = 256LL << 20},
    {"apply.protect", CONFIG_RULES, true, NULL, NULL,
     "allow, review, strip or refuse, and a path pattern: what becomes of a change of such "
     "paths; the last match of the operator's counts, a repository may only be stricter"},
    {"apply.tests", CONFIG_CHOICE, true, "report", "report refuse",
     "what becomes of a change that makes the tests say less"},
    {"apply.notSecret", CONFIG_GLOBS, false, NULL, NULL,
     "path pattern: what looks like a secret there is none (keys made for tests)"},
    {"store.max", CONFIG_SIZE, false, "20g", NULL,
     "bytes of layers that agent gc leaves in the store; the latest used stay"},
    {"queue.jobs", CONFIG_SIZE, false, "2", NULL, "most queued jobs that run at once",
     .most = CONFIG_JOBS_MAX},
    {"queue.perRepository", CONFIG_SIZE, false, "1", NULL,
     "most of them of one repository at once"},
    {"queue.attempts", CONFIG_SIZE, false, "5", NULL,
     "a job that fails so many times is parked until agent queue retry"},
    {"queue.wait", CONFIG_SECONDS, false, "30", NULL,
     "before the second attempt; twice as long before each further one, up to an hour"},
    {"queue.socket", CONFIG_STRING, false, NULL, NULL,
     "unix socket, written in full, at which a worker takes jobs of hooks that may not write "
     "its queue"},
    {"queue.repository", CONFIG_LIST, false, NULL, NULL,
     "bare repository, * and ? as in a shell, whose task branches are reconciled, and whose "
     "hooks may use "
     "queue.socket"},
    {"queue.reconcile", CONFIG_SECONDS, false, "5m", NULL,
     "how often a worker compares task branches with its queue, beside at its start"},
    {"maintain.fromRepository", CONFIG_CHOICE, false, "no", "no yes",
     "whether tasks that a repository has in .agent/maintain/ are run"},
    {"maintain.repo", CONFIG_LIST, false, NULL, NULL,
     "directory of a repository that agent maintain looks after; default: the one it stands "
     "in"},
    {"maintain.ref", CONFIG_STRING, false, "HEAD", NULL,
     "ref that tasks are read from and work is based on; HEAD is a bare repository's default "
     "branch"},
    {"maintain.network", CONFIG_CHOICE, false, "none", "none registries",
     "what the commands of a repository's tasks may reach"},
    {"maintain.maxOpen", CONFIG_SIZE, false, "10", NULL,
     "most proposals of tasks that are open in a repository"},
    {"maintain.perHour", CONFIG_SIZE, false, "10", NULL,
     "most runs of tasks begun within an hour in a repository"},
    {"maintain.perDay", CONFIG_SIZE, false, "40", NULL, "the same within a day"},
    {"maintain.dayTokens", CONFIG_SIZE, false, "5m", NULL,
     "most tokens a day, all runs of tasks together; budget.dayTokens holds, too"},
    {"http.ca", CONFIG_STRING, false, NULL, NULL,
     "CA bundle for the provider and the forge; default: SSL_CERT_FILE, else the system's"},
    {"http.proxy", CONFIG_URL, false, NULL, NULL,
     "http://HOST:PORT that servers are reached through over TLS, or none; default: "
     "https_proxy of the environment"},
    {"http.noProxy", CONFIG_LIST, false, NULL, NULL,
     "host, domain or network that is reached without it; default: no_proxy of the "
     "environment"},
    {"http.proxyCredential", CONFIG_SECRET, false, NULL, NULL,
     "source of the proxy's user:password"},
};

struct entry {
	const struct config_key *key;
	enum config_scope scope;
	char *value;  /* owned */
	char *origin; /* owned: file:line */
};

/* Sections with a name of the operator's. */
struct config_list {
	struct config_task *items; /* owned, and what is in them */
	size_t count;
};

struct config {
	struct entry *entries;
	size_t count;
	struct config_list tasks, mirrors;
};

struct config *config_new(void)
{
	return mem_calloc(1, sizeof(struct config));
}

static void list_release(struct config_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].name);
		free(list->items[i].key);
		free(list->items[i].value);
		free(list->items[i].origin);
	}
	free(list->items);
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->count; i++) {
		free(config->entries[i].value);
		free(config->entries[i].origin);
	}
	free(config->entries);
	list_release(&config->tasks);
	list_release(&config->mirrors);
	free(config);
}

void config_free_ptr(struct config **config)
{
	config_free(*config);
}

static const struct config_key *find_key(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcasecmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static void append(struct config *config, const struct config_key *key, enum config_scope scope,
		   const char *value, const char *origin)
{
	config->entries =
	    mem_realloc(config->entries, config->count + 1, sizeof(*config->entries));
	config->entries[config->count++] = (struct entry){.key = key,
							  .scope = scope,
							  .value = mem_strdup(value),
							  .origin = mem_strdup(origin)};
}

/* maintain.NAME.KEY and mirror.NAME.KEY: what they mean is for pipeline/maintain/task.h and cmd/agent/mirror.c to
 * judge. 1, 0 when it is another key, or an error kind. */
static int add_named(struct config *config, enum config_scope scope, const char *origin,
		     const char *name, const char *value, struct error *err)
{
	const bool is_mirror = strncasecmp(name, "mirror.", 7) == 0;
	const char *rest = is_mirror				    ? name + 7
			   : strncasecmp(name, "maintain.", 9) == 0 ? name + 9
								    : NULL;
	struct config_list *list = is_mirror ? &config->mirrors : &config->tasks;
	const char *key = rest ? strrchr(rest, '.') : NULL;

	if (!key)
		return 0;
	if (scope == CONFIG_REPOSITORY) {
		error_set(err, ERROR_USAGE, "%s: a repository may not set %s", origin, name);
		return error_next(err, is_mirror ? "the operator may"
						 : "its tasks are files: "
						   ".agent/maintain/NAME.md");
	}
	if (!value)
		return error_set(err, ERROR_USAGE, "%s: %s has no value", origin, name);
	list->items = mem_realloc(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count++] =
	    (struct config_task){.name = mem_strndup(rest, (size_t)(key - rest)),
				 .key = mem_strdup(key + 1),
				 .value = mem_strdup(value),
				 .origin = mem_strdup(origin)};
	return 1;
}

static int add_entry(struct config *config, enum config_scope scope, const char *origin,
		     const char *name, const char *value, struct error *err)
{
	const struct config_key *key = find_key(name);
	int task = key ? 0 : add_named(config, scope, origin, name, value, err);

	if (task)
		return task < 0 ? task : 0;
	if (!key) {
		error_set(err, ERROR_USAGE, "%s: unknown key %s", origin, name);
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			if (text_is_slip(name, keys[i].name))
				return error_next(
				    err, "did you mean %s? agent help config lists the keys",
				    keys[i].name);
		return error_next(err, "agent help config lists the keys");
	}
	if (scope == CONFIG_REPOSITORY && !key->repository) {
		error_set(err, ERROR_USAGE, "%s: a repository may not set %s", origin,
			  key->name);
		return error_next(err,
				  "only the operator may: in /etc/agent/config, in "
				  "~/.config/agent/config, or with -c %s=…",
				  key->name);
	}
	if (!value)
		return error_set(err, ERROR_USAGE, "%s: %s has no value", origin, key->name);
	if (scope == CONFIG_REPOSITORY && key->type == CONFIG_RULES &&
	    strncmp(value, "allow ", 6) == 0)
		return error_set(err, ERROR_USAGE,
				 "%s: a repository may only make %s stricter: review, strip or "
				 "refuse",
				 origin, key->name);
	if (config_check_value(key, value, origin, err) ||
	    config_check_range(key, value, scope == CONFIG_REPOSITORY, origin, err))
		return err->kind;
	append(config, key, scope, value, origin);
	return 0;
}

const struct config_task *config_task_at(const struct config *config, size_t index)
{
	return index < config->tasks.count ? &config->tasks.items[index] : NULL;
}

const struct config_task *config_mirror_at(const struct config *config, size_t index)
{
	return index < config->mirrors.count ? &config->mirrors.items[index] : NULL;
}

int config_narrow(struct config *config, const char *name, const char *value,
		  const char *origin, struct error *err)
{
	const struct config_key *key = find_key(name);

	if (!key || (key->type != CONFIG_SIZE && key->type != CONFIG_SECONDS))
		return error_set(err, ERROR_USAGE, "%s: %s is no limit", origin, name);
	if (config_check_value(key, value, origin, err))
		return err->kind;
	append(config, key, CONFIG_REPOSITORY, value, origin);
	return 0;
}

struct adding {
	struct config *config;
	enum config_scope scope;
	const char *file;
};

static int seen_entry(void *arg, const char *section, const char *subsection, const char *key,
		      const char *value, int line, struct error *err)
{
	struct adding *adding = arg;
	char *origin AUTO_FREE = mem_printf("%s:%d", adding->file, line);
	char *name AUTO_FREE = subsection ? mem_printf("%s.%s.%s", section, subsection, key)
					  : mem_printf("%s.%s", section, key);

	return add_entry(adding->config, adding->scope, origin, name, value, err);
}

int config_add_text(struct config *config, enum config_scope scope, const char *file,
		    const char *text, size_t len, struct error *err)
{
	struct adding adding = {config, scope, file};

	return config_parse(text, len, file, seen_entry, &adding, err);
}

int config_add_file(struct config *config, enum config_scope scope, const char *path,
		    struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && lstat(path, &st) < 0)
		return 0;
	if (fd < 0 && errno == ENOENT) {
		error_set(err, ERROR_USAGE, "%s is a link to a file that is not there", path);
		return error_next(err, "make that file, or remove the link");
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s cannot be read", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, "%s is not a regular file", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 0022)) {
		error_set(err, ERROR_USAGE, "%s may be written by other users", path);
		return error_next(
		    err, "chown it to yourself or root and chmod go-w it: it grants rights");
	}
	strbuf_init(&text, FILE_MAX_BYTES);
	if (fd_read_all(fd, &text) < 0)
		return errno == EFBIG
			   ? error_set(err, ERROR_USAGE, "%s is larger than %d KiB", path,
				       FILE_MAX_BYTES >> 10)
			   : error_errno(err, ERROR_USAGE, errno, "%s cannot be read", path);
	return config_add_text(config, scope, path, text.data, text.len, err);
}

int config_add_pair(struct config *config, const char *pair, struct error *err)
{
	return config_add_option(config, "-c", pair, err);
}

int config_add_option(struct config *config, const char *option, const char *pair,
		      struct error *err)
{
	const char *equals = strchr(pair, '=');
	char *name AUTO_FREE = NULL;

	if (!equals)
		return error_set(err, ERROR_USAGE, "%s %s: not of the form KEY=VALUE", option,
				 pair);
	name = mem_strndup(pair, (size_t)(equals - pair));
	return add_entry(config, CONFIG_COMMAND, option, name, equals + 1, err);
}

char *config_user_file(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (xdg && xdg[0] == '/')
		return mem_printf("%s/agent/config", xdg);
	return home && home[0] == '/' ? mem_printf("%s/.config/agent/config", home) : NULL;
}

int config_add_operator(struct config *config, struct error *err)
{
	char *path AUTO_FREE = config_user_file();

	if (config_add_file(config, CONFIG_SYSTEM, CONFIG_SYSTEM_FILE, err))
		return err->kind;
	return path ? config_add_file(config, CONFIG_USER, path, err) : 0;
}

/* The entry in force: the last of the highest scope. */
static const struct entry *in_force(const struct config *config, const struct config_key *key,
				    bool with_repository)
{
	const struct entry *best = NULL;

	for (size_t i = 0; i < config->count; i++) {
		const struct entry *entry = &config->entries[i];

		if (entry->key != key ||
		    (!with_repository && entry->scope == CONFIG_REPOSITORY))
			continue;
		if (!best || entry->scope >= best->scope)
			best = entry;
	}
	return best;
}

static const struct config_key *must_find(const char *name)
{
	const struct config_key *key = find_key(name);

	if (!key)
		abort(); /* a name in our own code that the table lacks */
	return key;
}

const char *config_get(const struct config *config, const char *name)
{
	const struct config_key *key = must_find(name);
	const struct entry *entry = in_force(config, key, true);

	return entry ? entry->value : key->fallback;
}

long long config_number(const struct config *config, const char *name)
{
	const struct config_key *key = must_find(name);
	const struct entry *operator_entry = in_force(config, key, false);
	const char *text = operator_entry ? operator_entry->value : key->fallback;
	long long value = text ? config_parse_number(key, text) : 0;

	/* A repository can only narrow: the smallest counts. */
	for (size_t i = 0; i < config->count; i++) {
		const struct entry *entry = &config->entries[i];
		long long narrow;

		if (entry->key != key || entry->scope != CONFIG_REPOSITORY)
			continue;
		narrow = config_parse_number(key, entry->value);
		if (narrow < value || !text)
			value = narrow;
	}
	return value;
}

static const struct entry *item_at(const struct config *config, const char *name, size_t index)
{
	const struct config_key *key = must_find(name);

	for (int scope = CONFIG_REPOSITORY; scope <= CONFIG_COMMAND; scope++) {
		for (size_t i = 0; i < config->count; i++) {
			const struct entry *entry = &config->entries[i];

			if (entry->key == key && (int)entry->scope == scope && index-- == 0)
				return entry;
		}
	}
	return NULL;
}

const char *config_item(const struct config *config, const char *name, size_t index)
{
	const struct entry *entry = item_at(config, name, index);

	return entry ? entry->value : NULL;
}

enum config_scope config_item_scope(const struct config *config, const char *name, size_t index)
{
	const struct entry *entry = item_at(config, name, index);

	return entry ? entry->scope : CONFIG_DEFAULT;
}

const char *config_origin(const struct config *config, const char *name)
{
	const struct entry *entry = in_force(config, must_find(name), true);

	return entry ? entry->origin : "default";
}

/* What a value may be, where the meaning does not say it. */
static void print_range(const struct config_key *key, struct strbuf *out)
{
	const char *at = key->choices;
	char least[CONFIG_RANGE_TEXT], most[CONFIG_RANGE_TEXT];

	if (at && strncmp(key->help, "whether ", 8) != 0) {
		strbuf_adds(out, " (");
		for (; *at; at++)
			strbuf_adds(out, *at == ' ' ? ", " : (const char[]){*at, '\0'});
		strbuf_addc(out, ')');
	} else if (key->most) {
		config_range_text(key, least, most);
		strbuf_addf(out, " (%s to %s)", least, most);
	} else if (key->least) {
		config_range_text(key, least, most);
		strbuf_addf(out, " (from %s)", least);
	}
}

void config_print_table(struct strbuf *out)
{
	strbuf_adds(out, "| key | default | who may set it | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct config_key *key = &keys[i];
		bool limit = key->type == CONFIG_SIZE || key->type == CONFIG_SECONDS;

		strbuf_addf(out, "| `%s` | %s | %s | %s", key->name,
			    key->fallback ? key->fallback : "",
			    !key->repository ? "operator"
					     : (limit ? "operator; repository: lower" : "both"),
			    key->help);
		print_range(key, out);
		strbuf_adds(out, " |\n");
	}
}
