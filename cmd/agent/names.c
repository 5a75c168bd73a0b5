/*
 * agent completion names: what there is to name, for a shell that completes a word while somebody waits. So it ends within seconds
 * whatever it reads, prints a few hundred names at most, and only such that a shell takes as they stand. The refs are read as
 * files: no git is run, and what a repository holds is neither run nor obeyed.
 */
#include "agent.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maintain.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define SHOWN_MAX 500
#define NAMES_MAX 100000     /* that are looked at */
#define PACKED_MAX (8 << 20) /* bytes of packed-refs: some hundred thousand */
#define NAME_MAX_BYTES 200
#define DEPTH_MAX 16
#define PATIENCE_S 3

struct names {
	const char *beginning;
	char **items; /* owned */
	size_t count, room, seen;
};

/* Whether no shell finds anything to interpret in it, wherever it is broken into words. */
static bool is_plain(const char *name)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+,-";
	size_t len = strlen(name);

	return len && len <= NAME_MAX_BYTES && name[0] != '-' && strspn(name, plain) == len;
}

static void add(struct names *names, const char *name)
{
	if (names->seen++ >= NAMES_MAX || !is_plain(name) ||
	    strncmp(name, names->beginning, strlen(names->beginning)) != 0)
		return;
	if (names->count == names->room) {
		names->room = names->room ? 2 * names->room : 64;
		names->items = mem_realloc(names->items, names->room, sizeof(*names->items));
	}
	names->items[names->count++] = mem_strdup(name);
}

static int by_name(const void *a, const void *b)
{
	const char *const *left = a, *const *right = b;

	return strcmp(*left, *right);
}

static void print(struct names *names)
{
	size_t shown = 0;

	if (names->count)
		mem_sort(names->items, names->count, sizeof(*names->items), by_name);
	for (size_t i = 0; i < names->count; i++) {
		if ((!i || strcmp(names->items[i], names->items[i - 1]) != 0) &&
		    shown++ < SHOWN_MAX)
			printf("%s\n", names->items[i]);
	}
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
}

/* ---- refs ---- */

static const char *const branches[] = {"refs/heads/", NULL};
static const char *const revisions[] = {"refs/heads/", "refs/tags/", "refs/remotes/", NULL};

/* The files below at/dir, each by its path behind prefix. */
static void add_loose(struct names *names, int at, const char *dir, const char *prefix,
		      int depth)
{
	DIR *stream = fd_list(at, dir);
	const struct dirent *entry;

	while (names->seen < NAMES_MAX && (entry = fd_next(stream))) {
		char *name AUTO_FREE = mem_printf("%s%s", prefix, entry->d_name);
		char *below AUTO_FREE = mem_printf("%s/", name);
		struct stat st;

		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISREG(st.st_mode))
			add(names, name);
		else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			add_loose(names, dirfd(stream), entry->d_name, below, depth + 1);
	}
	if (stream)
		closedir(stream);
}

/* "OID REF" a line (gitrepository-layout(5)). */
static void add_packed(struct names *names, int dir, const char *const *below)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	char *rest, *line;

	strbuf_init(&text, PACKED_MAX);
	if (fd_read_file(dir, "packed-refs", &text, &ignored))
		return;
	rest = text.data;
	while ((line = strsep(&rest, "\n"))) {
		const char *ref = strchr(line, ' ');

		for (size_t i = 0; ref && line[0] != '#' && below[i]; i++)
			if (strncmp(ref + 1, below[i], strlen(below[i])) == 0)
				add(names, ref + 1 + strlen(below[i]));
	}
}

static int add_refs(struct names *names, const char *const *below, struct error *err)
{
	struct repository repo;
	int result = repository_find(NULL, &repo, err);

	if (result == 0) {
		int dir AUTO_FD = open(repo.common_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		for (size_t i = 0; dir >= 0 && below[i]; i++)
			add_loose(names, dir, below[i], "", 0);
		if (dir >= 0)
			add_packed(names, dir, below);
	}
	repository_release(&repo);
	return result;
}

/* ---- the rest ---- */

static int add_runs(struct names *names, struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err), **ids;

	if (!state)
		return err->kind;
	ids = rundir_list(state);
	for (size_t i = 0; ids[i]; i++)
		add(names, ids[i]);
	text_free_words(ids);
	return 0;
}

static void add_task(void *arg, const char *name)
{
	add(arg, name);
}

static int add_kind(struct names *names, const char *kind, struct options *options,
		    struct error *err)
{
	const struct config_task *entry;

	if (strcmp(kind, "runs") == 0)
		return add_runs(names, err);
	if (strcmp(kind, "branches") == 0)
		return add_refs(names, branches, err);
	if (strcmp(kind, "revisions") == 0)
		return add_refs(names, revisions, err);
	if (strcmp(kind, "tasks") == 0)
		return maintain_names(options, add_task, names, err);
	if (strcmp(kind, "mirrors") != 0) {
		error_set(err, ERROR_USAGE, "agent completion names: no names of %s", kind);
		return error_next(err, "runs, branches, revisions, tasks or mirrors");
	}
	for (size_t i = 0; (entry = config_mirror_at(options->config, i)); i++)
		add(names, entry->name);
	return 0;
}

int complete_names(struct options *options, const char *kind, const char *beginning,
		   struct error *err)
{
	struct names names = {.beginning = beginning};
	int result;

	signal(SIGALRM, SIG_DFL);
	alarm(PATIENCE_S);
	result = add_kind(&names, kind, options, err);
	print(&names);
	return result;
}
