/* What can be known before anything is paid for: the model and its key, the remote and its credential, the
 * test command. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/remote.h"
#include "pipeline/secret.h"
#include "pipeline/url.h"
#include "sandbox/subuid.h"

extern char **environ;

static const char *default_key(const char *model)
{
	return strncmp(model, "anthropic:", 10) == 0 ? "env:ANTHROPIC_API_KEY"
						     : "env:OPENAI_API_KEY";
}

int open_plain(const char *path, const char *what, struct error *err)
{
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		error_errno(err, ERROR_USAGE, errno, "%s %s", what, path);
	else if (!S_ISREG(st.st_mode))
		error_set(err, ERROR_USAGE, "%s %s is not a regular file", what, path);
	else
		return fd_steal(&fd);
	return -1;
}

/* Opens the model key now, so that a missing one is told at once. -1 stays for replay and for
 * servers on loopback, which need none. */
int run_check_model(struct run *run, struct error *err)
{
	const char *model = config_get(run->config, "model.name");
	const char *source = config_get(run->config, "model.key");
	const char *base_url = config_get(run->config, "model.baseUrl");
	struct url url = {0};

	if (run->model_checked)
		return 0;
	run->model_checked = true;
	if (strncmp(model, "replay:", 7) == 0) {
		int fd AUTO_FD = open_plain(model + 7, "recording", err);

		return fd < 0 ? error_next(err, "name a conversation.jsonl of a run: --model "
						"replay:FILE")
			      : 0;
	}
	if (strncmp(model, "anthropic:", 10) != 0 && strncmp(model, "openai:", 7) != 0) {
		error_set(err, ERROR_USAGE, "unknown model %s", model);
		return error_next(
		    err, "write anthropic:NAME, openai:NAME (and whatever speaks its API, with "
			 "--base-url) or replay:FILE");
	}
	if (base_url && url_parse(base_url, &url, err))
		return error_wrap(err, "model.baseUrl");
	if (!source && base_url && url_is_loopback(url.host) &&
	    !getenv(default_key(model) + 4)) {
		struct error ignored = {0};

		run->key_fd = secret_open(default_key(model), &ignored);
		return 0;
	}
	if (source && strncmp(source, "env:", 4) == 0)
		secret_adopt_env(environ, source + 4);
	run->key_fd = secret_open(source ? source : default_key(model), err);
	return run->key_fd < 0 ? error_wrap(err, "model.key") : 0;
}

static bool has(const char *path, const char *name)
{
	char *whole AUTO_FREE = mem_printf("%s/%s", path, name);

	/* what may not be looked at is somebody else's to refuse */
	return access(whole, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* As far as it can be seen from here, before a model is paid: a repository that is there, for others what is needed on the
 * way. */
static int check_way(const struct run *run, const struct remote *remote, struct error *err)
{
	const char *ca = config_get(run->config, "publish.ca");
	struct json *ignored AUTO_JSON = js_object_new();
	int fd AUTO_FD = -1;

	if (remote->kind == REMOTE_LOCAL && access(remote->path, F_OK) < 0) {
		error_errno(err, ERROR_USAGE, errno, "remote %s", remote->path);
		return error_next(
		    err, "make it (git init --bare), or name another with -c publish.remote=");
	}
	if (remote->kind == REMOTE_LOCAL) {
		/* one that is damaged is to be mended, and the run goes on then */
		if (has(remote->path, ".git") || has(remote->path, "HEAD"))
			return 0;
		error_set(err, ERROR_USAGE, "remote %s is no git repository", remote->path);
		return error_next(err,
				  "git init --bare %s makes it one; or name another with "
				  "-c publish.remote=",
				  remote->path);
	}
	if (step_open_credential(run, remote_kind_text(remote->kind), &fd, err))
		return err->kind;
	if (remote->kind == REMOTE_SSH)
		return step_add_known_hosts(run, ignored, err);
	if (ca && access(ca, R_OK) < 0)
		return error_errno(err, ERROR_USAGE, errno, "publish.ca = %s", ca);
	return 0;
}

int run_check_remote(struct run *run, struct error *err)
{
	struct remote remote = {0};
	int result;

	run->remote_url =
	    repository_remote_url(&run->repo, config_get(run->config, "publish.remote"), err);
	if (!run->remote_url)
		return err->kind;
	result = remote_parse(run->remote_url,
			      run->repo.work_dir ? run->repo.work_dir : run->repo.git_dir,
			      &remote, err);
	if (result == 0) {
		run->remote = remote_to_json(&remote);
		free(run->remote_url); /* from now on without the user: it may be a token */
		run->remote_url = mem_strdup(remote.url);
		result = check_way(run, &remote, err);
	}
	if (result == 0) {
		int fd AUTO_FD = -1;

		result = step_open_signing_key(run, &fd, err);
	}
	remote_release(&remote);
	return result;
}

bool tests_get_own_uid(const struct config *config, const char **why, const char **next)
{
	struct subuid ids;

	if (geteuid() == 0)
		return true;
	if (!config || strcmp(config_get(config, "jail.uid"), "shared") != 0)
		return subuid_find(&ids, why, next);
	*why = "jail.uid = shared";
	*next = "take jail.uid out of the configuration";
	return false;
}

int run_check_uid(const struct run *run, struct error *err)
{
	const char *why, *next;

	if (!run->separate_uid || tests_get_own_uid(run->config, &why, &next))
		return 0;
	error_set(err, ERROR_ISOLATION,
		  "nobody watches this run, and its tests would have the uid of whoever starts "
		  "them, %u: %s",
		  (unsigned)geteuid(), why);
	return error_next(err,
			  "start agent work as root (agent-worker.service): then they get "
			  "a uid that nothing else has; or %s",
			  next);
}

int run_check_command(const struct run *run, struct error *err)
{
	const char *command = config_get(run->config, "test.command");

	if (command && command[strspn(command, " \t\n")])
		return 0;
	error_set(err, ERROR_USAGE, command ? "the test command is empty" : "no test command");
	return error_next(
	    err, "name one with --test 'make check', or commit .agent/config with command = "
		 "make check under [test]");
}
