#include "checkout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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

#define BLOCK_FILES 64		  /* taken at once */
#define MANIFEST_CHUNK (1u << 16) /* bytes a write */
#define LFS_POINTER_MAX 1024
#define LFS_POINTER "version https://git-lfs.github.com/spec/v1\n"

/* A directory on the way from the root to where the walk is. */
struct level {
	int fd;		  /* owned but for the root's; -1: nothing was written in it yet */
	size_t from, len; /* its name in the path */
};

/* One walk: where it is and what holds there. */
struct writer {
	struct checkout *checkout;
	struct checkout_board *board;
	struct checkout_board own;	      /* the board of who is alone */
	struct attr_stack *attrs, *old_attrs; /* of the tree that is written, of the base */
	size_t attrs_differ;		      /* directories above with other attribute files */
	struct strbuf path; /* of the directory that is written, no slash at the end */
	struct level levels[GITOPS_DEPTH_MAX + 2];
	size_t depth;	 /* of levels: 0 in the root */
	size_t entries;	 /* walked */
	uint64_t number; /* of the next file */
	uint64_t block;	 /* that is ours, plus one; 0: none was taken yet */
	bool measure;	 /* count, do not write */
	size_t limit;	 /* of that */
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
				  "make room on the disk of the state directory (agent gc)");
	return w->err ? w->err->kind : ERROR_FAILED;
}

/* ---- what is refused ---- */

static int check_name(struct writer *w, const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_MAX || strchr(name, '/') || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return refuse(w, name, "not a file name");
	if (path_is_dotgit(name, len))
		return refuse(w, name, "names git's own directory");
	return 0;
}

/* What git's own checkout refuses as well, and the bounds of a walk. */
static int check_tree(struct writer *w, git_tree *tree)
{
	size_t count = git_tree_entrycount(tree);

	if (w->depth > GITOPS_DEPTH_MAX)
		return refuse(w, "", "directories are nested more than 100 deep");
	w->entries += count;
	if (w->entries > CHECKOUT_ENTRIES_MAX)
		return refuse(w, "", "more than 4,000,000 files");
	for (size_t i = 0; i < count; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(tree, i);
		const char *name = git_tree_entry_name(entry);
		int rc = check_name(w, name);

		if (rc < 0)
			return rc;
		/* found by its name: what everybody else will find under it, too */
		if (git_tree_entry_byname(tree, name) != entry)
			return refuse(w, name, "it is there twice, or its tree is not sorted");
		if (view_kind_of_mode(git_tree_entry_filemode(entry)) == VIEW_NONE)
			return refuse(w, name, "unknown kind of entry");
	}
	return 0;
}

/* ---- who writes what ---- */

/* Numbers the next file; whether it is ours to write. */
static bool take(struct writer *w)
{
	uint64_t block = w->number++ / BLOCK_FILES + 1;

	while (w->block < block)
		w->block = __atomic_fetch_add(&w->board->next, 1, __ATOMIC_RELAXED) + 1;
	return w->block == block;
}

/* Opens the directory where the walk is, and makes those on the way that are not there. */
static int open_level(struct writer *w, size_t depth, int *fd)
{
	struct level *level = &w->levels[depth];
	char name[NAME_MAX + 1];
	int parent, rc;

	if (level->fd < 0) {
		if ((rc = open_level(w, depth - 1, &parent)) < 0)
			return rc;
		snprintf(name, sizeof(name), "%.*s", (int)level->len,
			 w->path.data + level->from);
		/* made by who helps: fine; something else of that name: not a directory */
		if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
			return failed(w, "", "making the directory of");
		level->fd =
		    openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (level->fd < 0 && (errno == ENOTDIR || errno == ELOOP))
			return refuse(w, "", "it is there twice");
		if (level->fd < 0)
			return failed(w, "", "opening the directory of");
		w->checkout->stats.dirs++;
	}
	*fd = level->fd;
	return 0;
}

static void record(struct writer *w, unsigned mode, const char *name, const char *hex)
{
	struct checkout_manifest *manifest = w->checkout->manifest;

	if (!manifest)
		return;
	strbuf_addf(&manifest->buf, "%o %s %s%s%s", mode, hex, w->path.data,
		    w->path.len ? "/" : "", name);
	strbuf_addc(&manifest->buf, '\0');
}

static int flush_manifest(struct writer *w, size_t least)
{
	struct checkout_manifest *manifest = w->checkout->manifest;

	if (!manifest || manifest->buf.len < least)
		return 0;
	if (manifest->buf.full ||
	    fd_write_all(manifest->fd, manifest->buf.data, manifest->buf.len) < 0)
		return failed(w, "", "writing the manifest of");
	strbuf_reset(&manifest->buf);
	return 0;
}

static void tick(struct writer *w)
{
	struct checkout *checkout = w->checkout;
	struct checkout_stats all = checkout->stats;

	if (!checkout->progress || ++checkout->tick % 1024 != 0)
		return;
	all.files = __atomic_load_n(&w->board->files, __ATOMIC_RELAXED);
	all.bytes = __atomic_load_n(&w->board->bytes, __ATOMIC_RELAXED);
	checkout->progress(checkout->data, &all);
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

	if (fd < 0 && (errno == EEXIST || errno == EISDIR))
		return refuse(w, name, "it is there twice");
	if (fd < 0 || fd_write_all(fd, data, len) < 0 || set_time(w, fd) < 0)
		return failed(w, name, "writing");
	w->checkout->stats.files++;
	__atomic_fetch_add(&w->board->files, 1, __ATOMIC_RELAXED);
	return 0;
}

static int write_link(struct writer *w, int dir, const char *name, const char *hex,
		      const char *target, size_t len)
{
	if (len == 0 || len >= PATH_MAX || memchr(target, '\0', len))
		return refuse(w, name, "a symbolic link without a proper target");
	AUTO_FREE char *copy = mem_strndup(target, len);
	if (symlinkat(copy, dir, name) < 0)
		return errno == EEXIST ? refuse(w, name, "it is there twice")
				       : failed(w, name, "linking");
	w->checkout->stats.links++;
	record(w, 0120000, name, hex);
	return 0;
}

/* What the attributes of a stack say about a name in the directory where the walk is. */
static void decide(struct writer *w, const struct attr_stack *attrs, const char *name,
		   struct attr_facts *facts)
{
	size_t at = w->path.len;

	strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
	attr_decide(attrs, w->path.data, facts);
	w->path.len = at;
	w->path.data[at] = '\0';
}

/* The bytes of a regular file as a checkout has them. */
static int write_converted(struct writer *w, int dir, const char *name, bool executable,
			   const char *hex, const char *data, size_t len)
{
	struct attr_facts facts = {0};
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	char made[GITOPS_OID_SIZE];
	unsigned mode = executable ? 0755 : 0644;
	int rc;

	if (!attr_is_empty(w->attrs))
		decide(w, w->attrs, name, &facts);
	if (!attr_converts(&facts)) {
		if ((rc = write_file(w, dir, name, executable, data, len)) == 0)
			record(w, mode, name, hex);
		return rc;
	}
	strbuf_init(&out, (size_t)CHECKOUT_FILE_MAX * 4);
	w->checkout->stats.encodings_kept += attr_convert(&facts, data, len, hex, &out) == 1;
	if (out.full)
		return refuse(w, name, "too big");
	if ((rc = write_file(w, dir, name, executable, out.data, out.len)) < 0)
		return rc;
	repo_hash_blob(out.data, out.len, made);
	record(w, mode, name, made);
	return 0;
}

/* Reads a blob after a look at its size. The caller frees. */
static int read_blob(struct writer *w, const char *name, const char *hex, const git_oid *oid,
		     git_odb_object **object)
{
	enum gitops_type type;
	uint64_t size;
	int rc = repo_header(w->checkout->repo, hex, &type, &size, w->err);

	if (rc < 0)
		return rc;
	if (type != GITOPS_BLOB)
		return refuse(w, name, "its object is no file");
	if (size > CHECKOUT_FILE_MAX)
		return refuse(w, name, "bigger than 512 MiB");
	if (__atomic_add_fetch(&w->board->bytes, size, __ATOMIC_RELAXED) > CHECKOUT_BYTES_MAX)
		return refuse(w, name, "the tree has more than 64 GiB");
	if ((w->checkout->quick ? repo_read_quick : repo_read)(w->checkout->repo, oid, object) <
	    0)
		return gitops_error(w->err, ERROR_FAILED, "object %s", hex);
	return 0;
}

static int write_blob(struct writer *w, const char *name, enum view_kind kind,
		      const git_oid *oid)
{
	git_odb_object *object = NULL;
	char hex[GITOPS_OID_SIZE];
	int dir = -1, rc;

	git_oid_tostr(hex, sizeof(hex), oid);
	if ((rc = open_level(w, w->depth, &dir)) < 0 ||
	    (rc = read_blob(w, name, hex, oid, &object)) < 0)
		return rc;
	const char *data = git_odb_object_data(object);
	size_t len = git_odb_object_size(object);
	w->checkout->stats.bytes += len;
	w->checkout->stats.lfs_pointers +=
	    len < LFS_POINTER_MAX && strncmp(data, LFS_POINTER, strlen(LFS_POINTER)) == 0;
	if (kind == VIEW_LINK)
		rc = write_link(w, dir, name, hex, data, len);
	else
		rc = write_converted(w, dir, name, kind == VIEW_EXEC, hex, data, len);
	git_odb_object_free(object);
	tick(w);
	return rc == 0 ? flush_manifest(w, MANIFEST_CHUNK) : rc;
}

static int write_whiteout(struct writer *w, const char *name)
{
	int dir, rc = check_name(w, name);

	if (rc < 0 || !take(w) || w->measure)
		return rc;
	if ((rc = open_level(w, w->depth, &dir)) < 0)
		return rc;
	if (mknodat(dir, name, S_IFCHR, 0) < 0)
		return failed(w, name, "whiteout of");
	w->checkout->stats.removed++;
	record(w, 0, name, "-");
	return 0;
}

/* ---- directories ---- */

/* A directory's attribute file comes into force. */
static int enter_attrs(struct writer *w, struct attr_stack *attrs, git_tree *tree)
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
		attr_push(attrs, w->path.data, NULL, 0);
		return 0;
	}
	git_oid_tostr(hex, sizeof(hex), git_tree_entry_id(entry));
	if ((rc = repo_header(w->checkout->repo, hex, &type, &size, w->err)) < 0)
		return rc;
	if (size <= ATTR_FILE_MAX &&
	    (rc = repo_blob(w->checkout->repo, hex, ATTR_FILE_MAX, &text, w->err)) < 0)
		return rc;
	attr_push(attrs, w->path.data, text.data, text.len);
	return 0;
}

static bool same_entry(const git_tree_entry *a, const git_tree_entry *b)
{
	return a && b && git_tree_entry_filemode_raw(a) == git_tree_entry_filemode_raw(b) &&
	       git_oid_equal(git_tree_entry_id(a), git_tree_entry_id(b));
}

static bool is_tree(const git_tree_entry *entry)
{
	return entry && git_tree_entry_type(entry) == GIT_OBJECT_TREE;
}

static int walk(struct writer *w, git_tree *old, git_tree *now);

/* A directory: what differs from old (NULL: nothing was there, or no directory). */
static int walk_dir(struct writer *w, const git_tree_entry *old, const git_tree_entry *now)
{
	const char *name = git_tree_entry_name(now);
	git_tree *a = NULL, *b = NULL;
	size_t at = w->path.len;
	int rc = view_load_tree(w->checkout->repo, git_tree_entry_id(now), &b, w->err);

	if (rc == 0 && is_tree(old))
		rc = view_load_tree(w->checkout->repo, git_tree_entry_id(old), &a, w->err);
	if (rc == 0) {
		strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
		w->levels[++w->depth] = (struct level){-1, at + (at ? 1 : 0), strlen(name)};
		rc = walk(w, a, b);
		if (w->levels[w->depth].fd >= 0)
			close(w->levels[w->depth].fd);
		w->depth--;
		w->path.len = at;
		w->path.data[at] = '\0';
	}
	git_tree_free(a);
	git_tree_free(b);
	return rc;
}

/* A submodule is an empty directory; what its place had before is removed from it, because an
 * upper directory does not hide what a lower one has. */
static int walk_submodule(struct writer *w, const git_tree_entry *old,
			  const git_tree_entry *now)
{
	const char *name = git_tree_entry_name(now);
	git_tree *tree = NULL;
	size_t at = w->path.len;
	int rc = 0, dir;

	if (is_tree(old))
		rc = view_load_tree(w->checkout->repo, git_tree_entry_id(old), &tree, w->err);
	if (rc < 0)
		return rc;
	strbuf_addf(&w->path, "%s%s", at ? "/" : "", name);
	w->levels[++w->depth] = (struct level){-1, at + (at ? 1 : 0), strlen(name)};
	if (take(w) && !w->measure) {
		w->checkout->stats.submodules++;
		rc = open_level(w, w->depth, &dir);
	}
	for (size_t i = 0; tree && i < git_tree_entrycount(tree) && rc == 0; i++)
		rc = write_whiteout(w, git_tree_entry_name(git_tree_entry_byindex(tree, i)));
	if (w->levels[w->depth].fd >= 0)
		close(w->levels[w->depth].fd);
	w->depth--;
	w->path.len = at;
	w->path.data[at] = '\0';
	git_tree_free(tree);
	return rc;
}

/* Whether an unchanged file has other bytes than in the base, because its attributes changed.
 */
static bool converts_otherwise(struct writer *w, const char *name)
{
	struct attr_facts was, is;

	decide(w, w->old_attrs, name, &was);
	decide(w, w->attrs, name, &is);
	return !attr_same_conversion(&was, &is);
}

static int walk_entry(struct writer *w, const git_tree_entry *old, const git_tree_entry *now)
{
	const char *name = git_tree_entry_name(now);
	enum view_kind kind = view_kind_of_mode(git_tree_entry_filemode(now));
	bool same = same_entry(old, now);

	if (same && !w->attrs_differ)
		return 0;
	if (kind == VIEW_DIR)
		return walk_dir(w, old, now);
	if (kind == VIEW_SUBMODULE) /* any commit is the same empty directory */
		return old && git_tree_entry_type(old) == GIT_OBJECT_COMMIT
			   ? 0
			   : walk_submodule(w, old, now);
	if (same && (kind == VIEW_LINK || !converts_otherwise(w, name)))
		return 0;
	return take(w) && !w->measure ? write_blob(w, name, kind, git_tree_entry_id(now)) : 0;
}

static int walk_entries(struct writer *w, git_tree *old, git_tree *now)
{
	int rc = check_tree(w, now);

	for (size_t i = 0; i < git_tree_entrycount(now) && rc == 0; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(now, i);

		if (w->measure && w->number > w->limit)
			return 0;
		rc = walk_entry(
		    w, old ? git_tree_entry_byname(old, git_tree_entry_name(entry)) : NULL,
		    entry);
	}
	for (size_t i = 0; old && i < git_tree_entrycount(old) && rc == 0; i++) {
		const char *name = git_tree_entry_name(git_tree_entry_byindex(old, i));

		if (!git_tree_entry_byname(now, name))
			rc = write_whiteout(w, name);
	}
	return rc;
}

static int walk(struct writer *w, git_tree *old, git_tree *now)
{
	bool differ =
	    old &&
	    !same_entry(git_tree_entry_byname(old, ATTR_FILE),
			git_tree_entry_byname(now, ATTR_FILE)) &&
	    (git_tree_entry_byname(old, ATTR_FILE) || git_tree_entry_byname(now, ATTR_FILE));
	int rc = enter_attrs(w, w->attrs, now);

	if (rc < 0)
		return rc;
	if (old && (rc = enter_attrs(w, w->old_attrs, old)) < 0)
		return rc;
	w->attrs_differ += differ;
	rc = walk_entries(w, old, now);
	w->attrs_differ -= differ;
	attr_pop(w->attrs);
	if (old)
		attr_pop(w->old_attrs);
	return rc;
}

/* ---- the whole ---- */

/* Directories get their time when nobody writes in them any more. */
static int settle(const struct writer *w, int dir)
{
	DIR *list = fd_list(dir, ".");
	const struct dirent *entry;
	int rc = 0;

	if (!list)
		return -1;
	while (rc == 0 && (entry = fd_next(list))) {
		int child AUTO_FD = -1;

		if (entry->d_type == DT_REG)
			continue;
		child =
		    openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			rc = settle(w, child);
		else if (errno != ENOTDIR && errno != ELOOP && errno != ENXIO)
			rc = -1;
	}
	closedir(list);
	return rc < 0 ? rc : set_time(w, dir);
}

static int load(struct writer *w, const char *hex, git_tree **tree)
{
	git_oid oid;

	if (!hex || strlen(hex) != GITOPS_OID_SIZE - 1 || git_oid_fromstr(&oid, hex) < 0)
		return error_set(w->err, ERROR_USAGE, "malformed tree id '%.64s'",
				 hex ? hex : "");
	return view_load_tree(w->checkout->repo, &oid, tree, w->err);
}

static void writer_init(struct writer *w, struct checkout *checkout, int dir, struct error *err)
{
	*w = (struct writer){.checkout = checkout,
			     .attrs = attr_stack_new(),
			     .old_attrs = attr_stack_new(),
			     .levels = {{.fd = dir}},
			     .err = err};
	w->board = checkout->board ? checkout->board : &w->own;
	strbuf_init(&w->path, (size_t)GITOPS_DEPTH_MAX * (NAME_MAX + 1) + NAME_MAX);
	if (checkout->manifest)
		strbuf_init(&checkout->manifest->buf, STRBUF_MAX);
}

static void writer_release(struct writer *w)
{
	attr_stack_free(w->attrs);
	attr_stack_free(w->old_attrs);
	strbuf_release(&w->path);
	if (w->checkout->manifest)
		strbuf_release(&w->checkout->manifest->buf);
}

static int load_and_walk(struct writer *w, const char *base, const char *tree)
{
	git_tree *old = NULL, *now = NULL;
	int rc = base ? load(w, base, &old) : 0;

	if (rc == 0)
		rc = load(w, tree, &now);
	if (rc == 0)
		rc = walk(w, old, now);
	git_tree_free(old);
	git_tree_free(now);
	return rc;
}

int checkout_write(struct checkout *checkout, const char *base, const char *tree, int dir,
		   struct error *err)
{
	struct writer w;
	int rc;

	writer_init(&w, checkout, dir, err);
	umask(022); /* the modes that a checkout of git's has */
	__atomic_fetch_add(&w.board->joined, 1, __ATOMIC_SEQ_CST);
	rc = load_and_walk(&w, base, tree);
	if (rc == 0)
		rc = flush_manifest(&w, 1);
	/* Whoever comes to its end when all blocks are taken and all others have ended is the
	 * last to have written: one that joins later finds nothing to do. */
	if (rc == 0 && checkout->mtime.tv_nsec != UTIME_OMIT &&
	    __atomic_add_fetch(&w.board->left, 1, __ATOMIC_SEQ_CST) ==
		__atomic_load_n(&w.board->joined, __ATOMIC_SEQ_CST) &&
	    settle(&w, dir) < 0)
		rc = failed(&w, "", "setting the times of directories");
	writer_release(&w);
	return rc;
}

int checkout_measure(struct checkout *checkout, const char *base, const char *tree,
		     size_t limit, size_t *changed, struct error *err)
{
	struct checkout counting = {.repo = checkout->repo};
	struct writer w;
	int rc;

	writer_init(&w, &counting, -1, err);
	w.measure = true;
	w.limit = limit;
	rc = load_and_walk(&w, base, tree);
	*changed = w.number > limit ? limit + 1 : (size_t)w.number;
	writer_release(&w);
	return rc;
}
