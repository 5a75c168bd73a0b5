/*
 * What a stage tells the supervisor while it works: JSON lines on FD_CONTROL. The supervisor treats
 * them as hostile (pipeline/supervise.c: capped, validated, escaped before they are shown).
 *
 *	{"event":"progress","text":"reading 3 files"}
 *	{"event":"error","kind":-4,"message":"…","next":"…"}
 *	{"event":"usage","input":N,"output":N,…}       agent-model, after each call
 *	{"event":"reserve","tokens":N}                 agent-model, before each call; waits for the answer
 *	                                               {"granted":true} or {"granted":false,"why":"…"}
 *	{"event":"result", …}                          the row's own closing facts
 */
#ifndef PIPELINE_EVENTS_H
#define PIPELINE_EVENTS_H

struct error;
struct json;

/* Longest line, either way. A stage that sends a longer one is ended. */
#define EVENT_LINE_MAX 65536

/* Shown to the user as what the stage does now. printf format; foreign text is escaped by the
 * reader. */
void event_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sends an object with its "event" member set; takes it. */
void event_send(const char *event, struct json *taken);
void event_error(const struct error *err);
/* Waits for one line of answer. NULL with err when the supervisor is gone or the line is
 * malformed. */
struct json *event_answer(struct error *err);

#endif
