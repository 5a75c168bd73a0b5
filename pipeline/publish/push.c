#include "push.h"

#include <stdbool.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/publish/advert.h"
#include "pipeline/publish/attest.h"
#include "pipeline/publish/gitcall.h"
#include "pipeline/publish/gitdir.h"
#include "pipeline/publish/gitrun.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/ours.h"
#include "pipeline/publish/porcelain.h"
#include "pipeline/publish/pump.h"
#include "pipeline/publish/relay.h"
#include "pipeline/publish/rules.h"
#include "pipeline/publish/scratch.h"
#include "pipeline/publish/sshagent.h"
#include "pipeline/publish/sshkey.h"
#include "pipeline/secret.h"

#define FD_OUT_OF_THE_WAY 64 /* above every number that has a meaning */

/* One push under way. */
struct push {
	const struct publish_job *job; /* borrowed */
	const char *oid;	       /* borrowed */
	const char *attestation;       /* borrowed; or NULL */
	struct push_fds fds;
	struct push_result *result; /* borrowed */
	struct gitcall_target target;
	char *git_dir, *program; /* owned */
	struct relay *relay;	 /* owned; https, ssh */
	struct pump pump;	 /* owned; local */
	struct sshagent agent;	 /* ssh */
	int keep[2];		 /* the one descriptor that git and its helpers keep */
	long long deadline_ms;
	size_t log_left;
};

void push_result_init(struct push_result *result)
{
	*result = (struct push_result){.already = false};
	strbuf_init(&result->server, PUSH_SERVER_MAX);
}

void push_result_release(struct push_result *result)
{
	strbuf_release(&result->server);
}

struct push_fds push_fds_look(void)
{
	return (struct push_fds){
	    .secret = fd_is_open(FD_SECRET),
	    .log = fd_is_open(FD_LOG),
	    .net = fd_is_open(FD_NET),
	    .remote = fd_is_open(FD_REMOTE),
	    .sign = fd_is_open(FD_SIGN),
	};
}

/* Closes one of the row's descriptors, once. */
static void close_number(int fd, bool *there)
{
	if (*there)
		close(fd);
	*there = false;
}

/* ---- what git said ---- */

/* What the server said, on one line, for the message: mostly what a hook has to say. */
static void server_words(const struct strbuf *server, char *out, size_t size)
{
	AUTO_STRBUF struct strbuf line = STRBUF_NONE;

	strbuf_init(&line, size);
	for (size_t at = 0; at < server->len;) {
		const char *end = memchr(server->data + at, '\n', server->len - at);
		size_t len = end ? (size_t)(end - server->data) - at : server->len - at;

		if (len && line.len)
			strbuf_adds(&line, "; ");
		strbuf_add(&line, server->data + at, len);
		at += len + 1;
	}
	text_escape(out, size, line.data, line.len);
}

static int explain_refusal(const struct push *push, const struct push_status *status,
			   struct error *err)
{
	const char *ref = push->job->ref, *url = push->job->remote.url;
	char words[768];

	server_words(&push->result->server, words, sizeof(words));
	switch (status->outcome) {
	case PUSH_DECLINED:
		error_set(err, ERROR_NO, "the remote's hook refused %s: %s", ref,
			  words[0] ? words : status->summary);
		return error_next(
		    err,
		    "nothing is lost: when the remote agrees, publish again with agent resume");
	case PUSH_STALE:
	case PUSH_RACED:
		error_set(err, ERROR_NO, "%s could not be written on %s: %s%s%s", ref, url,
			  status->summary, words[0] ? ": " : "", words);
		return error_next(
		    err, "somebody else wrote it meanwhile, or a branch whose name is a part "
			 "of this one "
			 "is in the way: try again, or name another one: agent publish "
			 "--branch NAME");
	case PUSH_SHALLOW:
		error_set(err, ERROR_NO, "%s takes no commits of a shallow repository: %s", url,
			  status->summary);
		return error_next(err,
				  "complete the repository's history: git fetch --unshallow");
	case PUSH_DENIED:
		error_set(err, ERROR_NO, "%s does not allow %s: %s%s%s", url, ref,
			  status->summary, words[0] ? ": " : "", words);
		return error_next(
		    err, "name another branch: agent publish --branch NAME; or ask who "
			 "administers the remote");
	case PUSH_REJECTED:
	case PUSH_NO_LINE:
	case PUSH_NEW:
	case PUSH_UPDATED:
	case PUSH_ALREADY:
		break;
	}
	return error_set(err, ERROR_FAILED, "%s was not taken by %s: %s%s%s", ref, url,
			 status->summary[0] ? status->summary : "git reported nothing about it",
			 words[0] ? ": " : "", words);
}

static int explain_end(const struct push *push, const struct gitrun *run, struct error *err)
{
	const struct error *dial = push->relay ? relay_error(push->relay) : NULL;
	char words[512];

	if (dial && dial->kind) {
		*err = *dial;
		return error_wrap(err, "cannot push to %s", push->job->remote.url);
	}
	if (run->status < 0)
		return error_set(err, ERROR_FAILED,
				 "cannot push to %s: git was ended by signal %d",
				 push->job->remote.url, -run->status);
	porcelain_diagnose(&push->job->remote, run->errs.data, run->errs.len, err);
	server_words(&push->result->server, words, sizeof(words));
	if (words[0] && !err->next[0])
		error_next(err, "the server said: %s", words);
	return err->kind;
}

static void run_fill(struct push *push, const struct gitcall *call, struct gitrun *run)
{
	gitrun_init(run);
	run->argv = call->argv;
	run->env = call->env;
	run->keep = push->keep;
	run->relay = push->relay;
	run->pump = push->pump.fd[0] >= 0 ? &push->pump : NULL;
	run->deadline_ms = push->deadline_ms;
	run->log_fd = push->fds.log ? FD_LOG : -1;
	run->log_left = &push->log_left;
}

static int explain_expiry(const struct push *push, struct error *err)
{
	error_set(err, ERROR_FAILED, "%s did not confirm the push within %lld s",
		  push->job->remote.url, push->job->deadline_s);
	return error_next(err,
			  "it may still have taken it: agent resume finds out and goes on");
}

/* One git push. 0 and *status when git reached the ref, whatever became of it. */
static int push_once(struct push *push, const char *lease, struct push_status *status,
		     struct error *err)
{
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	struct gitcall call __attribute__((cleanup(gitcall_release)));
	char *other AUTO_FREE = NULL;

	event_progress("pushing %s to %s", push->job->ref, push->job->remote.url);
	gitcall_push(&call, &push->target, push->oid, push->job->ref, lease, push->attestation);
	run_fill(push, &call, &run);
	gitrun_wait(&run, err);
	if (push->target.remote_fd >= 0)
		close_number(FD_REMOTE, &push->fds.remote);
	porcelain_server_text(run.errs.data, run.errs.len, &push->result->server);
	if (run.expired)
		return explain_expiry(push, err);
	if (err->kind)
		return err->kind;
	other = push->attestation
		    ? mem_printf("%s:" ATTEST_REF "%s", push->attestation, push->oid)
		    : NULL;
	porcelain_parse(run.out.data, run.out.len, push->oid, push->job->ref, other, status);
	if (status->outcome == PUSH_NO_LINE)
		return explain_end(push, &run, err);
	/* a good line and a bad status do not go together: then nothing is believed */
	if (run.status != 0 &&
	    (status->outcome == PUSH_NEW || status->outcome == PUSH_UPDATED ||
	     status->outcome == PUSH_ALREADY))
		return explain_end(push, &run, err);
	return 0;
}

static int take_status(struct push *push, const struct push_status *status, struct error *err)
{
	switch (status->outcome) {
	case PUSH_NEW:
	case PUSH_UPDATED:
		return 0;
	case PUSH_ALREADY:
		push->result->already = true;
		return 0;
	case PUSH_STALE:
	case PUSH_RACED:
	case PUSH_DECLINED:
	case PUSH_SHALLOW:
	case PUSH_DENIED:
	case PUSH_REJECTED:
	case PUSH_NO_LINE:
		break;
	}
	return explain_refusal(push, status, err);
}

/* ---- whose the ref is ---- */

/* decide() asks for this only when no receipt has the tip. objects: where the remote's objects are;
 * 1, 0 with why, or an error kind. */
static int prove(const struct push *push, const struct json *objects, const char *tip,
		 char why[256], struct error *err)
{
	const struct publish_job *job = push->job;

	why[0] = '\0';
	if (!job->issue)
		return 0;
	if (!job->sign) {
		snprintf(why, 256,
			 "no receipt has it, and without publish.signingKey nothing "
			 "else can tell");
		return 0;
	}
	return ours_check(job->paths, objects, tip, job->issue, why, err);
}

/* ---- over the network ---- */

/* Brings the commit that the ref points at, into a git directory of its own. */
static int fetch_tip(struct push *push, struct error *err)
{
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	struct gitcall call __attribute__((cleanup(gitcall_release)));
	char *git_dir AUTO_FREE = mem_printf("%s/" GITDIR_TIP, push->job->scratch);
	struct gitcall_target target = push->target;
	int scratch AUTO_FD = open(push->job->scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	target.git_dir = git_dir;
	gitcall_fetch_tip(&call, &target, push->job->ref);
	run_fill(push, &call, &run);
	if (scratch < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory");
	if (gitdir_make_empty(scratch, err))
		return err->kind;
	event_progress("looking at %s on %s", push->job->ref, push->job->remote.url);
	gitrun_wait(&run, err);
	if (run.expired)
		return explain_expiry(push, err);
	if (err->kind)
		return err->kind;
	return run.status == 0 ? 0 : explain_end(push, &run, err);
}

static int prove_fetched(struct push *push, const char *tip, char why[256], struct error *err)
{
	char *dir AUTO_FREE = mem_printf("%s/" GITDIR_TIP "/objects", push->job->scratch);
	struct json *list AUTO_JSON = js_array_new();
	struct error no = {0};

	why[0] = '\0';
	js_push_str(list, dir);
	if (push->job->issue && push->job->sign && fetch_tip(push, &no)) {
		if (fd_now_ms() >= push->deadline_ms) {
			*err = no;
			return err->kind;
		}
		snprintf(why, 256, "it cannot be fetched: %.220s", no.message);
		return 0;
	}
	return prove(push, list, tip, why, err);
}

/* The remote's tip of the ref: 1, 0 when it is not there, or an error kind. */
static int ask_tip(struct push *push, char tip[65], struct error *err)
{
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	struct gitcall call __attribute__((cleanup(gitcall_release)));

	gitcall_ls_remote(&call, &push->target, push->job->ref);
	run_fill(push, &call, &run);
	gitrun_wait(&run, err);
	if (run.expired)
		return explain_expiry(push, err);
	if (err->kind)
		return err->kind;
	if (run.status != 0)
		return explain_end(push, &run, err);
	return porcelain_ls_remote(run.out.data, run.out.len, push->job->ref, tip, err);
}

/*
 * First as the supervisor says the ref is. Only when that does not hold is the remote asked
 * what it has, and the rules whether that is ours; then once more, with a lease on exactly
 * that.
 */
static int push_network(struct push *push, struct error *err)
{
	const struct publish_job *job = push->job;
	struct push_status status = {.outcome = PUSH_NO_LINE};
	enum rules_action action;
	char tip[65], why[256] = "";
	int found, proven = 0;

	if (push_once(push, job->expect, &status, err))
		return err->kind;
	if (status.outcome != PUSH_STALE)
		return take_status(push, &status, err);
	found = ask_tip(push, tip, err);
	if (found < 0)
		return err->kind;
	if (found && rules_need_proof(tip, push->oid, job->expect, job->receipts) &&
	    (proven = prove_fetched(push, tip, why, err)) < 0)
		return err->kind;
	if (rules_decide(job->ref, found ? tip : NULL, push->oid, job->expect, job->receipts,
			 proven > 0, why, &action, err))
		return err->kind;
	if (action == RULES_ALREADY) {
		push->result->already = true;
		return 0;
	}
	if (push_once(push, action == RULES_UPDATE ? tip : NULL, &status, err))
		return err->kind;
	return take_status(push, &status, err);
}

static int open_relay(struct push *push, enum relay_kind kind, struct error *err)
{
	AUTO_FREE char *authority = remote_authority(&push->job->remote);

	if (!push->fds.net)
		return error_set(err, ERROR_FAILED, "descriptor %d to agent-dial is missing",
				 FD_NET);
	if (relay_open(kind, authority, FD_NET, &push->relay, err))
		return err->kind;
	push->target.relay_port = relay_port(push->relay);
	return 0;
}

/* What is done once git can reach the server: push_network or ask_network. */
typedef int reached_fn(struct push *push, struct error *err);

static int ask_network(struct push *push, struct error *err)
{
	return ask_tip(push, push->result->tip, err);
}

static int by_https(struct push *push, reached_fn *then, struct error *err)
{
	if (open_relay(push, RELAY_CONNECT, err))
		return err->kind;
	if (push->fds.secret)
		push->keep[0] = FD_SECRET;
	return then(push, err);
}

static int write_known_hosts(const struct publish_job *job, struct error *err)
{
	AUTO_FREE char *name = remote_host_key_name(&job->remote);

	if (!job->known_hosts || !job->known_hosts[0]) {
		error_set(err, ERROR_USAGE,
			  "there is no known_hosts, so %s cannot be recognised",
			  job->remote.url);
		return error_next(
		    err,
		    "check the host's fingerprint with its operator, then add a line for %s to "
		    "known_hosts",
		    name);
	}
	return scratch_write(HELPER_KNOWN_HOSTS, job->known_hosts, strlen(job->known_hosts),
			     err);
}

static int by_ssh(struct push *push, reached_fn *then, struct error *err)
{
	struct secret *key;
	int kind;

	if (write_known_hosts(push->job, err) || open_relay(push, RELAY_FORWARD, err))
		return err->kind;
	if (!push->fds.secret) {
		error_set(err, ERROR_USAGE, "an ssh remote needs a key and there is none");
		return error_next(err, "name its source: publish.sshKey = file:PATH");
	}
	push->fds.secret = false; /* secret_take closes it */
	key = secret_take(FD_SECRET, err);
	if (!key)
		return err->kind;
	kind = sshagent_start(&push->agent, key, &sshkey_push, push->deadline_ms, err);
	secret_wipe(key);
	if (kind == 0)
		kind = then(push, err);
	sshagent_stop(&push->agent);
	return kind;
}

/* ---- to a repository on this machine ---- */

/* Reads what receive-pack says first, whole: 0, or an error kind. */
static int read_advert(struct push *push, int fd, struct strbuf *text, struct advert *advert,
		       struct error *err)
{
	char chunk[65536];
	int state;

	for (;;) {
		struct pollfd entry = {.fd = fd, .events = POLLIN};
		long long left = push->deadline_ms - fd_now_ms();
		ssize_t n;

		if (left <= 0)
			return explain_expiry(push, err);
		if (poll(&entry, 1, left > 60000 ? 60000 : (int)left) <= 0)
			continue;
		n = recv(fd, chunk, sizeof(chunk), 0);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			error_set(err, ERROR_FAILED,
				  "git receive-pack of %s ended before it said anything",
				  push->job->remote.path);
			return error_next(
			    err, "see why, as whoever owns it: git receive-pack %s </dev/null",
			    push->job->remote.path);
		}
		if (strbuf_add(text, chunk, (size_t)n) < 0)
			return error_set(err, ERROR_FAILED, "%s has too many refs",
					 push->job->remote.path);
		state = advert_parse(advert, text->data, text->len, push->job->ref, err);
		if (state)
			return state < 0 ? state : 0;
	}
}

/* Puts git's end of the connection at its number; the other is joined to receive-pack by the
 * pump, which begins with what has been read. */
static int connect_git(struct push *push, int *remote_fd, const struct strbuf *advert,
		       struct error *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	int ours AUTO_FD = pair[0], gits AUTO_FD = pair[1];
	if (dup3(gits, FD_REMOTE, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "descriptor %d", FD_REMOTE);
	pump_init(&push->pump, fd_steal(remote_fd), fd_steal(&ours), advert->data, advert->len);
	push->target.remote_fd = push->keep[0] = FD_REMOTE;
	return 0;
}

/* receive-pack waits for commands: a flush packet says that there are none, and it ends
 * cleanly. */
static void say_nothing(int fd)
{
	send(fd, "0000", 4, MSG_NOSIGNAL);
}

/* Reads what receive-pack says first; *remote is the connection, owned by the caller. */
static int open_local(struct push *push, int *remote, struct strbuf *text,
		      struct advert *advert, struct error *err)
{
	if (!push->fds.remote)
		return error_set(err, ERROR_FAILED,
				 "descriptor %d to git receive-pack is missing", FD_REMOTE);
	/* its number is for git; dup3 in connect_git closes what is there now */
	*remote = fcntl(FD_REMOTE, F_DUPFD_CLOEXEC, FD_OUT_OF_THE_WAY);
	if (*remote < 0)
		return error_errno(err, ERROR_FAILED, errno, "descriptor %d", FD_REMOTE);
	strbuf_init(text, ADVERT_BYTES_MAX);
	return read_advert(push, *remote, text, advert, err);
}

static int ask_local(struct push *push, struct error *err)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert = {.at = 0};
	int remote AUTO_FD = -1;

	if (open_local(push, &remote, &text, &advert, err))
		return err->kind;
	say_nothing(remote);
	snprintf(push->result->tip, sizeof(push->result->tip), "%s", advert.tip);
	return advert.tip[0] != '\0';
}

static int push_local(struct push *push, struct error *err)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	const struct publish_job *job = push->job;
	struct advert advert = {.at = 0};
	struct push_status status = {.outcome = PUSH_NO_LINE};
	enum rules_action action;
	char why[256] = "";
	const char *tip;
	int remote AUTO_FD = -1, proven = 0;

	if (open_local(push, &remote, &text, &advert, err))
		return err->kind;
	tip = advert.tip[0] ? advert.tip : NULL;
	if (rules_need_proof(tip, push->oid, job->expect, job->receipts))
		proven = prove(push, js_get(job->paths, "remote"), tip, why, err);
	if (proven < 0 || rules_decide(job->ref, tip, push->oid, job->expect, job->receipts,
				       proven > 0, why, &action, err)) {
		say_nothing(remote);
		return err->kind;
	}
	if (action == RULES_ALREADY) {
		say_nothing(remote);
		push->result->already = true;
		return 0;
	}
	if (connect_git(push, &remote, &text, err) ||
	    push_once(push, action == RULES_UPDATE ? advert.tip : NULL, &status, err))
		return err->kind;
	return take_status(push, &status, err);
}

/* ---- the call ---- */

static void push_release(struct push *push)
{
	sshagent_stop(&push->agent);
	relay_free(push->relay);
	pump_release(&push->pump);
	free(push->git_dir);
	free(push->program);
	close_number(FD_SECRET, &push->fds.secret);
	close_number(FD_REMOTE, &push->fds.remote);
}

static int reach(const struct publish_job *job, const struct push_fds *fds, const char *oid,
		 const char *attestation, struct push_result *result, struct error *err)
{
	/* without a commit there is nothing to push: then it is asked */
	struct push push __attribute__((cleanup(push_release))) = {
	    .job = job,
	    .oid = oid,
	    .attestation = attestation,
	    .fds = *fds,
	    .result = result,
	    .pump = {.fd = {-1, -1}},
	    .agent = SSHAGENT_NONE,
	    .keep = {-1, -1},
	    .deadline_ms = fd_now_ms() + job->deadline_s * 1000,
	    .log_left = PUSH_LOG_MAX,
	};

	push.git_dir = mem_printf("%s/" GITDIR_NAME, job->scratch);
	push.program = mem_printf("%s/agent-publish", job->libexec);
	push.target = (struct gitcall_target){.remote = &job->remote,
					      .git_dir = push.git_dir,
					      .program = push.program,
					      .ca = job->ca,
					      .remote_fd = -1};
	switch (job->remote.kind) {
	case REMOTE_LOCAL:
		return oid ? push_local(&push, err) : ask_local(&push, err);
	case REMOTE_HTTPS:
		return by_https(&push, oid ? push_network : ask_network, err);
	case REMOTE_SSH:
		return by_ssh(&push, oid ? push_network : ask_network, err);
	}
	return error_set(err, ERROR_USAGE, "unknown kind of remote");
}

int push_commit(const struct publish_job *job, const struct push_fds *fds, const char *oid,
		const char *attestation, struct push_result *result, struct error *err)
{
	return reach(job, fds, oid, attestation, result, err);
}

int push_ask(const struct publish_job *job, const struct push_fds *fds, char tip[65],
	     struct error *err)
{
	struct push_result result;
	int found;

	push_result_init(&result);
	found = reach(job, fds, NULL, NULL, &result, err);
	memcpy(tip, result.tip, sizeof(result.tip));
	push_result_release(&result);
	return found;
}
