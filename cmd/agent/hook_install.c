/* agent hook install, uninstall, check: our hooks in a repository. What was there before is kept under another name,
 * runs first, and is put back. Each step is one rename, so that a push never finds no hook. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/queue.h"

#define SCRIPT_MAX 65536
#define MARK "# Put here by `agent hook install`"

struct hook {
	const char *name, *says; /* the script's second and third line, behind MARK */
};

static const struct hook hooks[] = {
    {"pre-receive", ": asks agent(1) about a push before any ref moves. A hook that was\n"
		    "# here before is pre-receive.chained and runs first. Rules: the agent.* "
		    "variables of this\n"
		    "# repository's configuration.\n"},
    {"post-receive",
     ": lets agent(1) make jobs of pushed task branches. A hook that was\n"
     "# here before is post-receive.chained and runs behind it. Rules: the agent.* "
     "variables of this\n"
     "# repository's configuration.\n"},
};

struct place {
	struct repository repo;
	struct hook_rules rules;
	struct error config_error; /* of the rules */
	int dir;		   /* owned: hooks/ */
	char *dir_path;		   /* owned */
	char *program;		   /* owned: this program */
};

static void place_release(struct place *place)
{
	repository_release(&place->repo);
	hook_rules_release(&place->rules);
	fd_close_ptr(&place->dir);
	free(place->dir_path);
	free(place->program);
}

static int find_program(struct place *place, struct error *err)
{
	place->program = realpath("/proc/self/exe", NULL);
	if (!place->program)
		return error_errno(err, ERROR_FAILED, errno, "/proc/self/exe");
	if (strpbrk(place->program, "'\n"))
		return error_set(err, ERROR_USAGE,
				 "%s: a hook cannot name a program with a quote in its path",
				 place->program);
	return 0;
}

/* hooks/, where an owner who is not root could have put a link for root to write through. */
static int open_hooks(struct place *place, bool make)
{
	bool root = geteuid() == 0;
	const char *common = place->repo.common_dir;
	const int flags = O_RDONLY | O_DIRECTORY;
	int base AUTO_FD =
	    root ? fd_open_unlinked(common, flags) : open(common, flags | O_CLOEXEC);

	if (base < 0 || (make && mkdirat(base, "hooks", 0777) < 0 && errno != EEXIST))
		return -1;
	return openat(base, "hooks", flags | O_CLOEXEC | (root ? O_NOFOLLOW : 0));
}

static int place_open(const char *path, bool make, struct place *place, struct error *err)
{
	char *config AUTO_FREE = NULL;
	bool linked;

	*place = (struct place){.dir = -1};
	if (repository_find(path, &place->repo, err) || find_program(place, err))
		return err->kind;
	config = mem_printf("%s/config", place->repo.common_dir);
	if (hook_rules_read(config, &place->rules, &place->config_error) &&
	    !place->rules.config_ref)
		return *err = place->config_error, err->kind;
	place->dir_path = mem_printf("%s/hooks", place->repo.common_dir);
	place->dir = open_hooks(place, make);
	if (place->dir >= 0)
		return 0;
	linked = errno == ELOOP || errno == ENOTDIR;
	error_errno(err, ERROR_FAILED, errno, "%s", place->dir_path);
	return linked
		   ? error_next(
			 err, "root follows no link there: run this as the repository's owner")
		   : err->kind;
}

/* As hooks/NAME of our sources, with the program written in full. */
static char *script(const struct place *place, const struct hook *hook)
{
	return mem_printf("#!/bin/sh\n" MARK "%sexec '%s' hook %s\n", hook->says,
			  place->program, hook->name);
}

static bool exists(const struct place *place, const char *name, struct stat *st)
{
	return fstatat(place->dir, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether a hook is one of ours, of whatever version. text: its bytes. */
static bool is_ours(const struct place *place, const char *name, struct strbuf *text)
{
	struct error ignored = {0};

	return fd_read_file(place->dir, name, text, &ignored) == 0 && strstr(text->data, MARK);
}

/* Where jobs go. Its owner's word on that is not root's to follow. Owned by the caller; NULL with err. */
static char *state_of(const struct place *place, struct error *err)
{
	struct hook_rule rule = hook_rules_for(&place->rules, "");
	struct stat st;

	if (rule.state_dir[0] && geteuid() == 0 &&
	    (stat(place->repo.common_dir, &st) < 0 || st.st_uid != 0)) {
		error_set(err, ERROR_USAGE,
			  "agent.state = %s is its owner's word, which root does not follow",
			  rule.state_dir);
		return NULL;
	}
	return hook_state_dir(&rule, err);
}

/* Workers compare the branches of a repository with hooks, so that a push whose hook was lost is found. */
static void watch(const struct place *place, bool on)
{
	struct error why = {0};
	char *state AUTO_FREE = state_of(place, &why);
	struct queue *queue AUTO_QUEUE = state ? queue_open(state, &why) : NULL;

	if (!queue || queue_watch(queue, place->repo.git_dir, on, &why))
		printf(
		    "note   a worker does not know of it (%s): name it in queue.repository\n",
		    why.message);
}

/* ---- install ---- */

/* What is there gets its second name; both names are of the same file until ours takes the first. */
static int keep_old(const struct place *place, const char *hook, const char *chained,
		    struct error *err)
{
	struct stat old, kept;

	if (linkat(place->dir, hook, place->dir, chained, 0) == 0)
		return 0;
	if (errno == EEXIST && exists(place, hook, &old) && exists(place, chained, &kept) &&
	    old.st_ino == kept.st_ino && old.st_dev == kept.st_dev)
		return 0; /* an install that was killed here */
	if (errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s/%s", place->dir_path, chained);
	error_set(err, ERROR_USAGE, "%s has both %s, which is not ours, and %s",
		  place->dir_path, hook, chained);
	return error_next(err, "somebody put another hook over ours: join the two by hand");
}

static int install_one(const struct place *place, const struct hook *which, struct error *err)
{
	struct strbuf found AUTO_STRBUF = STRBUF_NONE;
	char *text AUTO_FREE = script(place, which);
	const char *hook = which->name;
	char *chained AUTO_FREE = mem_printf("%s.chained", hook);
	struct stat st;

	strbuf_init(&found, SCRIPT_MAX);
	if (exists(place, hook, &st) && !is_ours(place, hook, &found) &&
	    keep_old(place, hook, chained, err))
		return err->kind;
	if (fd_replace_file(place->dir, hook, text, strlen(text), 0755, err))
		return err->kind;
	printf("%s/%s%s\n", place->dir_path, hook,
	       exists(place, chained, &st) ? " (what was there is .chained and runs too)" : "");
	return 0;
}

int hook_install(const char *path, struct error *err)
{
	struct place place;
	int result = place_open(path, true, &place, err);

	if (result == 0 && place.rules.hooks_path) {
		result = error_set(err, ERROR_USAGE,
				   "git does not look into %s: core.hooksPath = %s",
				   place.dir_path, place.rules.hooks_path);
		error_next(err,
			   "git -C %s config --unset core.hooksPath, or call agent hook "
			   "pre-receive and post-receive from the hooks there",
			   place.repo.common_dir);
	}
	for (size_t i = 0; i < ARRAY_LEN(hooks) && result == 0; i++)
		result = install_one(&place, &hooks[i], err);
	if (result == 0)
		watch(&place, true);
	place_release(&place);
	return result;
}

/* ---- uninstall ---- */

static int uninstall_one(const struct place *place, const char *hook, struct error *err)
{
	struct strbuf found AUTO_STRBUF = STRBUF_NONE;
	char *chained AUTO_FREE = mem_printf("%s.chained", hook);
	struct stat st;
	bool was;

	strbuf_init(&found, SCRIPT_MAX);
	if (!exists(place, hook, &st) || !is_ours(place, hook, &found))
		return 0;
	was = exists(place, chained, &st);
	if ((was ? renameat(place->dir, chained, place->dir, hook)
		 : unlinkat(place->dir, hook, 0)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/%s", place->dir_path, hook);
	printf("%s/%s %s\n", place->dir_path, hook, was ? "is what it was before" : "is gone");
	return 0;
}

int hook_uninstall(const char *path, struct error *err)
{
	struct place place;
	int result = place_open(path, false, &place, err);

	for (size_t i = 0; i < ARRAY_LEN(hooks) && result == 0; i++)
		result = uninstall_one(&place, hooks[i].name, err);
	if (result == 0)
		watch(&place, false);
	place_release(&place);
	return result;
}

/* ---- check ---- */

static void __attribute__((format(printf, 2, 3))) wrong(size_t *count, const char *format, ...)
{
	char *raw AUTO_FREE = NULL, shown[2048];
	va_list args;

	va_start(args, format);
	raw = mem_vprintf(format, args);
	va_end(args);
	text_escape(shown, sizeof(shown), raw, strlen(raw));
	printf("wrong  %s\n", shown);
	(*count)++;
}

/* The program that a script of ours executes. Owned by the caller; NULL when it is not to be found. */
static char *program_of(const char *text)
{
	const char *at = strstr(text, "\nexec '"), *end = at ? strstr(at, "' hook ") : NULL;

	return end ? mem_strndup(at + 7, (size_t)(end - at - 7)) : NULL;
}

static void check_program(const struct place *place, const char *hook, const char *text,
			  size_t *count)
{
	char *program AUTO_FREE = program_of(text);

	if (!program || access(program, X_OK) < 0)
		wrong(count, "%s: %s cannot be run: agent hook install mends it", hook,
		      program ? program : "the program");
	else if (strcmp(program, place->program) != 0)
		wrong(count, "%s: runs %s, this is %s: agent hook install mends it", hook,
		      program, place->program);
}

static void check_one(const struct place *place, const char *hook, uid_t owner, size_t *count)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *chained AUTO_FREE = mem_printf("%s.chained", hook);
	struct stat st;

	strbuf_init(&text, SCRIPT_MAX);
	if (!exists(place, hook, &st)) {
		wrong(count, "%s: not there: agent hook install", hook);
		return;
	}
	if (!is_ours(place, hook, &text)) {
		wrong(count, "%s: not ours: agent hook install keeps it and runs it too", hook);
		return;
	}
	if (!(st.st_mode & 0111))
		wrong(count, "%s: not executable, so git leaves it out: chmod +x", hook);
	if (st.st_uid != 0 && st.st_uid != owner)
		wrong(count, "%s: belongs to uid %u, the repository to %u", hook,
		      (unsigned)st.st_uid, (unsigned)owner);
	if (st.st_mode & 0022)
		wrong(count, "%s: may be written by other users: chmod go-w", hook);
	check_program(place, hook, text.data, count);
	if (exists(place, chained, &st) && S_ISREG(st.st_mode) && !(st.st_mode & 0111))
		wrong(count, "%s: not executable, so it is left out, as git did", chained);
}

/* Where jobs of pushes go, for whoever started this. */
static void tell_queue(const struct place *place, const struct config *config)
{
	const char *path = config_get(config, "queue.socket");
	struct error ignored = {0};
	char *state AUTO_FREE = path ? NULL : state_of(place, &ignored);

	if (path)
		printf("note   jobs of task branches go to the worker at %s (queue.socket)\n",
		       path);
	else
		printf("note   jobs of task branches go to the queue in %s (agent.state)\n",
		       state ? state : ignored.message);
}

static void check_rules(const struct place *place, const struct config *config, uid_t owner,
			size_t *count)
{
	const struct hook_rules *rules = &place->rules;
	bool closed, gates = hook_rules_gates(rules, &closed);
	const char *why, *next;

	if (place->config_error.kind) {
		wrong(count, "%s: every push is refused", place->config_error.message);
		return;
	}
	if (rules->hooks_path)
		wrong(count, "core.hooksPath = %s: git does not look into %s",
		      rules->hooks_path, place->dir_path);
	if (rules->includes)
		wrong(count,
		      "the configuration has an include, which git follows and agent does not");
	if (rules->other_ids)
		wrong(count, "its object ids are not SHA-1, which agent cannot read: what is "
			     "to be looked at is refused");
	if (closed && !tests_get_own_uid(config, &why, &next))
		wrong(count,
		      "agent.gate: tests need a uid of their own, so the hook must start as "
		      "root, or as a user with subordinate ids: pushes to gated refs are "
		      "refused");
	if (gates && owner != 0 && owner != geteuid())
		printf("note   the repository belongs to uid %u: git as uid %u wants "
		       "safe.directory\n",
		       (unsigned)owner, (unsigned)geteuid());
	tell_queue(place, config);
	if (!rules->push_options)
		printf("note   no issue can come as a push option: git config "
		       "receive.advertisePushOptions true\n");
}

int hook_check(const char *path, const struct config *config, struct error *err)
{
	struct place place;
	struct stat st;
	size_t count = 0;
	int result = place_open(path, false, &place, err);

	if (result == 0 && stat(place.repo.common_dir, &st) < 0)
		result = error_errno(err, ERROR_FAILED, errno, "%s", place.repo.common_dir);
	for (size_t i = 0; i < ARRAY_LEN(hooks) && result == 0; i++)
		check_one(&place, hooks[i].name, st.st_uid, &count);
	if (result == 0)
		check_rules(&place, config, st.st_uid, &count);
	if (result == 0 && count)
		result = error_set(err, ERROR_NO, "%s: %zu thing%s wrong", place.dir_path,
				   count, count == 1 ? " is" : "s are");
	else if (result == 0)
		printf("good   %s\n", place.dir_path);
	place_release(&place);
	return result;
}
