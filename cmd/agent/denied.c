/* What a jail's command tried to reach, for people: from the verdict, whose text is hostile in origin (law L12). */
#include "agent.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail_spec.h"

void denied_put(struct json *verdict, const struct jail_facts *facts)
{
	struct json *list = js_array_new();

	for (size_t i = 0; i < facts->egress_count; i++) {
		const struct jail_egress *egress = &facts->egress[i];
		struct json *entry = js_object_new();

		js_set_str(entry, "protocol", egress->proto);
		js_set_str(entry, "host", egress->host);
		js_set_int(entry, "port", egress->port);
		js_set_str(entry, "program", egress->program);
		js_set_int(entry, "count", (long long)egress->count);
		js_push(list, entry);
	}
	js_set_str(verdict, "observe", jail_observe_text(facts->observe));
	js_set(verdict, "egress", list);
	js_set_int(verdict, "egress_more", (long long)facts->egress_more);
	js_set_int(verdict, "listeners", (long long)facts->listeners);
}

/* "registry.example (name)", "192.0.2.1:443 (tcp)", "[2001:db8::1]:443 (tcp)" */
static char *target_of(const struct json *entry)
{
	const char *host = js_str(entry, "host", "?"), *proto = js_str(entry, "protocol", "?");
	bool is_v6 = strchr(host, ':') != NULL;
	long long port = js_int(entry, "port", 0);

	if (strcmp(proto, "dns") == 0)
		return mem_printf("%s (name)", host);
	if (!port)
		return mem_printf("%s (%s)", host, proto);
	return mem_printf("%s%s%s:%lld (%s)", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port,
			  proto);
}

size_t denied_tell(const struct json *verdict, size_t most, denied_line_fn *line, void *arg)
{
	const struct json *list = js_get(verdict, "egress");
	size_t count = js_len(list), lines = 0;
	long long more = js_int(verdict, "egress_more", 0);

	for (size_t i = 0; i < count; i++) {
		const struct json *entry = js_at(list, i);
		long long tries = js_int(entry, "count", 0);

		if (i < most) {
			char *target AUTO_FREE = target_of(entry);
			char *text AUTO_FREE =
			    mem_printf("%s, %lld time%s, by %s", target, tries,
				       tries == 1 ? "" : "s", js_str(entry, "program", "?"));

			line(arg, text);
			lines++;
		} else {
			more += tries;
		}
	}
	if (more) {
		char *text AUTO_FREE =
		    mem_printf("%lld more attempt%s", more, more == 1 ? "" : "s");

		line(arg, text);
		lines++;
	}
	if (js_int(verdict, "listeners", 0)) {
		char *text AUTO_FREE = mem_printf(
		    "%lld seccomp listener%s of its own, because of the observer: try "
		    "-c jail.observe=off",
		    js_int(verdict, "listeners", 0),
		    js_int(verdict, "listeners", 0) == 1 ? "" : "s");

		line(arg, text);
		lines++;
	}
	return lines;
}

#define NOTES 8 /* lines in between; agent show has them all */

struct note {
	struct journal *journal;
	const char *what;
};

static void note_line(void *arg, const char *text)
{
	const struct note *note = arg;

	journal_note(note->journal, "           %s: %s", note->what, text);
}

void denied_note(struct journal *journal, const struct json *verdict, const char *what)
{
	struct note note = {journal, what};

	denied_tell(verdict, NOTES, note_line, &note);
}
