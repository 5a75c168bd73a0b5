#include "discover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/config.h"

#define CONFIG_MAX_BYTES (1 << 20)
#define ALTERNATES_MAX 32

/* A small text file below dir; false when missing or unreadable. Cut at the first newline. */
static bool read_line(const char *dir, const char *name, char **line)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	strbuf_init(&text, 16384);
	if (fd < 0 || fd_read_all(fd, &text) < 0 || memchr(text.data, '\0', text.len))
		return false;
	text.data[strcspn(text.data, "\r\n")] = '\0';
	*line = mem_strdup(text.data);
	return true;
}

/* dir/path made absolute and free of links; NULL when it does not exist. */
static char *resolve(const char *dir, const char *path)
{
	char *joined AUTO_FREE =
	    path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", dir, path);

	return realpath(joined, NULL);
}

static bool exists(const char *dir, const char *name)
{
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);

	return access(path, F_OK) == 0;
}

/* As git's is_git_directory: HEAD, objects, refs (or a commondir that has them). */
static bool is_git_dir(const char *dir)
{
	return exists(dir, "HEAD") &&
	       (exists(dir, "commondir") || (exists(dir, "objects") && exists(dir, "refs")));
}

/* dir/.git as directory or file ("gitdir: PATH"). NULL when there is none. */
static char *dot_git(const char *dir)
{
	char *path AUTO_FREE = mem_printf("%s/.git", dir), *line AUTO_FREE = NULL;
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	if (S_ISDIR(st.st_mode))
		return is_git_dir(path) ? resolve(dir, ".git") : NULL;
	if (!S_ISREG(st.st_mode) || !read_line(dir, ".git", &line) ||
	    strncmp(line, "gitdir: ", 8) != 0)
		return NULL;
	return resolve(dir, line + 8);
}

static void find_alternates(struct repository *repo, const char *objects, unsigned depth)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *path AUTO_FREE = mem_printf("%s/info/alternates", objects), *rest, *line;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	strbuf_init(&text, 65536);
	if (depth > 5 || fd < 0 || fd_read_all(fd, &text) < 0)
		return;
	rest = text.data;
	while ((line = strsep(&rest, "\n"))) {
		char *found;

		if (!line[0] || line[0] == '#' || repo->alternate_count >= ALTERNATES_MAX)
			continue;
		found = resolve(objects, line);
		if (!found)
			continue;
		repo->alternates = mem_realloc(repo->alternates, repo->alternate_count + 1,
					       sizeof(*repo->alternates));
		repo->alternates[repo->alternate_count++] = found;
		find_alternates(repo, found, depth + 1);
	}
}

static void complete(struct repository *repo)
{
	char *line AUTO_FREE = NULL, *objects AUTO_FREE = NULL;

	if (read_line(repo->git_dir, "commondir", &line))
		repo->common_dir = resolve(repo->git_dir, line);
	if (!repo->common_dir)
		repo->common_dir = mem_strdup(repo->git_dir);
	objects = mem_printf("%s/objects", repo->common_dir);
	find_alternates(repo, objects, 0);
}

/* ---- whose it is ---- */

static bool is_public(const char *path)
{
	char *part AUTO_FREE = mem_strdup(path), *slash;
	mode_t needed = S_IROTH | S_IXOTH;
	struct stat st;

	while (part[0]) {
		if (stat(part, &st) < 0 || (st.st_mode & needed) != needed)
			return false;
		needed = S_IXOTH; /* of those above */
		slash = strrchr(part, '/');
		*slash = '\0';
	}
	return true;
}

static int foreign(const char *top, const char *path, const struct stat *st, struct error *err)
{
	error_set(err, ERROR_USAGE,
		  "%s leads to %s, which belongs to uid %u: root does not follow it there", top,
		  path, (unsigned)st->st_uid);
	return error_next(err,
			  "start agent as the repository's owner, or chown what it leads to");
}

/* Root may read everything: for whoever owns the repository it reads what is theirs, and objects that are everybody's. */
static int check_owner(const struct repository *repo, struct error *err)
{
	const char *work = repo->work_dir ? repo->work_dir : repo->git_dir;
	size_t len = strlen(work);
	bool beneath = strncmp(repo->git_dir, work, len) == 0 &&
		       (repo->git_dir[len] == '/' || !repo->git_dir[len]);
	const char *top = beneath ? repo->git_dir : work; /* a file .git or a link led away */
	const char *const own[] = {repo->git_dir, repo->common_dir};
	struct stat theirs, st;

	if (geteuid() != 0)
		return 0;
	if (lstat(top, &theirs) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s", top);
	if (theirs.st_uid == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		if (lstat(own[i], &st) < 0)
			return error_errno(err, ERROR_USAGE, errno, "%s", own[i]);
		if (st.st_uid != theirs.st_uid)
			return foreign(top, own[i], &st, err);
	}
	for (size_t i = 0; i < repo->alternate_count; i++) {
		if (lstat(repo->alternates[i], &st) < 0)
			return error_errno(err, ERROR_USAGE, errno, "%s", repo->alternates[i]);
		if (st.st_uid != theirs.st_uid && !is_public(repo->alternates[i]))
			return foreign(top, repo->alternates[i], &st, err);
	}
	return 0;
}

int repository_find(const char *start, struct repository *repo, struct error *err)
{
	char *dir AUTO_FREE = realpath(start ? start : ".", NULL);
	char *first AUTO_FREE = NULL;

	memset(repo, 0, sizeof(*repo));
	if (!dir)
		return error_errno(err, ERROR_USAGE, errno, "%s",
				   start ? start : "working directory");
	first = mem_strdup(dir);
	for (;;) {
		char *slash;

		repo->git_dir = dot_git(dir);
		if (repo->git_dir) {
			repo->work_dir = mem_strdup(dir);
			break;
		}
		if (is_git_dir(dir)) {
			repo->git_dir = mem_strdup(dir);
			break;
		}
		slash = strrchr(dir, '/');
		if (!slash || !dir[1]) {
			error_set(err, ERROR_USAGE, "%s is not in a git repository", first);
			return error_next(err, "change into one, or name it with -C DIR");
		}
		slash[slash == dir ? 1 : 0] = '\0';
	}
	complete(repo);
	return check_owner(repo, err);
}

void repository_release(struct repository *repo)
{
	free(repo->git_dir);
	free(repo->common_dir);
	free(repo->work_dir);
	for (size_t i = 0; i < repo->alternate_count; i++)
		free(repo->alternates[i]);
	free(repo->alternates);
	memset(repo, 0, sizeof(*repo));
}

struct json *repository_paths(const struct repository *repo)
{
	struct json *paths = js_object_new(), *alternates = js_array_new();

	js_set_str(paths, "repo", repo->git_dir);
	js_set_str(paths, "common", repo->common_dir);
	if (repo->work_dir)
		js_set_str(paths, "workdir", repo->work_dir);
	for (size_t i = 0; i < repo->alternate_count; i++)
		js_push_str(alternates, repo->alternates[i]);
	js_set(paths, "alternates", alternates);
	return paths;
}

struct wanted {
	const char *name;
	char *url;
};

static int seen_remote(void *arg, const char *section, const char *subsection, const char *key,
		       const char *value, int line, struct error *err)
{
	struct wanted *wanted = arg;

	(void)line;
	(void)err;
	if (value && subsection && strcmp(section, "remote") == 0 &&
	    strcmp(subsection, wanted->name) == 0 && strcmp(key, "url") == 0) {
		free(wanted->url);
		wanted->url = mem_strdup(value);
	}
	return 0;
}

static int note_remote(void *arg, const char *section, const char *subsection, const char *key,
		       const char *value, int line, struct error *err)
{
	struct json *names = arg;

	(void)value;
	(void)line;
	(void)err;
	if (!subsection || strcmp(section, "remote") != 0 || strcmp(key, "url") != 0)
		return 0;
	for (size_t i = 0; i < js_len(names); i++)
		if (strcmp(js_text(js_at(names, i)), subsection) == 0)
			return 0;
	js_push_str(names, subsection);
	return 0;
}

struct json *repository_remotes(const struct repository *repo)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *path AUTO_FREE = mem_printf("%s/config", repo->common_dir);
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct json *names = js_array_new();
	struct error ignored = {0};

	strbuf_init(&text, CONFIG_MAX_BYTES);
	if (fd >= 0 && fd_read_all(fd, &text) == 0)
		(void)config_parse(text.data, text.len, path, note_remote, names, &ignored);
	return names;
}

/* Takes ".", ".." and doubled slashes out of an absolute path, by its words alone. */
static void clean_path(char *path)
{
	char *out = path;

	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");

		if (len == 2 && part[0] == '.' && part[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (len && !(len == 1 && part[0] == '.')) {
			*out++ = '/';
			memmove(out, part, len);
			out += len;
		}
		part += len + (part[len] == '/');
	}
	if (out == path)
		*out++ = '/';
	*out = '\0';
}

/* Where path leads from dir: what is told, and recorded, has no ".." in it, there or not. */
static char *led_to(const char *dir, const char *path)
{
	char *found = resolve(dir, path);

	if (!found) {
		found = mem_printf("%s/%s", dir, path);
		clean_path(found);
	}
	return found;
}

/* A path (no scheme, no host:) is relative to the work tree, as git takes it. */
static char *absolute_url(const struct repository *repo, char *url)
{
	size_t colon = strcspn(url, ":"), slash = strcspn(url, "/");
	char *absolute;

	if (url[0] == '/' || (url[colon] && colon < slash))
		return url;
	absolute = led_to(repo->work_dir ? repo->work_dir : repo->git_dir, url);
	free(url);
	return absolute;
}

char *repository_remote_url(const struct repository *repo, const char *name, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct wanted wanted = {.name = name};
	char *path AUTO_FREE = NULL;
	struct stat st;
	int fd AUTO_FD = -1;

	if (strpbrk(name, "/:")) {
		char *cwd AUTO_FREE = getcwd(NULL, 0);

		if (strchr(name, ':') || name[0] == '/' || !cwd)
			return mem_strdup(name);
		return led_to(cwd, name);
	}
	path = mem_printf("%s/config", repo->common_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	strbuf_init(&text, CONFIG_MAX_BYTES);
	if (fd < 0 || fd_read_all(fd, &text) < 0) {
		error_errno(err, ERROR_USAGE, errno, "%s cannot be read", path);
		return NULL;
	}
	/* It would say where the operator's credential goes. */
	if (geteuid() == 0 && (fstat(fd, &st) < 0 || st.st_uid != 0)) {
		error_set(err, ERROR_USAGE,
			  "%s belongs to another user: root takes no remote from it", path);
		error_next(err, "name the remote by its URL (publish.remote, --remote URL), or "
				"start agent as that user");
		return NULL;
	}
	if (config_parse(text.data, text.len, path, seen_remote, &wanted, err)) {
		free(wanted.url);
		return NULL;
	}
	if (!wanted.url) {
		error_set(err, ERROR_USAGE, "the repository has no remote \"%s\"", name);
		error_next(err, "name one with -c publish.remote=NAME|URL; agent run "
				"--dry-run stops before publishing");
		return NULL;
	}
	return absolute_url(repo, wanted.url);
}
