/*
 * agent hook: what its files share. hook.c is what git asks on a push (pre-receive), hook_gate.c
 * tests a pushed tree, hook_install.c puts the hooks into a repository.
 */
#ifndef CMD_AGENT_HOOK_H
#define CMD_AGENT_HOOK_H

#include <stddef.h>

#include "pipeline/hookrules.h"

struct error;
struct json;
struct options;
struct repository;

/* One line for the pusher ("remote: agent: …"); foreign text is escaped. */
void hook_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

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
int hook_check(const char *path, struct error *err);

#endif
