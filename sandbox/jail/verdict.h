/* From what outer saw to the exit facts. */
#ifndef JAIL_VERDICT_H
#define JAIL_VERDICT_H

struct jail_facts;
struct outer;

/* Before the control group is taken down. facts: all zero. */
void verdict_fill(const struct outer *outer, struct jail_facts *facts);

#endif
