/* Fuzz target: what agent-forge makes of a forge's bytes. The first byte of the input says which: an issue's text that is
 * stripped, a model's text that is escaped, or an answer in JSON that is read as everything that an answer may be.
 * Nothing may crash; what is escaped has no byte left that Markdown acts upon. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/forge/forge.h"
#include "pipeline/forge/strip.h"
#include "pipeline/forge/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void try_strip(const char *text, size_t len)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct strip_counts counts = {0};
	char words[64];

	strbuf_init(&out, STRBUF_MAX);
	strip_hidden(text, len, &out, &counts);
	must(out.len <= len * 3 + 16 * (counts.texts + counts.attributes + 1));
	strip_describe(&counts, words, sizeof(words));
	must(strlen(words) < sizeof(words));
}

/* Behind a code span (CommonMark 6.1), which must end on its line. */
static size_t behind_span(const char *text, size_t at)
{
	size_t ticks = strspn(text + at, "`"), run;

	for (at += ticks;; at += run) {
		at += strcspn(text + at, "`\n");
		must(text[at] == '`');
		run = strspn(text + at, "`");
		if (run == ticks)
			return at + run;
	}
}

static void try_escape(const char *text, size_t len)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, STRBUF_MAX);
	words_escape(text, len, &out);
	for (size_t i = 0; i < out.len; i++) {
		if (out.data[i] == '`')
			i = behind_span(out.data, i);
		must(!out.data[i] || !strchr("<>\"*_[]()!@~|\\:$%^/+", out.data[i]));
		must(out.data[i] != '#' || (i && out.data[i - 1] == '&'));
	}
}

static void try_answer(enum forge_kind kind, const struct json *answer)
{
	struct forge forge = {.kind = kind, .host = "h", .owner = "octo", .repo = "sums"};
	struct json *writers AUTO_JSON = js_object_new();
	struct forge_pull_seen pull;
	struct forge_comment comment;
	struct forge_issue issue;
	struct error err = {0};

	forge_read_issue(kind, answer, &issue, &err);
	forge_read_writers(kind, answer, writers);
	must(forge_read_self(kind, answer) != NULL);
	forge_read_comment(kind, answer, writers, &comment);
	if (forge_read_pull(kind, answer, &pull)) {
		must(pull.url && pull.body && pull.head && pull.from);
		forge_pull_is_from(&forge, &pull, NULL, NULL);
		forge_pull_is_from(&forge, &pull, "me", "agent/x");
	}
}

static void try_answers(const char *text, size_t len)
{
	struct error err = {0};
	struct json *answer AUTO_JSON = js_parse(text, len, 1 << 20, "answer", &err);
	struct forge forge = {.kind = FORGE_GITHUB, .host = "h", .owner = "o", .repo = "r"};

	for (int kind = 0; kind < 3; kind++)
		try_answer((enum forge_kind)kind, answer);
	for (int status = 300; status < 600; status += 1) {
		struct forge_refusal refusal = {
		    .status = status, .body = text, .len = len, .location = ""};
		struct error refused = {0};

		must(forge_refused(&forge, "it", &refusal, &refused) && refused.message[0]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	if (*data % 3 == 0)
		try_strip(text, size - 1);
	else if (*data % 3 == 1)
		try_escape(text, size - 1);
	else
		try_answers(text, size - 1);
	return 0;
}
