/* agent hook pre-receive: a push is looked at before any ref moves. The rules are the repository's
 * (pipeline/hookrules.h); what its objects say comes from `agent-apply pushed`, which alone reads
 * them. Nothing is written here, least of all a ref. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/rules.h"
#include "task.h"

#define INPUT_MAX (64 << 20)
#define REFUSALS_SAID 20
#define CHAINED_S 3600
#define OPTIONS_MAX 1000
#define LOOKED_AT_MAX 1000 /* updates whose objects are read in one push */
#define ATTEST "refs/agent/attest/"

void hook_say(const char *format, ...)
{
	struct strbuf shown AUTO_STRBUF = STRBUF_NONE;
	char *raw AUTO_FREE = NULL;
	va_list args;

	va_start(args, format);
	raw = mem_vprintf(format, args);
	va_end(args);
	strbuf_init(&shown, 4096);
	text_escape_lines(&shown, raw, strlen(raw));
	for (char *p = shown.data; *p; p++)
		if (*p == '\n')
			*p = ' ';
	fprintf(stderr, "agent: %s\n", shown.data);
}

static void refuse(struct push *push, const struct update *update, const char *why)
{
	if (push->refused++ < REFUSALS_SAID)
		hook_say("%s: %s", update->ref, why);
}

/* ---- what git says ---- */

static bool is_id(const char *word)
{
	return text_is_hex(word, 40) || text_is_hex(word, 64);
}

static bool is_zero(const char *id)
{
	return id[strspn(id, "0")] == '\0';
}

/* OLD SP NEW SP REF, as githooks(5) has it. */
static int take_line(struct push *push, char *line, size_t number, struct error *err)
{
	char *rest = line, *old = strsep(&rest, " "), *new = strsep(&rest, " ");
	struct update *update;

	if (!new || !rest || !is_id(old) || !is_id(new) || strncmp(rest, "refs/", 5) != 0)
		return error_set(err, ERROR_USAGE,
				 "line %zu of the input is not OLD NEW REF, as git writes it",
				 number);
	push->updates = mem_realloc(push->updates, push->count + 1, sizeof(*push->updates));
	update = &push->updates[push->count++];
	*update = (struct update){.ref = rest,
				  .old = old,
				  .new = new,
				  .creates = is_zero(old),
				  .deletes = is_zero(new)};
	return 0;
}

/* The input is kept as it came for the chained hook: lines are cut in a copy. */
static int take_input(struct push *push, struct error *err)
{
	char *rest = push->lines, *line;
	size_t number = 0;

	while ((line = strsep(&rest, "\n"))) {
		if (!rest && !line[0])
			break;
		if (take_line(push, line, ++number, err))
			return err->kind;
	}
	return 0;
}

static int read_input(struct push *push, struct error *err)
{
	strbuf_init(&push->input, INPUT_MAX);
	if (fd_read_all(STDIN_FILENO, &push->input) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard input");
	if (memchr(push->input.data, '\0', push->input.len))
		return error_set(err, ERROR_USAGE, "a NUL byte in the input");
	return 0;
}

/* What the push options say the issue is; NULL when none does. The last counts. */
static int read_options(const char **issue, struct error *err)
{
	const char *count = getenv("GIT_PUSH_OPTION_COUNT");
	long options;

	*issue = NULL;
	if (!count)
		return 0;
	if (!count[0] || count[strspn(count, "0123456789")])
		return error_set(err, ERROR_USAGE,
				 "GIT_PUSH_OPTION_COUNT = %s is no number, as git writes it",
				 count);
	errno = 0;
	options = strtol(count, NULL, 10);
	if (errno || options > OPTIONS_MAX) {
		error_set(err, ERROR_NO, "%s push options, at most %d are read", count,
			  OPTIONS_MAX);
		return error_next(err, "push with fewer (-o)");
	}
	for (long i = 0; i < options; i++) {
		char *name AUTO_FREE = mem_printf("GIT_PUSH_OPTION_%ld", i);
		const char *value = getenv(name);

		if (!value)
			return error_set(err, ERROR_USAGE, "%s is missing, of %ld push options",
					 name, options);
		if (strncmp(value, "issue=", 6) == 0)
			*issue = value + 6;
	}
	if (*issue && !text_is_utf8(*issue, strlen(*issue)))
		return error_set(err, ERROR_NO, "push option issue= is not text in UTF-8");
	return 0;
}

int push_read(struct push *push, struct error *err)
{
	char *config AUTO_FREE = NULL;
	int result = read_input(push, err);

	if (result == 0) {
		push->lines = mem_strdup(push->input.data);
		result = take_input(push, err);
	}
	if (result == 0)
		result = repository_find(getenv("GIT_DIR"), &push->repo, err);
	if (result == 0) {
		config = mem_printf("%s/config", push->repo.common_dir);
		result = hook_rules_read(config, &push->rules, err);
	}
	return result ? result : read_options(&push->option, err);
}

void push_release(struct push *push)
{
	js_free(push->facts);
	hook_rules_release(&push->rules);
	repository_release(&push->repo);
	strbuf_release(&push->input);
	free(push->lines);
	free(push->updates);
}

/* Object directories that only this push knows: git's quarantine, and what the server adds. */
static void add_objects(struct repository *repo, const char *list)
{
	char *copy AUTO_FREE = mem_strdup(list ? list : ""), *rest = copy, *word;
	char *own AUTO_FREE = mem_printf("%s/objects", repo->common_dir);

	while ((word = strsep(&rest, ":"))) {
		char *path = word[0] ? realpath(word, NULL) : NULL;

		if (!path || strcmp(path, own) == 0) {
			free(path);
			continue;
		}
		repo->alternates = mem_realloc(repo->alternates, repo->alternate_count + 1,
					       sizeof(*repo->alternates));
		repo->alternates[repo->alternate_count++] = path;
	}
}

/* ---- who pushes ---- */

/* How servers name the pusher to a hook, and the account that it runs as. Whoever is an agent by one of
 * these is one. */
const char *push_agent(const struct hook_list *identity)
{
	static const char *const names[] = {
	    "REMOTE_USER",	 /* git http-backend */
	    "GL_USER",		 /* gitolite */
	    "GL_USERNAME",	 /* GitLab */
	    "GITEA_PUSHER_NAME", /* Gitea, Forgejo */
	    "GITHUB_USER_LOGIN", /* GitHub Enterprise Server */
	    "AGENT_PUSHER"};	 /* by the operator, in authorized_keys */
	const struct passwd *account;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *name = getenv(names[i]);

		if (name && hook_list_has(identity, name))
			return name;
	}
	account = identity->count ? getpwuid(getuid()) : NULL;
	for (size_t i = 0; account && i < identity->count; i++)
		if (strcmp(identity->items[i], account->pw_name) == 0)
			return identity->items[i];
	return NULL;
}

/* ---- rules that names alone decide ---- */

/* Notes and attestations are no change of the repository's files. */
static bool carries_work(const char *ref)
{
	return strncmp(ref, "refs/notes/", 11) != 0 &&
	       strncmp(ref, ATTEST, strlen(ATTEST)) != 0;
}

static void judge_name(struct push *push, struct update *update)
{
	const struct hook_rule *rule = &update->rule;

	update->task = !update->deletes && rule->task;
	update->gated = !update->deletes && rule->gate;
	update->judged = !update->deletes && carries_work(update->ref) &&
			 (rule->policy == HOOK_POLICY_ALL ||
			  (rule->policy == HOOK_POLICY_AGENTS && push->agent));
	if (rule->refuse) {
		refuse(push, update, "nobody may write this ref (agent.refuse)");
	} else if (update->task && strncmp(update->ref, "refs/", 5) == 0 &&
		   !rules_name_is_plain(update->ref + 5)) {
		refuse(push, update, "the name of a task is of letters, digits and . _ - /");
	} else if (update->task && strlen(update->ref) >= TASK_REF_MAX) {
		refuse(push, update, "the name of a task is too long");
	} else if (push->agent && !rule->writable) {
		const struct hook_list *writable = &push->rules.writable;
		char *why AUTO_FREE =
		    mem_printf("%s is an agent (agent.identity) and may write only %s "
			       "(agent.writable)",
			       push->agent, writable->count ? writable->items[0] : "nothing");

		refuse(push, update, why);
	} else if (push->agent && !update->creates &&
		   strncmp(update->ref, ATTEST, strlen(ATTEST)) == 0) {
		refuse(push, update, "an attestation is made once, and stays");
	}
}

static void judge_names(struct push *push)
{
	for (size_t i = 0; i < push->count; i++) {
		push->updates[i].rule = hook_rules_for(&push->rules, push->updates[i].ref);
		judge_name(push, &push->updates[i]);
	}
}

/* ---- rules that objects decide ---- */

static struct json *facts_job(const struct push *push)
{
	struct json *job = js_object_new(), *updates = js_array_new();
	size_t tasks = 0;

	js_set_str(job, "option", push->option);
	for (size_t i = 0; i < push->count; i++)
		tasks += push->updates[i].task;
	for (size_t i = 0; i < push->count; i++) {
		const struct update *update = &push->updates[i];
		struct json *one;

		if (!update->task && !update->gated && !update->judged)
			continue;
		one = js_object_new();
		js_set_str(one, "ref", update->ref);
		js_set_str(one, "new", update->new);
		js_set_str(one, "old", update->old);
		js_set_bool(one, "issue", update->task);
		js_set_bool(one, "text", update->task && tasks <= TASK_KEEP_MAX);
		js_set_bool(one, "policy", update->judged);
		js_push(updates, one);
	}
	js_set(job, "updates", updates);
	return job;
}

static int read_facts(struct push *push, struct supervisor *sup, const struct options *options,
		      struct error *err)
{
	struct json *job AUTO_JSON = facts_job(push);
	size_t wanted = js_len(js_get(job, "updates")), next = 0;

	if (wanted == 0)
		return 0;
	if (wanted > LOOKED_AT_MAX) {
		error_set(err, ERROR_NO,
			  "%zu refs of this push are to be looked at, at most %d are", wanted,
			  LOOKED_AT_MAX);
		return error_next(err, "push them in parts");
	}
	push->facts =
	    task_ask_pushed(&push->repo, push->rules.config_ref, sup, job, options, err);
	if (!push->facts)
		return err->kind;
	for (size_t i = 0; i < push->count; i++)
		if (push->updates[i].task || push->updates[i].gated || push->updates[i].judged)
			push->updates[i].facts = js_at(js_get(push->facts, "updates"), next++);
	return 0;
}

static void judge_facts(struct push *push)
{
	for (size_t i = 0; i < push->count; i++) {
		const struct update *update = &push->updates[i];
		const char *problem = js_str(update->facts, "problem", NULL);
		const char *refused = js_str(update->facts, "refused", NULL);
		const char *next = js_str(update->facts, "next", NULL);

		if (problem && update->task && push->refused < REFUSALS_SAID)
			hook_say(
			    "a task says what is to be done in .agent/task.md, in the message "
			    "of its last commit, or with git push -o issue=TEXT");
		if (problem)
			refuse(push, update, problem);
		if (!refused)
			continue;
		refuse(push, update, refused);
		if (next && push->refused <= REFUSALS_SAID)
			hook_say("next: %s", next);
	}
}

/* ---- the hook that was there before ---- */

extern char **environ;

int push_run_chained(struct push *push, struct supervisor *sup, const char *hook,
		     struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/hooks/%s.chained", push->repo.common_dir, hook);
	const char *const argv[] = {path, NULL};
	struct supervised chained = {0};
	struct child child;
	int in AUTO_FD = -1, result;

	if (access(path, X_OK) < 0)
		return 0;
	in = fd_memfd_sealed("hook-input", push->input.data, push->input.len);
	if (in < 0)
		return error_errno(err, ERROR_FAILED, errno, "memfd_create");
	result = spawn_outside(argv, (const char *const *)environ, in, STDOUT_FILENO,
			       STDERR_FILENO, (uid_t)-1, &child, err);
	if (result)
		return result;
	supervise_adopt(sup, &chained, "chained hook", &child, CHAINED_S);
	result = supervise_wait(sup, &chained, err);
	if (result && result != ERROR_INTERRUPTED && chained.ended && chained.status > 0)
		result = error_set(err, ERROR_NO,
				   "%s.chained, which was here before, refused it", hook);
	supervise_end(sup, &chained);
	return result;
}

/* ---- in order ---- */

/* Trees that one and the same rule holds for are tested in one go. */
static bool same_gate(const struct hook_rule *a, const struct hook_rule *b)
{
	return a->gate_open == b->gate_open && a->gate_s == b->gate_s &&
	       strcmp(a->gate_test, b->gate_test) == 0 &&
	       strcmp(a->config_ref, b->config_ref) == 0;
}

static int gate_group(struct push *push, struct options *options, const struct hook_rule *rule,
		      const struct gate_tree *trees, size_t count, struct error *err)
{
	int result = hook_gate(options, rule, &push->repo, trees, count, err);

	if (result == 0 || result == ERROR_NO)
		return result;
	if (!rule->gate_open) {
		hook_say("not tested, so not let in (agent.gateFail = closed)");
		return result;
	}
	hook_say("gate: %s", err->message);
	hook_say("let in WITHOUT a test: agent.gateFail = open");
	memset(err, 0, sizeof(*err));
	return 0;
}

static int gate(struct push *push, struct options *options, struct error *err)
{
	struct gate_tree *trees AUTO_FREE = mem_calloc(push->count + 1, sizeof(*trees));

	for (size_t first = 0; first < push->count; first++) {
		const struct hook_rule *rule = &push->updates[first].rule;
		size_t count = 0;
		int result;

		for (size_t i = first; i < push->count; i++) {
			struct update *update = &push->updates[i];

			if (!update->gated || !same_gate(rule, &update->rule))
				continue;
			trees[count++] =
			    (struct gate_tree){update->ref, js_str(update->facts, "tree", "")};
			if (i > first)
				update->gated = false;
		}
		if (!push->updates[first].gated)
			continue;
		result = gate_group(push, options, rule, trees, count, err);
		if (result)
			return result;
	}
	return 0;
}

static int judge(struct push *push, struct options *options, struct error *err)
{
	struct journal journal = {.quiet = true, .events_fd = -1};
	struct supervisor sup;
	int result = supervise_init(&sup, &journal, err);

	if (result == 0)
		result = push_run_chained(push, &sup, "pre-receive", err);
	if (result == 0) {
		push->agent = push_agent(&push->rules.identity);
		judge_names(push);
		result = push->refused ? 0 : read_facts(push, &sup, options, err);
	}
	supervise_release(&sup);
	if (result == 0)
		judge_facts(push);
	if (result == 0 && !push->refused)
		result = gate(push, options, err);
	if (result == 0 && push->refused)
		return error_set(err, ERROR_NO, "the push is refused: %zu of %zu refs",
				 push->refused < push->count ? push->refused : push->count,
				 push->count);
	return result;
}

/* What was read is not read again by post-receive; and what a push option asks is in nothing that the push leaves. */
static void keep_tasks(const struct push *push)
{
	struct error err = {0};

	for (size_t i = 0; i < push->count; i++) {
		const struct update *update = &push->updates[i];

		if (update->task && js_str(update->facts, "text", NULL) &&
		    task_keep(&push->repo, update->ref, update->new, update->facts, &err)) {
			if (push->option)
				hook_say(
				    "note: what -o issue= says is not kept should the next "
				    "hook be lost: %s",
				    err.message);
			return;
		}
	}
}

static int pre_receive(struct options *options, struct error *err)
{
	struct push push = {.count = 0};
	int result = push_read(&push, err);

	if (result == 0) {
		add_objects(&push.repo, getenv("GIT_OBJECT_DIRECTORY"));
		add_objects(&push.repo, getenv("GIT_ALTERNATE_OBJECT_DIRECTORIES"));
		result = judge(&push, options, err);
	}
	if (result == 0)
		keep_tasks(&push);
	push_release(&push);
	return result;
}

int cmd_hook(struct options *options, struct error *err)
{
	const char *verb = options->word_count ? options->words[0] : "";
	const char *path = options->word_count > 1 ? options->words[1] : ".";

	if (options->word_count <= 2 && strcmp(verb, "install") == 0)
		return hook_install(path, err);
	if (options->word_count <= 2 && strcmp(verb, "uninstall") == 0)
		return hook_uninstall(path, err);
	if (options->word_count <= 2 && strcmp(verb, "check") == 0)
		return hook_check(path, options->config, err);
	if (options->word_count == 1 && strcmp(verb, "pre-receive") == 0)
		return pre_receive(options, err);
	if (options->word_count == 1 && strcmp(verb, "post-receive") == 0)
		return hook_post_receive(options, err);
	error_set(err, ERROR_USAGE,
		  "agent hook takes install, uninstall or check, and a repository");
	return error_next(err, "agent hook install /srv/git/project.git");
}
