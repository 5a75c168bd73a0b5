/*
 * Why a warm failed, in words that help (fetch_explain of plan.h). Package managers hide a
 * refused host behind words of their own ("forbidden", "no matching distribution"); the proxy
 * knows better.
 */
#include "plan.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/resolve.h"

#define HOSTS_TOLD 8
#define LINES_TOLD 6

struct told {
	struct strbuf hosts;  /* "HOST:PORT (why)", comma-separated */
	struct strbuf remedy; /* configuration lines */
	size_t count;
	char seen[HOSTS_TOLD][280];
};

static bool is_new(struct told *told, const char *text)
{
	for (size_t i = 0; i < told->count; i++)
		if (strcmp(told->seen[i], text) == 0)
			return false;
	snprintf(told->seen[told->count++], sizeof(told->seen[0]), "%s", text);
	return true;
}

/* The event is agent-egress's and thus hostile: the host must parse before it is quoted in a
 * line that the operator may copy into a configuration. */
static bool event_place(const struct json *event, char *text, size_t size)
{
	const char *host = js_str(event, "host", ""), *why;
	AUTO_FREE char *whole = mem_printf(strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host,
					   js_int(event, "port", 0));
	struct authority at;

	if (authority_parse(whole, strlen(whole), &at, &why) < 0)
		return false;
	authority_format(&at, text, size);
	return true;
}

static void tell_event(struct told *told, const struct json *event)
{
	const char *why = js_str(event, "why", "");
	char place[280];

	if (!*why || told->count == HOSTS_TOLD || !event_place(event, place, sizeof(place)) ||
	    !is_new(told, place))
		return;
	strbuf_addf(&told->hosts, "%s%s (%s)", told->hosts.len ? ", " : "", place, why);
	if (strncmp(why, RESOLVE_LEADS, strlen(RESOLVE_LEADS)) == 0)
		strbuf_addf(&told->remedy, "%s`[fetch] private = %s`",
			    told->remedy.len ? ", " : "", place);
	else if (!js_bool(event, "allowed", false) && strstr(why, "the list"))
		strbuf_addf(&told->remedy, "%s`[fetch] host = %s`",
			    told->remedy.len ? ", " : "", place);
}

/* The last lines of the log in one: each escaped, blank ones left out. */
static void last_lines(const char *log, size_t len, struct strbuf *out)
{
	size_t lines = 0, at = len;

	while (at > 0 && lines < LINES_TOLD) {
		at--;
		if (log[at] == '\n' && at + 1 < len)
			lines++;
	}
	while (at < len) {
		const char *end = memchr(log + at, '\n', len - at);
		size_t size = end ? (size_t)(end - log) - at : len - at;
		char line[220];

		text_escape(line, sizeof(line), log + at, size);
		if (line[strspn(line, " ")] &&
		    strncmp(line, "== ", 3) != 0) /* our own headings */
			strbuf_addf(out, "%s%s", out->len ? " | " : "", line);
		at += size + 1;
	}
}

void fetch_explain(const struct fetch_plan *plan, const struct json *egress_events,
		   const char *log, size_t log_len, struct error *err)
{
	const char *tool = plan->warm.argv ? plan->warm.argv[0] : "the warm";
	struct told told = {.count = 0};
	AUTO_STRBUF struct strbuf tail = STRBUF_NONE;
	struct error said = *err;

	strbuf_init(&told.hosts, 900);
	strbuf_init(&told.remedy, 700);
	strbuf_init(&tail, 500);
	for (size_t i = 0; i < js_len(egress_events); i++)
		tell_event(&told, js_at(egress_events, i));
	last_lines(log, log_len, &tail);
	if (told.count)
		error_set(err, (enum error_kind)said.kind, "%s: %s could not reach %s%s%s",
			  said.message, tool, told.hosts.data,
			  tail.len ? "; its last words: " : "", tail.data);
	else if (tail.len)
		error_set(err, (enum error_kind)said.kind, "%s; last words: %s", said.message,
			  tail.data);
	if (told.remedy.len)
		error_next(err, "if you trust it, add %s to the operator configuration",
			   told.remedy.data);
	else if (plan->token_key)
		error_next(
		    err,
		    "your npm configuration has %s; registries that want a token are not "
		    "supported yet, and a token never enters the jail",
		    plan->token_key);
	else if (said.next[0])
		error_next(err, "%s", said.next);
	strbuf_release(&told.hosts);
	strbuf_release(&told.remedy);
}
