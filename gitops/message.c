#include "message.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define GROUP_MAX 80 /* bytes of a bracketed directive */

/* ---- characters ---- */

/* Copies text without what may not be shown; line ends become LF, tabs blanks. */
static void clean(const char *text, struct strbuf *out)
{
	size_t len = strlen(text);

	for (size_t pos = 0; pos < len;) {
		unsigned code;
		size_t step = text_utf8_next(text + pos, len - pos, &code);
		if (!step) {
			pos++;
			continue;
		}
		if (code == '\n' || (code == '\r' && text[pos + 1] != '\n'))
			strbuf_addc(out, '\n');
		else if (code == '\t' || code == 0xA0 || (code >= 0x2000 && code <= 0x200A) ||
			 code == 0x3000)
			strbuf_addc(out, ' ');
		else if (!text_is_unsafe(code))
			strbuf_add(out, text + pos, step);
		pos += step;
	}
}

static bool same_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

static bool in_list(const char *text, size_t len, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (same_word(text, len, list[i]))
			return true;
	return false;
}

static void cut(struct strbuf *text, size_t at, size_t len)
{
	memmove(text->data + at, text->data + at + len, text->len - at - len + 1);
	text->len -= len;
}

/* ---- directives to CI services ---- */

/* Whether the inside of a pair of brackets tells a service to do or leave something. */
static bool is_directive(const char *text, size_t len)
{
	static const char *const verbs[] = {"skip",  "no",	"only",	  "run",
					    "force", "nobuild", "skipci", "noci"};
	static const char *const nouns[] = {
	    "ci",	 "cd",	      "action",		"actions",    "travis",	   "build",
	    "builds",	 "deploy",    "test",		"tests",      "appveyor",  "circleci",
	    "netlify",	 "vercel",    "github",		"gitlab",     "azure",	   "azp",
	    "pipeline",	 "pipelines", "azurepipelines", "workflow",   "workflows", "drone",
	    "buildkite", "semaphore", "codeship",	"cloudbuild", "release",   "wercker",
	    "bitrise",	 "checks",    "check",		"cirrus",     "woodpecker"};
	bool verb = false, noun = false;
	size_t words = 0;

	for (size_t pos = 0; pos < len;) {
		size_t start = pos;
		while (pos < len && (isalnum((unsigned char)text[pos])))
			pos++;
		if (pos > start) {
			words++;
			verb =
			    verb || in_list(text + start, pos - start, verbs, ARRAY_LEN(verbs));
			noun = noun ||
			       in_list(text + start, pos - start, nouns, ARRAY_LEN(nouns)) ||
			       same_word(text + start, pos - start, "skipci") ||
			       same_word(text + start, pos - start, "noci");
		}
		if (pos == start)
			pos++;
	}
	/* "[ci]" alone, "[ci full]" and the like speak to a service too */
	return words > 0 && words <= 6 &&
	       ((verb && noun) || same_word(text, len, "ci") ||
		strncasecmp(text, "ci ", 3) == 0 || strncasecmp(text, "ci-", 3) == 0);
}

/* Takes out one directive; false when there is none. */
static bool drop_directive(struct strbuf *text)
{
	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '[') {
			size_t len = strcspn(text->data + i + 1, "[]");
			if (text->data[i + 1 + len] == ']' && len <= GROUP_MAX &&
			    is_directive(text->data + i + 1, len)) {
				cut(text, i, len + 2);
				return true;
			}
		}
		if (strncasecmp(text->data + i, "***NO_CI***", 11) == 0) {
			cut(text, i, 11);
			return true;
		}
	}
	return false;
}

/* What remains may spell a directive again. */
static void drop_directives(struct strbuf *text)
{
	while (drop_directive(text))
		continue;
}

/* ---- trailers and the like ---- */

/* Length of the key of a trailer-shaped line ("Key: value", "Key : value"), 0 when it is
 * none. */
static size_t trailer_key(const char *line, size_t len)
{
	size_t key = 0, colon;

	while (key < len &&
	       (isalnum((unsigned char)line[key]) || line[key] == '-' || line[key] == '_'))
		key++;
	colon = key;
	while (colon < len && line[colon] == ' ')
		colon++;
	if (key == 0 || colon >= len || line[colon] != ':')
		return 0;
	if (colon + 2 < len && line[colon + 1] == '/' && line[colon + 2] == '/' &&
	    !memchr(line, '-', key)) /* a URL */
		return 0;
	return key;
}

/* Keys that somebody acts upon: such a line goes; another ("Note: …") is only bent. */
static bool is_acted_upon(const char *key, size_t len)
{
	static const char *const keys[] = {
	    "issue",	"issues",   "fixes",  "fix",	"closes",    "close",	"resolves",
	    "resolve",	"bug",	    "cc",     "link",	"ref",	     "refs",	"acked",
	    "reported", "reviewed", "tested", "merge",	"changelog", "release", "depends",
	    "related",	"ticket",   "from",   "author", "date",	     "subject"};

	return memchr(key, '-', len) || memchr(key, '_', len) ||
	       in_list(key, len, keys, ARRAY_LEN(keys));
}

/* Appends one line of the body as it may stand there; may append nothing. */
static void add_body_line(const char *line, size_t len, struct strbuf *out)
{
	size_t skip = 0, key;

	while (skip < len && line[skip] == ' ')
		skip++;
	key = trailer_key(line + skip, len - skip);
	if (key && is_acted_upon(line + skip, key))
		return;
	if (len - skip >= 15 && strncasecmp(line + skip, "breaking change", 15) == 0 &&
	    memchr(line + skip, ':', len - skip))
		return;
	if (strncmp(line + skip, "(cherry picked", 14) == 0)
		return;
	/* git am and mail tools take these for the end of the message */
	if (strncmp(line, "---", 3) == 0 || strncmp(line, "diff -", 6) == 0 ||
	    strncmp(line, "Index: ", 7) == 0 || strncmp(line, "From ", 5) == 0)
		strbuf_adds(out, "  ");
	if (key) {
		const char *colon = memchr(line, ':', len);
		strbuf_add(out, line, skip + key);
		strbuf_adds(out, " -");
		strbuf_add(out, colon + 1, len - (size_t)(colon + 1 - line));
	} else {
		strbuf_add(out, line, len);
	}
	strbuf_addc(out, '\n');
}

/* ---- issues and people ---- */

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* Whether what follows a closing keyword names an issue. */
static bool names_issue(const char *text)
{
	text += strspn(text, " \n");
	if (*text == ':')
		text++;
	text += strspn(text, " \n");
	if (strncasecmp(text, "issue", 5) == 0) {
		text += 5;
		text += *text == 's' || *text == 'S';
		text += strspn(text, " \n");
	}
	bool number = (*text == '#' || *text == '!') && isdigit((unsigned char)text[1]);
	size_t name =
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./");
	return number || strncasecmp(text, "gh-", 3) == 0 ||
	       strncasecmp(text, "http", 4) == 0 ||
	       (name && (text[name] == '#' || text[name] == '!')) ||
	       (name > 2 && memchr(text, '-', name) && isupper((unsigned char)text[0]) &&
		isdigit((unsigned char)text[name - 1]));
}

/* "Fixes #12" would close issue 12 when it lands on the default branch: "About #12" does
 * not. */
static void defuse_closing(const struct strbuf *in, struct strbuf *out)
{
	static const char *const words[] = {
	    "fix",	    "fixes",	 "fixed",     "fixing",	    "close",
	    "closes",	    "closed",	 "closing",   "resolve",    "resolves",
	    "resolved",	    "resolving", "implement", "implements", "implemented",
	    "implementing", "complete",	 "completes", "completed"};

	for (size_t pos = 0; pos < in->len;) {
		size_t end = pos;
		while (end < in->len && is_word_byte(in->data[end]))
			end++;
		if (end == pos) {
			strbuf_addc(out, in->data[pos++]);
			continue;
		}
		if (in_list(in->data + pos, end - pos, words, ARRAY_LEN(words)) &&
		    names_issue(in->data + end)) {
			strbuf_adds(out,
				    isupper((unsigned char)in->data[pos]) ? "About" : "about");
			while (end < in->len && (in->data[end] == ':' || in->data[end] == ' '))
				end++;
			strbuf_addc(out, ' ');
		} else {
			strbuf_add(out, in->data + pos, end - pos);
		}
		pos = end;
	}
}

/* "@name" calls a person or a team, "#close" is a command of issue trackers: a blank or
 * nothing in between takes the meaning away and leaves the text readable. */
static void defuse_mentions(const struct strbuf *in, struct strbuf *out)
{
	for (size_t pos = 0; pos < in->len; pos++) {
		char c = in->data[pos], before = pos ? in->data[pos - 1] : ' ';
		char after = pos + 1 < in->len ? in->data[pos + 1] : ' ';
		bool starts = !is_word_byte(before) && before != '/' && before != '.';
		if (c == '#' && starts && isalpha((unsigned char)after))
			continue;
		strbuf_addc(out, c);
		if (c == '@' && starts && (isalnum((unsigned char)after) || after == '_'))
			strbuf_addc(out, ' ');
	}
}

/* Both, and directives again: what was put in may not spell one. */
static void defuse(struct strbuf *text)
{
	struct strbuf step, done;

	strbuf_init(&step, text->max + 4096);
	strbuf_init(&done, text->max + 4096);
	defuse_closing(text, &step);
	defuse_mentions(&step, &done);
	drop_directives(&done);
	strbuf_release(&step);
	strbuf_release(text);
	*text = done;
}

/* ---- subject ---- */

/* The first line of text that says something, on one line with single blanks. */
static void first_line(const struct strbuf *text, struct strbuf *out)
{
	const char *line = text->data + strspn(text->data, " \n");

	for (; *line && *line != '\n'; line++)
		if (*line != ' ' || (out->len && out->data[out->len - 1] != ' '))
			strbuf_addc(out, *line);
	while (out->len && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
}

/* Cuts to MESSAGE_SUBJECT_MAX characters, at a blank when one is near, and marks the cut. */
static void cut_subject(struct strbuf *subject)
{
	size_t pos = 0, chars = 0, fits = 0, blank = 0;

	while (pos < subject->len) {
		unsigned code;
		size_t step = text_utf8_next(subject->data + pos, subject->len - pos, &code);
		if (chars == MESSAGE_SUBJECT_MAX - 1)
			fits = pos;
		if (code == ' ' && chars < MESSAGE_SUBJECT_MAX)
			blank = pos;
		pos += step ? step : 1;
		chars++;
	}
	if (chars <= MESSAGE_SUBJECT_MAX)
		return;
	subject->len = blank > fits / 2 ? blank : fits;
	subject->data[subject->len] = '\0';
	strbuf_adds(subject, "…");
}

/* False when nothing is left of the title. */
static bool make_subject(const char *title, struct strbuf *out)
{
	struct strbuf raw AUTO_STRBUF = STRBUF_NONE, text AUTO_STRBUF = STRBUF_NONE;
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;
	size_t key, skip = 0;

	if (!title)
		return false;
	strbuf_init(&raw, 4096);
	strbuf_init(&text, 4096);
	strbuf_init(&line, 4096);
	clean(title, &raw);
	drop_directives(&raw);
	first_line(&raw, &text);
	defuse(&text);
	/* "# Title" of an issue in Markdown; a trailer's name as a title; git's autosquash */
	while (text.data[skip] == '#' || text.data[skip] == ' ' || text.data[skip] == '-')
		skip++;
	key = trailer_key(text.data + skip, text.len - skip);
	if (key &&
	    (memchr(text.data + skip, '-', key) || same_word(text.data + skip, key, "skip"))) {
		skip += key;
		skip += strspn(text.data + skip, " :");
	}
	while (strncasecmp(text.data + skip, "fixup!", 6) == 0 ||
	       strncasecmp(text.data + skip, "squash!", 7) == 0 ||
	       strncasecmp(text.data + skip, "amend!", 6) == 0) {
		skip += strcspn(text.data + skip, "!") + 1;
		skip += strspn(text.data + skip, " ");
	}
	strbuf_adds(&line, text.data + skip);
	drop_directives(&line);
	cut_subject(&line);
	strbuf_add(out, line.data, line.len);
	return strspn(line.data, " .,:;-_#*`'\"!?()[]{}") < line.len;
}

/* ---- body and trailers ---- */

/* The lines that may stand in a body, without blank ones at either end or two in a row. */
static void filter_lines(const struct strbuf *text, struct strbuf *out)
{
	bool gap = false;

	for (const char *line = text->data; *line;) {
		size_t whole = strcspn(line, "\n"), len = whole, before = out->len;
		while (len && line[len - 1] == ' ')
			len--;
		if (len && gap && out->len)
			strbuf_addc(out, '\n');
		size_t mark = out->len;
		if (len)
			add_body_line(line, len, out);
		if (!len) {
			gap = true;
		} else if (out->len == mark) { /* dropped, with the blank line before it */
			out->len = before;
			out->data[before] = '\0';
		} else {
			gap = false;
		}
		line += whole + (line[whole] == '\n');
	}
}

/* What is taken out may leave something new behind: lines are looked at before and after. */
static void add_body(const char *body, struct strbuf *out)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, lines AUTO_STRBUF = STRBUF_NONE;
	struct strbuf again AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, MESSAGE_BODY_MAX);
	strbuf_init(&lines, (size_t)MESSAGE_BODY_MAX * 2);
	strbuf_init(&again, (size_t)MESSAGE_BODY_MAX * 4);
	clean(body, &text);
	drop_directives(&text);
	filter_lines(&text, &lines);
	defuse(&lines);
	filter_lines(&lines, &again);
	drop_directives(&again);
	if (strspn(again.data, " \n") == again.len)
		return;
	strbuf_addc(out, '\n');
	strbuf_add(out, again.data, again.len);
	if (out->data[out->len - 1] != '\n')
		strbuf_addc(out, '\n');
}

static int add_trailer(const char *trailer, struct strbuf *out, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	size_t key = trailer_key(trailer, strlen(trailer));

	if (!key || trailer[key] != ':')
		return error_set(err, ERROR_USAGE, "trailer '%.60s' is not \"Key: value\"",
				 trailer);
	strbuf_init(&text, MESSAGE_TRAILER_MAX);
	clean(trailer, &text);
	if (text.full) { /* cut: not within a character */
		while (text.len && !text_is_utf8(text.data, text.len))
			text.data[--text.len] = '\0';
		text.full = false;
	}
	drop_directives(&text);
	for (size_t i = 0; i < text.len; i++)
		strbuf_addc(out, text.data[i] == '\n' ? ' ' : text.data[i]);
	while (out->len && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
	strbuf_addc(out, '\n');
	return 0;
}

int message_format(const char *title, const char *fallback, const char *body,
		   const char *const *trailers, size_t trailer_count, struct strbuf *out,
		   struct error *err)
{
	size_t start = out->len;

	if (!make_subject(title, out)) {
		out->len = start;
		if (!make_subject(fallback, out)) {
			out->len = start;
			strbuf_adds(out, "Change the code as the issue asks");
		}
	}
	strbuf_addc(out, '\n');
	if (body)
		add_body(body, out);
	if (trailer_count)
		strbuf_addc(out, '\n');
	for (size_t i = 0; i < trailer_count; i++) {
		int rc = add_trailer(trailers[i], out, err);
		if (rc < 0)
			return rc;
	}
	return out->full ? error_set(err, ERROR_USAGE, "the commit message is too long") : 0;
}
