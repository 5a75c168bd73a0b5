/*
 * What can go wrong with a call, told apart: by status, by the words of the answer, by how the
 * transport ended. Each kind has one row in a table: how often it is tried again, which error
 * it becomes, what the user can do. Pure.
 *
 * Sources: RFC 9110 section 15 (status codes); the providers' pages on errors; the messages
 * that Ollama, vLLM, llama.cpp and OpenRouter send.
 */
#ifndef MODEL_FAULT_H
#define MODEL_FAULT_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct scrub;

enum fault_kind {
	FAULT_NONE,
	FAULT_KEY,	/* 401, 403: the key is not taken */
	FAULT_QUOTA,	/* no credit, a spending limit: waiting does not help */
	FAULT_MODEL,	/* no such model */
	FAULT_TOOLS,	/* the model takes no tools */
	FAULT_TOO_LONG, /* the conversation does not fit the model */
	FAULT_REQUEST,	/* refused for another reason */
	FAULT_ADDRESS,	/* nothing there speaks this format */
	FAULT_REDIRECT, /* it sends us elsewhere: never followed */
	FAULT_RATE,	/* 429: later */
	FAULT_BUSY,	/* 5xx, 529, overloaded: later */
	FAULT_CONNECT,	/* no connection */
	FAULT_TLS,	/* no trusted one */
	FAULT_CUT,	/* the stream broke off */
	FAULT_GARBAGE,	/* it is not what the format says */
	FAULT_SILENCE,	/* nothing came for too long */
	FAULT_SLOW,	/* the call's deadline */
	FAULT_TOO_BIG,	/* more bytes than allowed */
	FAULT_LOCAL,	/* our own: memory, libcurl */
	FAULT_COUNT,
};

struct fault {
	enum fault_kind kind;
	int status;	    /* HTTP status; 0: none */
	char detail[1024];  /* what the server or the transport said; escaped, scrubbed; may be
			       empty */
	long retry_after_s; /* what the server asks to wait; -1: nothing said */
};

/* An HTTP answer that is no 2xx, with the beginning of its body. */
void fault_of_status(struct fault *fault, int status, const char *body, size_t len,
		     long retry_after_s, const struct scrub *scrub);

/* An error that came within a stream: its type as the server names it ("overloaded_error",
 * "429"). */
void fault_of_stream(struct fault *fault, const char *type, const char *message,
		     const struct scrub *scrub);

void fault_of_kind(struct fault *fault, enum fault_kind kind, const char *detail,
		   const struct scrub *scrub);

/* How often a call is made in all when this keeps happening; 1: not again. */
unsigned fault_tries(enum fault_kind kind);

/* Whether the server may have read the request and begun to answer: its tokens count. */
bool fault_costs(enum fault_kind kind);

/* How long to wait before try number next (from 2): what the server asked for, else base_ms
 * doubled each time up to 60 s, of which random (0 to 65535) takes off up to half. */
long long fault_wait_ms(const struct fault *fault, unsigned next, long long base_ms,
			unsigned random);

struct fault_context {
	const char *provider; /* "anthropic" */
	const char *model;
	const char *host;
	bool has_key;
	unsigned tries; /* made in all */
};

/* The error that a fault ends as; returns its kind. */
int fault_error(const struct fault *fault, const struct fault_context *context,
		struct error *err);

/* A few words for a progress line: "overloaded (529)". */
void fault_brief(const struct fault *fault, char *text, size_t size);

#endif
