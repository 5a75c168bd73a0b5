/*
 * The work tree of a jail as layers: what agent-test and agent-change tell agent-jail to put upon each other. A
 * changed tree's own layer and the throw-away repository are made here, in the run's directory.
 */
#ifndef PIPELINE_LAYOUT_H
#define PIPELINE_LAYOUT_H

#include <stdbool.h>

#include "sandbox/jail_spec.h"

struct error;
struct gitops_repo;
struct json;
struct stage;

struct layout {
	const char *tree, *base_tree, *store, *scratch; /* borrowed from the job */
	const char *deps;				/* NULL: none */
	struct jail_go go;				/* owned */
	bool git;
	long long time;	     /* of the base commit */
	long long log_bytes; /* most of what the payload prints that is kept */
};

struct jail_handle;

/*
 * From the job: {"paths":{"store","scratch"},"tree","base_tree","deps":key|null,"git":bool,
 * "time":seconds of the base,"log_bytes":N?}. 0 or ERROR_USAGE.
 */
int layout_read(const struct stage *stage, struct layout *layout, struct error *err);
void layout_release(struct layout *layout);

/* Fills go, the topmost layer first, from the job's "base_layers" and the above. 0 or an error
 * kind. */
int layout_make(const struct stage *stage, struct gitops_repo *repo, struct layout *layout,
		struct error *err);

/* layout_make, and the go. 0 or an error kind. */
int layout_go(const struct stage *stage, struct gitops_repo *repo, struct layout *layout,
	      struct jail_handle *jail, struct error *err);

/* Whether the dependency layer has something at a path of the work tree: 1 or 0; ERROR_FAILED. What a link in the
 * layer leads to is not the layer's. */
int layout_is_dependency(const struct layout *layout, const char *path, struct error *err);

/* {"kind":"layout","version":1,"tree","layers":[top first],"home_layers":[…],"log_bytes":N,
 * "log_truncated":bool} to FD_OUT. 0 or ERROR_FAILED. */
int layout_write(const struct layout *layout, unsigned long long total, bool truncated,
		 struct error *err);

#endif
