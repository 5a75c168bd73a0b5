/*
 * agent work: runs queued jobs. Each is a process of its own, `agent resume RUN`, on a run directory that is made
 * here from the job: so a job that was taken over is resumed by the same words as one that begins. What a job needs to
 * survive is in the queue and in the run's directory; this process may be killed at any instant.
 */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/notify.h"
#include "pipeline/queue.h"
#include "pipeline/secret.h"
#include "pipeline/spawn.h"
#include "work_help.h"

#define SLOTS CONFIG_JOBS_MAX
#define HELP_AT (2 + 2 * SLOTS) /* among what is polled: behind signals, wake-ups and jobs */
#define LEASE_MS 60000
#define PROLONG_MS 10000
#define TICK_MS 1000   /* looks by itself: other workers' ends, lost wake-ups */
#define GRACE_MS 60000 /* from "stop" to SIGTERM: the step under way may end */
#define KILL_MS 10000  /* from SIGTERM to SIGKILL */
#define LINE_MAX_BYTES 4096

/* One job at work. */
struct slot {
	struct queue_job job; /* id 0: the slot is free */
	struct child child;
	int words_fd; /* owned: what it prints on descriptor 2 */
	struct strbuf line;
	char last[1024];   /* its last line that says why it ended; told once, at the end */
	char next[1024];   /* what it said to do next, told behind that */
	int asked;	   /* enum queue_stop, or what the worker itself asks */
	long long term_at; /* when SIGTERM follows; 0: not */
	long long kill_at;
};

struct worker {
	struct queue *queue;
	struct queue_rules rules;
	char *state, *program; /* owned */
	int signal_fd, wake_fd;
	struct slot slots[SLOTS];
	struct help help;
	const char **pairs; /* owned array: of the command line, for helpers */
	size_t used, done;
	int stopping; /* how many signals have come */
	long long prolong_at, look_at, sign_at;
	long long watchdog_ms;
	bool once;
};

static const char *const job_env[] = {"PATH",
				      "HOME",
				      "USER",
				      "LOGNAME",
				      "LANG",
				      "LC_ALL",
				      "TZ",
				      "TMPDIR",
				      "AGENT_STATE_DIR",
				      "XDG_STATE_HOME",
				      "XDG_CONFIG_HOME",
				      "XDG_RUNTIME_DIR",
				      "SSL_CERT_FILE",
				      "GIT_CONFIG_GLOBAL",
				      "GIT_CONFIG_NOSYSTEM",
				      "ASAN_OPTIONS",
				      "UBSAN_OPTIONS",
				      "DBUS_SESSION_BUS_ADDRESS",
				      SECRET_ENV_DIRECTORY};

char **work_env(void)
{
	char **env = mem_calloc(ARRAY_LEN(job_env) + 1, sizeof(*env));
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(job_env); i++)
		if (getenv(job_env[i]))
			env[count++] = mem_printf("%s=%s", job_env[i], getenv(job_env[i]));
	return env;
}

void work_env_free(char **env)
{
	text_free_words(env);
}

static void say(const struct slot *slot, const char *text)
{
	char shown[LINE_MAX_BYTES];

	text_escape(shown, sizeof(shown), text, strlen(text));
	fprintf(stderr, "job %lld: %s\n", slot->job.id, shown);
}

static void say_held(struct slot *slot, const char *before, char *words)
{
	char *text AUTO_FREE = mem_printf("%s%s", before, words);

	say(slot, text);
	words[0] = '\0';
}

/* ---- beginning ---- */

/* The run's directory, as agent run makes it. ERROR_SKIPPED when another process still works on it. */
static int prepare(struct worker *worker, const struct queue_job *job, struct error *err)
{
	struct rundir dir;
	struct json *request AUTO_JSON = NULL;
	int result = rundir_enter(worker->state, job->run, &dir, err);

	if (result == 0 && !rundir_has(&dir, "request.json")) {
		request =
		    js_parse(job->request, strlen(job->request), 16 << 20, "request", err);
		result = request ? request_store(&dir, request, job->issue, job->issue_len, err)
				 : err->kind;
	}
	if (result == 0) {
		unlinkat(dir.fd, RUN_STOP_FILE, 0); /* for whoever had it before */
		unlinkat(dir.fd, RUN_LAST_FILE, 0);
	}
	if (result == 0 && job->attempts >= worker->rules.attempts)
		result = fd_replace_file(dir.fd, RUN_LAST_FILE, "", 0, 0600, err);
	rundir_release(&dir);
	return result;
}

static int spawn(struct worker *worker, struct slot *slot, struct error *err)
{
	const char *const argv[] = {worker->program, "resume", slot->job.run, NULL};
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC), result;
	char **env;
	int ends[2];

	if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "pipe for a job");
	slot->words_fd = ends[0];
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	env = work_env();
	result = spawn_outside(argv, (const char *const *)env, null, null, ends[1], (uid_t)-1,
			       &slot->child, err);
	close(ends[1]);
	work_env_free(env);
	return result;
}

static void release(struct worker *worker, struct slot *slot)
{
	spawn_release(&slot->child);
	fd_close_ptr(&slot->words_fd);
	strbuf_release(&slot->line);
	queue_job_release(&slot->job);
	*slot = (struct slot){.words_fd = -1, .child = {0, -1, -1, -1}};
	worker->used--;
}

static int settle(struct worker *worker, struct slot *slot, enum queue_end end,
		  const char *reason, struct error *err)
{
	static const char *const became[] = {
	    [QUEUE_DONE] = "",
	    [QUEUE_REFUSED] = "refused: ",
	    [QUEUE_SKIPPED] = "skipped: ",
	    [QUEUE_PARKED] = "parked: ",
	    [QUEUE_AGAIN] = "failed: ",
	    [QUEUE_BACK] = "back in the queue: ",
	};
	char *text AUTO_FREE = mem_printf("%s%s", became[end], reason);
	int result =
	    queue_settle(worker->queue, &worker->rules, slot->job.id, end, reason, err);

	if (slot->last[0] && strcmp(slot->last, reason) != 0)
		say_held(slot, "agent: ", slot->last);
	say(slot, text);
	if (slot->next[0])
		say_held(slot, "next: ", slot->next);
	release(worker, slot);
	return result;
}

static int begin(struct worker *worker, struct slot *slot, struct error *err)
{
	struct error why = {0};
	char *text AUTO_FREE = NULL;
	int result;

	strbuf_init(&slot->line, LINE_MAX_BYTES);
	worker->used++;
	result = prepare(worker, &slot->job, &why);
	if (result == 0)
		result = spawn(worker, slot, &why);
	if (result == ERROR_SKIPPED)
		return settle(worker, slot, QUEUE_BACK, why.message, err);
	if (result)
		return settle(worker, slot, QUEUE_AGAIN, why.message, err);
	text = mem_printf("attempt %lld, run %s: %s", slot->job.attempts, slot->job.run,
			  slot->job.title);
	say(slot, text);
	return 0;
}

static struct slot *free_slot(struct worker *worker)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (!worker->slots[i].job.id)
			return &worker->slots[i];
	return NULL;
}

static int fill(struct worker *worker, struct error *err)
{
	struct slot *slot;

	while (!worker->stopping && (slot = free_slot(worker))) {
		int result = queue_claim(worker->queue, &worker->rules, &slot->job, err);

		if (result <= 0)
			return result;
		result = begin(worker, slot, err);
		if (result)
			return result;
	}
	return 0;
}

/* ---- what a job says, and its end ---- */

/* What may be its reason waits for its end, which tells it once. */
static void end_line(struct slot *slot)
{
	static const char reason[] = "agent: ", next[] = "agent: next: ";
	const char *text = slot->line.data;

	if (!slot->line.len)
		return;
	if (strncmp(text, next, strlen(next)) == 0) {
		if (slot->next[0])
			say_held(slot, next, slot->next);
		snprintf(slot->next, sizeof(slot->next), "%s", text + strlen(next));
	} else if (strncmp(text, reason, strlen(reason)) == 0) {
		if (slot->last[0])
			say_held(slot, reason, slot->last);
		if (slot->next[0])
			say_held(slot, next, slot->next);
		snprintf(slot->last, sizeof(slot->last), "%s", text + strlen(reason));
	} else {
		say(slot, text);
	}
	strbuf_reset(&slot->line);
}

static void read_words(struct slot *slot)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(slot->words_fd, chunk, sizeof(chunk))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (chunk[i] == '\n')
				end_line(slot);
			else if (chunk[i])
				strbuf_addc(&slot->line,
					    chunk[i]); /* what is too long is cut */
		}
	if (n == 0)
		fd_close_ptr(&slot->words_fd);
	if (n == 0)
		slot->words_fd = -1;
}

/* Whether the run has pushed. *begun: it has a base. */
static bool has_pushed(const struct worker *worker, const struct slot *slot, char **branch,
		       bool *begun)
{
	struct rundir dir;
	struct error ignored = {0};
	struct json *report AUTO_JSON = NULL;
	bool pushed = false;

	if (rundir_open(worker->state, slot->job.run, false, &dir, &ignored) == 0) {
		report = rundir_read(&dir, "report.json", "report", BASE_MAX, &ignored);
		pushed = rundir_has(&dir, "publish/receipt.json");
		*begun = rundir_has(&dir, "base.json");
		*branch = mem_strdup(js_str(report, "branch", "?"));
	}
	rundir_release(&dir);
	return pushed;
}

static enum queue_end judge(const struct slot *slot, const siginfo_t *info, bool begun,
			    char **reason)
{
	int status = info->si_code == CLD_EXITED ? info->si_status : -1;

	if (slot->last[0])
		*reason = mem_strdup(slot->last);
	else if (status < 0)
		*reason = mem_printf("its process was ended by signal %d", info->si_status);
	else
		*reason = mem_printf("its process ended with status %d", status);
	switch (status) {
	case EXIT_DONE:
		return QUEUE_DONE;
	case EXIT_NO:
		return QUEUE_REFUSED;
	case EXIT_USAGE:
		return QUEUE_PARKED;
	case EXIT_ISOLATION:
		/* Refused before anything was begun: that is this machine's, and stays. A jail that failed
		 * may have been killed. */
		return begun ? QUEUE_AGAIN : QUEUE_PARKED;
	case EXIT_SKIPPED:
		return strncmp(slot->last, "another process", 15) == 0 ? QUEUE_BACK
								       : QUEUE_SKIPPED;
	case EXIT_INTERRUPTED:
		break;
	default:
		return QUEUE_AGAIN;
	}
	/* By us, or by somebody else. */
	return slot->asked == QUEUE_GO_ON ? QUEUE_AGAIN : QUEUE_BACK;
}

/* What is pushed is done, however its last process ended; but one that was killed behind the push goes on once more, with the
 * pull request and the note. */
static bool goes_on(const struct worker *worker, const struct slot *slot, enum queue_end end)
{
	struct error ignored = {0};

	return (end == QUEUE_AGAIN || end == QUEUE_BACK) &&
	       slot->job.attempts < worker->rules.attempts &&
	       queue_asked(worker->queue, slot->job.id, &ignored) == QUEUE_GO_ON;
}

static int reap(struct worker *worker, struct slot *slot, struct error *err)
{
	char *reason AUTO_FREE = NULL, *branch AUTO_FREE = NULL;
	bool pushed, begun = true;
	enum queue_end end;
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)slot->child.pidfd, &info, WEXITED | WNOWAIT | WNOHANG) < 0)
		return error_errno(err, ERROR_FAILED, errno, "waiting for job %lld",
				   slot->job.id);
	if (!info.si_pid)
		return 0;
	if (slot->words_fd >= 0)
		read_words(slot);
	end_line(slot);
	pushed = has_pushed(worker, slot, &branch, &begun);
	end = judge(slot, &info, begun, &reason);
	if (pushed && !goes_on(worker, slot, end)) {
		end = QUEUE_DONE;
		free(reason);
		reason = mem_printf("pushed %s", branch);
	} else if (end == QUEUE_DONE) {
		free(reason);
		reason = mem_strdup("done; nothing was pushed (dry run)");
	} else if (end == QUEUE_BACK && worker->stopping) {
		free(reason);
		reason = mem_strdup("stopped with its worker; it goes on from its last step");
	}
	worker->done++;
	return settle(worker, slot, end, reason, err);
}

/* ---- stopping ---- */

static void send(struct slot *slot, int number)
{
	if (slot->child.pid > 0)
		kill(slot->child.pid, number);
}

static void ask_stop(struct worker *worker, struct slot *slot)
{
	struct rundir dir;
	struct error ignored = {0};
	int fd AUTO_FD = -1;

	if (rundir_open(worker->state, slot->job.run, false, &dir, &ignored) == 0)
		fd = fd_open_beneath(dir.fd, RUN_STOP_FILE, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		say(slot, "cannot be asked to stop; it is ended when its time is over");
	rundir_release(&dir);
	slot->term_at = fd_now_ms() + GRACE_MS;
}

static void terminate(struct slot *slot)
{
	if (slot->kill_at)
		return;
	send(slot, SIGTERM);
	slot->term_at = 0;
	slot->kill_at = fd_now_ms() + KILL_MS;
}

static void ask(struct worker *worker, struct slot *slot, int what)
{
	if (what <= slot->asked)
		return;
	slot->asked = what;
	if (what == QUEUE_STOP)
		ask_stop(worker, slot);
	else if (what == QUEUE_CANCEL)
		terminate(slot);
	else
		send(slot, SIGKILL); /* the job is somebody else's by now */
}

static int look_at_slots(struct worker *worker, struct error *err)
{
	long long now = fd_now_ms();

	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &worker->slots[i];
		int asked;

		if (!slot->job.id)
			continue;
		asked = queue_asked(worker->queue, slot->job.id, err);
		if (asked < 0)
			return asked;
		if (worker->stopping && asked == QUEUE_GO_ON)
			asked = QUEUE_STOP;
		if (worker->stopping > 1 && asked < QUEUE_CANCEL)
			asked = QUEUE_CANCEL;
		ask(worker, slot, asked);
		if (slot->term_at && now >= slot->term_at)
			terminate(slot);
		if (slot->kill_at && now >= slot->kill_at)
			send(slot, SIGKILL);
	}
	return 0;
}

/* ---- the loop ---- */

static void serve_signals(struct worker *worker)
{
	struct signalfd_siginfo info;

	while (read(worker->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (!worker->stopping++)
			notify_send("STOPPING=1\nSTATUS=waiting for the steps under way");
		fprintf(stderr, worker->stopping == 1
				    ? "stopping: jobs end at their next step and go on later; "
				      "the same signal again ends them at once\n"
				    : "stopping at once\n");
	}
}

/* What is due by the clock. helpers: what poll(2) said of them, or NULL. */
static int tick(struct worker *worker, const struct pollfd *helpers, struct error *err)
{
	long long now = fd_now_ms();

	if (worker->watchdog_ms && now >= worker->sign_at) {
		notify_send("WATCHDOG=1");
		worker->sign_at = now + worker->watchdog_ms;
	}
	if (now >= worker->prolong_at) {
		if (worker->used && queue_prolong(worker->queue, &worker->rules, err))
			return err->kind;
		worker->prolong_at = now + PROLONG_MS;
	}
	if (now >= worker->look_at) {
		if (queue_take_over(worker->queue, &worker->rules, err) < 0)
			return err->kind;
		worker->look_at = now + TICK_MS;
	}
	if (look_at_slots(worker, err) ||
	    help_serve(&worker->help, helpers, worker->stopping, err))
		return err->kind;
	return fill(worker, err);
}

static int wait_ms(const struct worker *worker)
{
	long long wait = TICK_MS, next = queue_next_ms(worker->queue);

	if (worker->watchdog_ms && worker->watchdog_ms < wait)
		wait = worker->watchdog_ms;
	return (int)(next >= 0 && next < wait ? next + 1 : wait);
}

static int turn(struct worker *worker, struct error *err)
{
	struct pollfd fds[HELP_AT + HELP_FDS] = {
	    {.fd = worker->signal_fd, .events = POLLIN},
	    {.fd = worker->wake_fd, .events = POLLIN},
	};
	char dropped[4096];
	pid_t jobs[SLOTS];

	for (size_t i = 0; i < SLOTS; i++) {
		const struct slot *slot = &worker->slots[i];
		bool used = slot->job.id != 0;

		jobs[i] = used ? slot->child.pid : 0;
		fds[2 + 2 * i] =
		    (struct pollfd){.fd = used ? slot->child.pidfd : -1, .events = POLLIN};
		fds[3 + 2 * i] =
		    (struct pollfd){.fd = used ? slot->words_fd : -1, .events = POLLIN};
	}
	help_poll(&worker->help, &fds[HELP_AT]);
	if (poll(fds, ARRAY_LEN(fds), wait_ms(worker)) < 0 && errno != EINTR)
		return error_errno(err, ERROR_FAILED, errno, "poll");
	if (fds[0].revents)
		serve_signals(worker);
	if (fds[1].revents)
		while (read(worker->wake_fd, dropped, sizeof(dropped)) > 0)
			;
	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &worker->slots[i];

		if (fds[3 + 2 * i].revents && slot->words_fd >= 0)
			read_words(slot);
		if (fds[2 + 2 * i].revents && reap(worker, slot, err))
			return err->kind;
	}
	help_reap_left(&worker->help, jobs, SLOTS);
	return tick(worker, &fds[HELP_AT], err);
}

/* --once: nothing runs, and nothing comes within a moment (a job whose former process just ends). */
static bool is_finished(const struct worker *worker)
{
	long long next;

	if (worker->used)
		return false;
	if (worker->stopping)
		return true;
	if (!help_is_idle(&worker->help))
		return false;
	next = worker->once ? queue_next_ms(worker->queue) : 0;
	return worker->once && (next < 0 || next > TICK_MS);
}

/* Helpers know the command line's configuration, as the worker does. */
static int prepare_help(struct worker *worker, const struct options *options, struct error *err)
{
	size_t count = js_len(options->pairs);

	worker->pairs = mem_calloc(count + 1, sizeof(*worker->pairs));
	for (size_t i = 0; i < count; i++)
		worker->pairs[i] = js_text(js_at(options->pairs, i));
	return help_init(&worker->help, worker->program, worker->state, worker->pairs,
			 options->config, err);
}

static int prepare_worker(struct worker *worker, const struct config *config, struct error *err)
{
	const char *dir = spawn_program_dir(err);
	sigset_t mask;

	for (size_t i = 0; i < SLOTS; i++)
		worker->slots[i] = (struct slot){.words_fd = -1, .child = {0, -1, -1, -1}};
	worker->rules =
	    (struct queue_rules){.jobs = config_number(config, "queue.jobs"),
				 .per_repository = config_number(config, "queue.perRepository"),
				 .attempts = config_number(config, "queue.attempts"),
				 .wait_ms = 1000 * config_number(config, "queue.wait"),
				 .lease_ms = LEASE_MS};
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	worker->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	worker->wake_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (worker->signal_fd < 0 || worker->wake_fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "signalfd and inotify");
	worker->watchdog_ms = notify_watchdog_ms();
	worker->state = rundir_state_dir(err);
	worker->queue = worker->state ? queue_open(worker->state, err) : NULL;
	if (!dir || !worker->queue || queue_work(worker->queue, err))
		return err->kind;
	worker->program = mem_printf("%s/agent", dir);
	if (inotify_add_watch(worker->wake_fd, queue_wake_path(worker->queue), IN_ATTRIB) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s",
				   queue_wake_path(worker->queue));
	return 0;
}

static void release_worker(struct worker *worker)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (worker->slots[i].job.id)
			release(worker, &worker->slots[i]);
	help_release(&worker->help);
	free(worker->pairs);
	fd_close_ptr(&worker->signal_fd);
	fd_close_ptr(&worker->wake_fd);
	queue_close(worker->queue);
	free(worker->state);
	free(worker->program);
}

int cmd_work(struct options *options, struct error *err)
{
	static struct worker worker; /* large */
	int result;

	worker = (struct worker){.signal_fd = -1,
				 .wake_fd = -1,
				 .help = {.lock_fd = -1, .listen_fd = -1},
				 .once = options->once};
	callers_init(&worker.help.callers);
	if (options->word_count)
		return error_set(err, ERROR_USAGE, "agent work takes no words");
	result = prepare_worker(&worker, options->config, err);
	if (result == 0)
		result = prepare_help(&worker, options, err);
	if (result == 0) {
		notify_send("READY=1\nSTATUS=waiting for jobs");
		result = tick(&worker, NULL, err);
	}
	while (result == 0 && !is_finished(&worker))
		result = turn(&worker, err);
	if (result == 0 && worker.once)
		fprintf(stderr, "%zu job%s at work, none is left that may run\n", worker.done,
			worker.done == 1 ? " was" : "s were");
	release_worker(&worker);
	return result;
}
