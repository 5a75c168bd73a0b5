/*
 * The conversation of a run, in a form that belongs to no provider: a file of JSON lines that grows by
 * one whole line at a time, so that a killed process loses at most the call under way, and a new one
 * goes on from what is there. It is also the recording that the replay provider plays: any run's
 * conversation.jsonl can be replayed.
 *
 * One object a line:
 *
 *	{"role":"system","round":1,"content":[{"type":"text","text":"You are …"}]}
 *	{"role":"user","round":1,"content":[{"type":"text","text":"the issue"}]}
 *	{"role":"assistant","round":1,"stop":"tools","model":"anthropic:NAME",
 *	 "content":[{"type":"text","text":"I look at the sum first."},
 *	            {"type":"tool_call","id":"c1","name":"read_file","input":{"path":"src/sum.c"}}],
 *	 "usage":{"input":900,"output":60,"cache_read":0,"cache_write":0,"request_bytes":5200,"raw":{…}}}
 *	{"role":"tool","round":1,"content":[{"type":"tool_result","id":"c1","text":"…","error":false}]}
 *	…
 *	{"role":"assistant","round":1,"stop":"tools","content":[{"type":"tool_call","id":"c3",
 *	 "name":"submit","input":{"title":"Fix the sum","body":"It left out the last item."}}]}
 *	{"role":"tool","round":1,"content":[{"type":"tool_result","id":"c3","text":"submitted","error":false}]}
 *	{"role":"user","round":2,"content":[{"type":"text","text":"the tests failed: …"}]}
 *
 * role     system (once, first), user (issue, feedback, notices of ours), assistant (one model turn),
 *          tool (all results of the turn before it, in the order of its calls).
 * round    from 1; never falls.
 * stop     assistant only; why the turn ended: "end" (the default), "tools", "limit" (cut at the output
 *          limit), "refused", "paused" (send it again to go on), "context" (the window is full).
 * content  a list of blocks:
 *          text         {"text"}
 *          tool_call    {"id","name","input":{…}}; "malformed":TEXT instead of a usable input when
 *                       the model's arguments were no JSON object (input is {} then)
 *          tool_result  {"id","text","error":bool}
 *          opaque       {"provider","data":{…}}: a block that only that provider understands and wants
 *                       back unchanged (signed thinking)
 * usage    tokens of the call ("input" without what the cache gave or took; the total is the sum of the
 *          four), request_bytes the size of its request, raw what the server said; "estimated":true when
 *          the server said nothing.
 *
 * A hand-written recording needs only the assistant lines, with role, round, content. The replay
 * provider takes them in order, whatever their round, and runs their tool calls against the real
 * repository; tool, user and system lines of a recording are not looked at. So the shortest recording
 * of one round is: one line with an edit_file call and a submit call. Tools and their input: tools.h.
 */
#ifndef MODEL_CONVERSATION_H
#define MODEL_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;
struct scrub;
struct strbuf;

#define TALK_LINE_MAX (48u << 20)   /* bytes */
#define TALK_BYTES_MAX (240u << 20) /* of the whole file: below the row's file size limit */
#define TALK_LINES_MAX 20000

struct talk;

/*
 * Reads a conversation from a descriptor (pread, from 0), which is borrowed. The bytes behind
 * the last newline are what a killed process left of a line: with writable they are cut off,
 * else left alone; they are never part of the conversation. name stands for the file in
 * messages. scrub is borrowed. NULL with err: ERROR_USAGE names the line that is malformed.
 */
struct talk *talk_open(int fd, bool writable, const char *name, const struct scrub *scrub,
		       struct error *err);
/* One that is in memory only, for tests. */
struct talk *talk_new(void);
void talk_free(struct talk *talk);
void talk_free_ptr(struct talk **talk);
#define AUTO_TALK __attribute__((cleanup(talk_free_ptr)))

size_t talk_len(const struct talk *talk);
struct json *talk_at(const struct talk *talk, size_t index); /* borrowed; NULL past the end */
struct json *talk_last(const struct talk *talk);	     /* borrowed; NULL when empty */
size_t talk_count(const struct talk *talk, const char *role);

/*
 * Adds a line: the key is scrubbed out of it, the whole line is written, then it counts. Takes
 * line, also on failure. 0 or ERROR_FAILED (disk full, too long).
 */
int talk_append(struct talk *talk, struct json *taken, struct error *err);

/* ---- lines and blocks; each new value belongs to the caller ---- */

struct json *line_new(const char *role, long long round);
void line_add_text(struct json *line, const char *text, size_t len);
/* input is taken; NULL with malformed (the bytes as they came). */
void line_add_call(struct json *line, const char *id, const char *name, struct json *input,
		   const char *malformed, size_t malformed_len);
void line_add_result(struct json *line, const char *id, const char *text, size_t len,
		     bool failed);
void line_add_opaque(struct json *line, const char *provider, struct json *data);

const char *line_role(const struct json *line);
long long line_round(const struct json *line);
const struct json *line_content(const struct json *line);
/* All text blocks joined by blank lines. */
void line_text(const struct json *line, struct strbuf *out);
size_t line_calls(const struct json *line);

/* 0, or ERROR_USAGE saying what is wrong with a line. */
int line_check(const struct json *line, struct error *err);

#endif
