#include "ignore.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/glob.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"

#define RULES_MAX 20000 /* of all files that are entered; more are left out */

struct rule {
	struct glob *glob; /* owned */
	bool keep;	   /* "!": what it matches is not ignored after all */
	bool dirs_only;
};

struct ignore_dir {
	size_t prefix; /* of a path below it: the directory and its slash */
	struct rule *rules;
	size_t len, cap;
};

struct ignore_stack {
	struct ignore_dir *dirs;
	size_t len, cap, rules;
};

struct ignore_stack *ignore_stack_new(void)
{
	return mem_calloc(1, sizeof(struct ignore_stack));
}

void ignore_stack_free(struct ignore_stack *stack)
{
	if (!stack)
		return;
	while (stack->len)
		ignore_pop(stack);
	free(stack->dirs);
	free(stack);
}

void ignore_stack_free_ptr(struct ignore_stack **stack)
{
	ignore_stack_free(*stack);
	*stack = NULL;
}

/* Blanks at the end that no backslash keeps. */
static size_t trim(const char *line, size_t len)
{
	while (len && line[len - 1] == ' ' && !(len > 1 && line[len - 2] == '\\'))
		len--;
	return len;
}

static void add_line(struct ignore_stack *stack, struct ignore_dir *dir, const char *line,
		     size_t len)
{
	struct error ignored = {0};
	struct rule rule = {NULL, false, false};

	len = trim(line, len);
	if (!len || line[0] == '#' || stack->rules >= RULES_MAX)
		return;
	if (line[0] == '!') {
		rule.keep = true;
		line++;
		len--;
	}
	if (len && line[len - 1] == '/') {
		rule.dirs_only = true;
		len--;
	}
	rule.glob = glob_new(line, len, false, &ignored);
	if (!rule.glob)
		return; /* a malformed pattern matches nothing, as in git */
	if (dir->len == dir->cap) {
		dir->cap = dir->cap ? dir->cap * 2 : 16;
		dir->rules = mem_realloc(dir->rules, dir->cap, sizeof(*dir->rules));
	}
	dir->rules[dir->len++] = rule;
	stack->rules++;
}

void ignore_push(struct ignore_stack *stack, const char *dir, const char *text, size_t len)
{
	struct ignore_dir *entry;

	if (stack->len == stack->cap) {
		stack->cap = stack->cap ? stack->cap * 2 : 16;
		stack->dirs = mem_realloc(stack->dirs, stack->cap, sizeof(*stack->dirs));
	}
	entry = &stack->dirs[stack->len++];
	*entry = (struct ignore_dir){.prefix = *dir ? strlen(dir) + 1 : 0};
	if (!text || len > IGNORE_FILE_MAX)
		return;
	if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
		text += 3;
		len -= 3;
	}
	for (size_t pos = 0; pos < len;) {
		const char *lf = memchr(text + pos, '\n', len - pos);
		size_t stop = lf ? (size_t)(lf - text) : len, end = stop;

		if (end > pos && text[end - 1] == '\r')
			end--;
		add_line(stack, entry, text + pos, end - pos);
		pos = stop + 1;
	}
}

void ignore_pop(struct ignore_stack *stack)
{
	struct ignore_dir *dir = &stack->dirs[--stack->len];

	for (size_t i = 0; i < dir->len; i++)
		glob_free(dir->rules[i].glob);
	stack->rules -= dir->len;
	free(dir->rules);
}

bool ignore_match(const struct ignore_stack *stack, const char *path, bool is_dir)
{
	size_t len = strlen(path);

	/* The deepest file's last rule that matches decides. */
	for (size_t i = stack->len; i-- > 0;) {
		const struct ignore_dir *dir = &stack->dirs[i];

		for (size_t k = dir->len; k-- > 0;) {
			const struct rule *rule = &dir->rules[k];

			if ((rule->dirs_only && !is_dir) || dir->prefix >= len)
				continue;
			if (glob_match(rule->glob, path + dir->prefix, len - dir->prefix))
				return !rule->keep;
		}
	}
	return false;
}
