/* agent-egress beside a jail that has a way out: a warm's, or that of a command that makes a change. */
#include "agent.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/fds.h"

#define DECISIONS_MAX 1000

static struct json *on_event(void *arg, const char *event, struct json *fields)
{
	struct egress *egress = arg;

	journal_event(&egress->run->journal, event, js_copy(fields));
	if (js_len(egress->decisions) < DECISIONS_MAX)
		js_push(egress->decisions, js_copy(fields));
	return NULL;
}

int egress_begin(struct run *run, struct egress *egress, const struct json *egress_job,
		 unsigned wall_s, int *jail_end, struct error *err)
{
	struct json *job AUTO_JSON = js_copy(egress_job);
	int pair[2], result;

	*egress = (struct egress){.run = run, .decisions = js_array_new()};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	if (!js_get(job, "paths"))
		js_set(job, "paths", js_object_new());
	result = supervise_start(&run->sup, &egress->stage, STAGE_EGRESS, job,
				 (struct spawn_fd[]){{FD_EGRESS, pair[1]}}, 1, wall_s, on_event,
				 egress, err);
	egress->stage.shown = false;
	close(pair[1]);
	*jail_end = pair[0];
	return result;
}

/* Its last decisions may still be on their way: it is asked to end and heard out. */
void egress_end(struct run *run, struct egress *egress)
{
	struct error ignored = {0};

	if (egress->stage.child.pid > 0 && !egress->stage.ended) {
		shutdown(egress->stage.child.control, SHUT_WR);
		supervise_wait(&run->sup, &egress->stage, &ignored);
	}
	supervise_end(&run->sup, &egress->stage);
}
