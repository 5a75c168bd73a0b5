/*
 * agent hook: what its files share. hook.c is what git asks on a push (pre-receive), hook_post.c
 * what it tells of one that is done (post-receive), hook_gate.c tests a pushed tree, hook_install.c puts the hooks into a repository.
 */
#ifndef CMD_AGENT_HOOK_H
#define CMD_AGENT_HOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/discover.h"
#include "pipeline/hookrules.h"

struct config;
struct error;
struct json;
struct options;
struct supervisor;

/* One line for the pusher ("remote: agent: …"); foreign text is escaped. */
void hook_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- a push, as git tells of it on standard input and in the environment ---- */

struct update {
	char *ref, *old, *new; /* borrowed from the push */
	bool creates, deletes, task, judged, gated;
	struct hook_rule rule;	  /* of its ref */
	const struct json *facts; /* borrowed; NULL: nothing was asked */
};

struct push {
	struct strbuf input;	/* as it came */
	char *lines;		/* owned: what updates point into */
	struct update *updates; /* owned array */
	size_t count, refused;
	struct hook_rules rules;
	struct repository repo;
	const char *agent;  /* the name by which the pusher is an agent, or NULL */
	const char *option; /* the issue that a push option carries, or NULL */
	struct json *facts; /* owned */
};

/* The updates on standard input, the repository of GIT_DIR, its rules, the push options. 0 or an error kind; push_release
 * also after a failure. */
int push_read(struct push *push, struct error *err);
void push_release(struct push *push);

/* The item of the list that names the pusher, or NULL. Borrowed. */
const char *push_agent(const struct hook_list *identity);

/* Runs hooks/HOOK.chained, which was there before ours, with git's input and environment. 0, also when there is
 * none; ERROR_NO when it refuses. */
int push_run_chained(struct push *push, struct supervisor *sup, const char *hook,
		     struct error *err);

/* ---- the other files ---- */

/* agent hook post-receive (hook_post.c). A failure is told already: err has no message. */
int hook_post_receive(struct options *options, struct error *err);
/* The last line of a worker's answer to it (reconcile.c): it has taken all. */
#define HOOK_TAKEN "taken"

/* The state directory of hooks: agent.state, or as for every command; without HOME /var/lib/agent. Sets
 * AGENT_STATE_DIR, for the processes of this one. Owned by the caller; NULL with err. */
char *hook_state_dir(const struct hook_rule *rule, struct error *err);

/* A tree that wants in. Borrowed. */
struct gate_tree {
	const char *ref, *tree;
};

/*
 * Tests trees of a push in the jail, each once, as the rule and its trusted ref say; repo has git's quarantine
 * among its alternates. 0 when all are green; ERROR_NO with the ref of a red one; another kind when
 * that cannot be known. Leaves no file behind but layers of the trusted ref.
 */
int hook_gate(struct options *options, const struct hook_rule *rule,
	      const struct repository *repo, const struct gate_tree *trees, size_t count,
	      struct error *err);

/* agent hook install, uninstall, check. 0 or an error kind. */
int hook_install(const char *path, struct error *err);
int hook_uninstall(const char *path, struct error *err);
int hook_check(const char *path, const struct config *config, struct error *err);

#endif
