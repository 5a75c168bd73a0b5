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

void words_escape(const char *text, size_t len, struct strbuf *out)
{
	bool at_start = true; /* of a line: indented text would be code */

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		/* what is not shown does not begin a line either */
		if ((unsigned char)c < 0x20 && c != '\n' && c != '\t')
			continue;
		if (at_start && (c == ' ' || c == '\t'))
			continue;
		if (c == '\t')
			c = ' ';
		/* "/merge" on a line of its own is an order to GitLab; "===" makes a heading of
		 * the line above */
		if (at_start && (c == '/' || c == '=' || c == '-' || c == '+')) {
			strbuf_addf(out, "&#%d;", c);
			at_start = false;
			continue;
		}
		at_start = c == '\n';
		/* "www.…" becomes a link without any scheme */
		if (c == '.' && out->len >= 3 &&
		    strncasecmp(out->data + out->len - 3, "www", 3) == 0) {
			strbuf_adds(out, "&#46;");
			continue;
		}
		if (strchr("&<>\"'`*_[]()!#@~|\\:$", c) && c)
			strbuf_addf(out, "&#%d;", c);
		else
			strbuf_addc(out, c);
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
