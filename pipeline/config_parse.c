/*
 * The syntax of git-config(1): sections, subsections, values with quotes, escapes, comments and
 * continued lines. Pure; knows no keys.
 */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"

#define NAME_MAX_BYTES 256

struct parser {
	const char *p, *end;
	const char *file;
	int line;
	struct strbuf section, subsection, key, value;
	bool has_subsection;
};

static int bad(struct parser *ps, struct error *err, const char *why)
{
	error_set(err, ERROR_USAGE, "%s:%d: %s", ps->file, ps->line, why);
	return error_next(err, "mend that line; the syntax is that of git-config(1)");
}

static void skip_blanks(struct parser *ps)
{
	while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\r'))
		ps->p++;
}

static void skip_line(struct parser *ps)
{
	while (ps->p < ps->end && *ps->p != '\n')
		ps->p++;
}

/* "[name]" or "[name "sub"]"; p stands behind the '['. */
static int parse_section(struct parser *ps, struct error *err)
{
	strbuf_reset(&ps->section);
	strbuf_reset(&ps->subsection);
	ps->has_subsection = false;
	while (ps->p < ps->end &&
	       (isalnum((unsigned char)*ps->p) || *ps->p == '-' || *ps->p == '.'))
		strbuf_addc(&ps->section, (char)tolower((unsigned char)*ps->p++));
	skip_blanks(ps);
	if (ps->p < ps->end && *ps->p == '"') {
		ps->has_subsection = true;
		for (ps->p++;; ps->p++) {
			if (ps->p >= ps->end || *ps->p == '\n')
				return bad(ps, err, "the section's quote is not closed");
			if (*ps->p == '"')
				break;
			if (*ps->p == '\\' && ps->p + 1 < ps->end && ps->p[1] != '\n')
				ps->p++;
			strbuf_addc(&ps->subsection, *ps->p);
		}
		ps->p++;
	}
	if (ps->p >= ps->end || *ps->p != ']' || !ps->section.len)
		return bad(ps, err, "malformed section header");
	if (ps->section.full || ps->subsection.full)
		return bad(ps, err, "section name too long");
	ps->p++;
	return 0;
}

static int parse_escape(struct parser *ps, struct error *err)
{
	char c = ps->p + 1 < ps->end ? ps->p[1] : '\0';

	if (c == '\r' && ps->p + 2 < ps->end && ps->p[2] == '\n') {
		ps->p++;
		c = '\n';
	}
	switch (c) {
	case '\n':
		ps->line++;
		break;
	case 't':
		strbuf_addc(&ps->value, '\t');
		break;
	case 'n':
		strbuf_addc(&ps->value, '\n');
		break;
	case 'b':
		strbuf_addc(&ps->value, '\b');
		break;
	case '"':
	case '\\':
		strbuf_addc(&ps->value, c);
		break;
	default:
		return bad(ps, err, "unknown escape in a value (known: \\\\ \\\" \\t \\n \\b)");
	}
	ps->p += 2;
	return 0;
}

/* p stands behind the '='. */
static int parse_value(struct parser *ps, struct error *err)
{
	bool quoted = false;
	size_t keep = 0; /* trailing blanks outside quotes do not count */

	strbuf_reset(&ps->value);
	skip_blanks(ps);
	while (ps->p < ps->end && (quoted || *ps->p != '\n')) {
		char c = *ps->p;

		if (c == '\n')
			return bad(ps, err, "a quote is not closed");
		if (c == '\0')
			return bad(ps, err, "a NUL byte");
		if (c == '\\') {
			int result = parse_escape(ps, err);

			if (result)
				return result;
			keep = ps->value.len;
			continue;
		}
		if (!quoted && (c == '#' || c == ';')) {
			skip_line(ps);
			break;
		}
		ps->p++;
		if (c == '"') {
			quoted = !quoted;
			keep = ps->value.len;
			continue;
		}
		strbuf_addc(&ps->value, c);
		if (quoted || !isspace((unsigned char)c))
			keep = ps->value.len;
	}
	if (quoted)
		return bad(ps, err, "a quote is not closed");
	if (ps->value.full)
		return bad(ps, err, "value too long");
	ps->value.len = keep;
	ps->value.data[keep] = '\0';
	return 0;
}

static int parse_entry(struct parser *ps, config_seen_fn *seen, void *arg, struct error *err)
{
	bool has_value;
	int line = ps->line, result;

	strbuf_reset(&ps->key);
	while (ps->p < ps->end && (isalnum((unsigned char)*ps->p) || *ps->p == '-'))
		strbuf_addc(&ps->key, (char)tolower((unsigned char)*ps->p++));
	if (!ps->key.len || !isalpha((unsigned char)ps->key.data[0]) || ps->key.full)
		return bad(ps, err, "malformed key");
	if (!ps->section.len)
		return bad(ps, err, "a key before the first [section]");
	skip_blanks(ps);
	has_value = ps->p < ps->end && *ps->p == '=';
	if (has_value) {
		ps->p++;
		result = parse_value(ps, err);
		if (result)
			return result;
	} else if (ps->p < ps->end && *ps->p != '\n' && *ps->p != '#' && *ps->p != ';') {
		return bad(ps, err, "malformed key");
	}
	return seen(arg, ps->section.data, ps->has_subsection ? ps->subsection.data : NULL,
		    ps->key.data, has_value ? ps->value.data : NULL, line, err);
}

static int parse_all(struct parser *ps, config_seen_fn *seen, void *arg, struct error *err)
{
	while (ps->p < ps->end) {
		int result = 0;

		skip_blanks(ps);
		if (ps->p >= ps->end)
			break;
		switch (*ps->p) {
		case '\n':
			ps->line++;
			ps->p++;
			break;
		case '#':
		case ';':
			skip_line(ps);
			break;
		case '[':
			ps->p++;
			result = parse_section(ps, err);
			break;
		default:
			result = parse_entry(ps, seen, arg, err);
		}
		if (result)
			return result;
	}
	return 0;
}

int config_parse(const char *text, size_t len, const char *file, config_seen_fn *seen,
		 void *arg, struct error *err)
{
	struct parser ps = {.p = text, .end = text + len, .file = file, .line = 1};
	int result;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		ps.p += 3;
	strbuf_init(&ps.section, NAME_MAX_BYTES);
	strbuf_init(&ps.subsection, 4096);
	strbuf_init(&ps.key, NAME_MAX_BYTES);
	strbuf_init(&ps.value, 65536);
	result = parse_all(&ps, seen, arg, err);
	strbuf_release(&ps.section);
	strbuf_release(&ps.subsection);
	strbuf_release(&ps.key);
	strbuf_release(&ps.value);
	return result;
}
