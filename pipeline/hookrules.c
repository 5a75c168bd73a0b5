#include "hookrules.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/config.h"

#define FILE_MAX_BYTES (1 << 20)
#define LIST_MAX 1000
#define GATE_S_MAX 86400

enum kind {
	LIST_REFS,  /* patterns; in a section: whether its refs are among them */
	LIST_NAMES, /* of users; for the whole repository only */
	VALUE,	    /* one value, the last; in a section: of its refs */
	VALUE_WHOLE /* likewise, but for the whole repository only */
};

struct variable {
	const char *name, *fallback, *help;
	enum kind kind;
	size_t list; /* offset of a hook_list */
	/* VALUE, and LIST_REFS in a section: takes a value. What is wrong with it, or NULL. */
	const char *(*take)(struct hook_rule *rule, const char *value);
};

struct hook_setting {
	char *pattern; /* owned; NULL: all refs */
	const struct variable *variable;
	char *value; /* owned */
};

/* ---- one value ---- */

/* As git reads a boolean, but nothing else is one. */
static const char *take_flag(bool *flag, const char *value)
{
	static const char *const yes[] = {"true", "yes", "on", "1"};
	static const char *const no[] = {"false", "no", "off", "0"};

	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
			*flag = strcasecmp(value, yes[i]) == 0;
			return NULL;
		}
	return "must be true or false";
}

static const char *take_task(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->task, value);
}

static const char *take_writable(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->writable, value);
}

static const char *take_refuse(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->refuse, value);
}

static const char *take_gate(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->gate, value);
}

static const char *take_policy(struct hook_rule *rule, const char *value)
{
	static const char *const names[] = {"agents", "all", "none"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(value, names[i]) == 0) {
			rule->policy = (enum hook_policy)i;
			return NULL;
		}
	return "must be agents, all or none";
}

static const char *take_fail(struct hook_rule *rule, const char *value)
{
	rule->gate_open = strcmp(value, "open") == 0;
	return rule->gate_open || strcmp(value, "closed") == 0 ? NULL
							       : "must be closed or open";
}

static const char *take_time(struct hook_rule *rule, const char *value)
{
	return text_parse_size(value, GATE_S_MAX, &rule->gate_s) < 0 || rule->gate_s < 1
		   ? "not a number of seconds from 1 to 86400"
		   : NULL;
}

static const char *take_test(struct hook_rule *rule, const char *value)
{
	rule->gate_test = value;
	return NULL;
}

static const char *take_config_ref(struct hook_rule *rule, const char *value)
{
	rule->config_ref = value;
	return strcmp(value, "HEAD") != 0 && strncmp(value, "refs/", 5) != 0
		   ? "not a full ref name, as refs/heads/main, nor HEAD"
		   : NULL;
}

static const char *take_result(struct hook_rule *rule, const char *value)
{
	rule->on_task = strcmp(value, "task") == 0;
	return rule->on_task || strcmp(value, "agent") == 0 ? NULL : "must be agent or task";
}

static const char *take_notify(struct hook_rule *rule, const char *value)
{
	char **words = value[0] ? text_split_words(value) : NULL;
	bool wrong = value[0] && !words;

	rule->notify = value;
	text_free_words(words);
	return wrong ? "empty, or a quote is not closed" : NULL;
}

static const char *take_notify_network(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->notify_network, value);
}

static const char *take_start_worker(struct hook_rule *rule, const char *value)
{
	return take_flag(&rule->start_worker, value);
}

static const char *take_state(struct hook_rule *rule, const char *value)
{
	rule->state_dir = value;
	return value[0] && value[0] != '/' ? "not an absolute path" : NULL;
}

/* ---- the table ---- */

#define LIST(field) offsetof(struct hook_rules, field)

static const struct variable variables[] = {
    {"agent.task", "refs/heads/task/*", "refs that must carry an issue", LIST_REFS, LIST(task),
     take_task},
    {"agent.identity", "", "name of a user that is an agent", LIST_NAMES, LIST(identity), NULL},
    {"agent.writable", "refs/heads/agent/* refs/agent/* refs/notes/*",
     "refs that agents may write, and no others", LIST_REFS, LIST(writable), take_writable},
    {"agent.policy", "agents",
     "whose pushes the path policy is held against: agents, all or none", VALUE, 0,
     take_policy},
    {"agent.refuse", "refs/replace/*", "refs that nobody may write", LIST_REFS, LIST(refuse),
     take_refuse},
    {"agent.gate", "", "refs whose tree must pass the tests before it is let in", LIST_REFS,
     LIST(gate), take_gate},
    {"agent.gateFail", "closed",
     "open: what cannot be tested (no jail, no time, no command) is let in, and this is said",
     VALUE, 0, take_fail},
    {"agent.gateTime", "600",
     "seconds that all tests of a push by one and the same rule may take together", VALUE, 0,
     take_time},
    {"agent.gateTest", "", "test command, instead of the one in .agent/config", VALUE, 0,
     take_test},
    {"agent.configRef", "HEAD", "the ref whose .agent/config says how to test", VALUE, 0,
     take_config_ref},
    {"agent.result", "agent",
     "where a task's result goes: agent, a branch of its own (publish.ref), or task, on top of "
     "the "
     "task branch itself",
     VALUE, 0, take_result},
    {"agent.notify", "",
     "command line that is told on its standard input, as JSON, what became of a task; run in "
     "a jail "
     "without network",
     VALUE, 0, take_notify},
    {"agent.notifyNetwork", "no",
     "yes: it is no stranger, and runs outside of any jail, as the repository's owner", VALUE,
     0, take_notify_network},
    {"agent.state", "", "state directory whose queue gets the jobs, instead of the hook's own",
     VALUE_WHOLE, 0, take_state},
    {"agent.startWorker", "no",
     "yes: a push that has a job starts agent work --once, where no service runs agent work",
     VALUE_WHOLE, 0, take_start_worker},
};

static bool is_list(const struct variable *variable)
{
	return variable->kind == LIST_REFS || variable->kind == LIST_NAMES;
}

/* The list of a variable that is one. */
static struct hook_list *list_of(const struct hook_rules *rules,
				 const struct variable *variable)
{
	return (struct hook_list *)((uintptr_t)rules + variable->list);
}

static void list_add(struct hook_list *list, const char *item, size_t len)
{
	list->items = mem_realloc(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count++] = mem_strndup(item, len);
}

static void list_release(struct hook_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct hook_list){NULL, 0, false};
}

static void set_defaults(struct hook_rules *rules)
{
	memset(rules, 0, sizeof(*rules));
	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		const char *word = variables[i].fallback;

		for (size_t len; is_list(&variables[i]) && *word;
		     word += len + (word[len] ? 1 : 0)) {
			len = strcspn(word, " ");
			list_add(list_of(rules, &variables[i]), word, len);
		}
	}
	rules->config_ref = "HEAD";
}

void hook_rules_release(struct hook_rules *rules)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		if (is_list(&variables[i]))
			list_release(list_of(rules, &variables[i]));
	for (size_t i = 0; i < rules->setting_count; i++) {
		free(rules->settings[i].pattern);
		free(rules->settings[i].value);
	}
	free(rules->settings);
	free(rules->hooks_path);
	memset(rules, 0, sizeof(*rules));
}

/* ---- the configuration ---- */

struct reading {
	struct hook_rules *rules;
	const char *file;
};

static int add_item(struct hook_rules *rules, const struct variable *variable,
		    const char *value, const char *origin, struct error *err)
{
	struct hook_list *list = list_of(rules, variable);
	bool refs = variable->kind == LIST_REFS;

	if (!list->set)
		list_release(list);
	list->set = true;
	if (strcmp(value, "none") == 0)
		return 0;
	if (!value[0] || (refs && strncmp(value, "refs/", 5) != 0)) {
		error_set(err, ERROR_USAGE, "%s: %s = %s: not %s", origin, variable->name,
			  value, refs ? "a pattern of full ref names" : "a user's name");
		return refs ? error_next(
				  err, "write it in full, as in refs/heads/main; none: no ref")
			    : err->kind;
	}
	if (list->count >= LIST_MAX)
		return error_set(err, ERROR_USAGE, "%s: %s: more than %d of them", origin,
				 variable->name, LIST_MAX);
	list_add(list, value, strlen(value));
	return 0;
}

static int add_setting(struct hook_rules *rules, const char *pattern,
		       const struct variable *variable, const char *value, const char *origin,
		       struct error *err)
{
	struct hook_rule scratch = {.task = false};
	struct hook_setting *setting;
	const char *wrong = variable->take(&scratch, value);

	if (wrong)
		return error_set(err, ERROR_USAGE, "%s: %s = %s: %s", origin, variable->name,
				 value, wrong);
	if (rules->setting_count >= LIST_MAX)
		return error_set(err, ERROR_USAGE, "%s: more than %d agent.* variables", origin,
				 LIST_MAX);
	rules->settings =
	    mem_realloc(rules->settings, rules->setting_count + 1, sizeof(*rules->settings));
	setting = &rules->settings[rules->setting_count++];
	*setting = (struct hook_setting){.pattern = pattern ? mem_strdup(pattern) : NULL,
					 .variable = variable,
					 .value = mem_strdup(value)};
	if (!pattern && variable->take == take_config_ref)
		rules->config_ref = setting->value;
	return 0;
}

static int set_variable(struct hook_rules *rules, const char *pattern,
			const struct variable *variable, const char *value, const char *origin,
			struct error *err)
{
	if (!value && pattern && variable->kind == LIST_REFS)
		value = "true"; /* as git has it */
	if (!value)
		return error_set(err, ERROR_USAGE, "%s: %s has no value", origin,
				 variable->name);
	if (!is_list(variable) || pattern)
		return add_setting(rules, pattern, variable, value, origin, err);
	return add_item(rules, variable, value, origin, err);
}

/* agent.KEY, or NULL; in a section only what may differ between refs. */
static const struct variable *find_variable(const char *key, bool section)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		if (strcasecmp(variables[i].name + strlen("agent."), key) == 0)
			return section && (variables[i].kind == LIST_NAMES ||
					   variables[i].kind == VALUE_WHOLE)
				   ? NULL
				   : &variables[i];
	return NULL;
}

static bool is_true(const char *value)
{
	return !value || strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0 ||
	       strcasecmp(value, "on") == 0 || strcmp(value, "1") == 0;
}

static int seen(void *arg, const char *section, const char *subsection, const char *key,
		const char *value, int line, struct error *err)
{
	struct reading *reading = arg;
	struct hook_rules *rules = reading->rules;
	const struct variable *variable;
	char *origin AUTO_FREE = NULL;

	if (strcmp(section, "core") == 0 && !subsection && strcmp(key, "hookspath") == 0) {
		free(rules->hooks_path);
		rules->hooks_path = value ? mem_strdup(value) : NULL;
	}
	if (strcmp(section, "receive") == 0 && !subsection &&
	    strcmp(key, "advertisepushoptions") == 0)
		rules->push_options = is_true(value);
	if (strcmp(section, "extensions") == 0 && !subsection &&
	    strcmp(key, "objectformat") == 0)
		rules->other_ids = !value || strcasecmp(value, "sha1") != 0;
	if (strcmp(section, "include") == 0 || strcmp(section, "includeif") == 0)
		rules->includes = true;
	if (strcmp(section, "agent") != 0)
		return 0;
	origin = mem_printf("%s:%d", reading->file, line);
	variable = subsection && strncmp(subsection, "refs/", 5) != 0
		       ? NULL
		       : find_variable(key, subsection != NULL);
	if (variable)
		return set_variable(rules, subsection, variable, value, origin, err);
	if (subsection && find_variable(key, false)) {
		error_set(err, ERROR_USAGE, "%s: agent.%s.%s: %s", origin, subsection, key,
			  find_variable(key, true)
			      ? "a section of agent has a pattern of full ref names"
			      : "holds for the whole repository, not for some refs");
		return error_next(err, "write [agent \"refs/heads/main\"], or no name");
	}
	error_set(err, ERROR_USAGE, "%s: unknown variable agent.%s%s%s", origin,
		  subsection ? subsection : "", subsection ? "." : "", key);
	return error_next(err, "agent(1), HOOKS, lists them");
}

int hook_rules_parse(const char *text, size_t len, const char *file, struct hook_rules *rules,
		     struct error *err)
{
	struct reading reading = {rules, file};

	set_defaults(rules);
	return config_parse(text, len, file, seen, &reading, err);
}

int hook_rules_read(const char *file, struct hook_rules *rules, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	memset(rules, 0, sizeof(*rules));
	strbuf_init(&text, FILE_MAX_BYTES);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s cannot be read", file);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, "%s is not a regular file", file);
	if (fd_read_all(fd, &text) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s cannot be read", file);
	return hook_rules_parse(text.data, text.len, file, rules, err);
}

/* ---- use ---- */

struct hook_rule hook_rules_for(const struct hook_rules *rules, const char *ref)
{
	struct hook_rule rule = {.task = hook_list_match(&rules->task, ref),
				 .writable = hook_list_match(&rules->writable, ref),
				 .refuse = hook_list_match(&rules->refuse, ref),
				 .gate = hook_list_match(&rules->gate, ref)};

	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		if (!is_list(&variables[i]))
			variables[i].take(&rule, variables[i].fallback);
	/* A word on some refs counts more than one on all, wherever it stands. */
	for (int narrow = 0; narrow < 2; narrow++)
		for (size_t i = 0; i < rules->setting_count; i++) {
			const struct hook_setting *setting = &rules->settings[i];

			if ((setting->pattern != NULL) == narrow &&
			    (!narrow || fnmatch(setting->pattern, ref, 0) == 0))
				setting->variable->take(&rule, setting->value);
		}
	return rule;
}

bool hook_rules_gates(const struct hook_rules *rules, bool *closed)
{
	bool gated = rules->gate.count > 0, everywhere = true, somewhere = false;

	for (size_t i = 0; i < rules->setting_count; i++) {
		const struct hook_setting *setting = &rules->settings[i];
		struct hook_rule rule = {.gate = false};

		setting->variable->take(&rule, setting->value);
		if (setting->variable->take == take_gate)
			gated |= rule.gate;
		if (setting->variable->take == take_fail)
			*(setting->pattern ? &somewhere : &everywhere) = !rule.gate_open;
	}
	*closed = gated && (everywhere || somewhere);
	return gated;
}

bool hook_list_match(const struct hook_list *list, const char *ref)
{
	for (size_t i = 0; i < list->count; i++)
		if (fnmatch(list->items[i], ref, 0) == 0)
			return true;
	return false;
}

bool hook_list_has(const struct hook_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i], name) == 0)
			return true;
	return false;
}

static const char *section_text(const struct variable *variable)
{
	switch (variable->kind) {
	case LIST_REFS:
		return "true, false";
	case LIST_NAMES:
	case VALUE_WHOLE:
		return "-";
	case VALUE:
		break;
	}
	return "yes";
}

void hook_rules_print_table(struct strbuf *out)
{
	strbuf_adds(out,
		    "| variable | default | in a section | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		strbuf_addf(out, "| `%s` | %s | %s | %s |\n", variables[i].name,
			    variables[i].fallback, section_text(&variables[i]),
			    variables[i].help);
}
