#include "checkout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <git2.h>

#include "gitops/attr.h"
#include "gitops/pathpolicy.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* One walk: where it is and what holds there. */
struct writer {
	struct checkout *checkout;
	struct attr_stack *attrs; /* of the tree that is written */
	struct strbuf path;	  /* of the directory that is written, no slash at the end */
	size_t entries;
	struct error *err;
};

static int refuse(struct writer *w, const char *name, const char *why)
{
	return error_set(w->err, ERROR_NO, "the tree cannot be checked out: '%s%s%s': %s",
			 w->path.data, w->path.len ? "/" : "", name, why);
}

static int failed(struct writer *w, const char *name, const char *what)
{
	int saved = errno;

	error_errno(w->err, ERROR_FAILED, saved, "%s '%s%s%s'", what, w->path.data,
		    w->path.len ? "/" : "", name);
	if (saved == ENOSPC || saved == EDQUOT)
		return error_next(w->err,
				  "make room on the disk of the state directory, or: agent gc");
	return w->err ? w->err->kind : ERROR_FAILED;
}

/* What git's own checkout refuses as well, and the bounds of a walk. */
static int check_entry(struct writer *w, const char *name, int depth)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_MAX || strchr(name, '/') || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return refuse(w, name, "not a file name");
	if (path_is_dotgit(name, len))
		return refuse(w, name, "names git's own directory");
	if (depth > GITOPS_DEPTH_MAX)
		return refuse(w, name, "directories are nested more than 100 deep");
	if (++w->entries > CHECKOUT_ENTRIES_MAX)
		return refuse(w, name, "more than 4,000,000 files");
	return 0;
}

static void tick(struct writer *w)
{
	struct checkout *checkout = w->checkout;

	if (checkout->progress && ++checkout->tick % 2048 == 0)
		checkout->progress(checkout->data, &checkout->stats);
}

/* ---- files ---- */

static int set_time(const struct writer *w, int fd)
{
	struct timespec times[2] = {w->checkout->mtime, w->checkout->mtime};

	if (w->checkout->mtime.tv_nsec == UTIME_OMIT)
		return 0;
	return futimens(fd, times);
}

static int write_file(struct writer *w, int dir, const char *name, bool executable,
		      const char *data, size_t len)
{
	int fd AUTO_FD = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				executable ? 0755 : 0644);

	if (fd < 0 && errno == EEXIST)
		return refuse(w, name, "it is there twice");
	if (fd < 0 || fd_write_all(fd, data, len) < 0 || set_time(w, fd) < 0)
		return failed(w, name, "writing");
	w->checkout->stats.files++;
	return 0;
}

static int write_link(struct writer *w, int dir, const char *name, const char *target,
		      size_t len)
{
	if (len == 0 || len >= PATH_MAX || memchr(target, '\0', len))
		return refuse(w, name, "a symbolic link without a proper target");
	AUTO_FREE char *copy = mem_strndup(target, len);
	if (symlinkat(copy, dir, name) < 0)
		return errno == EEXIST ? refuse(w, name, "it is there twice")
				       : failed(w, name, "linking");
	w->checkout->stats.links++;
	return 0;
}

/* The bytes of a regular file as a checkout has them. */
static int write_converted(struct writer *w, int dir, const char *name, bool executable,
			   const git_oid *oid, const char *data, size_t len)
{
	struct attr_facts facts;
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	char hex[GITOPS_OID_SIZE];
	size_t at = w->path.len;

	if (attr_is_empty(w->attrs))
		return write_file(w, dir, name, executable, data, len);
	strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
	attr_decide(w->attrs, w->path.data, &facts);
	w->path.len = at;
	w->path.data[at] = '\0';
	if (!attr_converts(&facts))
		return write_file(w, dir, name, executable, data, len);
	git_oid_tostr(hex, sizeof(hex), oid);
	strbuf_init(&out, (size_t)CHECKOUT_FILE_MAX * 4);
	w->checkout->stats.encodings_kept += attr_convert(&facts, data, len, hex, &out) == 1;
	if (out.full)
		return refuse(w, name, "too big");
	return write_file(w, dir, name, executable, out.data, out.len);
}

static int write_blob(struct writer *w, int dir, const char *name, enum view_kind kind,
		      const git_oid *oid)
{
	struct checkout_stats *stats = &w->checkout->stats;
	git_odb_object *object = NULL;
	enum gitops_type type;
	uint64_t size;
	char hex[GITOPS_OID_SIZE];
	int rc;

	git_oid_tostr(hex, sizeof(hex), oid);
	if ((rc = repo_header(w->checkout->repo, hex, &type, &size, w->err)) < 0)
		return rc;
	if (type != GITOPS_BLOB)
		return refuse(w, name, "its object is no file");
	if (size > CHECKOUT_FILE_MAX)
		return refuse(w, name, "bigger than 512 MiB");
	if (stats->bytes + size > CHECKOUT_BYTES_MAX)
		return refuse(w, name, "the tree has more than 64 GiB");
	if (repo_read(w->checkout->repo, oid, &object) < 0)
		return gitops_error(w->err, ERROR_FAILED, "object %s", hex);
	const char *data = git_odb_object_data(object);
	size_t len = git_odb_object_size(object);
	stats->bytes += len;
	if (kind == VIEW_LINK)
		rc = write_link(w, dir, name, data, len);
	else
		rc = write_converted(w, dir, name, kind == VIEW_EXEC, oid, data, len);
	git_odb_object_free(object);
	tick(w);
	return rc;
}

/* ---- directories ---- */

/* Makes and opens a directory. */
static int make_dir(struct writer *w, int dir, const char *name, int *fd)
{
	if (mkdirat(dir, name, 0755) < 0)
		return errno == EEXIST ? refuse(w, name, "it is there twice")
				       : failed(w, name, "making");
	*fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return failed(w, name, "opening");
	w->checkout->stats.dirs++;
	return 0;
}

/* Enters a tree's directory: its attribute file comes into force. */
static int enter(struct writer *w, git_tree *tree)
{
	const git_tree_entry *entry = git_tree_entry_byname(tree, ATTR_FILE);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char hex[GITOPS_OID_SIZE];
	enum gitops_type type;
	uint64_t size;
	int rc;

	strbuf_init(&text, ATTR_FILE_MAX);
	if (!entry || (git_tree_entry_filemode(entry) != GIT_FILEMODE_BLOB &&
		       git_tree_entry_filemode(entry) != GIT_FILEMODE_BLOB_EXECUTABLE)) {
		attr_push(w->attrs, w->path.data, NULL, 0);
		return 0;
	}
	git_oid_tostr(hex, sizeof(hex), git_tree_entry_id(entry));
	if ((rc = repo_header(w->checkout->repo, hex, &type, &size, w->err)) < 0)
		return rc;
	if (size <= ATTR_FILE_MAX &&
	    (rc = repo_blob(w->checkout->repo, hex, ATTR_FILE_MAX, &text, w->err)) < 0)
		return rc;
	attr_push(w->attrs, w->path.data, text.data, text.len);
	return 0;
}

static int write_tree(struct writer *w, int dir, git_tree *tree, int depth);

/* A directory with all that is in it. */
static int write_dir(struct writer *w, int dir, const char *name, const git_oid *oid, int depth)
{
	int fd AUTO_FD = -1;
	git_tree *tree = NULL;
	size_t at = w->path.len;
	int rc = view_load_tree(w->checkout->repo, oid, &tree, w->err);

	if (rc == 0)
		rc = make_dir(w, dir, name, &fd);
	strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
	if (rc == 0)
		rc = write_tree(w, fd, tree, depth + 1);
	w->path.len = at;
	w->path.data[at] = '\0';
	git_tree_free(tree);
	return rc;
}

static int write_entry(struct writer *w, int dir, const git_tree_entry *entry, int depth)
{
	const char *name = git_tree_entry_name(entry);
	enum view_kind kind = view_kind_of_mode(git_tree_entry_filemode(entry));
	int fd AUTO_FD = -1;

	switch (kind) {
	case VIEW_FILE:
	case VIEW_EXEC:
	case VIEW_LINK:
		return write_blob(w, dir, name, kind, git_tree_entry_id(entry));
	case VIEW_DIR:
		return write_dir(w, dir, name, git_tree_entry_id(entry), depth);
	case VIEW_SUBMODULE:
		w->checkout->stats.submodules++;
		return make_dir(w, dir, name, &fd);
	case VIEW_NONE:
		break;
	}
	return refuse(w, name, "unknown kind of entry");
}

static int write_tree(struct writer *w, int dir, git_tree *tree, int depth)
{
	int rc = enter(w, tree);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < git_tree_entrycount(tree) && rc == 0; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(tree, i);
		rc = check_entry(w, git_tree_entry_name(entry), depth);
		if (rc == 0)
			rc = write_entry(w, dir, entry, depth);
	}
	attr_pop(w->attrs);
	/* after its content, whose making changed it */
	if (rc == 0 && set_time(w, dir) < 0)
		rc = failed(w, "", "setting the time of");
	return rc;
}

static int load(struct writer *w, const char *hex, git_tree **tree)
{
	git_oid oid;

	if (!hex || strlen(hex) != GITOPS_OID_SIZE - 1 || git_oid_fromstr(&oid, hex) < 0)
		return error_set(w->err, ERROR_USAGE, "malformed tree id '%.64s'",
				 hex ? hex : "");
	return view_load_tree(w->checkout->repo, &oid, tree, w->err);
}

static void writer_init(struct writer *w, struct checkout *checkout, struct error *err)
{
	*w = (struct writer){.checkout = checkout, .attrs = attr_stack_new(), .err = err};
	strbuf_init(&w->path, (size_t)GITOPS_DEPTH_MAX * (NAME_MAX + 1) + NAME_MAX);
	umask(022); /* the modes that a checkout of git's has */
}

static void writer_release(struct writer *w)
{
	attr_stack_free(w->attrs);
	strbuf_release(&w->path);
}

int checkout_tree(struct checkout *checkout, const char *hex, int dir, struct error *err)
{
	struct writer w;
	git_tree *tree = NULL;

	writer_init(&w, checkout, err);
	int rc = load(&w, hex, &tree);
	if (rc == 0)
		rc = write_tree(&w, dir, tree, 1);
	git_tree_free(tree);
	writer_release(&w);
	return rc;
}

/* ---- difference ---- */

static bool same_entry(const git_tree_entry *a, const git_tree_entry *b)
{
	return git_tree_entry_filemode_raw(a) == git_tree_entry_filemode_raw(b) &&
	       git_oid_equal(git_tree_entry_id(a), git_tree_entry_id(b));
}

static bool is_tree(const git_tree_entry *entry)
{
	return entry && git_tree_entry_type(entry) == GIT_OBJECT_TREE;
}

static int write_difference(struct writer *w, int dir, git_tree *base, git_tree *tree,
			    int depth, bool *whole);

/* A directory that is on both sides and differs. */
static int enter_difference(struct writer *w, int dir, const git_tree_entry *old,
			    const git_tree_entry *now, int depth, bool *whole)
{
	const char *name = git_tree_entry_name(now);
	git_tree *a = NULL, *b = NULL;
	int fd AUTO_FD = -1;
	size_t at = w->path.len;
	int rc = view_load_tree(w->checkout->repo, git_tree_entry_id(old), &a, w->err);

	if (rc == 0)
		rc = view_load_tree(w->checkout->repo, git_tree_entry_id(now), &b, w->err);
	if (rc == 0)
		rc = make_dir(w, dir, name, &fd);
	strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
	if (rc == 0)
		rc = write_difference(w, fd, a, b, depth + 1, whole);
	w->path.len = at;
	w->path.data[at] = '\0';
	git_tree_free(a);
	git_tree_free(b);
	return rc;
}

/* What became of one name of the new tree. */
static int write_changed(struct writer *w, int dir, const git_tree_entry *old,
			 const git_tree_entry *now, int depth, bool *whole)
{
	const char *name = git_tree_entry_name(now);

	if (old && same_entry(old, now))
		return 0;
	if (strcmp(name, ATTR_FILE) == 0) {
		*whole = true;
		return 0;
	}
	if (is_tree(old) && is_tree(now))
		return enter_difference(w, dir, old, now, depth, whole);
	/* An upper directory does not hide what is below a lower one, and a submodule's is
	 * empty. */
	if (is_tree(old) && git_tree_entry_type(now) == GIT_OBJECT_COMMIT) {
		*whole = true;
		return 0;
	}
	return write_entry(w, dir, now, depth);
}

static int write_whiteout(struct writer *w, int dir, const char *name)
{
	if (strcmp(name, ATTR_FILE) != 0 && mknodat(dir, name, S_IFCHR, 0) < 0)
		return failed(w, name, "whiteout of");
	return 0;
}

static int write_difference(struct writer *w, int dir, git_tree *base, git_tree *tree,
			    int depth, bool *whole)
{
	int rc = enter(w, tree);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < git_tree_entrycount(tree) && rc == 0 && !*whole; i++) {
		const git_tree_entry *now = git_tree_entry_byindex(tree, i);
		const char *name = git_tree_entry_name(now);
		rc = check_entry(w, name, depth);
		if (rc == 0)
			rc = write_changed(w, dir, git_tree_entry_byname(base, name), now,
					   depth, whole);
	}
	for (size_t i = 0; i < git_tree_entrycount(base) && rc == 0 && !*whole; i++) {
		const char *name = git_tree_entry_name(git_tree_entry_byindex(base, i));
		if (git_tree_entry_byname(tree, name))
			continue;
		*whole = *whole || strcmp(name, ATTR_FILE) == 0;
		rc = check_entry(w, name, depth);
		if (rc == 0)
			rc = write_whiteout(w, dir, name);
	}
	attr_pop(w->attrs);
	return rc;
}

int checkout_difference(struct checkout *checkout, const char *base, const char *hex, int dir,
			bool *whole, struct error *err)
{
	struct writer w;
	git_tree *old = NULL, *now = NULL;

	*whole = false;
	writer_init(&w, checkout, err);
	int rc = load(&w, base, &old);
	if (rc == 0)
		rc = load(&w, hex, &now);
	if (rc == 0)
		rc = write_difference(&w, dir, old, now, 1, whole);
	git_tree_free(old);
	git_tree_free(now);
	writer_release(&w);
	return rc;
}
