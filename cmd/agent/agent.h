/*
 * agent: command line and supervisor. What its files share. Reading order: main.c (who is
 * called), run.c (a run from its request to its end), steps.c (one function a stage: job in,
 * artefact out).
 */
#ifndef CMD_AGENT_AGENT_H
#define CMD_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "pipeline/base/error.h"
#include "pipeline/config.h"
#include "pipeline/discover.h"
#include "pipeline/fetch/plan.h"
#include "pipeline/journal.h"
#include "pipeline/layerstore.h"
#include "pipeline/ledger.h"
#include "pipeline/rundir.h"
#include "pipeline/supervise.h"

struct json;
struct strbuf;
struct jail_facts;
struct jail_spec;
struct options;

/* ---- command line (options.c) ---- */

struct option_spec {
	const char *name;  /* "--model", or "-m" */
	const char *value; /* what follows it, for --help; NULL: nothing follows */
	const char
	    *config; /* the configuration key that it stands for; NULL: its own field below */
	const char *help;
};

struct command {
	const char *name;
	const char *usage;		   /* behind "agent NAME" */
	const char *help;		   /* one line */
	const struct option_spec *options; /* ends with NULL name */
	int (*main)(struct options *options, struct error *err);
	bool takes_command; /* words behind "--" are a command */
	bool jails;	    /* starts jails, whose limits need a place (pipeline/scope.h) */
	bool judges_config; /* errors in the operator's files come as options.config_error */
};

struct options {
	const struct command *command;
	struct config *config; /* owned: operator files and -c pairs */
	struct json
	    *pairs;   /* owned: array of "key=value" given on the command line, for resume */
	char **words; /* owned array of borrowed words that are no options */
	size_t word_count;
	char **argv;	       /* behind "--"; borrowed; NULL when none */
	const char *directory; /* -C */
	const char *message;   /* -m */
	const char *branch, *base, *tree, *run, *round, *days, *allowed_signers, *dir, *format,
	    *backend, *priority, *origin, *repo, *change_command, *change_network;
	bool all, once; /* agent queue, agent work */
	bool due, list; /* agent maintain */
	bool again, json, dry_run, verify, no_status, dirty, input, help, for_config, write,
	    attack;
	struct error config_error; /* of the operator's files, for a command that judges them */
};

/* Options are everywhere before "--". 0 or ERROR_USAGE. */
int options_parse(const struct command *command, int argc, char **argv, struct options *options,
		  struct error *err);
void options_release(struct options *options);
void options_print_help(const struct command *command);

/* ---- subcommands ---- */

int cmd_run(struct options *options, struct error *err);
int cmd_resume(struct options *options, struct error *err);
int cmd_publish(struct options *options, struct error *err);
int cmd_show(struct options *options, struct error *err);
int cmd_jail(struct options *options, struct error *err);
int cmd_audit(struct options *options, struct error *err);
int cmd_doctor(struct options *options, struct error *err);
int cmd_verify(struct options *options, struct error *err);
int cmd_replay(struct options *options, struct error *err);
int cmd_edit(struct options *options, struct error *err);
int cmd_hook(struct options *options, struct error *err);
int cmd_queue(struct options *options, struct error *err);
int cmd_work(struct options *options, struct error *err);
int cmd_maintain(struct options *options, struct error *err);
/* Of what the repository is a mirror, by the operator's configuration: NULL when it is none. Borrowed. */
const char *mirror_url(const struct config *config, const char *state, const char *git_dir);
int cmd_mirror(struct options *options, struct error *err);
/* Lets git pack each mirror that is there and where that is due, and prints what was done. One that fails does not keep the others. 0, or
 * the first failure's kind. */
int mirror_pack_all(const struct config *config, const char *state, struct supervisor *sup,
		    bool dry, struct error *err);
int cmd_gc(struct options *options, struct error *err);
int cmd_completion(struct options *options, struct error *err);
int cmd_help(struct options *options, struct error *err);

/* Prints the names of a kind that begin so, one a line: runs, branches, revisions, tasks, mirrors (names.c). 0 or an error kind. */
int complete_names(struct options *options, const char *kind, const char *beginning,
		   struct error *err);
/* Tells the names of the tasks that agent maintain would list. 0 or an error kind. */
int maintain_names(struct options *options, void (*tell)(void *arg, const char *name),
		   void *arg, struct error *err);

void help_print_overview(FILE *out); /* help.c */
struct strbuf;
void help_topics(struct strbuf *out); /* their names, each with a space behind it */
const struct command *command_find(const char *name); /* main.c */
/* A failure and what to do next, as main tells its own: for those that others follow. */
void print_error(const struct error *err);
const struct command *command_at(size_t index); /* NULL past the end */

#define RUN_ROUNDS_MAX CONFIG_ROUNDS_MAX
/* Caps of artefacts, bytes. */
#define BASE_MAX (1 << 20)
#define CHANGES_MAX (64 << 20)
#define TREE_MAX (4 << 20)
#define REQUEST_MAX (1 << 20)
#define PATCH_MAX (128 << 20)
#define VERDICT_MAX (1 << 20)

/* ---- a run (run.c) ---- */

struct run {
	struct rundir dir;
	struct journal journal;
	struct supervisor sup;
	struct supervised status; /* agent-apply status, at work beside the others */
	struct config *config;	  /* owned */
	struct repository repo;
	struct ledger *ledger;	   /* owned */
	struct json *request;	   /* owned: request.json */
	struct json *base;	   /* owned: base.json; NULL before that step */
	enum fetch_recipe recipe;  /* of the dependencies */
	char *deps_key;		   /* owned: dependency layer, or NULL */
	int deps_lock;		   /* owned: the lease on it, or -1 */
	struct layer_stack layers; /* owned: the base's, leased */
	char *remote_url;	   /* owned: where to publish, or NULL */
	int key_fd;		   /* owned: the model key's source, or -1 */
	bool model_checked;	   /* run_check_model was called */
	bool separate_uid; /* nobody watches it: its tests must not have the uid of a stage */
	long long reservation; /* of the model call under way */
	struct json
	    *remote; /* owned: the remote, taken apart, as agent-publish's job wants it */
};

/* Opens everything for a run whose directory is open. 0 or an error kind. */
int run_open(struct run *run, struct options *options, struct error *err);
void run_release(struct run *run);

/* From the first step that is not done to the end; stops before publish when dry. Writes
 * report.json. */
int run_go(struct run *run, bool dry, struct error *err);

/* What a run is asked by the command line: *request, new, its id empty, and the issue's text, which
 * request_make initialises. 0 or an error kind. */
int request_make(const struct options *options, struct strbuf *issue, struct json **request,
		 struct error *err);
/* Of all that is asked, but not when and by which version. */
void request_digest(const struct json *request, char digest[65]);
/* What the operator calls the commit that a run begins with: its branch, the task's, or as it was asked. Borrowed from
 * either, or static. */
const char *request_base_name(const struct json *request, const struct json *base);
/* The ref of a result: the name in place of the star of publish.ref, which the operator sets. Owned by the caller; NULL
 * with err. */
char *request_result_ref(const struct config *config, const char *name, struct error *err);
/* agent queue reconcile, agent queue take (reconcile.c). 0 or an error kind. */
struct queue;
int queue_reconcile(struct options *options, const char *state, struct queue *queue,
		    struct error *err);
int queue_take(struct options *options, struct queue *queue, struct error *err);
/* Writes issue.md and request.json, with the id of the directory. 0 or an error kind. */
int request_store(const struct rundir *dir, struct json *request, const char *issue, size_t len,
		  struct error *err);

/* The file of a run's directory that asks whoever works on it to stop before its next step; whoever obeys removes
 * it. */
#define RUN_STOP_FILE "stop"
/* The one that says that a worker will not try again when this fails. */
#define RUN_LAST_FILE "last-attempt"

/* The same for a maintenance task: text is what is to be done, rev what it is based on. */
int request_make_task(const struct options *options, const struct repository *repo,
		      const char *task, const char *rev, const struct strbuf *text,
		      struct json **request, struct error *err);

/* One run at a time of an issue in a repository: two would pay for the model twice. A dry run takes
 * nothing from anybody. *fd: the lock, the caller's. 0, ERROR_SKIPPED or another error kind. */
int run_lock_issue(const struct run *run, bool dry, int *fd, struct error *err);

/* A new run: its directory, issue.md and request.json. 0 or an error kind. */
int run_begin(struct run *run, struct options *options, struct error *err);

/* Where it would be pushed and with what: sets remote and remote_url. 0 or an error kind. */
int run_check_remote(struct run *run, struct error *err);
int run_check_command(const struct run *run, struct error *err);
/* ERROR_ISOLATION where nobody watches the run and its tests can have no uid of their own (DESIGN section 3). */
int run_check_uid(const struct run *run, struct error *err);
/* Whether tests that are started by this user have a uid that nothing else has. false: *why not, *next what to do, both static. */
bool tests_get_own_uid(const struct config *config, const char **why, const char **next);

/* Once: the model's name, its base URL, its key. 0 or an error kind that says what is missing.
 */
int run_check_model(struct run *run, struct error *err);

/* The command that makes the change in place of a model, NULL when there is none. Borrowed. */
const char *run_change_command(const struct run *run);
/* Whether the operator permits what it asks for. 0 or ERROR_USAGE. */
int run_check_change(const struct run *run, struct error *err);

/* Commit, tree … of base.json; never NULL after step_base. */
const char *run_base(const struct run *run, const char *key);

/* The ref that the result goes to, and its short name for people. */
const char *run_ref(const struct run *run);
const char *run_branch(const struct run *run);

/* Another branch for a run that is not pushed yet; kept in its request. 0, or ERROR_USAGE. */
int run_rename(struct run *run, const char *branch, struct error *err);

/* ---- steps (steps.c, step_*.c): each is done when its artefact is there
 * ------------------------------- */

/* A run that ended for its input before a round was begun looks at the repository again, where that may have been mended. */
void step_base_anew(struct run *run);
int step_base(struct run *run, struct error *err);
void step_status_begin(struct run *run);
void step_status_end(struct run *run);
int step_preflight(struct run *run, struct error *err);
/* agent-egress, for a jail that has a way out (egress.c). */
struct egress {
	struct run *run;
	struct supervised stage;
	struct json *decisions; /* owned by the caller: its "egress" events */
};
/* *jail_end: what the jail's starter gets, owned by the caller. 0 or an error kind; egress_end in
 * either case. */
int egress_begin(struct run *run, struct egress *egress, const struct json *egress_job,
		 unsigned wall_s, int *jail_end, struct error *err);
void egress_end(struct run *run, struct egress *egress);
/* only_warm: use a layer that is there, warm none. */
int step_fetch(struct run *run, bool only_warm, struct error *err);
/* The base's layers, made when they are not there; run->layers. Refuses a base that no checkout may follow. */
int step_layer(struct run *run, struct error *err);
int step_model(struct run *run, int round, const char *feedback, struct error *err);
/* A command in place of the model. ERROR_NO when it failed or its change cannot be taken; ERROR_SKIPPED when it
 * changed nothing. */
int step_change(struct run *run, int round, struct error *err);
/* The last lines of a log that say something, for the terminal. */
void step_show_tail(struct run *run, const char *log_name);
/* ERROR_NO when an edit or the path policy refused the change: err says why, for the next
 * round. */
int step_edit(struct run *run, int round, struct error *err);
/* Sets *green. A red test is no error. */
int step_test(struct run *run, int round, bool *green, struct error *err);
int step_publish(struct run *run, int round, struct error *err);
/* What is known of hosts into a job's remote, from the named file (NULL: ~/.ssh/known_hosts). 0 or ERROR_USAGE. */
int step_known_hosts(const char *named, struct json *remote, struct error *err);
/* The same for the run's remote, by publish.knownHosts. */
int step_add_known_hosts(const struct run *run, struct json *remote, struct error *err);
/* What the remote has at the run's ref: tip, "" when it is not there. After run_check_remote. 0 or an error kind. */
int step_tip(struct run *run, char tip[65], struct error *err);
/* What became of a task branch's run, to its pusher (step_told.c). A failure is recorded, and no more. */
void step_told(struct run *run, const struct json *report);

/* As whom programs of a local repository run: its owner, when we are root. path is a real one (realpath(3)). Strings are of
 * getpwuid(3), or NULL. 0, or ERROR_USAGE when it is not there, or root's and others may write its hooks. */
struct step_owner {
	uid_t uid; /* (uid_t)-1: as we are */
	const char *user, *home;
};
int step_owner(const char *path, struct step_owner *owner, struct error *err);

/* Protected paths and the like, as gitops/policy.h reads them. New. */
struct json *edit_policy(const struct config *config);

/* ---- what agent edit --write writes (edit_write.c) ---- */

/* files: of trial.json (gitops/trial.h). 0, or ERROR_FAILED; a file that changed meanwhile is
 * one reason, and nothing is written then. */
int edit_write_dir(const char *path, const struct json *files, struct error *err);
/* Brings the objects and the index of the row's directory into the repository. lock: the open
 * index.lock, which becomes the index. 0 or ERROR_FAILED. */
int edit_write_index(const char *git_dir, const char *common_dir, const char *objects, int lock,
		     struct error *err);

/* Starts agent-dial for one host:port, tls: through the operator's proxy where there is one. *net_fd: the stage's end of its socket, owned by the
 * caller (also on failure, -1 when there is none). */
int step_dial(struct supervisor *sup, const struct config *config, struct supervised *dial,
	      const char *host, int port, bool tls, bool private_ok, int *net_fd,
	      struct error *err);

/* The CA bundle for servers: as configured, else the system's; NULL when there is none. */
const char *step_ca(const struct config *config);

/*
 * Reads an issue of a forge: its text is appended, about gets source, identity and what else is
 * to be kept. 1; 0 when the word names none; ERROR_SKIPPED when it is closed, locked or has a pull
 * request; another error kind.
 */
struct strbuf;
int forge_issue(const struct options *options, const struct repository *repo, const char *word,
		struct strbuf *text, struct json *about, struct error *err);
/* What was taken out of it, for the user. */
void forge_tell_issue(struct run *run);
/* Whether a pull request can be made, when one is wanted. 0 or an error kind. */
int run_check_forge(const struct run *run, struct error *err);
/* What became of a pull request of ours: state, "open", "merged" or "closed"; "" where there is no token for the forge that could
 * see it. After run_check_remote. 0 or an error kind. */
int step_look(struct run *run, long long number, char state[16], struct error *err);
/* The pull request and the comment on its issue, when they are wanted. */
int step_pull(struct run *run, int round, struct error *err);

/* The job of agent-test for a tree. objects may be NULL: a tree of the repository itself. New.
 */
struct json *test_job(const struct run *run, const char *scratch, const char *objects,
		      const char *tree);

/* Verdict and log tail of a red round as text for the model. Owned by the caller. */
char *step_feedback(struct run *run, int round);

/* The digest that names the run's issue in its commits, whichever machine they are made on. Owned by the caller. */
char *issue_digest(const struct run *run);

/* name of a file of a round, "round-N/NAME". Owned by the caller. */
char *round_file(int round, const char *name);

/* The push credential for a kind of remote ("https", "ssh"). *fd is owned by the caller. 0 or an error kind. */
int step_open_credential(const struct run *run, const char *kind, int *fd, struct error *err);

/* The signing key, when one is configured; else *fd is -1. */
int step_open_signing_key(const struct run *run, int *fd, struct error *err);

/* Opens a regular file for reading, without ever waiting for a writer. what: what it is for. -1 with err. */
int open_plain(const char *path, const char *what, struct error *err);

/* Starts a jail as the tests of the base commit would get it, for what it is given (jail.c).
 * *audit: new, NULL when the backend tells nothing. 0 or an error kind. */
int jail_audit(const struct options *options, struct json **audit, struct error *err);

/* ---- doctor (doctor*.c) ---- */

/* A row: group and name, what was found, what to do ("": nothing). state: "yes", "part", "no", "note",
 * "not tried". */
void doctor_row(struct json *rows, const char *group, const char *name, const char *state,
		const char *detail, const char *next);
/* Rows by trying. true: what the group must have is there. */
bool doctor_machine(struct json *rows, const char *dir);
/* Whether there are those that nothing is published without, as it is configured. */
bool doctor_tools(struct json *rows, const struct config *config);
/* The operator's configuration with one KEY=VALUE more. Owned by the caller. */
struct config *doctor_config(const struct options *options, const char *pair);
/* Whether a jail of that backend ("native", "gvisor") starts. chosen: it is the one that runs would use. */
bool doctor_jail(struct json *rows, struct supervisor *sup, const struct options *options,
		 const char *state, const char *backend, bool chosen);
/* Attacks in a backend that starts: rows with the states "blocked", "worked", "not tried". true: none
 * worked, and all that can be was tried; of a backend with a kernel of its own: no canary was reached. */
bool doctor_attack(struct json *rows, struct supervisor *sup, const struct options *options,
		   const char *state, const char *backend, struct error *err);
/* Runs a program for its output (both streams, at most a few KiB): exit status, -1 when it is not there, is
 * killed, or takes too long. */
int doctor_ask(const char *const *argv, int deadline_ms, struct strbuf *out);

/* ---- jails (jailplan.c) ---- */

/* The spec of a test jail: manifest, environment, limits, command words (NULL: command from the
 * configuration). scratch may be NULL. 0 or an error kind. */
int jailplan_test(const struct config *config, const char *state, const char *scratch,
		  enum fetch_recipe recipe, char *const *argv, struct jail_spec *spec,
		  struct error *err);
/* The same for a command that makes a change: its time limit, and what it changes can be taken. */
int jailplan_change(const struct config *config, const char *state, const char *scratch,
		    enum fetch_recipe recipe, const char *command, struct jail_spec *spec,
		    struct error *err);
/* The configured limits of a jail. */
struct jail_limits;
void jailplan_limits(const struct config *config, struct jail_limits *limits);
/* Runs argv (NULL: true) in a jail with an empty work tree, its output dropped; fills facts.
 * audit: as above. 0 or an error kind. */
int jailplan_try(struct supervisor *sup, const struct config *config, const char *state,
		 enum fetch_recipe recipe, char *const *argv, struct jail_facts *facts,
		 struct json **audit, struct error *err);
/* The same in parts, for whoever reads the output: input_fd becomes 0 (-1: nothing to read), output_fd 1 and 2
 * (-1: dropped). */
struct jail_start {
	struct supervised jail;
	int facts_fd, go_fd; /* owned until jailplan_end */
};
int jailplan_begin(struct supervisor *sup, const struct jail_spec *spec, int input_fd,
		   int output_fd, struct jail_start *start, struct error *err);
/* Waits for the facts and releases; result: that of jailplan_begin, whose failure it keeps. */
int jailplan_end(struct supervisor *sup, struct jail_start *start, int result,
		 struct jail_facts *facts, struct json **audit, struct error *err);
/* Gives what is below path, which a killed jail left with ids of the user's range, back to the user. 0 or an error
 * kind. */
int jailplan_reclaim(struct supervisor *sup, const char *path, struct error *err);
/* As a sealed memfd for FD_SPEC. -1 with err. */
int jailplan_memfd(const struct jail_spec *spec, struct error *err);
/* A stream for the facts, [0] to read, [1] for agent-jail: a socket pair, which holds all that
 * is sent until somebody reads, even where a user's pipes are cut to a page. 0 or an error kind. */
int jailplan_stream(int fds[2], struct error *err);
/* Reads the facts from it (the write end is closed here by now). 0 or an error kind: a jail that
 * sent none is ERROR_FAILED. sup: serves the other children meanwhile; NULL: nobody else is waited
 * for. audit: what was applied, new (pipeline/audit.h; NULL when nothing was told); may be NULL. */
int jailplan_read_facts(struct supervisor *sup, int fd, struct jail_facts *facts,
			struct json **audit, struct error *err);
/* ERROR_ISOLATION for a set-up error, ERROR_FAILED for an internal one, ERROR_USAGE for a
 * command that is not there, else 0. */
int jailplan_judge(const struct jail_facts *facts, const char *command, struct error *err);
/* One line for people: "exit status 1", "timeout after 600 s", … into dst. */
void jailplan_describe(const struct jail_facts *facts, char *dst, size_t size);
struct json *jailplan_verdict(const struct jail_facts *facts, const char *tree,
			      const char *command);

/* ---- what a jail's command tried to reach (denied.c) ---- */

/* Into a verdict: "observe", "egress", "egress_more", "listeners". */
void denied_put(struct json *verdict, const struct jail_facts *facts);
/* One call of line a target, the most of them; what is beyond them in one sum. Text is not escaped again. Returns
 * the number of lines. */
typedef void denied_line_fn(void *arg, const char *text);
size_t denied_tell(const struct json *verdict, size_t most, denied_line_fn *line, void *arg);
/* As notes of the run. */
void denied_note(struct journal *journal, const struct json *verdict, const char *what);

#endif
