#include "stage.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "sandbox/restrict.h"

#define JOB_MAX ((size_t)16 << 20)
#define PATHS_MOST 256 /* of one job */

#ifdef AGENT_SANITIZED
/* The leak checker traces its own process, which a non-dumpable one under our filter does not
 * allow; the symbolizer is a program of its own; status 1 would be a clean "no". Here and not
 * in the environment, which is the row's alone. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:symbolize=0:exitcode=4";
}

const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "symbolize=0:exitcode=4:print_stacktrace=0";
}
#endif

/* ---- (1) what was inherited is exactly the row's ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const struct stage_row *find_row(int argc, char **argv, struct error *err)
{
	const char *program = argc > 0 ? base_name(argv[0]) : "?";
	const struct stage_row *row = NULL;

	if (argc == 1 || argc == 2)
		row = stage_find(program, argv[1]);
	if (!row || (argc == 2) != (row->mode != NULL)) {
		error_set(err, ERROR_ISOLATION, "the stage table has no such row");
		error_next(err, "do not start this program by hand: \"agent run\" does it");
		return NULL;
	}
	return row;
}

static int check_environment(const struct stage_row *row, char **env, struct error *err)
{
	size_t rows = 0;

	for (const struct stage_env *want = row->env; want->name; want++, rows++) {
		size_t len = strlen(want->name), found = 0;

		for (char **have = env; *have; have++) {
			if (strncmp(*have, want->name, len) != 0 || (*have)[len] != '=')
				continue;
			if (strcmp(*have + len + 1, want->value) != 0)
				return error_set(
				    err, ERROR_ISOLATION,
				    "environment: %s is not the value of the row %s",
				    want->name, row->name);
			found++;
		}
		if (found != 1)
			return error_set(err, ERROR_ISOLATION,
					 "environment: %s is not there once", want->name);
	}
	for (char **have = env; *have; have++) {
		size_t len = strcspn(*have, "="), i = 0;

		while (row->env[i].name && (strlen(row->env[i].name) != len ||
					    strncmp(row->env[i].name, *have, len) != 0))
			i++;
		if (!row->env[i].name)
			return error_set(err, ERROR_ISOLATION,
					 "environment: %.*s is not in the row %s",
					 (int)(len > 64 ? 64 : len), *have, row->name);
	}
	return 0;
}

static bool row_has_fd(const struct stage_row *row, int fd)
{
	for (const int *p = row->fds; *p >= 0; p++)
		if (*p == fd)
			return true;
	return false;
}

/* Calls visit for each open descriptor but the one that lists them. */
static int check_each_descriptor(const struct stage_row *row, struct error *err)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int result = 0, own;

	if (!dir)
		return error_errno(err, ERROR_ISOLATION, errno, "/proc/self/fd");
	own = dirfd(dir);
	while (result == 0 && (entry = readdir(dir))) {
		int fd;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		fd = (int)strtol(entry->d_name, NULL, 10);
		if (fd <= STDERR_FILENO || fd == own)
			continue;
		if (!row_has_fd(row, fd))
			result = error_set(err, ERROR_ISOLATION,
					   "descriptor %d is open but not in the row %s", fd,
					   row->name);
		else if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			result = error_errno(err, ERROR_ISOLATION, errno, "descriptor %d", fd);
	}
	closedir(dir);
	return result;
}

static int check_descriptors(const struct stage_row *row, struct error *err)
{
	static const int needed[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, FD_CONTROL,
				     FD_JOB};

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (fcntl(needed[i], F_GETFD) < 0)
			return error_set(err, ERROR_ISOLATION, "descriptor %d is not open",
					 needed[i]);
	return check_each_descriptor(row, err);
}

/* ---- (3) the row as a policy ---- */

struct path_list {
	struct restrict_path *items; /* owned */
	size_t count;
};

static void path_list_release(struct path_list *list)
{
	free(list->items);
}

static int path_list_add(struct path_list *list, const char *path, enum path_use use,
			 struct error *err)
{
	static const enum restrict_access access[] = {[PATH_READ] = RESTRICT_READ,
						      [PATH_WRITE] = RESTRICT_WRITE,
						      [PATH_EXECUTE] = RESTRICT_EXECUTE};

	if (!path || path[0] != '/')
		return error_set(err, ERROR_ISOLATION,
				 "the job has a path that is not absolute");
	if (strcmp(path, "/") == 0)
		return error_set(err, ERROR_ISOLATION, "the job names / as a path");
	if (list->count == PATHS_MOST)
		return error_set(err, ERROR_ISOLATION, "the job has more than %d paths",
				 PATHS_MOST);
	list->items[list->count++] =
	    (struct restrict_path){.path = path, .access = access[use]};
	return 0;
}

/* "{key}": the job's path or paths of that name. */
static int add_job_paths(struct path_list *list, const struct json *paths,
			 const struct stage_path *row, struct error *err)
{
	/* Found by discover.c, and free of links then. */
	static const char *const real[] = {"repo", "common", "alternates", "workdir"};
	size_t before = list->count;
	char key[64];
	const struct json *node;
	int result = 0;

	snprintf(key, sizeof(key), "%.*s", (int)strlen(row->name) - 2, row->name + 1);
	node = js_get(paths, key);
	if (!node || js_is_null(node))
		return 0;
	if (js_is_string(node))
		result = path_list_add(list, js_text(node), row->use, err);
	else if (!js_is_array(node))
		return error_set(err, ERROR_ISOLATION,
				 "the job's path \"%s\" is no string or list", key);
	for (size_t i = 0; result == 0 && i < js_len(node); i++)
		result = path_list_add(list, js_text(js_at(node, i)), row->use, err);
	for (size_t i = 0; i < ARRAY_LEN(real); i++)
		for (size_t k = before; strcmp(real[i], key) == 0 && k < list->count; k++)
			list->items[k].unlinked = true;
	return result;
}

static int make_paths(const struct stage *stage, struct path_list *list, struct error *err)
{
	const struct json *paths = js_get(stage->job, "paths");
	int result = 0;

	list->items = mem_calloc(PATHS_MOST, sizeof(list->items[0]));
	for (const struct stage_path *path = stage->row->paths; result == 0 && path->name;
	     path++)
		result = path->name[0] == '{' ? add_job_paths(list, paths, path, err)
					      : path_list_add(list, path->name, path->use, err);
	return result;
}

static int filter_of(const struct stage_row *row, enum restrict_filter *filter,
		     struct error *err)
{
	switch (row->filter) {
	case FILTER_QUIET:
		*filter = RESTRICT_QUIET;
		return 0;
	case FILTER_PUMP:
		*filter = RESTRICT_PUMP;
		return 0;
	case FILTER_LAUNCHER:
		*filter = RESTRICT_LAUNCHER;
		return 0;
	case FILTER_JAIL:
		break;
	}
	return error_set(err, ERROR_ISOLATION, "the row %s is no stage", row->name);
}

static int stage_restrict(const struct stage *stage, struct error *err)
{
	struct path_list list __attribute__((cleanup(path_list_release))) = {NULL, 0};
	const struct stage_row *row = stage->row;
	struct restrict_policy policy = {
	    .new_net = row->net != NET_HOST,
	    .loopback_up = row->net == NET_LOOPBACK,
	    .user_entry = row->needs_user,
	    .own_root = row->filter == FILTER_LAUNCHER,
	    .uid = STAGE_UID_BASE + stage_id_of(row),
	    .keep_read = row->reads_any_owner,
	    .data_mib = row->data_bytes_mib,
	    .file_mib = row->file_bytes_mib,
	    .nofile = row->nofile,
	};
	int result = filter_of(row, &policy.filter, err);

	if (result == 0)
		result = make_paths(stage, &list, err);
	if (result < 0)
		return result;
	policy.paths = list.items;
	policy.path_count = list.count;
	return restrict_self(&policy, err);
}

/* ---- the life ---- */

static void say(const char *program, const struct error *err)
{
	dprintf(STDERR_FILENO, "%s: %s%s%s\n", program, err->message, err->next[0] ? "; " : "",
		err->next);
}

/* Any failure before run is one of isolation, whatever kind the failing part gave it. */
static int refuse(const struct stage_row *row, const char *program, struct error *err)
{
	err->kind = ERROR_ISOLATION;
	say(row ? row->name : program, err);
	return EXIT_ISOLATION;
}

static int start(struct stage *stage, stage_prestart_fn *prestart, struct error *err)
{
	int result = 0;

	/* The job is the supervisor's own words, sealed, and names the paths that Landlock
	 * leaves. */
	stage->job = js_read_fd(FD_JOB, JOB_MAX, "job", err);
	if (!stage->job)
		return err->kind;
	if (!js_is_object(stage->job))
		return error_set(err, ERROR_ISOLATION, "the job is not an object");
	if (prestart)
		result = prestart(stage, err);
	if (result == 0)
		result = stage_restrict(stage, err);
	return result;
}

int stage_main(int argc, char **argv, stage_prestart_fn *prestart, stage_run_fn *run)
{
	const char *program = argc > 0 ? base_name(argv[0]) : "agent stage";
	struct error err = {.kind = ERROR_NONE};
	struct json *job AUTO_JSON = NULL;
	struct stage stage = {.row = find_row(argc, argv, &err)};
	int result;

	if (!stage.row || check_environment(stage.row, environ, &err) < 0 ||
	    check_descriptors(stage.row, &err) < 0)
		return refuse(stage.row, program, &err);
	prctl(PR_SET_NAME, program, 0, 0, 0); /* exec by descriptor leaves a number there */
	result = start(&stage, prestart, &err);
	job = stage.job;
	if (result < 0) {
		err.kind = ERROR_ISOLATION;
		event_error(&err);
		return refuse(stage.row, program, &err);
	}
	result = run(&stage, &err);
	if (result == 0)
		return EXIT_DONE;
	if (err.kind == ERROR_NONE)
		error_set(&err, (enum error_kind)result, "failed without a reason");
	event_error(&err);
	say(stage.row->name, &err);
	return error_exit_status(err.kind);
}

const char *stage_path(const struct stage *stage, const char *name)
{
	return js_str(js_get(stage->job, "paths"), name, NULL);
}
