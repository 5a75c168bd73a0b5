/*
 * What a server's hooks ask of a push: the agent.* variables of the repository's own
 * configuration, which is the operator's word on a server. Read by our parser, so nothing that git
 * would include or expand has a say. An unknown variable is an error: a gate that is
 * misspelt must not be no gate.
 */
#ifndef PIPELINE_HOOKRULES_H
#define PIPELINE_HOOKRULES_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct strbuf;

struct hook_list {
	char **items; /* owned */
	size_t count;
	bool set; /* by the configuration: its first value replaces the built-in ones */
};

struct hook_rules {
	struct hook_list task;	   /* agent.task: patterns of refs that carry an issue */
	struct hook_list identity; /* agent.identity: names of users that are agents */
	struct hook_list
	    writable;		 /* agent.writable: patterns of the refs that they may write */
	struct hook_list refuse; /* agent.refuse: patterns of refs that nobody may write */
	struct hook_list gate; /* agent.gate: patterns of refs whose tree must pass the tests */
	bool gate_open;	       /* agent.gateFail = open: what cannot be tested is let in */
	long long gate_s;      /* agent.gateTime, seconds */
	char *
	    config_ref; /* owned: agent.configRef, which says how to test; "HEAD" is the default branch */
	char *hooks_path;  /* owned: core.hooksPath, or NULL: for agent hook check */
	bool push_options; /* receive.advertisePushOptions */
	bool includes;	   /* there is an include, which git follows and we do not */
};

/* Parses the text of a configuration file (pure). 0, or ERROR_USAGE with file and line. */
int hook_rules_parse(const char *text, size_t len, const char *file, struct hook_rules *rules,
		     struct error *err);
/* The same from the file. */
int hook_rules_read(const char *file, struct hook_rules *rules, struct error *err);
void hook_rules_release(struct hook_rules *rules); /* also after a failure */

/* Whether one of the patterns matches: * and ? match any byte, / too. */
bool hook_list_match(const struct hook_list *list, const char *ref);
/* Whether name is an item. */
bool hook_list_has(const struct hook_list *list, const char *name);

/* The table of variables as Markdown. */
void hook_rules_print_table(struct strbuf *out);

#endif
