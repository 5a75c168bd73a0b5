#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "pipeline/journal.h"

#define WORDS_MAX 4096
#define GRACE_MS 3000

int supervise_init(struct supervisor *sup, struct journal *journal, struct error *err)
{
	sigset_t mask;

	memset(sup, 0, sizeof(*sup));
	sup->journal = journal;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ||
	    (sup->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "signalfd");
	return 0;
}

void supervise_release(struct supervisor *sup)
{
	while (sup->count)
		supervise_end(sup, sup->children[sup->count - 1]);
	fd_close_ptr(&sup->signal_fd);
	sup->signal_fd = -1;
}

static void begin(struct supervisor *sup, struct supervised *sv, unsigned wall_s)
{
	strbuf_init(&sv->control, EVENT_LINE_MAX);
	strbuf_init(&sv->words, WORDS_MAX);
	sv->wall_s = wall_s;
	sv->deadline_ms = wall_s ? fd_now_ms() + (long long)wall_s * 1000 : 0;
	sup->children[sup->count++] = sv;
	if (sv->child.control >= 0)
		fcntl(sv->child.control, F_SETFL, O_NONBLOCK);
	if (sv->child.stderr_fd >= 0)
		fcntl(sv->child.stderr_fd, F_SETFL, O_NONBLOCK);
}

/* For agent audit: what the row really got beside what the table gives to all of its kind. */
static void tell_start(struct supervisor *sup, const struct supervised *sv,
		       const struct json *job, const struct spawn_fd *fds, size_t fd_count)
{
	struct json *fields = js_object_new(), *numbers = js_array_new();
	const struct json *paths = js_get(job, "paths");

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		js_push_str(numbers, stage_fd_text(fd));
	if (sv->child.control >= 0)
		js_push_str(numbers, stage_fd_text(FD_CONTROL));
	if (job)
		js_push_str(numbers, stage_fd_text(FD_JOB));
	for (size_t i = 0; i < fd_count; i++)
		js_push_str(numbers, stage_fd_text(fds[i].number));
	js_set_str(fields, "row", sv->name);
	js_set_int(fields, "pid", sv->child.pid);
	js_set(fields, "descriptors", numbers);
	js_set(fields, "paths", paths ? js_copy(paths) : js_object_new());
	js_set_int(fields, "wall_s", sv->wall_s);
	journal_event(sup->journal, "started", fields);
}

int supervise_start(struct supervisor *sup, struct supervised *sv, enum stage_id id,
		    const struct json *job, const struct spawn_fd *fds, size_t fd_count,
		    unsigned wall_s, supervise_event_fn *on_event, void *arg, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	memset(sv, 0, sizeof(*sv));
	if (sup->interrupted)
		return error_set(err, ERROR_INTERRUPTED, "interrupted");
	if (sup->count == SUPERVISE_MAX)
		return error_set(err, ERROR_FAILED, "too many processes at once");
	sv->row = stage_row(id);
	sv->name = sv->row->name;
	sv->on_event = on_event;
	sv->arg = arg;
	sv->shown = true;
	strbuf_init(&text, STRBUF_MAX);
	if (job)
		js_format(job, &text);
	if (spawn_stage(id, job ? text.data : NULL, text.len, fds, fd_count, &sv->child, err)) {
		error_wrap(err, "%s", sv->name);
		memset(sv, 0, sizeof(*sv));
		return err->kind;
	}
	begin(sup, sv, wall_s ? wall_s : sv->row->wall_s);
	tell_start(sup, sv, job, fds, fd_count);
	return 0;
}

void supervise_adopt(struct supervisor *sup, struct supervised *sv, const char *name,
		     const struct child *child, unsigned wall_s)
{
	memset(sv, 0, sizeof(*sv));
	sv->name = name;
	sv->child = *child;
	if (sup->count == SUPERVISE_MAX) {
		spawn_release(&sv->child);
		sv->ended = true;
		return;
	}
	begin(sup, sv, wall_s);
}

/* ---- what a child says ---- */

static void keep_error(struct supervised *sv, const struct json *line)
{
	error_set(&sv->error, ERROR_FAILED, "%s", js_str(line, "message", "no message"));
	error_next(&sv->error, "%s", js_str(line, "next", ""));
}

/* A line that is no event of the grammar ends the child: a compromised stage gets no second
 * try. */
static int take_line(struct supervisor *sup, struct supervised *sv, const char *text,
		     size_t len)
{
	struct error err = {0};
	struct json *line AUTO_JSON = js_parse(text, len, EVENT_LINE_MAX, "event", &err);
	const char *event = js_str(line, "event", NULL);

	if (!event)
		return -1;
	if (strcmp(event, "progress") == 0) {
		if (sv->shown)
			journal_progress(sup->journal, js_str(line, "text", ""));
	} else if (strcmp(event, "error") == 0) {
		keep_error(sv, line);
	} else if (strcmp(event, "result") == 0) {
		js_free(sv->result);
		sv->result = js_copy(line);
	} else if (sv->on_event) {
		struct json *answer AUTO_JSON = sv->on_event(sv->arg, event, line);
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;

		if (answer) {
			strbuf_init(&out, EVENT_LINE_MAX);
			js_format(answer, &out);
			strbuf_addc(&out, '\n');
			if (send(sv->child.control, out.data, out.len, MSG_NOSIGNAL) !=
			    (ssize_t)out.len)
				return -1;
		}
	} else {
		return -1; /* an event that this row has no business to send */
	}
	return 0;
}

static void kill_hard(struct supervised *sv)
{
	if (sv->child.pid <= 0)
		return;
	if (!sv->row)
		kill(-sv->child.pid, SIGKILL); /* what it left behind too */
	if (!sv->ended)
		kill(sv->child.pid, SIGKILL);
}

/*
 * Ours are killed at once. A program that is not ours has a process group of its own, hooks and all, and
 * gets a moment to put things in order: git receive-pack removes its quarantine.
 */
static void kill_child(struct supervised *sv)
{
	if (sv->ended || sv->child.pid <= 0)
		return;
	if (sv->row || kill(-sv->child.pid, SIGTERM) < 0)
		kill_hard(sv);
	else if (!sv->hard_ms)
		sv->hard_ms = fd_now_ms() + GRACE_MS;
}

static void reject(struct supervised *sv, const char *why)
{
	if (!sv->error.kind)
		error_set(&sv->error, ERROR_FAILED, "%s", why);
	kill_child(sv);
	close(sv->child.control);
	sv->child.control = -1;
}

/* Reads what there is; closes at the end of file. */
static void serve_control(struct supervisor *sup, struct supervised *sv)
{
	char chunk[8192];
	ssize_t n = read(sv->child.control, chunk, sizeof(chunk));
	size_t start = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(sv->child.control);
		sv->child.control = -1;
		return;
	}
	if (strbuf_add(&sv->control, chunk, (size_t)n) < 0) {
		reject(sv, "sent an event that is too long");
		return;
	}
	for (;;) {
		char *newline = memchr(sv->control.data + start, '\n', sv->control.len - start);
		size_t len;

		if (!newline)
			break;
		len = (size_t)(newline - sv->control.data) - start;
		if (take_line(sup, sv, sv->control.data + start, len) < 0) {
			reject(sv, "sent a malformed event");
			return;
		}
		start += len + 1;
	}
	memmove(sv->control.data, sv->control.data + start, sv->control.len - start);
	sv->control.len -= start;
	sv->control.data[sv->control.len] = '\0';
}

static void serve_words(struct supervised *sv)
{
	char chunk[4096];
	ssize_t n = read(sv->child.stderr_fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(sv->child.stderr_fd);
		sv->child.stderr_fd = -1;
		return;
	}
	strbuf_add(&sv->words, chunk, (size_t)n);
}

static void drain(struct supervisor *sup, struct supervised *sv)
{
	for (;;) {
		struct pollfd fds[2] = {{.fd = sv->child.control, .events = POLLIN},
					{.fd = sv->child.stderr_fd, .events = POLLIN}};

		if (poll(fds, 2, 0) <= 0)
			return;
		if (fds[0].revents)
			serve_control(sup, sv);
		if (fds[1].revents)
			serve_words(sv);
	}
}

static void serve_end(struct supervisor *sup, struct supervised *sv)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)sv->child.pid, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return;
	sv->status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
	sv->ended = true;
	drain(sup, sv);
}

/* ---- the loop ---- */

static void serve_signal(struct supervisor *sup)
{
	struct signalfd_siginfo info;

	if (read(sup->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	sup->interrupted = (int)info.ssi_signo;
	for (size_t i = 0; i < sup->count; i++)
		kill_child(sup->children[i]);
}

static int next_timeout(const struct supervisor *sup, long long until_ms)
{
	long long now = fd_now_ms(), wait = sup->journal->terminal ? 100 : 1000;

	if (until_ms && until_ms - now < wait)
		wait = until_ms - now;
	for (size_t i = 0; i < sup->count; i++) {
		const struct supervised *sv = sup->children[i];

		if (!sv->ended && !sv->expired && sv->deadline_ms &&
		    sv->deadline_ms - now < wait)
			wait = sv->deadline_ms - now;
		if (!sv->ended && sv->hard_ms && sv->hard_ms - now < wait)
			wait = sv->hard_ms - now;
	}
	return wait < 0 ? 0 : (int)wait;
}

static void expire(struct supervisor *sup)
{
	long long now = fd_now_ms();

	for (size_t i = 0; i < sup->count; i++) {
		struct supervised *sv = sup->children[i];

		if (!sv->ended && sv->deadline_ms && now >= sv->deadline_ms && !sv->expired) {
			sv->expired = true;
			kill_child(sv);
		}
		if (!sv->ended && sv->hard_ms && now >= sv->hard_ms)
			kill_hard(sv);
	}
}

/* One round of poll. extra: a descriptor to look at too, or -1. Whether extra is readable. */
static bool serve_once(struct supervisor *sup, int extra, long long until_ms)
{
	struct pollfd fds[2 + 3 * SUPERVISE_MAX];
	nfds_t n = 2 + 3 * sup->count;

	fds[0] = (struct pollfd){.fd = sup->signal_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = extra, .events = POLLIN};
	for (size_t i = 0; i < sup->count; i++) {
		const struct supervised *sv = sup->children[i];

		fds[2 + 3 * i] = (struct pollfd){.fd = sv->child.control, .events = POLLIN};
		fds[3 + 3 * i] = (struct pollfd){.fd = sv->child.stderr_fd, .events = POLLIN};
		fds[4 + 3 * i] =
		    (struct pollfd){.fd = sv->ended ? -1 : sv->child.pidfd, .events = POLLIN};
	}
	if (poll(fds, n, next_timeout(sup, until_ms)) > 0) {
		if (fds[0].revents)
			serve_signal(sup);
		for (size_t i = 0; i < sup->count; i++) {
			struct supervised *sv = sup->children[i];

			if (fds[2 + 3 * i].revents && sv->child.control >= 0)
				serve_control(sup, sv);
			if (fds[3 + 3 * i].revents && sv->child.stderr_fd >= 0)
				serve_words(sv);
			if (fds[4 + 3 * i].revents)
				serve_end(sup, sv);
		}
	} else {
		fds[1].revents = 0;
	}
	expire(sup);
	journal_tick(sup->journal);
	return fds[1].revents != 0;
}

static int explain_end(const struct supervised *sv, struct error *err)
{
	if (sv->expired)
		return error_set(err, ERROR_FAILED, "%s: not done within %u s", sv->name,
				 sv->wall_s);
	if (sv->status == -SIGSYS) {
		error_set(err, ERROR_FAILED,
			  "%s: tried a system call that its row does not allow", sv->name);
		return error_next(
		    err, "this is a defect or an attack on that process: the run is saved, "
			 "please report it");
	}
	if (sv->error.kind) {
		int kind = error_kind_of_status(sv->status);

		*err = sv->error;
		err->kind = sv->status > 0 ? kind : ERROR_FAILED;
		return err->kind;
	}
	if (sv->status < 0)
		error_set(err, ERROR_FAILED, "%s: ended by signal %d%s%s", sv->name,
			  -sv->status, sv->words.len ? ": " : "", sv->words.data);
	else
		error_set(err, (enum error_kind)error_kind_of_status(sv->status),
			  "%s: exit status %d%s%s", sv->name, sv->status,
			  sv->words.len ? ": " : "", sv->words.data);
	return err->kind;
}

int supervise_wait(struct supervisor *sup, struct supervised *sv, struct error *err)
{
	while (!sv->ended)
		serve_once(sup, -1, 0);
	if (sup->interrupted)
		return error_set(err, ERROR_INTERRUPTED, "interrupted by %s",
				 sup->interrupted == SIGINT ? "Ctrl-C"
							    : strsignal(sup->interrupted));
	return sv->status == 0 && !sv->expired ? 0 : explain_end(sv, err);
}

int supervise_until_readable(struct supervisor *sup, int fd, int ms, struct error *err)
{
	long long until = fd_now_ms() + ms;

	do {
		if (serve_once(sup, fd, until))
			return 1;
		if (sup->interrupted)
			return error_set(err, ERROR_INTERRUPTED, "interrupted");
	} while (fd_now_ms() < until);
	return 0;
}

void supervise_end(struct supervisor *sup, struct supervised *sv)
{
	for (size_t i = 0; i < sup->count; i++) {
		if (sup->children[i] != sv)
			continue;
		sup->count--;
		memmove(sup->children + i, sup->children + i + 1,
			(sup->count - i) * sizeof(sup->children[0]));
		kill_child(sv);
		if (!sv->row && !sv->ended)
			poll(&(struct pollfd){.fd = sv->child.pidfd, .events = POLLIN}, 1,
			     GRACE_MS);
		kill_hard(sv);
		spawn_release(&sv->child);
		js_free(sv->result);
		strbuf_release(&sv->control);
		strbuf_release(&sv->words);
		break;
	}
	memset(sv, 0, sizeof(*sv));
}
