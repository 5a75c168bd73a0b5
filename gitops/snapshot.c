#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <git2.h>

#include "gitops/checkout.h"
#include "gitops/hashfile.h"
#include "gitops/pack.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define TAG "v0.0.0"
#define PATHS_MAX ((size_t)1 << 30) /* bytes of all paths */
#define WHO "agent <agent@localhost>"

/* checkStat: of a file's time only the seconds and of the rest only the size, which is what
 * the index knows; the layers' inode numbers and change times are the jail's own. */
static const char config_text[] =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    "\tlogallrefupdates = true\n\tcheckStat = minimal\n";

/* A file, link or submodule. */
struct item {
	size_t path; /* in paths */
	uint32_t mode;
	git_oid oid;
};

/* A directory, for the index's table of known trees. */
struct dir {
	size_t name;	       /* in paths: its last component; the root's is empty */
	size_t items, subdirs; /* below it; of it */
	git_oid oid;
};

struct walk {
	const struct snapshot *snapshot;
	struct strbuf paths; /* NUL-terminated, one behind the other */
	struct strbuf path;  /* of the directory that is read, with a slash at its end */
	struct item *items;
	struct dir *dirs;
	struct pack_object *objects;
	size_t item_count, dir_count, object_count, item_cap, dir_cap, object_cap;
	struct error *err;
};

static void *grow(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 1024;
	return mem_realloc(array, *cap, size);
}

static struct pack_object *add_object(struct walk *w, const git_oid *oid, enum gitops_type type)
{
	struct pack_object *object;

	w->objects = grow(w->objects, w->object_count, &w->object_cap, sizeof(*w->objects));
	object = &w->objects[w->object_count++];
	*object = (struct pack_object){.type = type};
	memcpy(object->oid, oid->id, SHA1_SIZE);
	return object;
}

/* ---- what is in the tree ---- */

static uint32_t index_mode(enum view_kind kind)
{
	return kind == VIEW_EXEC	? 0100755U
	       : kind == VIEW_LINK	? 0120000U
	       : kind == VIEW_SUBMODULE ? 0160000U
					: 0100644U;
}

static size_t keep_path(struct walk *w, const char *name)
{
	size_t at = w->paths.len;

	strbuf_addf(&w->paths, "%s%s", w->path.data, name);
	strbuf_addc(&w->paths, '\0');
	return at;
}

static size_t add_dir(struct walk *w, const char *name, const git_oid *oid)
{
	size_t at = w->paths.len;

	strbuf_add(&w->paths, name, strlen(name) + 1);
	w->dirs = grow(w->dirs, w->dir_count, &w->dir_cap, sizeof(*w->dirs));
	w->dirs[w->dir_count] = (struct dir){.name = at, .oid = *oid};
	add_object(w, oid, GITOPS_TREE);
	return w->dir_count++;
}

static int walk_tree(struct walk *w, const char *name, const git_oid *oid, int depth);

static int walk_entry(struct walk *w, const git_tree_entry *entry, int depth)
{
	const char *name = git_tree_entry_name(entry);
	const git_oid *oid = git_tree_entry_id(entry);
	enum view_kind kind = view_kind_of_mode(git_tree_entry_filemode(entry));
	size_t at = w->path.len;
	int rc;

	if (w->item_count + w->dir_count > CHECKOUT_ENTRIES_MAX || w->paths.full)
		return error_set(w->err, ERROR_NO, "the tree has more than 4,000,000 files");
	if (kind == VIEW_DIR) {
		strbuf_addf(&w->path, "%s/", name);
		rc = walk_tree(w, name, oid, depth + 1);
		w->path.len = at;
		w->path.data[at] = '\0';
		return rc;
	}
	if (kind != VIEW_SUBMODULE)
		add_object(w, oid, GITOPS_BLOB);
	w->items = grow(w->items, w->item_count, &w->item_cap, sizeof(*w->items));
	w->items[w->item_count++] =
	    (struct item){.path = keep_path(w, name), .mode = index_mode(kind), .oid = *oid};
	return 0;
}

static int walk_tree(struct walk *w, const char *name, const git_oid *oid, int depth)
{
	git_tree *tree = NULL;
	size_t self = add_dir(w, name, oid), before = w->item_count, subdirs = 0;
	int rc = 0;

	if (depth > GITOPS_DEPTH_MAX)
		return error_set(w->err, ERROR_NO, "directories are nested more than 100 deep");
	if ((rc = view_load_tree(w->snapshot->repo, oid, &tree, w->err)) < 0)
		return rc;
	for (size_t i = 0; i < git_tree_entrycount(tree) && rc == 0; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(tree, i);
		subdirs += git_tree_entry_type(entry) == GIT_OBJECT_TREE;
		rc = walk_entry(w, entry, depth);
	}
	w->dirs[self].items = w->item_count - before;
	w->dirs[self].subdirs = subdirs;
	git_tree_free(tree);
	return rc;
}

/* ---- the index ---- */

/* As the file looks in the layers. What is not there (a submodule's directory) looks like
 * nothing, and git compares its content. */
static void look_at(const struct snapshot *snapshot, const char *path, struct stat *st)
{
	for (size_t i = 0; i < snapshot->layer_count; i++)
		if (fstatat(snapshot->layers[i], path, st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode)))
			return;
	memset(st, 0, sizeof(*st));
}

static void add_index_entry(const struct walk *w, struct hashfile *file,
			    const struct item *item)
{
	const char *path = w->paths.data + item->path;
	size_t len = strlen(path), size = 62 + len;
	const unsigned char zero[8] = {0};
	unsigned short flags = (unsigned short)(len < 0xfff ? len : 0xfff);
	const unsigned char flag_bytes[2] = {(unsigned char)(flags >> 8), (unsigned char)flags};
	struct stat st;

	look_at(w->snapshot, path, &st);
	hashfile_be32(file, (uint32_t)st.st_mtim.tv_sec);
	hashfile_be32(file, (uint32_t)st.st_mtim.tv_nsec);
	hashfile_be32(file, (uint32_t)st.st_mtim.tv_sec);
	hashfile_be32(file, (uint32_t)st.st_mtim.tv_nsec);
	hashfile_be32(file, 0); /* device */
	hashfile_be32(file, 0); /* inode */
	hashfile_be32(file, item->mode);
	hashfile_be32(file, 0); /* user */
	hashfile_be32(file, 0); /* group */
	hashfile_be32(file, (uint32_t)st.st_size);
	hashfile_add(file, item->oid.id, SHA1_SIZE);
	hashfile_add(file, flag_bytes, sizeof(flag_bytes));
	hashfile_add(file, path, len);
	hashfile_add(file, zero, 8 - size % 8);
}

/* Which tree each directory is, so that a commit need not find out. */
static void add_known_trees(const struct walk *w, struct hashfile *file)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	for (size_t i = 0; i < w->dir_count; i++) {
		const struct dir *dir = &w->dirs[i];

		strbuf_adds(&text, w->paths.data + dir->name);
		strbuf_addc(&text, '\0');
		strbuf_addf(&text, "%zu %zu\n", dir->items, dir->subdirs);
		strbuf_add(&text, dir->oid.id, SHA1_SIZE);
	}
	if (text.full)
		return; /* git does without */
	hashfile_add(file, "TREE", 4);
	hashfile_be32(file, (uint32_t)text.len);
	hashfile_add(file, text.data, text.len);
}

static int write_index(const struct walk *w, int git, struct error *err)
{
	AUTO_FREE struct hashfile *file = mem_calloc(1, sizeof(*file));
	int fd AUTO_FD = openat(git, "index", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	unsigned char sum[SHA1_SIZE];

	if (fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "index of the snapshot");
	hashfile_begin(file, fd);
	hashfile_add(file, "DIRC", 4);
	hashfile_be32(file, 2);
	hashfile_be32(file, (uint32_t)w->item_count);
	for (size_t i = 0; i < w->item_count; i++)
		add_index_entry(w, file, &w->items[i]);
	add_known_trees(w, file);
	if (hashfile_end(file, sum) < 0)
		return error_errno(err, ERROR_FAILED, errno, "index of the snapshot");
	return 0;
}

/* ---- commit, tag, and the directory ---- */

static int hash(const struct strbuf *text, git_object_t type, git_oid *oid, struct error *err)
{
	return git_odb_hash(oid, text->data, text->len, type) < 0
		   ? gitops_error(err, ERROR_FAILED, "objects of the snapshot")
		   : 0;
}

static int write_pack(struct walk *w, int dir, git_oid *commit_id, git_oid *tag_id)
{
	const struct snapshot *snapshot = w->snapshot;
	struct strbuf commit AUTO_STRBUF = STRBUF_NONE, tag AUTO_STRBUF = STRBUF_NONE;
	int rc;

	strbuf_init(&commit, STRBUF_MAX);
	strbuf_init(&tag, STRBUF_MAX);
	strbuf_addf(&commit,
		    "tree %s\nauthor " WHO " %lld +0000\ncommitter " WHO
		    " %lld +0000\n\nThe tree that is tested\n",
		    snapshot->tree, snapshot->time, snapshot->time);
	if ((rc = hash(&commit, GIT_OBJECT_COMMIT, commit_id, w->err)) < 0)
		return rc;
	strbuf_addf(&tag,
		    "object %s\ntype commit\ntag " TAG "\ntagger " WHO
		    " %lld +0000\n\nThe tree that is tested\n",
		    git_oid_tostr_s(commit_id), snapshot->time);
	if ((rc = hash(&tag, GIT_OBJECT_TAG, tag_id, w->err)) < 0)
		return rc;
	struct pack_object *object = add_object(w, commit_id, GITOPS_COMMIT);
	object->data = commit.data;
	object->len = commit.len;
	object = add_object(w, tag_id, GITOPS_TAG);
	object->data = tag.data;
	object->len = tag.len;
	return pack_write(snapshot->repo, dir, w->objects, w->object_count, w->err);
}

static int write_text(int git, const char *name, const char *text)
{
	int fd AUTO_FD = openat(git, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));
}

static int write_ref(int git, const char *name, const git_oid *oid)
{
	AUTO_FREE char *line = mem_printf("%s\n", git_oid_tostr_s(oid));

	return write_text(git, name, line);
}

static int make_dirs(int git)
{
	static const char *const dirs[] = {"objects", "objects/pack", "objects/info",
					   "refs",    "refs/heads",   "refs/tags",
					   "info",    "hooks",	      "branches"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(git, dirs[i], 0755) < 0)
			return -1;
	return 0;
}

static int fill(struct walk *w, int git)
{
	git_oid tree, commit, tag;
	int pack AUTO_FD = -1;
	int rc;

	if (make_dirs(git) < 0 ||
	    (pack = openat(git, "objects/pack", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return error_errno(w->err, ERROR_FAILED, errno, "making the snapshot");
	if (git_oid_fromstr(&tree, w->snapshot->tree) < 0)
		return gitops_error(w->err, ERROR_USAGE, "tree %s", w->snapshot->tree);
	if ((rc = walk_tree(w, "", &tree, 1)) < 0 ||
	    (rc = write_pack(w, pack, &commit, &tag)) < 0)
		return rc;
	if (write_text(git, "HEAD", "ref: refs/heads/main\n") < 0 ||
	    write_text(git, "config", config_text) < 0 ||
	    write_ref(git, "refs/heads/main", &commit) < 0 ||
	    write_ref(git, "refs/tags/" TAG, &tag) < 0)
		return error_errno(w->err, ERROR_FAILED, errno, "making the snapshot");
	/* last: nothing of the tree may look younger than it */
	return write_index(w, git, w->err);
}

/* Makes and opens <scratch>/<name>/.git. */
static int make_dir(const char *scratch, const char *name, struct error *err)
{
	int parent AUTO_FD = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int layer AUTO_FD = -1, git = -1;

	if (parent >= 0 && fd_remove_tree(parent, name) == 0 &&
	    mkdirat(parent, name, 0755) == 0 &&
	    (layer = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >=
		0 &&
	    mkdirat(layer, ".git", 0755) == 0)
		git = openat(layer, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (git < 0)
		error_errno(err, ERROR_FAILED, errno, "making %s/%s", scratch, name);
	return git;
}

int snapshot_make(const struct snapshot *snapshot, const char *scratch, const char *name,
		  struct error *err)
{
	struct walk w = {.snapshot = snapshot, .err = err};
	int git AUTO_FD = make_dir(scratch, name, err);
	int rc = git < 0 ? err->kind : 0;

	strbuf_init(&w.paths, PATHS_MAX);
	strbuf_init(&w.path, PATHS_MAX);
	if (rc == 0)
		rc = fill(&w, git);
	if (rc == ERROR_NO)
		error_next(err, "set [test] git = none");
	strbuf_release(&w.paths);
	strbuf_release(&w.path);
	free(w.items);
	free(w.dirs);
	free(w.objects);
	return rc;
}
