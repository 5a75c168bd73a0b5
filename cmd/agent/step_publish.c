/* The publish step: for a local remote git receive-pack outside of any stage, for others
 * agent-dial; then agent-publish, the only process that holds the push credential. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/publish/receive.h"
#include "pipeline/secret.h"
#include "pipeline/url.h"

#define KNOWN_HOSTS_MAX (1 << 20)

extern char **environ;

struct publish_files {
	int tree, verdict, out, log, secret, sign, net, remote;
};

static void close_files(struct publish_files *files)
{
	fd_close_ptr(&files->tree);
	fd_close_ptr(&files->verdict);
	fd_close_ptr(&files->out);
	fd_close_ptr(&files->log);
	fd_close_ptr(&files->secret);
	fd_close_ptr(&files->sign);
	fd_close_ptr(&files->net);
	fd_close_ptr(&files->remote);
}

/* ---- the remote ---- */

int step_known_hosts(const char *named, struct json *remote, struct error *err)
{
	const char *home = getenv("HOME");
	char *path AUTO_FREE =
	    named ? mem_strdup(named) : mem_printf("%s/.ssh/known_hosts", home ? home : "");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open_plain(path, "known_hosts", err);

	strbuf_init(&text, KNOWN_HOSTS_MAX);
	if (fd < 0)
		return err->kind;
	if (fd_read_all(fd, &text) < 0)
		return error_errno(err, ERROR_USAGE, errno, "known_hosts %s", path);
	js_set_strn(remote, "known_hosts", text.data, text.len);
	return 0;
}

int step_add_known_hosts(const struct run *run, struct json *remote, struct error *err)
{
	if (step_known_hosts(config_get(run->config, "publish.knownHosts"), remote, err) == 0)
		return 0;
	return error_next(
	    err, "connect once with ssh and check the host's key, or name the file with "
		 "publish.knownHosts");
}

int step_open_credential(const struct run *run, const char *kind, int *fd, struct error *err)
{
	bool ssh = strcmp(kind, "ssh") == 0;
	const char *key = ssh ? "publish.sshKey" : "publish.token";
	const char *source = config_get(run->config, key);

	if (!source) {
		error_set(err, ERROR_USAGE, "no credential for %s", run->remote_url);
		return error_next(
		    err, "set %s to env:NAME, file:PATH, credential:NAME or command:ARGV", key);
	}
	if (strncmp(source, "env:", 4) == 0)
		secret_adopt_env(environ, source + 4);
	*fd = secret_open(source, err);
	return *fd < 0 ? error_wrap(err, "%s", key) : 0;
}

int step_open_signing_key(const struct run *run, int *fd, struct error *err)
{
	const char *source = config_get(run->config, "publish.signingKey");

	*fd = -1;
	if (!source)
		return 0;
	if (strncmp(source, "env:", 4) == 0)
		secret_adopt_env(environ, source + 4);
	*fd = secret_open(source, err);
	return *fd < 0 ? error_wrap(err, "publish.signingKey") : 0;
}

/* Whoever may write its configuration or its hooks says what runs as its owner: nobody but root may, of root's. */
static int check_roots(int dir, const char *path, struct error *err)
{
	static const char *const names[] = {".",    "config",	   "hooks",
					    ".git", ".git/config", ".git/hooks"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct stat st;

		if (fstatat(dir, names[i], &st, 0) < 0 ||
		    (st.st_uid == 0 && !(st.st_mode & S_IWOTH) &&
		     (!(st.st_mode & S_IWGRP) || st.st_gid == 0)))
			continue;
		error_set(err, ERROR_USAGE,
			  "%s belongs to root, but others may write %s/%s: its hooks would be "
			  "theirs, and run as root",
			  path, path, names[i]);
		return error_next(err, "give it to a user of its own: chown -R git: %s", path);
	}
	return 0;
}

int step_owner(const char *path, struct step_owner *owner, struct error *err)
{
	const struct passwd *found;
	int dir AUTO_FD = -1;
	struct stat st;

	*owner = (struct step_owner){(uid_t)-1, getenv("USER"), getenv("HOME")};
	if (geteuid() != 0)
		return stat(path, &st) < 0 ? error_errno(err, ERROR_USAGE, errno, "%s", path)
					   : 0;
	/* The path is free of links: one that is there now was put there to be somebody else. */
	dir = fd_open_unlinked(path, O_PATH | O_DIRECTORY);
	if (dir < 0 || fstat(dir, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s", path);
	if (st.st_uid == 0)
		return check_roots(dir, path, err);
	found = getpwuid(st.st_uid);
	owner->uid = st.st_uid;
	owner->user = found ? found->pw_name : NULL;
	owner->home = found ? found->pw_dir : NULL;
	return 0;
}

/* What the operator's own hooks need: those of gitolite find their library so. */
static int add_hook_env(const struct config *config, struct receive *plan, struct error *err)
{
	const char *pair;

	for (size_t i = 0; (pair = config_item(config, "publish.env", i)); i++)
		if (receive_add(plan, pair) < 0)
			return error_set(err, ERROR_USAGE,
					 "%s: publish.env = %s: more than 50 of them",
					 config_origin(config, "publish.env"), pair);
	return 0;
}

/* Its hooks run in a normal environment without any descriptor of ours, as the repository's owner. */
static int start_receive_pack(struct run *run, struct supervised *receive, int *remote_fd,
			      struct error *err)
{
	const char *path = js_str(run->remote, "path", "");
	/* A task's is where its repository was when the job was made, by its real path. */
	char *real AUTO_FREE = js_get(run->request, "task") ? NULL : realpath(path, NULL);
	int pair[2], words[2], result;
	struct step_owner owner;
	struct receive plan;
	struct child child;

	if (real)
		path = real;
	if (step_owner(path, &owner, err))
		return error_wrap(err, "remote");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	*remote_fd = pair[0];
	if (pipe2(words, O_CLOEXEC) < 0) {
		close(pair[1]);
		return error_errno(err, ERROR_FAILED, errno, "pipe");
	}
	receive_init(&plan, path, owner.home, owner.user, run->dir.id);
	result = add_hook_env(run->config, &plan, err);
	if (result == 0)
		result = spawn_outside(plan.argv, plan.env, pair[1], pair[1], words[1],
				       owner.uid, &child, err);
	receive_release(&plan);
	close(pair[1]);
	close(words[1]);
	if (result) {
		close(words[0]);
		return result;
	}
	child.stderr_fd = words[0];
	supervise_adopt(&run->sup, receive, "git receive-pack", &child,
			(unsigned)config_number(run->config, "publish.timeout") + 30);
	return 0;
}

static int open_way(struct run *run, struct publish_files *files, struct supervised *dial,
		    struct supervised *receive, struct error *err)
{
	const char *kind = js_str(run->remote, "kind", ""),
		   *host = js_str(run->remote, "host", "");
	const char *ca = config_get(run->config, "publish.ca");

	if (strcmp(kind, "local") == 0)
		return start_receive_pack(run, receive, &files->remote, err);
	if (step_open_credential(run, kind, &files->secret, err))
		return err->kind;
	if (strcmp(kind, "ssh") == 0 && step_add_known_hosts(run, run->remote, err))
		return err->kind;
	if (ca)
		js_set_str(run->remote, "ca", ca);
	if (config_get(run->config, "publish.user"))
		js_set_str(run->remote, "user", config_get(run->config, "publish.user"));
	else if (strcmp(kind, "ssh") == 0 && !js_str(run->remote, "user", NULL)) {
		struct passwd *me = getpwuid(geteuid());

		js_set_str(run->remote, "user", me ? me->pw_name : "git");
	}
	return step_dial(&run->sup, run->config, dial, host,
			 (int)js_int(run->remote, "port", 0), strcmp(kind, "https") == 0,
			 url_is_loopback(host) ||
			     strcmp(config_get(run->config, "publish.private"), "yes") == 0,
			 &files->net, err);
}

/* ---- the job ---- */

/* Of the prompt only its digest leaves the run: the first line of the conversation. NULL when
 * there is none. */
static struct json *prompt_digest(const struct run *run, int round)
{
	char *name AUTO_FREE = round_file(round, "conversation.jsonl");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	struct json *digest;
	char hex[65];

	strbuf_init(&text, STRBUF_MAX);
	if (fd_read_file(run->dir.fd, name, &text, &ignored) ||
	    !memchr(text.data, '\n', text.len))
		return NULL;
	sha256_hex(text.data, strcspn(text.data, "\n"), hex);
	digest = js_object_new();
	js_set_str(digest, "sha256", hex);
	return digest;
}

/* The command that made the change, where no model did. New. */
static struct json *command_facts(const struct json *changes)
{
	struct json *facts = js_object_new(), *digest = js_object_new();

	js_set_str(digest, "sha256", js_str(changes, "command_sha256", ""));
	js_set_str(facts, "text", js_str(changes, "command", ""));
	js_set(facts, "digest", digest);
	js_set_str(facts, "network", js_str(changes, "network", "none"));
	return facts;
}

/* What the attestation says of the run, beside what agent-publish reads itself. New. */
static struct json *attest_about(const struct run *run, int round)
{
	char *changes_name AUTO_FREE = round_file(round, "changes.json");
	struct error ignored = {0};
	struct json *changes AUTO_JSON =
	    rundir_read(&run->dir, changes_name, "changes", CHANGES_MAX, &ignored);
	struct json *about = js_object_new(), *issue = js_object_new();
	struct json *prompt = prompt_digest(run, round);

	js_set_str(about, "run", run->dir.id);
	js_set_str(issue, "sha256", js_str(js_get(run->request, "issue"), "sha256", ""));
	js_set(about, "issue", issue);
	if (run_change_command(run))
		js_set(about, "command", command_facts(changes));
	else
		js_set_str(about, "model", js_str(changes, "model", ""));
	if (prompt)
		js_set(about, "prompt", prompt);
	js_set_int(about, "created", js_int(run->request, "created", 0));
	js_set_int(about, "round", round);
	js_set_str(about, "tool", "agent " AGENT_VERSION);
	js_set_str(about, "test_command", config_get(run->config, "test.command"));
	if (run->deps_key)
		js_set_str(about, "deps", run->deps_key);
	return about;
}

/* Where the objects of a repository on this machine are: what its branch points at is looked at when no
 * receipt has it. */
static void add_remote_objects(const struct run *run, struct json *paths)
{
	struct json *list = js_array_new();
	struct error ignored = {0};
	struct repository remote;

	js_set(paths, "remote", list);
	if (repository_find(js_str(run->remote, "path", ""), &remote, &ignored) == 0) {
		char *objects AUTO_FREE = mem_printf("%s/objects", remote.common_dir);

		js_push_str(list, objects);
		for (size_t i = 0; i < remote.alternate_count; i++)
			js_push_str(list, remote.alternates[i]);
	}
	repository_release(&remote);
}

static struct json *publish_job(struct run *run, int round, const char *scratch,
				const char *objects, bool sign, struct error *err)
{
	char *tree_name AUTO_FREE = round_file(round, "tree.json");
	struct json *tree AUTO_JSON = rundir_read(&run->dir, tree_name, "tree", TREE_MAX, err);
	struct json *job AUTO_JSON = js_object_new(), *paths = repository_paths(&run->repo);
	struct json *author = js_object_new(), *receipts;
	const char *issue = js_str(js_get(run->request, "issue"), "identity", "");
	const char *programs = spawn_program_dir(err);
	char *digest AUTO_FREE = NULL;

	js_set(job, "paths", paths);
	js_set(job, "author", author);
	receipts = programs && tree
		       ? ledger_receipts(run->ledger, issue, run->remote_url, run_ref(run), err)
		       : NULL;
	if (!receipts)
		return NULL;
	js_unset(paths, "workdir");
	js_set_str(paths, "objects", objects);
	js_set_str(paths, "scratch", scratch);
	js_set_str(paths, "libexec", programs);
	if (js_str(run->remote, "ca", NULL))
		js_set_str(paths, "ca", js_str(run->remote, "ca", NULL));
	if (strcmp(js_str(run->remote, "kind", ""), "local") == 0)
		add_remote_objects(run, paths);
	js_set(job, "remote", js_copy(run->remote));
	js_set_str(job, "ref", run_ref(run));
	js_set_str(job, "expect", js_str(run->request, "expect", NULL));
	js_set(job, "receipts", receipts);
	digest = issue_digest(run);
	js_set_str(job, "issue", digest);
	js_set_str(job, "base_commit", run_base(run, "commit"));
	js_set_str(job, "base_tree", run_base(run, "tree"));
	js_set_str(job, "tree", js_str(tree, "tree", ""));
	js_set_str(author, "name", config_get(run->config, "author.name"));
	js_set_str(author, "email", config_get(run->config, "author.email"));
	js_set_int(job, "time", js_int(run->request, "created", 0));
	js_set_int(job, "deadline_s", config_number(run->config, "publish.timeout"));
	js_set_bool(job, "sign", sign);
	if (sign && strcmp(config_get(run->config, "publish.attest"), "yes") == 0)
		js_set(job, "attest", attest_about(run, round));
	return MEM_STEAL(job);
}

/* Server text as the server said it, escaped, each line marked as git does. */
static void show_server(struct run *run, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\r\n");

		if (len)
			journal_note(&run->journal, "           remote: %.*s", (int)len, text);
		text += len + (text[len] ? 1 : 0);
	}
}

/* {"event":"commit"} comes before the push: from then on the branch is known to be ours. */
static struct json *on_publish_event(void *arg, const char *event, struct json *fields)
{
	struct run *run = arg;
	struct json *answer = NULL;
	struct error err = {0};
	const char *oid = js_str(fields, "oid", "");
	const char *issue = js_str(js_get(run->request, "issue"), "identity", "");

	if (strcmp(event, "commit") == 0 && strspn(oid, "0123456789abcdef") == 40 && !oid[40]) {
		if (ledger_add_receipt(run->ledger, run->dir.id, issue, run->remote_url,
				       run_ref(run), oid, &err))
			journal_note(&run->journal, "note: %s", err.message);
		journal_event(&run->journal, "commit", js_copy(fields));
	}
	if (strcmp(event, "server") == 0)
		show_server(run, js_str(fields, "text", ""));
	return answer;
}

static int run_publish(struct run *run, const struct json *job,
		       const struct publish_files *files, struct error *err)
{
	struct supervised stage = {0};
	struct spawn_fd fds[9];
	const struct {
		int number, fd;
	} have[] = {{FD_TREE, files->tree},	{FD_VERDICT, files->verdict},
		    {FD_OUT, files->out},	{FD_LOG, files->log},
		    {FD_SECRET, files->secret}, {FD_NET, files->net},
		    {FD_REMOTE, files->remote}, {FD_SIGN, files->sign}};
	size_t count = 0;
	int result;

	for (size_t i = 0; i < ARRAY_LEN(have); i++)
		if (have[i].fd >= 0)
			fds[count++] = (struct spawn_fd){have[i].number, have[i].fd};
	result = supervise_start(&run->sup, &stage, STAGE_PUBLISH, job, fds, count,
				 (unsigned)config_number(run->config, "publish.timeout") + 60,
				 on_publish_event, run, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	return result;
}

/* ---- what people see ---- */

/* What lies past our boundary is said once for each server that was pushed to: a mark in the
 * state directory remembers that it was. */
static void warn_of_ci(struct run *run)
{
	char digest[65], *mark AUTO_FREE = NULL, *dir AUTO_FREE = NULL,
			       *server AUTO_FREE = NULL;
	const char *host = js_str(run->remote, "host", NULL);
	int fd AUTO_FD = -1;

	if (!host || strncmp(run_ref(run), "refs/heads/", 11) != 0)
		return; /* a local repository has only its hooks; other refs start nothing */
	server = mem_printf("%s:%lld", host, js_int(run->remote, "port", 0));
	sha256_hex(server, strlen(server), digest);
	dir = mem_printf("%s/told", run->dir.state);
	mark = mem_printf("%s/ci-%.16s", dir, digest);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return;
	fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	journal_note(
	    &run->journal,
	    "note: if %s starts CI for branches, it runs there what the model wrote, with "
	    "CI's secrets and network and without this jail: restrict CI for agent/*, or "
	    "set publish.ref = refs/agent/* (said once a server)",
	    host);
}

/* The envelope in a file of its own, for whoever collects them. */
static void keep_attestation(const struct run *run, const struct json *receipt)
{
	const struct json *envelope = js_get(receipt, "attestation");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};

	if (!envelope || rundir_has(&run->dir, "publish/attestation.json"))
		return;
	strbuf_init(&text, STRBUF_MAX);
	js_format(envelope, &text);
	strbuf_addc(&text, '\n');
	fd_replace_file(run->dir.fd, "publish/attestation.json", text.data, text.len, 0600,
			&ignored);
}

static int tell(struct run *run, bool before, struct error *err)
{
	struct json *receipt AUTO_JSON =
	    rundir_read(&run->dir, "publish/receipt.json", "receipt", VERDICT_MAX, err);

	if (!receipt)
		return err->kind ? err->kind : ERROR_FAILED;
	journal_done(&run->journal, "%s%s at %.12s on %s", run_branch(run),
		     before || js_bool(receipt, "already", false) ? " was there already" : "",
		     js_str(receipt, "commit", ""), js_str(receipt, "url", run->remote_url));
	keep_attestation(run, receipt);
	if (js_str(receipt, "signed_by", NULL))
		journal_note(&run->journal, "           signed by %s%s%s",
			     js_str(receipt, "signed_by", ""),
			     js_str(receipt, "attestation_ref", NULL) ? ", attested in " : "",
			     js_str(receipt, "attestation_ref", ""));
	if (!before) {
		show_server(run, js_str(receipt, "server", ""));
		warn_of_ci(run);
	}
	return 0;
}

static int open_files(struct run *run, int round, struct publish_files *files,
		      struct error *err)
{
	char *tree AUTO_FREE = round_file(round, "tree.json");
	char *verdict AUTO_FREE = round_file(round, "verdict.json");

	files->tree = rundir_file(&run->dir, tree, err);
	files->verdict = files->tree < 0 ? -1 : rundir_file(&run->dir, verdict, err);
	files->out =
	    files->verdict < 0 ? -1 : rundir_part(&run->dir, "publish/receipt.json", err);
	files->log = files->out < 0 ? -1 : rundir_part(&run->dir, "publish/log", err);
	return files->log < 0 ? err->kind : 0;
}

/* ---- what the ref has ---- */

static struct json *tip_job(struct run *run, const char *scratch, struct error *err)
{
	struct json *job = js_object_new(), *paths = repository_paths(&run->repo);
	const char *programs = spawn_program_dir(err);

	js_unset(paths, "workdir");
	js_set_str(paths, "scratch", scratch);
	js_set_str(paths, "libexec", programs);
	if (js_str(run->remote, "ca", NULL))
		js_set_str(paths, "ca", js_str(run->remote, "ca", NULL));
	js_set_bool(job, "ask", true);
	js_set(job, "paths", paths);
	js_set(job, "remote", js_copy(run->remote));
	js_set_str(job, "ref", run_ref(run));
	js_set_int(job, "deadline_s", config_number(run->config, "publish.timeout"));
	return job;
}

static int read_tip(struct run *run, char tip[65], struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	const char *oid;

	if (rundir_accept(&run->dir, "tip.json", VERDICT_MAX, false, err))
		return err->kind;
	answer = rundir_read(&run->dir, "tip.json", "tip", VERDICT_MAX, err);
	if (!answer)
		return err->kind ? err->kind : ERROR_FAILED;
	oid = js_str(answer, "tip", "");
	if (oid[0] && !text_is_hex(oid, 40))
		return error_set(err, ERROR_FAILED, "%s: what %s has is no object id",
				 run->remote_url, run_ref(run));
	snprintf(tip, 65, "%s", oid);
	return 0;
}

int step_tip(struct run *run, char tip[65], struct error *err)
{
	struct publish_files files = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct supervised dial = {0}, receive = {0};
	char *scratch AUTO_FREE = rundir_subdir(&run->dir, "tip", err);
	struct json *job AUTO_JSON = NULL;
	struct error ignored = {0};
	int result;

	tip[0] = '\0';
	if (!scratch || rundir_give(scratch, STAGE_UID_BASE + STAGE_PUBLISH, err) ||
	    (files.out = rundir_part(&run->dir, "tip.json", err)) < 0)
		return err->kind;
	result = open_way(run, &files, &dial, &receive, err);
	if (result == 0) {
		job = tip_job(run, scratch, err);
		result = run_publish(run, job, &files, err);
	}
	if (receive.name && result == 0)
		supervise_wait(&run->sup, &receive, &ignored);
	supervise_end(&run->sup, &dial);
	supervise_end(&run->sup, &receive);
	close_files(&files);
	if (result == 0)
		result = read_tip(run, tip, err);
	return result;
}

/* ---- the step ---- */

int step_publish(struct run *run, int round, struct error *err)
{
	char *dir AUTO_FREE = NULL, *scratch AUTO_FREE = NULL, *objects AUTO_FREE = NULL;
	struct publish_files files = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct supervised dial = {0}, receive = {0};
	struct json *job AUTO_JSON = NULL;
	struct error ignored = {0};
	int result;

	journal_stage(&run->journal, "publish", run->remote_url);
	if (rundir_has(&run->dir, "publish/receipt.json"))
		return tell(run, true, err);
	dir = rundir_subdir(&run->dir, "publish", err);
	fd_remove_tree(run->dir.fd,
		       "publish/scratch"); /* of an attempt that did not end well */
	scratch = dir ? rundir_subdir(&run->dir, "publish/scratch", err) : NULL;
	objects = scratch ? rundir_subdir(&run->dir, "objects", err) : NULL;
	if (!objects || rundir_give(scratch, STAGE_UID_BASE + STAGE_PUBLISH, err) ||
	    rundir_give(objects, STAGE_UID_BASE + STAGE_PUBLISH, err))
		return err->kind;
	result = open_files(run, round, &files, err);
	if (result == 0)
		result = step_open_signing_key(run, &files.sign, err);
	if (result == 0)
		result = open_way(run, &files, &dial, &receive, err);
	if (result == 0) {
		job = publish_job(run, round, scratch, objects, files.sign >= 0, err);
		result = job ? run_publish(run, job, &files, err) : err->kind;
	}
	close_files(&files);
	if (receive.name && result == 0)
		supervise_wait(&run->sup, &receive,
			       &ignored); /* its last hooks; it has a deadline */
	supervise_end(&run->sup, &dial);
	supervise_end(&run->sup, &receive);
	fd_remove_tree(run->dir.fd, "publish/scratch");
	rundir_accept(&run->dir, "publish/log", (size_t)1 << 24, true, &ignored);
	if (result == 0)
		result =
		    rundir_accept(&run->dir, "publish/receipt.json", VERDICT_MAX, false, err);
	if (result == ERROR_NO && !err->next[0])
		error_next(
		    err,
		    "nothing is lost: agent resume %s pushes again without calling the model",
		    run->dir.id);
	return result ? result : tell(run, false, err);
}
