/*
 * One answer of a model while it streams in: blocks that grow, then one line of the
 * conversation. Hostile input: counts and sizes are capped, names cut, arguments parsed only
 * when whole.
 */
#ifndef MODEL_REPLY_H
#define MODEL_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"

struct json;

#define REPLY_BLOCKS_MAX 512
#define REPLY_BYTES_MAX (32u << 20) /* text and arguments of one answer */
#define REPLY_ID_MAX 256
#define REPLY_NAME_MAX 128

enum reply_stop {
	STOP_NONE,    /* none seen yet */
	STOP_END,     /* the model ended its turn */
	STOP_TOOLS,   /* it waits for tool results */
	STOP_LIMIT,   /* cut at the output limit */
	STOP_REFUSED, /* it declines */
	STOP_PAUSED,  /* to be sent again */
	STOP_CONTEXT, /* the context window is full */
};

enum reply_kind { REPLY_TEXT, REPLY_CALL, REPLY_OPAQUE };

struct reply_block {
	enum reply_kind kind;
	long long index;    /* the provider's number for it */
	struct strbuf text; /* text, or a call's arguments as they come */
	char *id, *name;    /* owned; calls */
	struct json *data;  /* owned; opaque */
	bool closed;	    /* the provider said that it is whole */
};

struct usage {
	bool known; /* the server said it */
	long long input, output, cache_read,
	    cache_write;  /* tokens; disjoint, the total is the sum */
	struct json *raw; /* owned: what the server said, or NULL */
};

struct reply {
	struct reply_block *blocks; /* owned */
	size_t len;
	size_t bytes;  /* of all texts together */
	bool overfull; /* a cap was met: the answer is not to be used */
	enum reply_stop stop;
	bool done; /* the stream's own end was seen */
	struct usage usage;
	/* an error that came within the stream, as the server named it; "" when none */
	char fault_type[64];
	char fault_message[1024];
};

void reply_init(struct reply *reply);
void reply_release(struct reply *reply);
#define AUTO_REPLY __attribute__((cleanup(reply_release)))

/* A new block; NULL (and overfull) at the cap. Borrowed until the next one is added. */
struct reply_block *reply_add(struct reply *reply, enum reply_kind kind, long long index);
/* The newest block with that provider number, or NULL. */
struct reply_block *reply_find(struct reply *reply, long long index);
void reply_grow(struct reply *reply, struct reply_block *block, const char *text, size_t len);
void reply_name(struct reply_block *block, const char *id, const char *name);
void reply_fault(struct reply *reply, const char *type, const char *message);

/* A token count as a server states it: 0 when it is absent or absurd. */
long long usage_count(const struct json *object, const char *key);
void usage_set_raw(struct usage *usage, const struct json *raw);
/* {"input","output","cache_read","cache_write"} and "raw" or "estimated" set in object. */
void usage_to_json(const struct usage *usage, struct json *object);

const char *reply_stop_text(enum reply_stop stop); /* "end", "tools", … as in conversation.h */
enum reply_stop reply_stop_of(const char *text); /* STOP_END for NULL and for what is unknown */

/*
 * The finished answer as an assistant line. provider names the opaque blocks' owner; ids of
 * calls that came without one are made up from turn. An empty text block is left out. New; the
 * caller frees.
 */
struct json *reply_to_line(const struct reply *reply, const char *provider, long long round,
			   size_t turn);

#endif
