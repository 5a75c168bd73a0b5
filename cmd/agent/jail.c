/* agent jail: any command in the jail of the tests, by hand. The way in is the same as a
 * test's: agent-test lays the tree out and starts agent-jail; only the payload's descriptors
 * are the user's (through a pty of ours where they are a terminal). */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "pipeline/jailtested.h"
#include "sandbox/jail_find.h"
#include "sandbox/jail_spec.h"

/* ---- the payload's descriptors ---- */

/*
 * The payload never gets a descriptor of the user's own: a terminal could be written to in its name, a
 * file could be truncated or made set-user-id through it. It gets a pty or pipes of ours, and we carry.
 */
struct console {
	int in, out, err;	/* owned: what the payload gets */
	int pty;		/* owned: our side of the pty, or -1 */
	int feed;		/* owned: write end of its standard input, or -1 */
	int from_out, from_err; /* owned: read ends of its outputs, or -1 */
	int to_out;		/* where its standard output goes */
	char last[4096];	/* the end of what it printed */
	size_t last_len;
	struct termios saved;
	bool raw;
};

#define CONSOLE_NONE                                                                           \
	{                                                                                      \
		-1, -1, -1, -1, -1, -1, -1, STDOUT_FILENO, .raw = false                        \
	}

static void close_one(int *fd)
{
	fd_close_ptr(fd);
	*fd = -1;
}

/* The payload's ends: once it has them, our copies would keep us from seeing its end. */
static void console_hand_over(struct console *console)
{
	close_one(&console->in);
	close_one(&console->out);
	close_one(&console->err);
}

static void console_close(struct console *console)
{
	if (console->raw)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &console->saved);
	console->raw = false;
	console_hand_over(console);
	close_one(&console->pty);
	close_one(&console->feed);
	close_one(&console->from_out);
	close_one(&console->from_err);
}

static int console_open_pty(struct console *console, struct error *err)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	struct termios raw;
	int slave;

	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	if (tcgetattr(STDIN_FILENO, &console->saved) < 0 ||
	    openpty(&console->pty, &slave, NULL, &console->saved, &size) < 0)
		return error_errno(err, ERROR_FAILED, errno, "pty");
	fcntl(console->pty, F_SETFD, FD_CLOEXEC);
	fcntl(slave, F_SETFD, FD_CLOEXEC);
	console->in = slave;
	console->out = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	console->err = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	raw = console->saved;
	cfmakeraw(&raw);
	console->raw = tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) == 0;
	return 0;
}

static int make_pipe(int *read_end, int *write_end)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	*read_end = fds[0];
	*write_end = fds[1];
	return 0;
}

static bool wants_pty(const struct options *options)
{
	return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !options->json;
}

static int console_open(struct console *console, const struct options *options,
			struct error *err)
{
	if (wants_pty(options))
		return console_open_pty(console, err);
	console->to_out = options->json ? STDERR_FILENO : STDOUT_FILENO;
	if (options->input ? make_pipe(&console->in, &console->feed) < 0
			   : (console->in = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard input of the jail");
	if (make_pipe(&console->from_out, &console->out) < 0 ||
	    make_pipe(&console->from_err, &console->err) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output of the jail");
	return 0;
}

static void remember(struct console *console, const char *data, size_t len)
{
	size_t kept = console->last_len, size = sizeof(console->last);

	if (len > size) {
		data += len - size;
		len = size;
	}
	if (kept > size - len) {
		memmove(console->last, console->last + kept - (size - len), size - len);
		kept = size - len;
	}
	memcpy(console->last + kept, data, len);
	console->last_len = kept + len;
}

/* One read, one write; closes from at its end, and when nobody takes the bytes. */
static void carry(struct console *console, int *from, int to)
{
	char chunk[65536];
	ssize_t n = read(*from, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		remember(console, chunk, (size_t)n);
	if (n <= 0 || fd_write_all(to, chunk, (size_t)n) < 0)
		close_one(from);
}

/* At most PIPE_BUF bytes, into a pipe that poll says has room: this never waits. */
static void feed(struct console *console)
{
	char chunk[PIPE_BUF];
	ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0 || fd_write_all(console->feed, chunk, (size_t)n) < 0)
		close_one(&console->feed);
}

static void carry_pipes(struct console *console)
{
	struct pollfd room = {.fd = console->feed, .events = POLLOUT};
	bool may_feed = console->feed >= 0 && poll(&room, 1, 0) > 0;
	struct pollfd fds[] = {{.fd = may_feed ? STDIN_FILENO : -1, .events = POLLIN},
			       {.fd = console->from_out, .events = POLLIN},
			       {.fd = console->from_err, .events = POLLIN}};

	if (may_feed && (room.revents & (POLLERR | POLLHUP))) {
		close_one(&console->feed); /* it does not read any more */
		return;
	}
	if (poll(fds, ARRAY_LEN(fds), 100) <= 0)
		return;
	if (fds[1].revents)
		carry(console, &console->from_out, console->to_out);
	if (fds[2].revents)
		carry(console, &console->from_err, STDERR_FILENO);
	if (fds[0].revents)
		feed(console);
}

/* False when the payload has ended. */
static bool carry_pty(struct console *console, int facts_fd)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			       {.fd = console->pty, .events = POLLIN},
			       {.fd = facts_fd, .events = POLLIN}};
	char chunk[8192];
	ssize_t n;

	if (poll(fds, ARRAY_LEN(fds), 200) <= 0)
		return true;
	if (fds[0].revents && (n = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
		fd_write_all(console->pty, chunk, (size_t)n);
	if (fds[1].revents & POLLIN && (n = read(console->pty, chunk, sizeof(chunk))) > 0) {
		remember(console, chunk, (size_t)n);
		fd_write_all(STDOUT_FILENO, chunk, (size_t)n);
	} else if (fds[2].revents)
		return false;
	return true;
}

/* Carries bytes until the payload's outputs are at their end. */
static int console_carry(struct run *run, struct console *console, int facts_fd,
			 struct error *err)
{
	bool more = true;

	while (more) {
		int result;

		if (console->pty >= 0)
			more = carry_pty(console, facts_fd);
		else
			carry_pipes(console);
		if (console->pty < 0)
			more = console->from_out >= 0 || console->from_err >= 0;
		result = supervise_until_readable(&run->sup, -1, 0, err);
		if (result < 0)
			return result;
	}
	return 0;
}

/* ---- starting ---- */

/* A layer that hides .git: its configuration may hold credentials, and no test needs the user's
 * history. */
static int make_hide(const char *scratch, struct error *err)
{
	char *dir AUTO_FREE = mem_printf("%s/hide", scratch);
	char *dot_git AUTO_FREE = mem_printf("%s/.git", dir);

	if (fd_mkdir_all(dir) < 0 || chmod(dir, 0755) < 0 || mknod(dot_git, S_IFCHR, 0) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", dot_git);
	return 0;
}

/* The working directory as it is: nothing to lay out, so agent-jail is started without
 * agent-test. */
static int start_dirty(struct run *run, struct supervised *jail, int spec_fd, int facts_fd,
		       const struct console *console, int *go_fd, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct jail_go words;
	int go[2], result;

	strbuf_init(&text, STRBUF_MAX);
	jail_go_init(&words);
	jail_go_add(&words, "run/hide");
	jail_go_format(&words, &text);
	jail_go_release(&words);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0 ||
	    fd_write_all(go[0], text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	result = supervise_start(&run->sup, jail, STAGE_JAIL, NULL,
				 (struct spawn_fd[]){{FD_FACTS, facts_fd},
						     {FD_SPEC, spec_fd},
						     {FD_GO, go[1]},
						     {FD_STDIN, console->in},
						     {FD_STDOUT, console->out},
						     {FD_STDERR, console->err}},
				 6, 0, NULL, NULL, err);
	close(go[1]);
	*go_fd = go[0];
	return result;
}

/* tree_name: of the run's round, or NULL for the base commit's own tree. */
static int start_tree(struct run *run, struct supervised *stage, int spec_fd, int facts_fd,
		      const struct console *console, const char *scratch, const char *tree_name,
		      struct error *err)
{
	struct json *tree AUTO_JSON =
	    tree_name ? rundir_read(&run->dir, tree_name, "tree", TREE_MAX, err) : NULL;
	char *objects AUTO_FREE = mem_printf("%s/objects", run->dir.path);
	struct json *job AUTO_JSON = NULL;
	int tree_fd AUTO_FD = tree_name && tree ? rundir_file(&run->dir, tree_name, err) : -1;
	int out AUTO_FD = rundir_part(&run->dir, "jail-layout.json", err);
	struct spawn_fd fds[] = {
	    {FD_OUT, out},	     {FD_SPEC, spec_fd},	{FD_FACTS, facts_fd},
	    {FD_STDIN, console->in}, {FD_STDOUT, console->out}, {FD_STDERR, console->err},
	    {FD_TREE, tree_fd}};

	if (out < 0 || (tree_name && tree_fd < 0))
		return err->kind ? err->kind
				 : error_set(err, ERROR_USAGE,
					     "run %s has no tree for that round", run->dir.id);
	job = test_job(run, scratch, tree ? objects : NULL,
		       tree ? js_str(tree, "tree", "") : run_base(run, "tree"));
	return supervise_start(&run->sup, stage, STAGE_TEST, job, fds, tree ? 7 : 6,
			       (unsigned)config_number(run->config, "test.timeout") + 600, NULL,
			       NULL, err);
}

/* ---- the end ---- */

static void denied_line(void *arg, const char *text)
{
	char shown[1024];

	(void)arg;
	text_escape(shown, sizeof(shown), text, strlen(text));
	fprintf(stderr, "agent: denied: %s\n", shown);
}

/* To a person; a script asks for --json. */
static void tell_denied(const struct jail_facts *facts)
{
	struct json *denied AUTO_JSON = js_object_new();

	denied_put(denied, facts);
	denied_tell(denied, SIZE_MAX, denied_line, NULL);
}

/* What the output says was missing inside and is to be had here. */
static void advise(const struct run *run, const struct options *options,
		   const struct console *console)
{
	struct strbuf shown AUTO_STRBUF = STRBUF_NONE;
	bool has_git =
	    options->dirty || strcmp(config_get(run->config, "test.git"), "none") != 0;
	char *advice AUTO_FREE = jail_find_advice(console->last, console->last_len,
						  getenv("HOME"), getenv("PATH"), has_git);

	if (!advice)
		return;
	strbuf_init(&shown, 65536);
	text_escape_lines(&shown, advice, strlen(advice));
	fprintf(stderr, "agent: next: %s\n", shown.data);
}

static int finish(struct run *run, const struct options *options, const struct console *console,
		  const struct jail_facts *facts, struct error *err)
{
	char text[512];

	if (options->json) {
		struct json *verdict AUTO_JSON = jailplan_verdict(
		    facts, options->dirty ? "" : run_base(run, "tree"), options->argv[0]);
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&out, STRBUF_MAX);
		js_format_ascii(verdict, &out);
		printf("%s\n", out.data);
	} else if (isatty(STDERR_FILENO) == 1) {
		tell_denied(facts);
	}
	jailplan_describe(facts, text, sizeof(text));
	switch (facts->outcome) {
	case JAIL_EXITED:
		if (facts->value != 0)
			advise(run, options, console);
		return facts->value;
	case JAIL_SIGNALED:
	case JAIL_LIMIT:
	case JAIL_KILLED:
		fprintf(stderr, "agent: %s\n", text);
		return 128 + (facts->outcome == JAIL_KILLED ? SIGSYS : facts->value);
	case JAIL_TIMEOUT:
	case JAIL_OOM:
		fprintf(stderr, "agent: %s\n", text);
		return 128 + SIGKILL;
	case JAIL_NOT_RUN:
		jailplan_judge(facts, options->argv[0], err);
		fprintf(stderr, "agent: %s: %s\n", options->argv[0], strerror(facts->value));
		if (strpbrk(options->argv[0], " \t"))
			error_next(
			    err,
			    "the command is words, not one text: agent jail -- make check, or "
			    "agent jail -- sh -c TEXT");
		if (err->next[0])
			fprintf(stderr, "agent: next: %s\n", err->next);
		return facts->value == ENOENT ? 127 : 126;
	case JAIL_SETUP:
		return jailplan_judge(facts, options->argv[0], err);
	case JAIL_INTERNAL:
		break;
	}
	error_set(err, ERROR_ISOLATION, "jail: %s", facts->detail);
	return err->kind;
}

/* audit: only what the jail was given is wanted, not how its command ended; NULL: the latter. */
static int run_jail(struct run *run, struct options *options, const char *tree_name,
		    struct json **audit, struct error *err)
{
	struct console console = CONSOLE_NONE;
	struct supervised stage = {0};
	struct jail_facts facts = {0};
	struct jailtested tested = {""};
	struct jail_spec spec;
	char *scratch AUTO_FREE = rundir_subdir(&run->dir, "jail", err);
	int pipe_fds[2] = {-1, -1}, spec_fd AUTO_FD = -1, go_fd AUTO_FD = -1, result;

	if (options->dirty && !run->repo.work_dir)
		return error_set(err, ERROR_USAGE, "--dirty: %s has no work tree",
				 run->repo.git_dir);
	if (!scratch || (options->dirty && make_hide(scratch, err)) ||
	    rundir_give(scratch, STAGE_UID_BASE + STAGE_TEST, err))
		return err->kind;
	jail_spec_init(&spec);
	result = jailplan_test(run->config, run->dir.state, scratch, run->recipe, options->argv,
			       &spec, err);
	spec.audit = audit != NULL;
	if (wants_pty(options)) {
		jail_spec_add_env(&spec, "TERM", "xterm");
		jail_spec_remove_env(&spec, "COLUMNS"); /* the terminal knows */
	}
	if (options->dirty)
		spec.work_dir = mem_strdup(run->repo.work_dir);
	if (result == 0)
		jailtested_look(run->dir.state, &spec, &tested);
	if (result == 0 && (spec_fd = jailplan_memfd(&spec, err)) < 0)
		result = err->kind;
	jail_spec_release(&spec);
	if (result == 0)
		result = jailplan_stream(pipe_fds, err);
	if (result == 0)
		result = console_open(&console, options, err);
	if (result == 0)
		result = options->dirty ? start_dirty(run, &stage, spec_fd, pipe_fds[1],
						      &console, &go_fd, err)
					: start_tree(run, &stage, spec_fd, pipe_fds[1],
						     &console, scratch, tree_name, err);
	fd_close_ptr(&pipe_fds[1]);
	console_hand_over(&console);
	if (result == 0)
		result = console_carry(run, &console, pipe_fds[0], err);
	if (result == 0) {
		struct error stage_err = {0};
		int ended = supervise_wait(&run->sup, &stage, &stage_err);

		result = jailplan_read_facts(&run->sup, pipe_fds[0], &facts, audit, err);
		if (result == 0)
			jailtested_keep(run->dir.state, &tested, &facts);
		if (result != 0 && ended != 0) {
			*err = stage_err;
			result = ended;
		}
	}
	console_close(&console);
	supervise_end(&run->sup, &stage);
	fd_close_ptr(&pipe_fds[0]);
	if (result == 0 && audit)
		return jailplan_judge(&facts, options->argv[0], err);
	return result ? result : finish(run, options, &console, &facts, err);
}

/* ---- which tree ---- */

static int begin_temporary(struct run *run, const struct options *options, struct error *err)
{
	struct json *request AUTO_JSON = js_artefact_new("request", 1);
	struct repository repo;
	char *state AUTO_FREE = rundir_state_dir(err);

	if (!state || rundir_create_temporary(state, &run->dir, err))
		return err->kind;
	if (repository_find(NULL, &repo, err)) {
		repository_release(&repo);
		return err->kind;
	}
	js_set_str(request, "rev", options->tree ? options->tree : "HEAD");
	js_set_str(request, "repository", repo.work_dir ? repo.work_dir : repo.git_dir);
	repository_release(&repo);
	return rundir_write(&run->dir, "request.json", request, err);
}

static int last_round(const struct run *run)
{
	int last = 0;

	for (int round = 1; round <= RUN_ROUNDS_MAX; round++) {
		char *name AUTO_FREE = round_file(round, "tree.json");

		if (rundir_has(&run->dir, name))
			last = round;
	}
	return last;
}

static int open_run(struct run *run, const struct options *options, char **tree_name,
		    struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err);
	long long round;

	if (!state || rundir_open(state, options->run, true, &run->dir, err))
		return err->kind;
	round = last_round(run);
	if (!round) {
		error_set(err, ERROR_USAGE, "run %s has no tree: no change of it was applied",
			  run->dir.id);
		return error_next(err,
				  "agent resume %s goes on with it; without --run it is "
				  "the jail of HEAD",
				  run->dir.id);
	}
	if (options->round && text_parse_size(options->round, RUN_ROUNDS_MAX, &round) < 0)
		return error_set(err, ERROR_USAGE, "--round %s is not the number of a round",
				 options->round);
	*tree_name = round_file((int)round, "tree.json");
	if (!rundir_has(&run->dir, *tree_name))
		return error_set(err, ERROR_USAGE, "run %s has no tree in round %lld",
				 run->dir.id, round);
	return 0;
}

static int enter(struct options *options, struct json **audit, struct error *err)
{
	struct run run = {.key_fd = -1,
			  .deps_lock = -1,
			  .dir = {.fd = -1, .lock_fd = -1},
			  .sup = {.signal_fd = -1},
			  .journal = {.events_fd = -1}};
	char *tree_name AUTO_FREE = NULL;
	struct error ignored = {0};
	int result;

	result = options->run ? open_run(&run, options, &tree_name, err)
			      : begin_temporary(&run, options, err);
	if (result == 0)
		result = run_open(&run, options, err);
	run.journal.quiet = true;
	run.journal.json = run.journal.terminal = false;
	fd_close_ptr(&run.journal.events_fd); /* this is no event of the run */
	run.journal.events_fd = -1;
	if (result == 0 && !options->dirty)
		result = step_base(&run, err);
	if (result == 0 && !options->dirty)
		result = step_fetch(&run, true, err);
	if (result == 0 && !options->dirty)
		result = step_layer(&run, err);
	if (result == 0)
		result = run_jail(&run, options, tree_name, audit, err);
	supervise_release(&run.sup);
	if (!options->run && run.dir.path)
		rundir_remove(&run.dir, &ignored);
	run_release(&run);
	return result;
}

int cmd_jail(struct options *options, struct error *err)
{
	if (!options->argv || !options->argv[0] || options->word_count) {
		error_set(err, ERROR_USAGE, "agent jail needs a command behind --");
		return error_next(err, "agent jail -- make check");
	}
	if (!!options->run + !!options->tree + options->dirty > 1)
		return error_set(
		    err, ERROR_USAGE,
		    "--run, --tree and --dirty each name another tree: only one of "
		    "them");
	if (options->round && !options->run)
		return error_set(err, ERROR_USAGE, "--round needs --run");
	return enter(options, NULL, err);
}

int jail_audit(const struct options *options, struct json **audit, struct error *err)
{
	char nothing[] = "true";
	char *argv[] = {nothing, NULL};
	struct options copy = *options;

	copy.argv = argv;
	copy.json = true; /* no terminal: what tests get */
	return enter(&copy, audit, err);
}
