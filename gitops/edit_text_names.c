/* What the names in a unified diff mean: see gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* Undoes git's quoting of a name: "a\tb\303\251". */
char *name_unquote(const char *text)
{
	size_t len = strlen(text);
	struct strbuf out;

	if (len < 2 || text[0] != '"' || text[len - 1] != '"')
		return mem_strdup(text);
	strbuf_init(&out, len);
	for (size_t i = 1; i + 1 < len; i++) {
		static const char from[] = "abtnvfr\"\\", to[] = "\a\b\t\n\v\f\r\"\\";
		const char *hit = text[i] == '\\' ? strchr(from, text[i + 1]) : NULL;
		if (text[i] != '\\') {
			strbuf_addc(&out, text[i]);
		} else if (text[i + 1] >= '0' && text[i + 1] <= '3' && i + 4 < len) {
			strbuf_addc(&out,
				    (char)((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 |
					   (text[i + 3] - '0')));
			i += 3;
		} else if (hit && *hit) {
			strbuf_addc(&out, to[hit - from]);
			i++;
		}
	}
	return strbuf_steal(&out);
}

/* The name of a "---" or "+++" line: without a time stamp, a Markdown decoration, quoting. */
char *name_of_header(const struct doc *doc, size_t index)
{
	AUTO_FREE char *rest = doc_rest(doc, index, 4);
	char *tab = strchr(rest, '\t');
	size_t len;

	if (tab)
		*tab = '\0';
	len = strlen(rest);
	/* "name 2024-01-31 12:00:00 +0000", as diff writes it where a tab became blanks */
	for (char *c = strstr(rest, " 20"); c; c = strstr(c + 1, " 20"))
		if (strlen(c) > 14 && c[5] == '-' && c[8] == '-' && c[14] == ':') {
			*c = '\0';
			len = strlen(rest);
			break;
		}
	while (len && rest[len - 1] == ' ')
		rest[--len] = '\0';
	if (len > 2 && rest[0] == '`' && rest[len - 1] == '`') {
		rest[len - 1] = '\0';
		return mem_strdup(rest + 1);
	}
	return name_unquote(rest);
}

const char *name_without(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(name, prefix, len) == 0 && name[len] ? name + len : NULL;
}

/* The path that the two names of a pair mean; NULL when they mean two files. */
char *name_of_pair(const char *minus, const char *plus)
{
	static const char *const pairs[][2] = {{"a/", "b/"},
					       {"i/", "w/"},
					       {"c/", "i/"},
					       {"c/", "w/"},
					       {"o/", "w/"},
					       {"old/", "new/"},
					       {"original/", "modified/"},
					       {"orig/", "new/"},
					       {"before/", "after/"}};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		const char *old = name_without(minus, pairs[i][0]);
		const char *now = name_without(plus, pairs[i][1]);
		if (old && now && strcmp(old, now) == 0)
			return mem_strdup(now);
	}
	if (strcmp(minus, plus) == 0)
		return mem_strdup(plus);
	const char *old = name_without(minus, "a/"), *now = name_without(plus, "b/");
	if (old && strcmp(old, plus) == 0)
		return mem_strdup(plus);
	if (now && strcmp(now, minus) == 0)
		return mem_strdup(minus);
	const char *orig = name_without(minus, plus);
	if (orig && strcmp(orig, ".orig") == 0)
		return mem_strdup(plus);
	return NULL;
}

/* "a/x b/x", where nothing else tells the name: the two halves are the same. */
char *name_of_git(const char *names)
{
	size_t len = strlen(names);

	for (size_t i = 1; i + 1 < len; i++) {
		if (names[i] != ' ')
			continue;
		AUTO_FREE char *left = mem_strndup(names, i);
		AUTO_FREE char *minus = name_unquote(left), *plus = name_unquote(names + i + 1);
		char *path = name_of_pair(minus, plus);
		if (path)
			return path;
	}
	return NULL;
}
