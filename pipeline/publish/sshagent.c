#include "sshagent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/gitrun.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/sshkey.h"
#include "pipeline/secret.h"

static const char *const agent_env[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C",
					"TZ=UTC", NULL};
static const char agent_socket[] = "SSH_AUTH_SOCK=" HELPER_AGENT_SOCKET;
static const char *const add_env[] = {
    "PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC", agent_socket, NULL};

void sshagent_stop(struct sshagent *agent)
{
	spawn_release(&agent->child);
	fd_close_ptr(&agent->out);
	agent->out = -1;
	unlink(HELPER_AGENT_SOCKET);
}

/* It prints its socket's name once it listens: that line is the sign to go on. */
static int wait_for_line(const struct sshagent *agent, long long deadline_ms, struct error *err)
{
	char chunk[512];

	for (;;) {
		struct pollfd fd = {.fd = agent->out, .events = POLLIN};
		long long left = deadline_ms - fd_now_ms();
		ssize_t n;

		if (left <= 0)
			return error_set(err, ERROR_FAILED, "ssh-agent was not ready in time");
		if (poll(&fd, 1, left > 60000 ? 60000 : (int)left) <= 0)
			continue;
		n = read(agent->out, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(err, ERROR_FAILED, "ssh-agent ended at once");
		if (memchr(chunk, '\n', (size_t)n))
			return 0;
	}
}

static int start_agent(struct sshagent *agent, enum stage_id row, long long deadline_ms,
		       struct error *err)
{
	static const char *const argv[] = {"ssh-agent", "-D", "-a", HELPER_AGENT_SOCKET, NULL};
	int ends[2], null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "ssh-agent cannot be started");
	agent->out = ends[0];
	int write_end AUTO_FD = ends[1];
	const int stdio[3] = {null, write_end, null};

	unlink(HELPER_AGENT_SOCKET); /* of a process that was killed */
	if (spawn_listed(row, argv, agent_env, stdio, NULL, &agent->child, err))
		return err->kind;
	close(fd_steal(&write_end));
	return wait_for_line(agent, deadline_ms, err);
}

static int add_key(const struct secret *key, const struct sshkey_use *use,
		   long long deadline_ms, struct error *err)
{
	static const char *const argv[] = {"ssh-add", "-q", "-", NULL};
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	char words[256];
	size_t len;
	const char *text = secret_expose(key, &len);
	int ends[2];

	gitrun_init(&run);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "pipe for ssh-add");
	int read_end AUTO_FD = ends[0], write_end AUTO_FD = ends[1];
	/* SECRET_MAX and the newline, which ssh-add wants and secret_take took, fit into a pipe
	 * at once */
	if (fd_write_all(write_end, text, len) < 0 || fd_write_all(write_end, "\n", 1) < 0)
		return error_errno(err, ERROR_FAILED, errno, "pipe for ssh-add");
	close(fd_steal(&write_end));
	run.row = use->row;
	run.argv = argv;
	run.env = add_env;
	run.stdin_fd = read_end;
	run.deadline_ms = deadline_ms;
	if (gitrun_wait(&run, err))
		return err->kind;
	if (run.status == 0)
		return 0;
	text_escape(words, sizeof(words), run.errs.data, run.errs.len);
	error_set(err, ERROR_USAGE, "ssh-add does not take the %s as a key: %s", use->noun,
		  words);
	return error_next(err, "check the source that %s names", use->config);
}

int sshagent_start(struct sshagent *agent, const struct secret *key,
		   const struct sshkey_use *use, long long deadline_ms, struct error *err)
{
	size_t len;
	const char *text = secret_expose(key, &len);

	if (sshkey_check(text, len, use, err))
		return err->kind;
	if (start_agent(agent, use->row, deadline_ms, err) ||
	    add_key(key, use, deadline_ms, err)) {
		sshagent_stop(agent);
		return err->kind;
	}
	return 0;
}
