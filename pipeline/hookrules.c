#include "hookrules.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stddef.h>
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

struct variable {
	const char *name, *fallback, *help;
	size_t list; /* offset of a hook_list */
	bool refs;   /* its items are patterns of refs */
};

#define NO_LIST ((size_t)-1)
#define LIST(field) offsetof(struct hook_rules, field)

static const struct variable variables[] = {
    {"agent.task", "refs/heads/task/*", "refs that must carry an issue", LIST(task), true},
    {"agent.identity", "", "name of a user that is an agent", LIST(identity), false},
    {"agent.writable", "refs/heads/agent/* refs/agent/* refs/notes/*",
     "refs that agents may write, and no others", LIST(writable), true},
    {"agent.refuse", "refs/replace/*", "refs that nobody may write", LIST(refuse), true},
    {"agent.gate", "", "refs whose tree must pass the tests before it is let in", LIST(gate),
     true},
    {"agent.gateFail", "closed",
     "open: what cannot be tested (no jail, no time, no command) is let in, and this is said",
     NO_LIST, false},
    {"agent.gateTime", "600", "seconds that all tests of a push may take together", NO_LIST,
     false},
    {"agent.configRef", "HEAD", "the ref whose .agent/config says how to test", NO_LIST, false},
};

static struct hook_list *list_of(struct hook_rules *rules, const struct variable *variable)
{
	return (struct hook_list *)(void *)((char *)rules + variable->list);
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

		for (size_t len; variables[i].list != NO_LIST && *word;
		     word += len + (word[len] ? 1 : 0)) {
			len = strcspn(word, " ");
			list_add(list_of(rules, &variables[i]), word, len);
		}
	}
	rules->gate_s = 600;
	rules->config_ref = mem_strdup("HEAD");
}

void hook_rules_release(struct hook_rules *rules)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		if (variables[i].list != NO_LIST)
			list_release(list_of(rules, &variables[i]));
	free(rules->config_ref);
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

	if (!list->set)
		list_release(list);
	list->set = true;
	if (strcmp(value, "none") == 0)
		return 0;
	if (!value[0] || (variable->refs && strncmp(value, "refs/", 5) != 0)) {
		error_set(err, ERROR_USAGE, "%s: %s = %s: not %s", origin, variable->name,
			  value,
			  variable->refs ? "a pattern of full ref names" : "a user's name");
		return variable->refs
			   ? error_next(err,
					"write it in full, as in refs/heads/main; none: no ref")
			   : err->kind;
	}
	if (list->count >= LIST_MAX)
		return error_set(err, ERROR_USAGE, "%s: %s: more than %d of them", origin,
				 variable->name, LIST_MAX);
	list_add(list, value, strlen(value));
	return 0;
}

static int set_variable(struct hook_rules *rules, const struct variable *variable,
			const char *value, const char *origin, struct error *err)
{
	if (!value)
		return error_set(err, ERROR_USAGE, "%s: %s has no value", origin,
				 variable->name);
	if (variable->list != NO_LIST)
		return add_item(rules, variable, value, origin, err);
	if (strcmp(variable->name, "agent.gateFail") == 0) {
		rules->gate_open = strcmp(value, "open") == 0;
		if (!rules->gate_open && strcmp(value, "closed") != 0)
			return error_set(err, ERROR_USAGE,
					 "%s: agent.gateFail = %s: must be closed or open",
					 origin, value);
		return 0;
	}
	if (strcmp(variable->name, "agent.gateTime") == 0) {
		if (text_parse_size(value, GATE_S_MAX, &rules->gate_s) < 0 || rules->gate_s < 1)
			return error_set(err, ERROR_USAGE,
					 "%s: agent.gateTime = %s: not a number of seconds "
					 "from 1 to %d",
					 origin, value, GATE_S_MAX);
		return 0;
	}
	if (strcmp(value, "HEAD") != 0 && strncmp(value, "refs/", 5) != 0) {
		error_set(err, ERROR_USAGE, "%s: agent.configRef = %s: not a full ref name",
			  origin, value);
		return error_next(err, "write HEAD, or as in refs/heads/main");
	}
	free(rules->config_ref);
	rules->config_ref = mem_strdup(value);
	return 0;
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
	char *origin AUTO_FREE = NULL;

	if (strcmp(section, "core") == 0 && !subsection && strcmp(key, "hookspath") == 0) {
		free(rules->hooks_path);
		rules->hooks_path = value ? mem_strdup(value) : NULL;
	}
	if (strcmp(section, "receive") == 0 && !subsection &&
	    strcmp(key, "advertisepushoptions") == 0)
		rules->push_options = is_true(value);
	if (strcmp(section, "include") == 0 || strcmp(section, "includeif") == 0)
		rules->includes = true;
	if (strcmp(section, "agent") != 0)
		return 0;
	origin = mem_printf("%s:%d", reading->file, line);
	for (size_t i = 0; !subsection && i < ARRAY_LEN(variables); i++)
		if (strcasecmp(variables[i].name + strlen("agent."), key) == 0)
			return set_variable(rules, &variables[i], value, origin, err);
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

void hook_rules_print_table(struct strbuf *out)
{
	strbuf_adds(out, "| variable | default | meaning |\n|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		strbuf_addf(out, "| `%s` | %s | %s |\n", variables[i].name,
			    variables[i].fallback, variables[i].help);
}
