/*
 * Configuration: git-config syntax (git-config(1), "Syntax"), one table of keys that says who
 * may set what, and typed getters. Unknown keys, keys set by somebody who may not, and
 * malformed values are errors that name file, line, key and who may set it. No includes, no
 * conditionals.
 *
 * Precedence, weakest first: built-in default, repository (.agent/config at the base commit),
 * /etc/agent/config, $XDG_CONFIG_HOME/agent/config, command line. The repository comes below
 * the operator and can only narrow (law L9): for a limit the smaller of its value and the
 * operator's counts.
 */
#ifndef PIPELINE_CONFIG_H
#define PIPELINE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct strbuf;

enum config_scope {
	CONFIG_DEFAULT,	   /* the table's own default */
	CONFIG_REPOSITORY, /* .agent/config at the base commit */
	CONFIG_SYSTEM,	   /* /etc/agent/config */
	CONFIG_USER,	   /* $XDG_CONFIG_HOME/agent/config */
	CONFIG_COMMAND,	   /* -c KEY=VALUE and the options that stand for it */
};

enum config_type {
	CONFIG_STRING,
	CONFIG_WORDS, /* a command line: split by text_split_words, never given to a shell by us
		       */
	CONFIG_SIZE,  /* whole number, k m g as powers of 1024 */
	CONFIG_SECONDS, /* whole number of seconds; s, m, h suffix */
	CONFIG_LIST,	/* may be given several times: all count, in order */
	CONFIG_PAIRS,	/* a list of NAME=VALUE */
	CONFIG_PERSON,	/* a name or an address, as it may stand in a commit */
	CONFIG_SECRET,	/* a source: env:NAME, file:PATH, credential:NAME, command:ARGV */
	CONFIG_URL,    /* as CONFIG_STRING, but one with a password or token in it is refused */
	CONFIG_CHOICE, /* one of the words in choices */
	CONFIG_RULES,  /* a list of "OUTCOME PATTERN", see gitops/policy.h */
	CONFIG_GLOBS,  /* a list of path patterns, see gitops/glob.h */
};

struct config_key {
	const char *name; /* section.key, as printed */
	enum config_type type;
	bool repository;      /* the repository may set it (and, for a limit, only lower it) */
	const char *fallback; /* default; NULL: none */
	const char *choices;  /* CONFIG_CHOICE: words between blanks */
	const char *help;     /* one line */
	long long least,
	    most; /* CONFIG_SIZE, CONFIG_SECONDS: what an operator may set; 0: 1, and what can be
				  counted (for a time CONFIG_SECONDS_MAX). A repository's counts where it is lower. */
};

#define CONFIG_SECONDS_MAX 1000000
#define CONFIG_ROUNDS_MAX 50
#define CONFIG_JOBS_MAX 256

struct config;

struct config *config_new(void);
void config_free(struct config *config);
void config_free_ptr(struct config **config);
#define AUTO_CONFIG __attribute__((cleanup(config_free_ptr)))

/* Parses text and adds its entries. file names it in messages. 0 or ERROR_USAGE. */
int config_add_text(struct config *config, enum config_scope scope, const char *file,
		    const char *text, size_t len, struct error *err);

/* Adds a file; a missing one is fine. Refuses one that others than its owner (us or root) may
 * write. */
int config_add_file(struct config *config, enum config_scope scope, const char *path,
		    struct error *err);

/* Adds KEY=VALUE of the command line. */
int config_add_pair(struct config *config, const char *pair, struct error *err);

/* The same of an option that stands for a key (--rounds), which messages then name. */
int config_add_option(struct config *config, const char *option, const char *pair,
		      struct error *err);

#define CONFIG_SYSTEM_FILE "/etc/agent/config"
/* The user's own file; NULL when there is no place for one. Owned by the caller. */
char *config_user_file(void);

/* Both operator files. */
int config_add_operator(struct config *config, struct error *err);

/* The value in force; NULL when none. Borrowed. The name must be in the table (abort
 * otherwise). */
const char *config_get(const struct config *config, const char *name);
/* CONFIG_SIZE or CONFIG_SECONDS (in seconds). */
long long config_number(const struct config *config, const char *name);
/* CONFIG_LIST: item index, NULL past the end; where: "file:line" of it when not NULL. The
 * repository's items come first. */
const char *config_item(const struct config *config, const char *name, size_t index);
/* Who set item index: only for an index that there is. */
enum config_scope config_item_scope(const struct config *config, const char *name,
				    size_t index);
/* Where the value in force comes from, "file:line", "-c" or "default". Borrowed. */
const char *config_origin(const struct config *config, const char *name);

/*
 * Narrows a limit (CONFIG_SIZE, CONFIG_SECONDS) as a repository could, whether or not a repository may set that key: the smallest
 * value counts. 0 or ERROR_USAGE.
 */
int config_narrow(struct config *config, const char *name, const char *value,
		  const char *origin, struct error *err);

/* Keys of maintenance tasks, [maintain "NAME"] of the operator's: in order, NULL past the end. Borrowed. */
struct config_task {
	char *name, *key, *value, *origin;
};
const struct config_task *config_task_at(const struct config *config, size_t index);
/* mirror.NAME.KEY likewise. */
const struct config_task *config_mirror_at(const struct config *config, size_t index);

/* A value by its key's type, origin in front of what is wrong (config_check.c). Pure. 0 or ERROR_USAGE. */
int config_check_value(const struct config_key *key, const char *value, const char *origin,
		       struct error *err);
/* Whether a value that is one is within least and most; lowers: of a repository, which may say more and gets no more. 0 or
 * ERROR_USAGE. */
int config_check_range(const struct config_key *key, const char *value, bool lowers,
		       const char *origin, struct error *err);
#define CONFIG_RANGE_TEXT 32
/* Both as they would be written; most is "" where there is none. */
void config_range_text(const struct config_key *key, char least[CONFIG_RANGE_TEXT],
		       char most[CONFIG_RANGE_TEXT]);
/* The number of a value that was checked. */
long long config_parse_number(const struct config_key *key, const char *text);
/* "90", "30s", "5m", "2h" in seconds. 0 or -1. */
int config_parse_seconds(const char *text, long long *value);

/* The table of keys as Markdown, for `agent help config` and the README. */
void config_print_table(struct strbuf *out);

/*
 * The parser by itself (pure): calls seen for each entry with the section (lower case),
 * subsection (or NULL), key (lower case), value (NULL for a key without "=") and line; a
 * non-zero return stops and is returned. ERROR_USAGE with the line in err when malformed.
 */
typedef int config_seen_fn(void *arg, const char *section, const char *subsection,
			   const char *key, const char *value, int line, struct error *err);
int config_parse(const char *text, size_t len, const char *file, config_seen_fn *seen,
		 void *arg, struct error *err);

#endif
