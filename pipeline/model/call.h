/*
 * One answer of the model, whatever it takes: reserve tokens, call, settle, and call again
 * where a fault allows it, within the call's deadline. The only place that decides about
 * retries.
 */
#ifndef MODEL_CALL_H
#define MODEL_CALL_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct http;
struct json;
struct model_job;
struct provider;
struct scrub;
struct secret;
struct talk;

struct caller {
	const struct model_job *job;
	const struct provider *provider;
	struct http *http;	   /* borrowed */
	const struct secret *key;  /* borrowed, or NULL */
	const struct scrub *scrub; /* borrowed */
	const struct json *tools;  /* borrowed: tools_schema(); NULL: none are offered */
	const char *model;	   /* "anthropic:NAME", as written into lines */
	unsigned quirks;	   /* learnt: enum provider_quirk */
	bool toolless;		   /* set: the call failed because the model takes no tools */
};

/*
 * Calls the model with the conversation as it is. turn counts the answers of the round, for ids
 * and progress. 0 and *line, a new assistant line with "usage" and "model" (the caller appends
 * it); else the error kind that the last fault stands for. Each try has sent one "reserve" and
 * one "usage" event.
 */
int call_model(struct caller *caller, const struct talk *talk, size_t turn, struct json **line,
	       struct error *err);

#endif
