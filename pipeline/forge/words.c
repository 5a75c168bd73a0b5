#include "words.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define BODY_MAX ((size_t)60000) /* GitHub takes 65,536 characters */
#define LISTED_MAX 30

/* ---- escaping ---- */

/*
 * A character reference keeps Markdown away, but a forge looks for mentions, references and addresses in what
 * Markdown made of the text, where "&#64;ann" is "@ann" again. None looks into code. So a word that could be
 * anything but a word (it has a mark in it, or is of a form such as GH-12 or a commit's id) is a code span;
 * of the others, marks at their ends are character references.
 */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* GH-12, PROJ-7: forges and trackers link them. */
static bool is_ticket(const char *word, size_t len)
{
	for (size_t i = 1; i + 1 < len; i++)
		if (word[i] == '-' && is_letter(word[i - 1]) && is_digit(word[i + 1]))
			return true;
	return false;
}

static bool is_commit_id(const char *word, size_t len)
{
	size_t digits = 0;

	for (size_t i = 0; i < len; i++) {
		if (!is_digit(word[i]) && !(word[i] >= 'a' && word[i] <= 'f') &&
		    !(word[i] >= 'A' && word[i] <= 'F'))
			return false;
		digits += is_digit(word[i]);
	}
	return len >= 7 && digits;
}

/* What nobody takes for more: letters, digits, and between them ' - . , of which none makes an address. */
static bool is_plain(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_letter(word[i]) && !is_digit(word[i]) && !strchr("'-.,", word[i]))
			return false;
	if (len >= 4 && strncasecmp(word, "www.", 4) == 0)
		return false;
	return !is_ticket(word, len) && !is_commit_id(word, len);
}

static void put_marks(const char *text, size_t len, struct strbuf *out)
{
	for (size_t i = 0; i < len; i++)
		strbuf_addf(out, "&#%d;", (unsigned char)text[i]);
}

/* In a code span of enough backticks. */
static void put_span(const char *text, size_t len, struct strbuf *out)
{
	size_t run = 0, most = 0;
	bool edge = text[0] == '`' || text[len - 1] == '`';

	for (size_t i = 0; i < len; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		most = run > most ? run : most;
	}
	for (size_t i = 0; i <= most; i++)
		strbuf_addc(out, '`');
	strbuf_addf(out, "%s%.*s%s", edge ? " " : "", (int)len, text, edge ? " " : "");
	for (size_t i = 0; i <= most; i++)
		strbuf_addc(out, '`');
}

/* The length of `code` at the start of text, within its line; 0: it is none. */
static size_t code_len(const char *text, size_t len)
{
	const char *end = len > 2 && text[1] != '`' ? memchr(text + 1, '`', len - 1) : NULL;
	size_t size = end ? (size_t)(end - text) + 1 : 0;

	for (size_t i = 1; i + 1 < size; i++)
		if ((unsigned char)text[i] < ' ')
			return 0;
	if (size < 3)
		return 0;
	/* nothing but punctuation may follow before a blank: another span beside it would be a part of it */
	end = text + size + strspn(text + size, ".,;:!?)\"'");
	return *end == ' ' || *end == '\n' || !*end ? size : 0;
}

/* Punctuation around a word is not a part of it. */
static void put_word(const char *word, size_t len, struct strbuf *out)
{
	size_t from = 0, to = len;

	while (from < to && strchr("(\"'", word[from]))
		from++;
	while (to > from && strchr(".,;:!?)\"'", word[to - 1]) &&
	       !(word[to - 1] == ')' && memchr(word + from, '(', to - from)))
		to--;
	put_marks(word, from, out);
	if (to > from && is_plain(word + from, to - from) &&
	    is_letter(word[from]) + is_digit(word[from]))
		strbuf_add(out, word + from, to - from);
	else if (to > from)
		put_span(word + from, to - from, out);
	for (; to < len; to++)
		if (strchr(".,;?", word[to]))
			strbuf_addc(out, word[to]);
		else
			put_marks(word + to, 1, out);
}

void words_escape(const char *text, size_t len, struct strbuf *out)
{
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;
	bool at_start = true; /* of a line: indented text would be code */

	strbuf_init(&clean, STRBUF_MAX);
	for (size_t i = 0; i < len; i++) /* what is not shown does not begin a line either */
		if ((unsigned char)text[i] >= 0x20 || text[i] == '\n' || text[i] == '\t')
			strbuf_addc(&clean, text[i] == '\t' ? ' ' : text[i]);
	for (size_t i = 0; i < clean.len;) {
		const char *at = clean.data + i;
		size_t size = strcspn(at, " \n");

		if (!size) {
			if (*at == '\n' || !at_start)
				strbuf_addc(out, *at);
			at_start = at_start || *at == '\n';
			i++;
			continue;
		}
		if (*at == '`' && code_len(at, clean.len - i)) {
			size = code_len(at, clean.len - i);
			put_span(at + 1, size - 2, out);
		} else if (at_start && (strspn(at, "-") == size || strspn(at, "=") == size)) {
			put_marks(at, 1, out); /* a rule, a heading of the line above, a list */
			strbuf_add(out, at + 1, size - 1);
		} else {
			put_word(at, size, out);
		}
		at_start = false;
		i += size;
	}
}

static void put(struct strbuf *out, const char *text)
{
	words_escape(text, strlen(text), out);
}

/* In a code span of enough backticks: for commands, paths, ids. */
static void put_code(struct strbuf *out, const char *text)
{
	size_t run = 0, most = 0;
	char shown[1024];

	text_escape(shown, sizeof(shown), text, strlen(text));
	for (const char *p = shown; *p; p++) {
		run = *p == '`' ? run + 1 : 0;
		most = run > most ? run : most;
	}
	for (size_t i = 0; i <= most; i++)
		strbuf_addc(out, '`');
	strbuf_addf(out, " %s ", shown);
	for (size_t i = 0; i <= most; i++)
		strbuf_addc(out, '`');
}

/* ---- parts ---- */

/* Subject, and where the trailers of ours begin: the last paragraph. */
static void split_message(const char *message, char *subject, size_t size, const char **body,
			  size_t *body_len)
{
	size_t line = strcspn(message, "\n"), len = strlen(message);
	const char *rest = message + line, *last = NULL;

	text_escape(subject, size, message, line);
	while (*rest == '\n')
		rest++;
	while (len > 0 && message[len - 1] == '\n')
		len--;
	for (const char *at = rest; (at = strstr(at, "\n\n")) && at < message + len; at++)
		last = at;
	*body = rest;
	*body_len = last ? (size_t)(last - rest) : 0; /* one paragraph: trailers alone */
}

static void put_list(struct strbuf *out, const struct json *list, const char *heading,
		     const char *detail)
{
	size_t count = js_len(list);

	if (!count)
		return;
	strbuf_addf(out, "\n### %s\n\n", heading);
	for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
		const struct json *entry = js_at(list, i);

		strbuf_adds(out, "- ");
		put_code(out, js_str(entry, "path", ""));
		strbuf_adds(out, " ");
		put(out, js_str(entry, detail, ""));
		strbuf_addc(out, '\n');
	}
	if (count > LISTED_MAX)
		strbuf_addf(out, "- and %zu more\n", count - LISTED_MAX);
}

static void put_verdict(struct strbuf *out, const struct json *job)
{
	const struct json *verdict = js_get(job, "verdict");

	strbuf_adds(out, "\n### Tests\n\nGreen: ");
	put_code(out, js_str(job, "test_command", ""));
	strbuf_addf(out, " in %lld ms, without network, in a jail (%s).\n",
		    js_int(verdict, "elapsed_ms", 0),
		    "agent audit lists what crossed its boundary");
	strbuf_addf(out, "\nTree ");
	put_code(out, js_str(verdict, "tree", ""));
	strbuf_adds(out, " is what was tested and what is pushed.\n");
}

static void put_reproduce(struct strbuf *out, const struct json *job)
{
	const char *commit = js_str(job, "commit", "");

	strbuf_adds(out, "\n### How to reproduce\n\n");
	strbuf_addf(
	    out, "    git fetch origin %.40s\n    agent jail --tree %.40s -- sh -c 'COMMAND'\n",
	    text_is_hex(commit, 40) ? commit : "COMMIT",
	    text_is_hex(commit, 40) ? commit : "COMMIT");
	strbuf_adds(out, "\nwith the test command above.\n");
}

static void put_cost(struct strbuf *out, const struct json *job)
{
	const struct json *tokens = js_get(job, "tokens");
	const char *command = js_str(job, "command", NULL);

	strbuf_adds(out, "\n### Made by\n\n");
	if (command) {
		strbuf_adds(out, "A command, not a model: ");
		put_code(out, command);
		strbuf_addf(out, " in a jail, with %s; run ",
			    strcmp(js_str(job, "network", "none"), "registries") == 0
				? "the registries' network"
				: "no network");
		put_code(out, js_str(job, "run", ""));
		strbuf_adds(out, "\n");
		return;
	}
	put_code(out, js_str(job, "model", ""));
	strbuf_addf(out, ", %lld tokens in, %lld out; run ", js_int(tokens, "input", 0),
		    js_int(tokens, "output", 0));
	put_code(out, js_str(job, "run", ""));
	strbuf_adds(out, "\n");
}

struct json *words_pull(const struct json *job, struct error *err)
{
	struct strbuf body AUTO_STRBUF = STRBUF_NONE;
	const struct json *policy = js_get(job, "policy");
	const char *message, *marker, *text;
	long long issue = js_int(job, "issue", 0);
	struct json *pull;
	char subject[256];
	size_t len;

	if (js_need_str(job, "message", &message, err) ||
	    js_need_str(job, "marker", &marker, err))
		return NULL;
	split_message(message, subject, sizeof(subject), &text, &len);
	strbuf_init(&body, BODY_MAX);
	if (issue > 0)
		strbuf_addf(&body, "For #%lld.\n\n", issue);
	words_escape(text, len < BODY_MAX / 8 ? len : BODY_MAX / 8, &body);
	strbuf_addc(&body, '\n');
	put_list(&body, js_get(policy, "review"), "Needs review", "why");
	put_list(&body, js_get(policy, "tests"), "Tests say less", "kind");
	put_list(&body, js_get(policy, "stripped"), "Left out", "rule");
	put_verdict(&body, job);
	put_cost(&body, job);
	put_reproduce(&body, job);
	if (body.full || body.len + strlen(marker) + 2 > BODY_MAX) {
		error_set(err, ERROR_FAILED, "the text of the pull request is too long");
		return NULL;
	}
	strbuf_addf(&body, "\n%s\n", marker);
	pull = js_artefact_new("pull", 1);
	js_set_str(pull, "title", subject);
	js_set_strn(pull, "body", body.data, body.len);
	js_set_str(pull, "comment", "A change is proposed, with green tests:");
	return pull;
}
