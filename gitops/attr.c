#include "attr.h"

#include <errno.h>
#include <iconv.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gitops/glob.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define LINE_MAX_BYTES 2048 /* as git */
#define RULES_MAX 20000	    /* of one file */
#define MACROS_MAX 100

enum attr_name {
	NAME_TEXT,
	NAME_EOL,
	NAME_CRLF,
	NAME_IDENT,
	NAME_ENCODING,
	NAME_FILTER,
	NAME_COUNT
};
static const char *const names[NAME_COUNT] = {
    "text", "eol", "crlf", "ident", "working-tree-encoding", "filter"};

enum attr_state { STATE_NONE, STATE_SET, STATE_UNSET, STATE_UNSPECIFIED, STATE_VALUE };

struct setting {
	unsigned char state; /* enum attr_state; STATE_NONE: not mentioned */
	char *value;	     /* owned; STATE_VALUE */
};

struct rule {
	struct glob *glob; /* owned */
	struct setting settings[NAME_COUNT];
};

struct attr_dir {
	size_t prefix; /* bytes of the directory's path and slash */
	struct rule *rules;
	size_t len, cap;
};

struct macro {
	char *name; /* owned */
	struct setting settings[NAME_COUNT];
};

struct attr_stack {
	struct attr_dir *dirs;
	size_t len, cap;
	size_t rules; /* in all of them */
	struct macro *macros;
	size_t macro_count;
};

/* ---- settings ---- */

static void setting_put(struct setting *setting, enum attr_state state, const char *value,
			size_t len)
{
	free(setting->value);
	setting->state = (unsigned char)state;
	setting->value = state == STATE_VALUE ? mem_strndup(value, len) : NULL;
}

static void settings_release(struct setting settings[NAME_COUNT])
{
	for (size_t i = 0; i < NAME_COUNT; i++)
		free(settings[i].value);
}

static void settings_merge(struct setting into[NAME_COUNT],
			   const struct setting from[NAME_COUNT])
{
	for (size_t i = 0; i < NAME_COUNT; i++)
		if (from[i].state != STATE_NONE)
			setting_put(&into[i], (enum attr_state)from[i].state, from[i].value,
				    from[i].value ? strlen(from[i].value) : 0);
}

static bool is_name(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(word, name, len) == 0;
}

/* One word behind a pattern: name, -name, !name, name=value. Macros set what they stand
 * for. */
static void apply_word(const struct attr_stack *stack, const char *word, size_t len,
		       struct setting settings[NAME_COUNT])
{
	enum attr_state state = STATE_SET;
	const char *equals = memchr(word, '=', len), *value = NULL;
	size_t value_len = 0;

	if (*word == '-' || *word == '!') {
		state = *word == '-' ? STATE_UNSET : STATE_UNSPECIFIED;
		word++;
		len--;
	} else if (equals) {
		state = STATE_VALUE;
		value = equals + 1;
		value_len = len - (size_t)(value - word);
		len = (size_t)(equals - word);
	}
	for (size_t i = 0; i < NAME_COUNT; i++)
		if (is_name(word, len, names[i]))
			setting_put(&settings[i], state, value, value_len);
	if (is_name(word, len, "binary") && state == STATE_SET)
		setting_put(&settings[NAME_TEXT], STATE_UNSET, NULL, 0);
	for (size_t i = 0; i < stack->macro_count; i++)
		if (state == STATE_SET && is_name(word, len, stack->macros[i].name))
			settings_merge(settings, stack->macros[i].settings);
}

/* ---- files ---- */

/* The pattern at the start of a line, unquoted into out. Its length in the line; 0 to leave
 * the line out. */
static size_t take_pattern(const char *line, size_t len, struct strbuf *out)
{
	size_t pos = 0;

	if (len == 0 || line[0] == '#' ||
	    line[0] == '!') /* negative patterns are not allowed here */
		return 0;
	if (line[0] != '"') {
		while (pos < len && line[pos] != ' ' && line[pos] != '\t')
			pos++;
		strbuf_add(out, line, pos);
		return pos;
	}
	for (pos = 1; pos < len && line[pos] != '"'; pos++) {
		if (line[pos] == '\\' && pos + 1 < len)
			pos++;
		strbuf_addc(out, line[pos]);
	}
	return pos < len ? pos + 1 : 0;
}

static void apply_words(const struct attr_stack *stack, const char *text, size_t len,
			struct setting settings[NAME_COUNT])
{
	for (size_t pos = 0; pos < len;) {
		size_t start = pos;
		while (pos < len && text[pos] != ' ' && text[pos] != '\t')
			pos++;
		if (pos > start)
			apply_word(stack, text + start, pos - start, settings);
		else
			pos++;
	}
}

static bool says_something(const struct setting settings[NAME_COUNT])
{
	for (size_t i = 0; i < NAME_COUNT; i++)
		if (settings[i].state != STATE_NONE)
			return true;
	return false;
}

static void add_macro(struct attr_stack *stack, const char *text, size_t len)
{
	size_t name = 0;

	while (name < len && text[name] != ' ' && text[name] != '\t')
		name++;
	if (!name || stack->macro_count == MACROS_MAX)
		return;
	struct macro macro = {.name = mem_strndup(text, name)};
	apply_words(stack, text + name, len - name, macro.settings);
	stack->macros =
	    mem_realloc(stack->macros, stack->macro_count + 1, sizeof(*stack->macros));
	stack->macros[stack->macro_count++] = macro;
}

static void add_line(struct attr_stack *stack, struct attr_dir *dir, const char *line,
		     size_t len)
{
	static const char macro[] = "[attr]";
	struct strbuf pattern AUTO_STRBUF = STRBUF_NONE;
	struct rule rule = {NULL, {{0, NULL}}};

	if (len > sizeof(macro) - 1 && memcmp(line, macro, sizeof(macro) - 1) == 0) {
		if (dir->prefix == 0) /* allowed in the root alone */
			add_macro(stack, line + sizeof(macro) - 1, len - (sizeof(macro) - 1));
		return;
	}
	strbuf_init(&pattern, LINE_MAX_BYTES);
	size_t taken = take_pattern(line, len, &pattern);
	/* a pattern for directories alone says nothing about files */
	if (!taken || !pattern.len || pattern.data[pattern.len - 1] == '/' ||
	    dir->len >= RULES_MAX)
		return;
	apply_words(stack, line + taken, len - taken, rule.settings);
	if (says_something(rule.settings))
		rule.glob = glob_new(pattern.data, pattern.len, false, NULL);
	if (!rule.glob) {
		settings_release(rule.settings);
		return;
	}
	if (dir->len == dir->cap) {
		dir->cap = dir->cap ? dir->cap * 2 : 16;
		dir->rules = mem_realloc(dir->rules, dir->cap, sizeof(*dir->rules));
	}
	dir->rules[dir->len++] = rule;
	stack->rules++;
}

struct attr_stack *attr_stack_new(void)
{
	return mem_calloc(1, sizeof(struct attr_stack));
}

void attr_push(struct attr_stack *stack, const char *dir, const char *text, size_t len)
{
	if (stack->len == stack->cap) {
		stack->cap = stack->cap ? stack->cap * 2 : 16;
		stack->dirs = mem_realloc(stack->dirs, stack->cap, sizeof(*stack->dirs));
	}
	struct attr_dir *entry = &stack->dirs[stack->len++];
	*entry = (struct attr_dir){.prefix = *dir ? strlen(dir) + 1 : 0};
	if (!text || len > ATTR_FILE_MAX)
		return;
	if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
		text += 3;
		len -= 3;
	}
	for (size_t pos = 0; pos < len;) {
		const char *lf = memchr(text + pos, '\n', len - pos);
		size_t stop = lf ? (size_t)(lf - text) : len, end = stop, start = pos;
		pos = stop + 1;
		while (end > start && (text[end - 1] == '\r' || text[end - 1] == ' '))
			end--;
		while (start < end && (text[start] == ' ' || text[start] == '\t'))
			start++;
		if (end - start <= LINE_MAX_BYTES)
			add_line(stack, entry, text + start, end - start);
	}
}

void attr_pop(struct attr_stack *stack)
{
	struct attr_dir *dir = &stack->dirs[--stack->len];

	for (size_t i = 0; i < dir->len; i++) {
		glob_free(dir->rules[i].glob);
		settings_release(dir->rules[i].settings);
	}
	stack->rules -= dir->len;
	free(dir->rules);
}

void attr_stack_free(struct attr_stack *stack)
{
	if (!stack)
		return;
	while (stack->len)
		attr_pop(stack);
	for (size_t i = 0; i < stack->macro_count; i++) {
		free(stack->macros[i].name);
		settings_release(stack->macros[i].settings);
	}
	free(stack->macros);
	free(stack->dirs);
	free(stack);
}

void attr_stack_free_ptr(struct attr_stack **stack)
{
	attr_stack_free(*stack);
	*stack = NULL;
}

bool attr_is_empty(const struct attr_stack *stack)
{
	return stack->rules == 0;
}

/* ---- deciding ---- */

static bool value_is(const struct setting *setting, const char *value)
{
	return setting->state == STATE_VALUE && strcmp(setting->value, value) == 0;
}

static bool set_text(const struct setting *setting, struct attr_facts *facts)
{
	if (setting->state == STATE_SET)
		facts->text = ATTR_TEXT_SET;
	else if (setting->state == STATE_UNSET)
		facts->text = ATTR_TEXT_UNSET;
	else if (value_is(setting, "auto"))
		facts->text = ATTR_TEXT_AUTO;
	else if (value_is(setting, "input")) {
		facts->text = ATTR_TEXT_SET;
		facts->eol = ATTR_EOL_LF;
	} else {
		return false;
	}
	return true;
}

/* A name too long for its place is cut: it is looked up nowhere, only shown. */
static void copy_name(char *dst, size_t size, const char *name)
{
	size_t len = strnlen(name, size - 1);

	memcpy(dst, name, len);
	dst[len] = '\0';
}

static void conclude(const struct setting settings[NAME_COUNT], struct attr_facts *facts)
{
	const struct setting *text = &settings[NAME_TEXT];

	/* crlf is text's name of old; it counts where text says nothing that is known */
	if (!set_text(text, facts))
		set_text(&settings[NAME_CRLF], facts);
	if (value_is(&settings[NAME_EOL], "crlf"))
		facts->eol = ATTR_EOL_CRLF;
	else if (value_is(&settings[NAME_EOL], "lf"))
		facts->eol = ATTR_EOL_LF;
	facts->ident = settings[NAME_IDENT].state == STATE_SET;
	if (settings[NAME_ENCODING].state == STATE_VALUE)
		copy_name(facts->encoding, sizeof(facts->encoding),
			  settings[NAME_ENCODING].value);
	if (settings[NAME_FILTER].state == STATE_VALUE)
		copy_name(facts->filter, sizeof(facts->filter), settings[NAME_FILTER].value);
}

void attr_decide(const struct attr_stack *stack, const char *path, struct attr_facts *facts)
{
	struct setting settings[NAME_COUNT] = {{0, NULL}};
	size_t len = strlen(path);

	*facts = (struct attr_facts){0};
	for (size_t i = 0; i < stack->len; i++) {
		const struct attr_dir *dir = &stack->dirs[i];
		for (size_t k = 0; k < dir->len && dir->prefix < len; k++)
			if (glob_match(dir->rules[k].glob, path + dir->prefix,
				       len - dir->prefix))
				settings_merge(settings, dir->rules[k].settings);
	}
	conclude(settings, facts);
	settings_release(settings);
}

/* Enters one directory of a view. */
static int push_dir(struct view *view, struct attr_stack *stack, const char *path, size_t len,
		    struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *dir AUTO_FREE = mem_strndup(path, len);
	char *file AUTO_FREE = len ? mem_printf("%s/" ATTR_FILE, dir) : mem_strdup(ATTR_FILE);
	struct view_stat st;
	int rc = view_stat(view, file, &st, err);

	if (rc < 0 && rc != ERROR_NO)
		return rc;
	strbuf_init(&text, ATTR_FILE_MAX);
	bool plain = rc == 0 && (st.kind == VIEW_FILE || st.kind == VIEW_EXEC) &&
		     st.size <= ATTR_FILE_MAX;
	if (plain && (rc = view_read(view, file, &text, err)) < 0)
		return rc;
	attr_push(stack, dir, plain ? text.data : NULL, text.len);
	return 0;
}

int attr_of_view(struct view *view, const char *path, struct attr_facts *facts,
		 struct error *err)
{
	AUTO_ATTR_STACK struct attr_stack *stack = attr_stack_new();
	int rc = push_dir(view, stack, "", 0, err);

	for (const char *slash = strchr(path, '/'); rc == 0 && slash;
	     slash = strchr(slash + 1, '/'))
		rc = push_dir(view, stack, path, (size_t)(slash - path), err);
	if (rc == 0)
		attr_decide(stack, path, facts);
	return rc;
}

/* ---- converting ---- */

static bool adds_crlf(const struct attr_facts *facts)
{
	return facts->eol == ATTR_EOL_CRLF && facts->text != ATTR_TEXT_UNSET;
}

bool attr_converts(const struct attr_facts *facts)
{
	return adds_crlf(facts) || facts->ident || facts->encoding[0];
}

bool attr_same_conversion(const struct attr_facts *a, const struct attr_facts *b)
{
	if (adds_crlf(a) != adds_crlf(b) || a->ident != b->ident ||
	    strcmp(a->encoding, b->encoding) != 0)
		return false;
	return !adds_crlf(a) || (a->text == ATTR_TEXT_AUTO) == (b->text == ATTR_TEXT_AUTO);
}

void attr_count(const char *data, size_t len, struct attr_stats *stats)
{
	size_t nul = 0, printable = 0, other = 0;

	*stats = (struct attr_stats){0};
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c == '\r' && i + 1 < len && data[i + 1] == '\n') {
			stats->crlf++;
			i++;
		} else if (c == '\r') {
			stats->lone_cr++;
		} else if (c == '\n') {
			stats->lone_lf++;
		} else if (c == 127 ||
			   (c < 32 && c != '\b' && c != '\t' && c != 27 && c != '\f')) {
			other++;
			nul += c == 0;
		} else {
			printable++;
		}
	}
	if (len && data[len - 1] == '\032') /* a DOS end of file */
		other--;
	stats->binary = stats->lone_cr || nul || (printable >> 7) < other;
}

static bool leave_lf(const char *data, size_t len, bool automatic)
{
	struct attr_stats stats;

	attr_count(data, len, &stats);
	return !stats.lone_lf || (automatic && (stats.crlf || stats.binary));
}

static void to_crlf(const char *data, size_t len, struct strbuf *out)
{
	for (size_t pos = 0; pos < len;) {
		const char *lf = memchr(data + pos, '\n', len - pos);
		size_t stop = lf ? (size_t)(lf - data) : len;
		strbuf_add(out, data + pos, stop - pos);
		if (lf && (stop == 0 || data[stop - 1] != '\r'))
			strbuf_addc(out, '\r');
		if (lf)
			strbuf_addc(out, '\n');
		pos = lf ? stop + 1 : len;
	}
}

/* "$Id$" and "$Id: … $" on one line become "$Id: <oid> $"; a foreign keyword (blanks
 * inside) stays. */
static void expand_ident(const char *data, size_t len, const char *oid, struct strbuf *out)
{
	for (size_t pos = 0; pos < len;) {
		const char *dollar = memmem(data + pos, len - pos, "$Id", 3);
		size_t at = dollar ? (size_t)(dollar - data) : len;
		strbuf_add(out, data + pos, at - pos);
		if (!dollar)
			return;
		size_t end = at + 3;
		bool is_keyword = end < len && data[end] == '$';
		if (end < len && data[end] == ':') {
			const char *close = memchr(data + end, '$', len - end);
			const char *lf = memchr(data + end, '\n', len - end);
			is_keyword = close && (!lf || close < lf);
			if (is_keyword) {
				const char *inside =
				    data + end + 2 < close ? data + end + 2 : close;
				const char *blank =
				    memchr(inside, ' ', (size_t)(close - inside));
				is_keyword = !blank || blank == close - 1;
				end = (size_t)(close - data);
			}
		}
		if (is_keyword) {
			strbuf_addf(out, "$Id: %s $", oid);
			pos = end + 1;
		} else {
			strbuf_add(out, data + at, 3);
			pos = at + 3;
		}
	}
}

/* gcc takes iconv_open's failure value for a handle that is lost. */
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* From UTF-8. False when libc does not know the encoding or the bytes do not fit in it. */
static bool encode(const char *encoding, const char *data, size_t len, struct strbuf *out)
{
	char name[48];
	bool with_bom = false;
	size_t used = strlen(encoding);

	memcpy(name, encoding, used + 1);
	if (used > 4 &&
	    strcasecmp(name + used - 4, "-BOM") == 0) { /* git's own: UTF-16LE-BOM */
		name[used - 4] = '\0';
		with_bom = true;
	}
	iconv_t handle = iconv_open(name, "UTF-8");
	if (handle == (iconv_t)-1)
		return false;
	char *in = (char *)(uintptr_t)(const void *)data, block[4096];
	size_t left = len, mark = out->len;
	bool fine = true;
	if (with_bom)
		strbuf_add(out, strcasecmp(name, "UTF-16BE") ? "\xFF\xFE" : "\xFE\xFF", 2);
	while (fine && left) {
		char *to = block;
		size_t room = sizeof(block);
		size_t rc = iconv(handle, &in, &left, &to, &room);
		strbuf_add(out, block, sizeof(block) - room);
		fine = rc != (size_t)-1 || errno == E2BIG;
	}
	iconv_close(handle);
	if (!fine)
		out->len = mark;
	return fine;
}

#pragma GCC diagnostic pop

int attr_convert(const struct attr_facts *facts, const char *data, size_t len, const char *oid,
		 struct strbuf *out)
{
	struct strbuf a AUTO_STRBUF = STRBUF_NONE, b AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&a, out->max);
	strbuf_init(&b, out->max);
	if (facts->ident) {
		expand_ident(data, len, oid, &a);
		data = a.data;
		len = a.len;
	}
	if (adds_crlf(facts) && !leave_lf(data, len, facts->text == ATTR_TEXT_AUTO)) {
		to_crlf(data, len, &b);
		data = b.data;
		len = b.len;
	}
	if (facts->encoding[0] && strcasecmp(facts->encoding, "UTF-8") != 0) {
		if (encode(facts->encoding, data, len, out))
			return 0;
		strbuf_add(out, data, len);
		return 1;
	}
	strbuf_add(out, data, len);
	return 0;
}
