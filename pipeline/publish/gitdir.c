#include "gitdir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define SHALLOW_MAX ((size_t)16 << 20) /* bytes: 400,000 roots */
#define ALTERNATES_MAX ((size_t)1 << 20)

static const char config_tip[] = "[core]\n\trepositoryformatversion = 1\n\tbare = "
				 "true\n[extensions]\n\tpartialClone = tip\n";
static const char config_text[] = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
/* HEAD must look like one for git to take the directory; the branch is never made. */
static const char head_text[] = "ref: refs/heads/unborn\n";

/* One line of info/alternates (git: objects/info/alternates; a line that begins with " is
 * quoted, # is a comment). */
static int add_alternate(struct strbuf *out, const char *path, const char *below,
			 struct error *err)
{
	if (!path || path[0] != '/' || strchr(path, '\n'))
		return error_set(err, ERROR_USAGE,
				 "object directory %s: not an absolute path on one line",
				 path ? path : "?");
	if (strbuf_addf(out, "%s%s\n", path, below) < 0)
		return error_set(err, ERROR_USAGE, "too many object directories");
	return 0;
}

static int format_alternates(const struct json *paths, struct strbuf *out, struct error *err)
{
	const struct json *more = js_get(paths, "alternates");
	const char *common = js_str(paths, "common", js_str(paths, "repo", NULL));

	const char *objects = js_str(paths, "objects", NULL);

	/* who only asks what a ref has makes no objects */
	if ((objects && add_alternate(out, objects, "", err)) ||
	    add_alternate(out, common, "/objects", err))
		return err->kind;
	if (js_is_string(more))
		return add_alternate(out, js_text(more), "", err);
	for (size_t i = 0; i < js_len(more); i++)
		if (add_alternate(out, js_text(js_at(more, i)), "", err))
			return err->kind;
	return 0;
}

static int check_shallow(const struct strbuf *text, struct error *err)
{
	for (size_t at = 0; at < text->len;) {
		const char *end = memchr(text->data + at, '\n', text->len - at);
		size_t len = end ? (size_t)(end - text->data) - at : text->len - at;
		AUTO_FREE char *line = mem_strndup(text->data + at, len);

		if (!text_is_hex(line, 40))
			return error_set(
			    err, ERROR_USAGE,
			    "the repository's list of shallow commits is malformed");
		at += len + 1;
	}
	return 0;
}

static int read_shallow(const struct json *paths, struct strbuf *text, struct error *err)
{
	const char *common = js_str(paths, "common", js_str(paths, "repo", ""));
	AUTO_FREE char *path = mem_printf("%s/shallow", common);
	int fd AUTO_FD = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, "%s is not a file", path);
	if (fd_read_all(fd, text) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	return check_shallow(text, err);
}

static int make_directories(int scratch_fd, const char *name, struct error *err)
{
	static const char *const below[] = {"", "/objects", "/objects/info", "/objects/pack",
					    "/refs"};

	if (fd_remove_tree(scratch_fd, name) < 0)
		return error_errno(err, ERROR_FAILED, errno,
				   "old git directory in the scratch directory");
	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		AUTO_FREE char *path = mem_printf("%s%s", name, below[i]);

		if (mkdirat(scratch_fd, path, 0700) < 0)
			return error_errno(err, ERROR_FAILED, errno, "scratch directory: %s",
					   path);
	}
	return 0;
}

/* No fsync: what is made here is for this process's children and made afresh after a crash. */
static int write_file(int scratch_fd, const char *name, const char *data, size_t len,
		      struct error *err)
{
	int fd AUTO_FD = openat(scratch_fd, name,
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, data, len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory: %s", name);
	return 0;
}

int gitdir_make(int scratch_fd, const struct json *paths, struct error *err)
{
	AUTO_STRBUF struct strbuf alternates = STRBUF_NONE, shallow = STRBUF_NONE;

	strbuf_init(&alternates, ALTERNATES_MAX);
	strbuf_init(&shallow, SHALLOW_MAX);
	if (format_alternates(paths, &alternates, err) || read_shallow(paths, &shallow, err) ||
	    make_directories(scratch_fd, GITDIR_NAME, err) ||
	    write_file(scratch_fd, GITDIR_NAME "/objects/info/alternates", alternates.data,
		       alternates.len, err) ||
	    write_file(scratch_fd, GITDIR_NAME "/config", config_text, strlen(config_text),
		       err) ||
	    write_file(scratch_fd, GITDIR_NAME "/HEAD", head_text, strlen(head_text), err))
		return err->kind;
	if (shallow.len)
		return write_file(scratch_fd, GITDIR_NAME "/shallow", shallow.data, shallow.len,
				  err);
	return 0;
}

int gitdir_make_empty(int scratch_fd, struct error *err)
{
	if (make_directories(scratch_fd, GITDIR_TIP, err) ||
	    write_file(scratch_fd, GITDIR_TIP "/config", config_tip, strlen(config_tip), err) ||
	    write_file(scratch_fd, GITDIR_TIP "/HEAD", head_text, strlen(head_text), err))
		return err->kind;
	return 0;
}
