/*
 * What a server's hooks ask of a push: the agent.* variables of the repository's own
 * configuration, which is the operator's word on a server. Read by our parser, so nothing that git
 * would include or expand has a say. An unknown variable is an error: a gate that is
 * misspelt must not be no gate.
 *
 * What is said without a pattern holds for the whole repository; a section [agent "PATTERN"] says
 * something else for the refs that its pattern matches, and of several the last that speaks counts.
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

/* Whose changes the path policy is held against. */
enum hook_policy { HOOK_POLICY_AGENTS, HOOK_POLICY_ALL, HOOK_POLICY_NONE };

/* What holds for one ref. */
struct hook_rule {
	bool task;	/* it must carry an issue */
	bool writable;	/* agents may write it */
	bool refuse;	/* nobody may */
	bool gate;	/* its tree must pass the tests */
	bool gate_open; /* gateFail = open: what cannot be tested is let in */
	long long gate_s;
	const char *gate_test;	/* the test command; "": as config_ref says. Borrowed */
	const char *config_ref; /* says how to test; "HEAD" is the default branch. Borrowed */
	enum hook_policy policy;
	bool on_task;	     /* result = task: results go to the task branch itself */
	const char *notify;  /* command line that is told of a job's end; "": none. Borrowed */
	bool notify_network; /* it runs beside the hooks, not in a jail */
	bool start_worker;   /* a hook that made a job starts a worker for it */
	const char *state_dir; /* where the queue is; "": as the environment says. Borrowed */
};

struct hook_rules {
	struct hook_list task;	   /* agent.task: patterns of refs that carry an issue */
	struct hook_list identity; /* agent.identity: names of users that are agents */
	struct hook_list
	    writable;		 /* agent.writable: patterns of the refs that they may write */
	struct hook_list refuse; /* agent.refuse: patterns of refs that nobody may write */
	struct hook_list gate; /* agent.gate: patterns of refs whose tree must pass the tests */
	struct hook_setting
	    *settings; /* owned array: all that is no list, in the file's order */
	size_t setting_count;
	const char *config_ref; /* agent.configRef of the whole repository. Borrowed */
	char *hooks_path;	/* owned: core.hooksPath, or NULL: for agent hook check */
	bool push_options;	/* receive.advertisePushOptions */
	bool includes;		/* there is an include, which git follows and we do not */
	bool other_ids;		/* extensions.objectFormat is not sha1 */
};

/* Parses the text of a configuration file (pure). 0, or ERROR_USAGE with file and line. */
int hook_rules_parse(const char *text, size_t len, const char *file, struct hook_rules *rules,
		     struct error *err);
/* The same from the file. */
int hook_rules_read(const char *file, struct hook_rules *rules, struct error *err);
void hook_rules_release(struct hook_rules *rules); /* also after a failure */

/* What holds for a full ref name. It borrows from the rules. */
struct hook_rule hook_rules_for(const struct hook_rules *rules, const char *ref);
/* Whether some ref may be gated; *closed: one so that what cannot be tested is refused. */
bool hook_rules_gates(const struct hook_rules *rules, bool *closed);

/* Whether one of the patterns matches: * and ? match any byte, / too. */
bool hook_list_match(const struct hook_list *list, const char *ref);
/* Whether name is an item. */
bool hook_list_has(const struct hook_list *list, const char *name);

/* The table of variables as Markdown. */
void hook_rules_print_table(struct strbuf *out);

#endif
