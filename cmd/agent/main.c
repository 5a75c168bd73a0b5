/*
 * NAME
 *	agent - git-integrated agent pipeline: command line and supervisor
 *
 * SYNOPSIS
 *	agent run|resume|publish|show|jail|audit|doctor|verify|replay|edit|hook|queue|work|maintain|mirror|gc|completion|help [options] …
 *
 * READS the operator's configuration, .agent/config of the base commit (as bytes that agent-apply
 * found), the issue, the run directory. WRITES the run directory, the ledger, the terminal.
 *
 * SECURITY. Hostile input: issue text (only carried), the repository's configuration (parsed,
 * bounded), events of the stages (parsed, bounded), exit facts of a jail. Holds no secret's bytes: they
 * are moved to sealed memory files before anything is parsed, and passed on as descriptors. Links neither
 * libgit2 nor libcurl, opens no socket to a network. A compromise has the user's own rights: so it
 * interprets as little as it can.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/scope.h"
#include "pipeline/secret.h"

static const struct option_spec no_options[] = {{NULL}};

/* What a run is asked, now or by a queued job. */
#define RUN_ASKED                                                                              \
	{"-m", "TEXT", NULL, "the issue itself, instead of a file"},                           \
	    {"--model", "PROVIDER:NAME", "model.name",                                         \
	     "anthropic:NAME, openai:NAME or replay:FILE"},                                    \
	    {"--base-url", "URL", "model.baseUrl", "where the provider's API is"},             \
	    {"--key", "SOURCE", "model.key",                                                   \
	     "API key: env:NAME, file:PATH, credential:NAME, command:ARGV"},                   \
	    {"--test", "COMMAND", "test.command", "build and test command"},                   \
	    {"--command", "COMMAND", NULL,                                                     \
	     "make the change by this command, in the jail, instead of a model"},              \
	    {"--command-network", "NET", NULL,                                                 \
	     "none, or registries: what it may reach (command.network permits it)"},           \
	    {"--rounds", "N", "run.rounds", "most rounds of model and test"},                  \
	    {"--base", "REV", NULL,                                                            \
	     "base commit: a branch, a tag or an object id (default: HEAD)"},                  \
	    {"--branch", "NAME", NULL,                                                         \
	     "branch to push (default: agent/ and a name made of the issue)"},                 \
	    {"--remote", "NAME|URL", "publish.remote", "where to push (default: origin)"},     \
	    {"--dry-run", NULL, NULL, "stop before publishing and print the diff"},            \
	    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},   \
	    {"--limits", "MODE", "jail.limits",                                                \
	     "degraded-ok: go on where no memory and process caps can be had"},                \
	    {"--again", NULL, NULL,                                                            \
	     "do an issue that is closed, locked or has a pull request"},                      \
	    {"--no-status", NULL, NULL, "do not look for uncommitted changes"},                \
	    {"-c", "KEY=VALUE", NULL,                                                          \
	     "operator configuration for this run (agent help config)"},                       \
	{                                                                                      \
		"-C", "DIR", NULL, "work in DIR"                                               \
	}

static const struct option_spec run_options[] = {
    RUN_ASKED, {"--json", NULL, NULL, "print events as JSON Lines on standard output"}, {NULL}};

static const struct option_spec queue_options[] = {
    RUN_ASKED,
    {"--priority", "N", NULL, "-9 to 9, higher is earlier (default: 0)"},
    {"--origin", "WHO", NULL, "who adds it: person (default), hook or cron"},
    {"--repo", "DIR", NULL, "reconcile only this repository"},
    {"--all", NULL, NULL, "list those that have ended, too"},
    {"--json", NULL, NULL, "print the jobs as JSON"},
    {NULL}};

static const struct option_spec work_options[] = {
    {"--once", NULL, NULL, "end when no job is left that may run"},
    {"--jobs", "N", "queue.jobs", "most jobs at once"},
    {"-c", "KEY=VALUE", NULL, "operator configuration of the queue"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec maintain_options[] = {
    {"--due", NULL, NULL, "only tasks whose time has come: for cron and timers"},
    {"--repo", "DIR", "maintain.repo",
     "a repository to look after; may be given several times"},
    {"--list", NULL, NULL, "list the tasks: when they are due, what became of them, and why"},
    {"--dry-run", NULL, NULL, "only say what would be run"},
    {"--again", NULL, NULL, "run what was closed, or came to nothing, too"},
    {"--model", "PROVIDER:NAME", "model.name", "anthropic:NAME, openai:NAME or replay:FILE"},
    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"--json", NULL, NULL, "print the tasks as JSON"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec publish_options[] = {
    {"--branch", "NAME", NULL, "push to this branch, instead of the one the run was made for"},
    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"--json", NULL, NULL, "print events as JSON Lines on standard output"},
    {"-c", "KEY=VALUE", NULL, "operator configuration for this run"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec resume_options[] = {
    {"--key", "SOURCE", "model.key", "API key, where the run's own source is gone"},
    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"-C", "DIR", NULL, "work in DIR"},
    {"--json", NULL, NULL, "print events as JSON Lines on standard output"},
    {"-c", "KEY=VALUE", NULL, "operator configuration for this run"},
    {NULL}};

static const struct option_spec show_options[] = {
    {"--json", NULL, NULL, "print the run's events as JSON Lines"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec jail_options[] = {
    {"--run", "RUN", NULL, "open the jail of this run"},
    {"--round", "N", NULL, "of this round (default: the last)"},
    {"--tree", "REV", NULL, "of this commit: a branch, a tag or an object id (default: HEAD)"},
    {"--dirty", NULL, NULL, "of the working directory as it is (but .git), copy-on-write"},
    {"--input", NULL, NULL,
     "connect standard input (default: /dev/null unless it is a terminal)"},
    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"--json", NULL, NULL,
     "print the verdict as JSON on standard output; the command's own goes to standard error"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec audit_options[] = {
    {"--config", NULL, NULL, "of a jail as it would be now, by starting one"},
    {"--round", "N", NULL, "of this round (default: the last that was tested)"},
    {"--backend", "NAME", "jail.backend", "native, or gvisor: a kernel of its own"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"--json", NULL, NULL, "print it as JSON"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec doctor_options[] = {
    {"--attack", NULL, NULL, "run the bundled attacks in a jail of each backend"},
    {"--backend", "NAME", NULL, "only this backend: native or gvisor"},
    {"--limits", "MODE", "jail.limits",
     "degraded-ok: go on where no memory and process caps can be had"},
    {"--json", NULL, NULL, "print it as JSON"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec verify_options[] = {
    {"--allowed-signers", "FILE", NULL,
     "who may sign (ssh-keygen(1), ALLOWED SIGNERS; default: verify.allowedSigners)"},
    {"--json", NULL, NULL, "print the checks and the statement as JSON"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec edit_options[] = {
    {"--tree", "REV", NULL, "apply to this commit's files (--write: into the index)"},
    {"--dir", "DIR", NULL, "apply to the files of DIR (default: the working directory)"},
    {"--format", "NAME", NULL,
     "auto, udiff, search-replace, apply-patch, whole or tool (default: auto)"},
    {"--write", NULL, NULL, "write the result when every edit applies"},
    {"--json", NULL, NULL, "print outcomes with their codes, and the diff, as one JSON object"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec replay_options[] = {
    {"--json", NULL, NULL, "print events as JSON Lines on standard output too"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec hook_options[] = {
    {"-c", "KEY=VALUE", NULL, "operator configuration, for tests of the gate"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec mirror_options[] = {
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec gc_options[] = {
    {"--days", "N", NULL, "remove runs and layers not used for N days (default: 30)"},
    {"--verify", NULL, NULL, "read the base layers, remove those that are damaged"},
    {"--dry-run", NULL, NULL, "only say what would be removed"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct option_spec completion_options[] = {
    {"--repo", "DIR", "maintain.repo", "tasks of this repository"},
    {"-c", "KEY=VALUE", NULL, "operator configuration"},
    {"-C", "DIR", NULL, "work in DIR"},
    {NULL}};

static const struct command commands[] = {
    {"run", "[options] FILE|ISSUE|- | -m TEXT", "let a model solve an issue, test it, push it",
     run_options, cmd_run, false, true},
    {"resume", "[options] [RUN]", "go on with a run from its last finished step",
     resume_options, cmd_resume, false, true},
    {"publish", "[options] [RUN]", "publish a run that stopped before it (--dry-run)",
     publish_options, cmd_publish, false, false},
    {"show", "[options] [RUN]", "tell the story of a run; without RUN list all", show_options,
     cmd_show, false, false},
    {"jail", "[options] -- COMMAND…", "run any command in the jail of the tests", jail_options,
     cmd_jail, true, true},
    {"audit", "[options] [RUN]", "list all that crossed the boundaries of a run", audit_options,
     cmd_audit, false},
    {"doctor", "[options]", "try what this machine offers, and say how to mend what is missing",
     doctor_options, cmd_doctor, false, false, true},
    {"verify", "[options] [COMMIT]", "check a commit's signature and attestation",
     verify_options, cmd_verify, false},
    {"replay", "[options] [RUN]", "play a run's conversation again and compare the trees",
     replay_options, cmd_replay, false},
    {"edit", "[options] FILE|-", "apply the edits in a model's answer, as a run would",
     edit_options, cmd_edit, false},
    {"hook", "install|uninstall|check [REPOSITORY]", "let a git server ask agent about pushes",
     hook_options, cmd_hook, false},
    {"queue", "add ISSUE|- | list|show|cancel|retry [JOB] | reconcile",
     "jobs for agent work: add, look, cancel, try again, find lost pushes", queue_options,
     cmd_queue, false},
    {"work", "[options]", "run queued jobs", work_options, cmd_work, false, true},
    {"maintain", "[options] [TASK…]", "run a repository's maintenance tasks", maintain_options,
     cmd_maintain, false, true},
    {"mirror", "[options] [NAME…]", "fetch the mirrors of remote repositories", mirror_options,
     cmd_mirror, false},
    {"gc", "[options]", "sweep leftovers, old runs and layers", gc_options, cmd_gc, false},
    {"completion", "bash | names KIND [BEGINNING]",
     "print the completion of a shell, to be sourced by it", completion_options, cmd_completion,
     false},
    {"help", "[TOPIC [table]]",
     "topics: config, stages, hooks, protect, exit, and each command", no_options, cmd_help,
     false},
};

const struct command *command_at(size_t index)
{
	return index < ARRAY_LEN(commands) ? &commands[index] : NULL;
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

void print_error(const struct error *err)
{
	fprintf(stderr, "agent: %s\n", err->message);
	if (err->next[0])
		fprintf(stderr, "agent: next: %s\n", err->next);
}

static int dispatch(int argc, char **argv, struct error *err)
{
	struct options options = {0};
	struct error no_place = {0};
	const struct command *command;
	int result;

	if (argc < 2) {
		help_print_overview(stderr);
		return ERROR_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_help(&options, err);
	if (strcmp(argv[1], "--version") == 0) {
		printf("agent %s\n", AGENT_VERSION);
		return 0;
	}
	command = command_find(argv[1]);
	if (!command) {
		error_set(err, ERROR_USAGE, "unknown command %s", argv[1]);
		for (size_t i = 0; command_at(i); i++)
			if (text_is_slip(argv[1], command_at(i)->name))
				return error_next(
				    err, "did you mean agent %s? agent help lists the commands",
				    command_at(i)->name);
		return error_next(err, "agent help lists the commands");
	}
	result = options_parse(command, argc - 2, argv + 2, &options, err);
	if (result == 0 && options.help) {
		options_print_help(command);
	} else if (result == 0) {
		if (command->jails)
			scope_enter(&no_place);
		result = command->main(&options, err);
	}
	/* There was no place for a jail's control group: why we had none to give. */
	if (result == ERROR_ISOLATION && no_place.message[0] &&
	    strstr(err->message, "control group"))
		fprintf(stderr, "agent: %s\n", no_place.message);
	options_release(&options);
	return result;
}

/* A closed 0, 1 or 2 would be taken by what is opened next: a secret, a lock. */
static bool hold_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	return fd > STDERR_FILENO;
}

/* What runs a command ends as env(1) does: another status would be taken for the command's own. */
static int exit_status(int argc, char **argv, int result)
{
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;

	if (command && command->takes_command && result != ERROR_INTERRUPTED)
		return EXIT_ISOLATION;
	return error_exit_status(result);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	int result;

	if (!hold_standard())
		return EXIT_FAILED;
	/* Before anything is parsed or started: secrets leave the environment (law L2). */
	secret_adopt_env(environ, NULL);
	result = dispatch(argc, argv, &err);
	if ((fflush(stdout) != 0 || ferror(stdout)) && result == 0)
		result = error_errno(&err, ERROR_FAILED, errno, "standard output");
	/* `agent jail` gives the command's own status as a positive result. */
	if (result >= 0)
		return result;
	if (err.message[0])
		print_error(&err);
	return exit_status(argc, argv, result);
}
