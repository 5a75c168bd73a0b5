#include "gitrun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "pipeline/publish/pump.h"
#include "pipeline/publish/relay.h"
#include "pipeline/publish/unsay.h"
#include "pipeline/spawn.h"

void gitrun_init(struct gitrun *run)
{
	*run = (struct gitrun){.row = STAGE_PUBLISH, .stdin_fd = -1, .log_fd = -1};
	strbuf_init(&run->out, GITRUN_OUT_MAX);
	strbuf_init(&run->errs, GITRUN_ERR_MAX);
}

void gitrun_release(struct gitrun *run)
{
	strbuf_release(&run->out);
	strbuf_release(&run->errs);
}

struct running {
	struct child child;
	int out, errs; /* owned: read ends, -1 at their end */
};

static void log_bytes(struct gitrun *run, const char *data, size_t len)
{
	if (run->log_fd < 0 || !run->log_left)
		return;
	if (len > *run->log_left)
		len = *run->log_left;
	/* a full disk must not stop a push that is under way; the receipt has the essential
	 * part */
	if (len && fd_write_all(run->log_fd, data, len) == 0)
		*run->log_left -= len;
}

/* One read. Closes at the end of file. */
static void read_output(int *fd, struct strbuf *into)
{
	char chunk[16384];
	ssize_t n = read(*fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
		return;
	}
	strbuf_add(into, chunk, (size_t)n);
}

static int start(struct gitrun *run, struct running *running, struct error *err)
{
	int out[2] = {-1, -1}, errs[2] = {-1, -1}, kind;
	int null AUTO_FD = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || pipe2(out, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be started",
				   run->argv[0]);
	int out_read AUTO_FD = out[0], out_write AUTO_FD = out[1];
	if (pipe2(errs, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be started",
				   run->argv[0]);
	int errs_read AUTO_FD = errs[0], errs_write AUTO_FD = errs[1];
	const int stdio[3] = {run->stdin_fd >= 0 ? run->stdin_fd : null, out_write, errs_write};

	kind =
	    spawn_listed(run->row, run->argv, run->env, stdio, run->keep, &running->child, err);
	if (kind)
		return kind;
	running->out = fd_steal(&out_read);
	running->errs = fd_steal(&errs_read);
	fcntl(running->out, F_SETFL, O_NONBLOCK);
	fcntl(running->errs, F_SETFL, O_NONBLOCK);
	return 0;
}

/* Entries of the poll: standard output, standard error, the child's end; then pump; then relay.
 */
enum {
	AT_OUT,
	AT_ERRS,
	AT_END,
	AT_PUMP,
	AT_RELAY = AT_PUMP + PUMP_POLLFDS,
	AT_COUNT = AT_RELAY + RELAY_POLLFDS
};

/* Serves until the child has ended (0) or the deadline has come (-1). */
static int serve(struct gitrun *run, struct running *running)
{
	struct pollfd fds[AT_COUNT];
	bool pumping = run->pump != NULL;

	for (;;) {
		long long left = run->deadline_ms - fd_now_ms();

		if (left <= 0)
			return -1;
		for (size_t i = 0; i < AT_COUNT; i++)
			fds[i] = (struct pollfd){.fd = -1};
		fds[AT_OUT] = (struct pollfd){.fd = running->out, .events = POLLIN};
		fds[AT_ERRS] = (struct pollfd){.fd = running->errs, .events = POLLIN};
		fds[AT_END] = (struct pollfd){.fd = running->child.pidfd, .events = POLLIN};
		if (pumping)
			pump_fill(run->pump, fds + AT_PUMP);
		if (run->relay)
			relay_fill(run->relay, fds + AT_RELAY);
		if (poll(fds, AT_COUNT, left > 60000 ? 60000 : (int)left) <= 0)
			continue;
		if (fds[AT_OUT].revents)
			read_output(&running->out, &run->out);
		if (fds[AT_ERRS].revents)
			read_output(&running->errs, &run->errs);
		if (pumping)
			pumping = pump_move(run->pump, fds + AT_PUMP);
		if (run->relay)
			relay_serve(run->relay, fds + AT_RELAY);
		if (fds[AT_END].revents)
			return 0;
	}
}

/* The child's process group is ended while its leader is not reaped, so that the number is
 * still its own. */
static void finish(struct gitrun *run, struct running *running)
{
	siginfo_t info = {0};

	while (waitid(P_PIDFD, (id_t)running->child.pidfd, &info, WEXITED | WNOHANG | WNOWAIT) <
		   0 &&
	       errno == EINTR)
		;
	if (info.si_pid)
		run->status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
	else
		run->status = -SIGKILL;
	spawn_release(&running->child);
	/* what it wrote last; somebody who still holds the pipe is not waited for */
	for (size_t i = 0; i < 64 && running->out >= 0; i++)
		read_output(&running->out, &run->out);
	for (size_t i = 0; i < 64 && running->errs >= 0; i++)
		read_output(&running->errs, &run->errs);
	fd_close_ptr(&running->out);
	fd_close_ptr(&running->errs);
}

/* Both outputs, without the credential. Only then are they anybody's. */
static int make_public(struct gitrun *run, struct error *err)
{
	struct strbuf *const texts[] = {&run->out, &run->errs};
	int result = 0;

	for (const int *keep = run->keep; keep && *keep >= 0; keep++)
		if (*keep == FD_SECRET)
			result = unsay(run->env, texts, ARRAY_LEN(texts), err);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		log_bytes(run, texts[i]->data, texts[i]->len);
	return result;
}

int gitrun_wait(struct gitrun *run, struct error *err)
{
	struct running running = {
	    .child = {.pidfd = -1, .control = -1, .stderr_fd = -1}, .out = -1, .errs = -1};
	bool full;

	if (start(run, &running, err))
		return err->kind;
	run->expired = serve(run, &running) < 0;
	finish(run, &running);
	full = run->out.full;
	if (make_public(run, err))
		return err->kind;
	if (run->expired)
		return error_set(err, ERROR_FAILED, "%s was not done in time", run->argv[0]);
	if (full)
		return error_set(err, ERROR_FAILED, "%s printed more than %zu bytes",
				 run->argv[0], GITRUN_OUT_MAX);
	return 0;
}
