/*
 * NAME
 *	agent-forge - reads an issue of a forge, or makes a pull request of finished bytes
 *
 * SYNOPSIS
 *	agent-forge issue | pull, started by agent(1) alone
 *
 *	issue	FD_JOB {"paths":{"ca"?},"forge":{...} (pipeline/forge/forge.h),"number",
 *		"strangers":bool,"marker":TEXT,"fork":{"owner","repo"}?}
 *		-> FD_OUT forge-issue.json {"kind":"forge-issue","version":1,"title","url","state",
 *		"locked","revision","author","text","removed","strangers","linked":URL|null}
 *	pull	FD_JOB {"paths":{"ca"?},"forge":{...},"head","fork":{"owner","repo"}?,"base":TEXT|null,"issue":N|null,
 *		"marker":TEXT,"draft":bool,"labels":[TEXT…]?}, FD_TEXT pull.json {"title","body","comment"}
 *		-> FD_OUT forge-pull.json {"kind":"forge-pull","version":1,"number","url","created",
 *		"commented":bool,"comment_error"?,"label_error"?}
 *		or FD_JOB {"paths","forge","look":N} -> FD_OUT {"kind":"forge-look","version":1,
 *		"state":"open"|"merged"|"closed","url"}
 *
 * READS
 *	FD_SECRET: the read token (issue; may be missing) or the write token (pull).
 *
 * SECURITY
 *	Hostile inputs: all that the forge answers; issue and comments are written by anybody. Reach:
 *	one host:port through agent-dial. Holds one token of the forge, never the push credential;
 *	redirects are not followed, so it goes to no other host. Runs nothing, reads no repository. A
 *	compromise of "issue" makes an issue text of the attacker's choice, which it could write there
 *	anyway, and yields a token that reads; of "pull", one that writes issues and pull requests.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/forge/forge.h"
#include "pipeline/forge/strip.h"
#include "pipeline/stage.h"

#define TEXT_MAX                                                                               \
	((size_t)900 << 10) /* of the issue and its comments together: below agent run's cap */

/* ---- issue ---- */

struct reading {
	struct client *client;
	const struct json *job;
	long long number;
	bool strangers;	      /* comments of people who may not write count too */
	struct json *writers; /* owned by run_issue: names */
	struct strbuf *text;
	struct strip_counts counts;
	size_t left_out; /* comments of strangers */
	bool cut;
};

/* Text of somebody's, without what a page does not show. */
static void put_words(struct reading *reading, const char *body)
{
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;
	size_t room = reading->text->max - reading->text->len;

	strbuf_init(&clean, STRBUF_MAX);
	strip_hidden(body, strlen(body), &clean, &reading->counts);
	if (clean.len + 512 > room) {
		reading->cut = true;
		clean.len = room > 512 ? room - 512 : 0;
		/* not within a character */
		while (clean.len && ((unsigned char)clean.data[clean.len] & 0xC0) == 0x80)
			clean.len--;
	}
	strbuf_add(reading->text, clean.data, clean.len);
	strbuf_adds(reading->text, "\n");
}

static int read_writers(struct reading *reading, struct error *err)
{
	struct client *client = reading->client;
	struct forge_request request;
	bool more = true;

	js_set_bool(reading->writers, client->forge.owner, true);
	for (int page = 1; more && page <= CLIENT_PAGES_MAX; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct error refused = {0};

		if (!forge_get_writers(&client->forge, page, &request))
			return 0;
		if (client_call(client, &request, "who may write", &answer, &more, &refused)) {
			/* without the right to see it nobody but the owner counts as one who may write */
			if (refused.kind == ERROR_NO || refused.kind == ERROR_USAGE)
				return 0;
			*err = refused;
			return err->kind;
		}
		forge_read_writers(client->forge.kind, answer, reading->writers);
		more = js_len(answer) >= FORGE_PAGE || more;
		if (!js_len(answer))
			break;
	}
	return 0;
}

static void put_comment(struct reading *reading, const struct forge_comment *comment)
{
	char author[128];

	if (comment->note || !comment->body[0])
		return;
	if (!comment->writes && !reading->strangers) {
		reading->left_out++;
		return;
	}
	text_escape(author, sizeof(author), comment->author, strlen(comment->author));
	strbuf_addf(reading->text, "\n## Comment by %s%s\n\n", author,
		    comment->writes ? "" : " (who may not write to the repository)");
	put_words(reading, comment->body);
}

static int read_comments(struct reading *reading, struct error *err)
{
	struct client *client = reading->client;
	bool more = true;

	for (int page = 1; more && page <= CLIENT_PAGES_MAX && !reading->cut; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_get_comments(&client->forge, reading->number, page, &request);
		if (client_call(client, &request, "comments", &answer, &more, err))
			return err->kind;
		for (size_t i = 0; i < js_len(answer); i++) {
			struct forge_comment comment;

			if (forge_read_comment(client->forge.kind, js_at(answer, i),
					       reading->writers, &comment))
				put_comment(reading, &comment);
		}
		if (!js_len(answer))
			break;
	}
	reading->cut = reading->cut || more;
	return 0;
}
static void put_labels(struct reading *reading, const struct forge_issue *issue)
{
	for (size_t i = 0; i < js_len(issue->labels) && i < 50; i++) {
		const struct json *label = js_at(issue->labels, i);
		const char *name = js_text(label) ? js_text(label) : js_str(label, "name", "");
		char shown[128];

		text_escape(shown, sizeof(shown), name, strlen(name));
		strbuf_addf(reading->text, "%s%s", i ? ", " : "\nLabels: ", shown);
	}
	if (js_len(issue->labels))
		strbuf_adds(reading->text, "\n");
}

static struct json *issue_result(struct reading *reading, const struct forge_issue *issue,
				 const struct json *linked)
{
	struct json *out = js_artefact_new("forge-issue", 1);
	struct forge_pull_seen seen;
	char removed[512];

	strip_describe(&reading->counts, removed, sizeof(removed));
	js_set_str(out, "title", issue->title);
	js_set_str(out, "url", issue->url);
	js_set_str(out, "state", issue->state);
	js_set_bool(out, "locked", issue->locked);
	js_set_bool(out, "pull", issue->is_pull);
	js_set_str(out, "revision", issue->revision);
	js_set_str(out, "author", issue->author);
	js_set_strn(out, "text", reading->text->data, reading->text->len);
	js_set_str(out, "removed", removed);
	js_set_int(out, "left_out", (long long)reading->left_out);
	js_set_bool(out, "cut", reading->cut);
	if (linked && forge_read_pull(reading->client->forge.kind, linked, &seen))
		js_set_str(out, "linked", seen.url);
	return out;
}

static int read_issue(struct reading *reading, struct json **answer, struct forge_issue *issue,
		      struct error *err)
{
	struct client *client = reading->client;
	struct forge_request request;
	char *what AUTO_FREE = mem_printf("issue %lld", reading->number);

	forge_get_issue(&client->forge, reading->number, &request);
	if (client_call(client, &request, what, answer, NULL, err) ||
	    forge_read_issue(client->forge.kind, *answer, issue, err) ||
	    read_writers(reading, err))
		return err->kind;
	if (!issue->author_writes)
		issue->author_writes = js_bool(reading->writers, issue->author, false);
	strbuf_addf(reading->text, "# %s\n\n", issue->title);
	if (!issue->author_writes)
		strbuf_addf(reading->text,
			    "(Written by %s, who may not write to the repository.)\n\n",
			    issue->author);
	put_words(reading, issue->body);
	put_labels(reading, issue);
	return read_comments(reading, err);
}

static int run_issue(struct stage *stage, struct error *err)
{
	struct client client AUTO_CLIENT = {.http = NULL};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *writers AUTO_JSON = js_object_new(), *answer AUTO_JSON = NULL;
	struct json *linked AUTO_JSON = NULL;
	struct reading reading = {.client = &client,
				  .job = stage->job,
				  .writers = writers,
				  .text = &text,
				  .number = js_int(stage->job, "number", 0),
				  .strangers = js_bool(stage->job, "strangers", false)};
	struct forge_issue issue;
	struct client_fork fork;

	strbuf_init(&text, TEXT_MAX);
	if (client_open(&client, stage, err) || read_issue(&reading, &answer, &issue, err))
		return err->kind;
	if (client_take_fork(&client, stage->job, &fork, err) ||
	    client_find_pull(&client, &fork, NULL, js_str(stage->job, "marker", ""), &linked,
			     err))
		return err->kind;
	return client_write(&client, issue_result(&reading, &issue, linked), err);
}
/* ---- main ---- */

static int run(struct stage *stage, struct error *err)
{
	return stage_id_of(stage->row) == STAGE_FORGE_ISSUE ? run_issue(stage, err)
							    : run_pull(stage, err);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
