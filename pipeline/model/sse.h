/*
 * Server-sent events, the receiving half: bytes in any pieces in, whole events out. Pure.
 *
 * Source: WHATWG HTML, "Server-sent events", section 9.2.6 (interpreting an event stream). "id"
 * and "retry" are parsed and ignored: we never reconnect to a stream.
 */
#ifndef MODEL_SSE_H
#define MODEL_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"

#define SSE_EVENT_MAX (8u << 20) /* bytes of one line, and of one event's data */

/* name is "message" unless the stream named the event. data is NUL-terminated behind len. A
 * non-zero result stops the parser and is returned by sse_feed. */
typedef int sse_event_fn(void *arg, const char *name, const char *data, size_t len);

struct sse {
	struct strbuf line; /* the line under way */
	struct strbuf data; /* the event's data lines so far, each with a newline behind it */
	char name[64];	    /* the event's name; longer ones are cut */
	bool has_data;
	bool after_cr; /* the last byte was CR: a LF that follows belongs to it */
	bool begun;    /* something came: a byte-order mark is no longer looked for */
	sse_event_fn *seen;
	void *arg;
};

void sse_init(struct sse *sse, sse_event_fn *seen, void *arg);
void sse_release(struct sse *sse);

/* 0; -1 when a line or an event is larger than SSE_EVENT_MAX; else what seen returned. */
int sse_feed(struct sse *sse, const char *bytes, size_t len);

#endif
