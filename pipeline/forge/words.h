/*
 * The text of a pull request and of the comment on its issue, as finished bytes. What a model or
 * anybody else wrote stays text there: no link, image, mention, reference, HTML or heading comes of
 * it. Pure.
 */
#ifndef FORGE_WORDS_H
#define FORGE_WORDS_H

#include <stddef.h>

struct error;
struct json;
struct strbuf;

/* Text that Markdown renders as itself, and in which a forge finds nothing to link or to call, appended: words
 * that could mean something are code spans, other marks are character references (CommonMark 2.5, 6.1). Lines stay
 * lines. */
void words_escape(const char *text, size_t len, struct strbuf *out);

/*
 * pull.json {"kind":"pull","version":1,"title","body","comment"} from the job of agent-apply words:
 * {"message": the commit's, "marker", "issue": number|null, "run", "commit", "branch", "model",
 * "command" (that made the change in place of a model), "network", "test_command", "verdict":{...}, "policy":{...}, "tokens":{"input","output"}}. New; NULL with err.
 */
struct json *words_pull(const struct json *job, struct error *err);

#endif
