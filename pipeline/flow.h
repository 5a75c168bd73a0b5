/*
 * Bytes on their way from one stream socket to another, in one direction, with half-close. A broken source is
 * an early end of file; a broken sink ends the flow with what is in it. Nothing here waits.
 */
#ifndef PIPELINE_FLOW_H
#define PIPELINE_FLOW_H

#include <stdbool.h>
#include <stddef.h>

#define FLOW_BYTES 65536

struct flow {
	char *data;	   /* owned, FLOW_BYTES */
	size_t start, len; /* what is in it */
	bool ended;	   /* the source has sent its end of file */
	bool shut;	   /* and the sink has been told */
};

void flow_fill(struct flow *flow, int fd);
void flow_drop(struct flow *flow); /* what is in it, and what would come */
/* *total grows by what was sent. */
void flow_drain(struct flow *flow, int fd, long long *total);

#endif
