#include "gitcall.h"

#include <stdlib.h>

#include "pipeline/base/mem.h"
#include "pipeline/publish/attest.h"
#include "pipeline/publish/helper.h"

static void add_arg(struct gitcall *call, const char *word)
{
	if (call->argc + 1 == GITCALL_WORDS)
		abort();
	call->argv[call->argc++] = word;
}

static void add_env(struct gitcall *call, const char *word)
{
	if (call->envc + 1 == GITCALL_WORDS)
		abort();
	call->env[call->envc++] = word;
}

static const char *own(struct gitcall *call, char *taken)
{
	if (call->owned_count == GITCALL_WORDS)
		abort();
	call->owned[call->owned_count++] = taken;
	return taken;
}

/*
 * Besides these git reads the config file of our git dir, which says nothing but that it is
 * bare, and no other (GIT_CONFIG_NOSYSTEM, GIT_CONFIG_GLOBAL). They say again what already
 * holds, so that no later default and no file can say otherwise.
 */
static const char *const config_fixed[] = {
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "core.commitGraph=false",
    "credential.helper=",
    "safe.bareRepository=all", /* the git dir is named, not discovered */
    "gc.auto=0",
    "maintenance.auto=false",
    "push.recurseSubmodules=no",
    "submodule.recurse=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.pushOption=",
    "push.default=nothing",
    "push.useForceIfIncludes=false",
    "push.negotiate=false",
    "advice.pushUpdateRejected=false",
    "color.ui=false",
    "http.followRedirects=false",
    "http.sslVerify=true",
    "http.sslVersion=tlsv1.2",
    "http.delegation=none",
    "http.saveCookies=false",
    "protocol.allow=never",
};

static const char *const env_fixed[] = {
    "PATH=/usr/bin:/bin",
    "HOME=/nonexistent",
    "LC_ALL=C",
    "TZ=UTC",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_NO_REPLACE_OBJECTS=1",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_LFS_SKIP_SMUDGE=1",
    "GIT_CEILING_DIRECTORIES=/",
};

static void add_config(struct gitcall *call, const char *setting)
{
	add_arg(call, "-c");
	add_arg(call, setting);
}

static void begin_https(struct gitcall *call, const struct gitcall_target *target)
{
	const char *user = target->remote->user ? target->remote->user : "";

	add_config(call, "protocol.https.allow=always");
	add_config(call,
		   own(call, mem_printf("http.proxy=http://127.0.0.1:%d", target->relay_port)));
	if (target->ca)
		add_config(call, own(call, mem_printf("http.sslCAInfo=%s", target->ca)));
	add_env(call, "GIT_ALLOW_PROTOCOL=https");
	add_env(call, own(call, mem_printf("GIT_ASKPASS=%s", target->program)));
	add_env(call, HELPER_ENV "=askpass");
	/* as git shows it in its prompts: the URL up to the path */
	add_env(call, own(call, mem_printf(HELPER_ENV_URL "=%.*s",
					   (int)(remote_url_path(target->remote) -
						 target->remote->url),
					   target->remote->url)));
	add_env(call, own(call, mem_printf(HELPER_ENV_USER "=%s", user)));
}

static void begin_ssh(struct gitcall *call, const struct gitcall_target *target)
{
	AUTO_FREE char *host_key = remote_host_key_name(target->remote);

	add_config(call, "protocol.ssh.allow=always");
	add_env(call, "GIT_ALLOW_PROTOCOL=ssh");
	add_env(call, "GIT_ASKPASS=/bin/false");
	add_env(call, own(call, mem_printf("GIT_SSH=%s", target->program)));
	add_env(call, "GIT_SSH_VARIANT=ssh");
	add_env(call, HELPER_ENV "=ssh");
	add_env(call, own(call, mem_printf(HELPER_ENV_PORT "=%d", target->relay_port)));
	add_env(call, own(call, mem_printf(HELPER_ENV_HOST_KEY "=%s", host_key)));
	add_env(call, own(call, mem_printf(HELPER_ENV_USER "=%s", target->remote->user)));
}

/* Of any git: it can reach nothing. */
static void begin_plain(struct gitcall *call, const char *git_dir)
{
	*call = (struct gitcall){.argc = 0};
	add_arg(call, "git");
	add_arg(call, own(call, mem_printf("--git-dir=%s", git_dir)));
	for (size_t i = 0; i < ARRAY_LEN(config_fixed); i++)
		add_config(call, config_fixed[i]);
	for (size_t i = 0; i < ARRAY_LEN(env_fixed); i++)
		add_env(call, env_fixed[i]);
}

static void begin(struct gitcall *call, const struct gitcall_target *target)
{
	begin_plain(call, target->git_dir);
	switch (target->remote->kind) {
	case REMOTE_LOCAL:
		add_config(call, "protocol.fd.allow=always");
		add_env(call, "GIT_ALLOW_PROTOCOL=fd");
		add_env(call, "GIT_ASKPASS=/bin/false");
		break;
	case REMOTE_HTTPS:
		begin_https(call, target);
		break;
	case REMOTE_SSH:
		begin_ssh(call, target);
		break;
	}
}

static const char *address(struct gitcall *call, const struct gitcall_target *target)
{
	if (target->remote->kind == REMOTE_LOCAL)
		return own(call, mem_printf("fd::%d", target->remote_fd));
	return target->remote->url;
}

void gitcall_push(struct gitcall *call, const struct gitcall_target *target, const char *oid,
		  const char *ref, const char *lease, const char *attestation)
{
	begin(call, target);
	add_arg(call, "push");
	add_arg(call, "--porcelain");
	add_arg(call, "--no-verify");
	add_arg(call, "--no-signed");
	add_arg(call, "--no-progress");
	add_arg(call, "--no-recurse-submodules");
	add_arg(call,
		own(call, mem_printf("--force-with-lease=%s:%s", ref, lease ? lease : "")));
	if (attestation) {
		add_arg(call, "--atomic");
		add_arg(call,
			own(call, mem_printf("--force-with-lease=" ATTEST_REF "%s:", oid)));
	}
	add_arg(call, "--");
	add_arg(call, address(call, target));
	add_arg(call, own(call, mem_printf("%s:%s", oid, ref)));
	if (attestation)
		add_arg(call, own(call, mem_printf("%s:" ATTEST_REF "%s", attestation, oid)));
}

void gitcall_ls_remote(struct gitcall *call, const struct gitcall_target *target,
		       const char *ref)
{
	begin(call, target);
	add_arg(call, "ls-remote");
	add_arg(call, "--refs");
	add_arg(call, "--");
	add_arg(call, address(call, target));
	add_arg(call, ref);
}

/* A filter makes the remote one of promises, which git would write into its configuration: here it is in the
 * list already. */
void gitcall_fetch_tip(struct gitcall *call, const struct gitcall_target *target,
		       const char *ref)
{
	static const char *const settings[] = {
	    "remote.tip.promisor=true", "remote.tip.partialclonefilter=tree:0",
	    "fetch.fsckObjects=true",	"fetch.unpackLimit=1",
	    "fetch.parallel=1",		"fetch.writeCommitGraph=false",
	    "transfer.bundleURI=false", "fetch.recurseSubmodules=false"};
	static const char *const words[] = {"fetch",
					    "--quiet",
					    "--no-tags",
					    "--depth=1",
					    "--filter=tree:0",
					    "--refmap=",
					    "--no-write-fetch-head",
					    "--no-auto-gc",
					    "--no-recurse-submodules",
					    "--",
					    "tip"};

	begin(call, target);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		add_config(call, settings[i]);
	add_config(call, own(call, mem_printf("remote.tip.url=%s", address(call, target))));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		add_arg(call, words[i]);
	add_arg(call, ref);
}

void gitcall_ls_head(struct gitcall *call, const struct gitcall_target *target)
{
	static const char *const words[] = {"ls-remote", "--symref", "--"};

	begin(call, target);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		add_arg(call, words[i]);
	add_arg(call, address(call, target));
	add_arg(call, "HEAD");
}

/* A pack stays one, however few objects it has: unpacked, 70 kB of deltas can be a hundred times four GiB. */
void gitcall_fetch_all(struct gitcall *call, const struct gitcall_target *target)
{
	static const char *const settings[] = {
	    "transfer.fsckObjects=true",  "fetch.fsckObjects=true",
	    "fetch.unpackLimit=1",	  "pack.threads=1",
	    "fetch.parallel=1",		  "fetch.writeCommitGraph=false",
	    "transfer.bundleURI=false",	  "fetch.recurseSubmodules=false",
	    "core.alternateRefsCommand=", "core.logAllRefUpdates=false"};
	static const char *const words[] = {"fetch",
					    "--no-progress",
					    "--prune",
					    "--no-tags",
					    "--force",
					    "--refmap=",
					    "--no-write-fetch-head",
					    "--no-auto-gc",
					    "--no-recurse-submodules",
					    "--"};

	begin(call, target);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		add_config(call, settings[i]);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		add_arg(call, words[i]);
	add_arg(call, address(call, target));
	add_arg(call, "+refs/*:refs/*");
	add_arg(call, "^refs/replace/*"); /* they would say that objects are others */
}

/* git's own limits, said because config_fixed switches it off: 6700 loose objects, 50 packs. What no ref leads to goes into a
 * pack of its own, not into as many files. */
void gitcall_gc(struct gitcall *call, const char *git_dir, bool keep_all)
{
	static const char *const settings[] = {"gc.auto=6700",
					       "gc.autoPackLimit=50",
					       "gc.autoDetach=false",
					       "gc.cruftPacks=true",
					       "gc.writeCommitGraph=false",
					       "repack.writeBitmaps=false",
					       "pack.writeReverseIndex=false",
					       "pack.windowMemory=256m"};

	begin_plain(call, git_dir);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		add_config(call, settings[i]);
	add_config(call, keep_all ? "gc.pruneExpire=never" : "gc.pruneExpire=2.weeks.ago");
	add_env(call, "GIT_ALLOW_PROTOCOL=none");
	add_env(call, "GIT_ASKPASS=/bin/false");
	add_arg(call, "gc");
	add_arg(call, "--auto");
	add_arg(call, "--quiet");
}

void gitcall_release(struct gitcall *call)
{
	for (size_t i = 0; i < call->owned_count; i++)
		free(call->owned[i]);
	*call = (struct gitcall){.argc = 0};
}
