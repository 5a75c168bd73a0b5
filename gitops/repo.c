#include "repo.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <git2.h>
#include <git2/sys/odb_backend.h>
#include <git2/sys/repository.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

struct gitops_repo {
	git_odb *source; /* the repository's own objects; never written through */
	git_odb
	    *odb; /* what everybody uses: quarantine, then source behind a read-only backend */
	git_repository *git; /* wraps odb: no directory, no configuration, no refs */
};

/* Caches: a stage is short, and what it reads is bounded elsewhere. */
#define CACHE_BYTES ((ssize_t)64 << 20)
#define OPEN_PACKS ((size_t)64) /* of a repository that was never repacked */
#define MAPPED_BYTES ((size_t)4 << 30)

int gitops_error(struct error *err, int kind, const char *format, ...)
{
	static const int full[] = {ENOSPC, EDQUOT};
	const git_error *last = git_error_last();
	const char *why =
	    last && last->message ? last->message : "unknown error of the git library";
	char context[512];
	va_list args;

	va_start(args, format);
	vsnprintf(context, sizeof(context), format, args);
	va_end(args);
	error_set(err, (enum error_kind)kind, "%s: %s", context, why);
	/* The library keeps of errno only its text. */
	for (size_t i = 0; i < ARRAY_LEN(full); i++)
		if (strstr(why, strerror(full[i])))
			error_next(err, "make room on the disk of the state directory");
	return kind;
}

/* Empty search paths: no system, global or XDG configuration and attributes. */
static int empty_search_paths(void)
{
	static const int levels[] = {GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
				     GIT_CONFIG_LEVEL_GLOBAL, GIT_CONFIG_LEVEL_PROGRAMDATA};

	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		if (git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "") < 0)
			return -1;
	return 0;
}

int gitops_init(struct error *err)
{
	int count = git_libgit2_init();

	if (count < 0)
		return gitops_error(err, ERROR_FAILED, "starting the git library");
	if (count > 1)
		return 0;
	/* Owner validation: the supervisor has looked at the owner; here the process may run
	 * as a uid of its own that owns nothing. */
	if (empty_search_paths() < 0 || git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0) < 0 ||
	    git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 1) < 0 ||
	    git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 1) < 0 ||
	    git_libgit2_opts(GIT_OPT_ENABLE_STRICT_SYMBOLIC_REF_CREATION, 1) < 0 ||
	    git_libgit2_opts(GIT_OPT_SET_CACHE_MAX_SIZE, CACHE_BYTES) < 0 ||
	    git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, MAPPED_BYTES) < 0 ||
	    git_libgit2_opts(GIT_OPT_SET_MWINDOW_FILE_LIMIT, OPEN_PACKS) < 0) {
		git_libgit2_shutdown();
		return gitops_error(err, ERROR_FAILED, "setting up the git library");
	}
	return 0;
}

/* ---- a backend that can only read ---- */

struct readonly_backend {
	git_odb_backend parent; /* first: the library sees this */
	git_odb *source;	/* borrowed from struct gitops_repo */
};

static git_odb *source_of(git_odb_backend *backend)
{
	return ((struct readonly_backend *)(void *)backend)->source;
}

static int readonly_read(void **data, size_t *len, git_object_t *type, git_odb_backend *backend,
			 const git_oid *oid)
{
	git_odb_object *object = NULL;
	int rc = git_odb_read(&object, source_of(backend), oid);

	if (rc < 0)
		return rc;
	size_t size = git_odb_object_size(object);
	void *copy = git_odb_backend_data_alloc(backend, size + 1);
	if (!copy) {
		git_odb_object_free(object);
		return -1;
	}
	memcpy(copy, git_odb_object_data(object), size);
	((char *)copy)[size] = '\0';
	*data = copy;
	*len = size;
	*type = git_odb_object_type(object);
	git_odb_object_free(object);
	return 0;
}

static int readonly_header(size_t *len, git_object_t *type, git_odb_backend *backend,
			   const git_oid *oid)
{
	return git_odb_read_header(len, type, source_of(backend), oid);
}

/* No refresh: asked before each write of a new object, where "not there" is the usual
 * answer. */
static int readonly_exists(git_odb_backend *backend, const git_oid *oid)
{
	return git_odb_exists_ext(source_of(backend), oid, GIT_ODB_LOOKUP_NO_REFRESH);
}

static void readonly_free(git_odb_backend *backend)
{
	free(backend);
}

/* Without write, writestream, writepack and freshen the library has no way to change
 * anything. */
static int add_readonly(git_odb *odb, git_odb *source)
{
	struct readonly_backend *backend = mem_calloc(1, sizeof(*backend));

	if (git_odb_init_backend(&backend->parent, GIT_ODB_BACKEND_VERSION) < 0) {
		free(backend);
		return -1;
	}
	backend->source = source;
	backend->parent.read = readonly_read;
	backend->parent.read_header = readonly_header;
	backend->parent.exists = readonly_exists;
	backend->parent.free = readonly_free;
	if (git_odb_add_backend(odb, &backend->parent, 1) < 0) {
		free(backend);
		return -1;
	}
	return 0;
}

static int add_quarantine(git_odb *odb, const char *dir, struct error *err)
{
	git_odb_backend *loose = NULL;
	struct stat st;

	if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, ERROR_FAILED, "quarantine %s: not a directory", dir);
	if (git_odb_backend_loose(&loose, dir, -1, 0, 0755, 0444) < 0)
		return gitops_error(err, ERROR_FAILED, "quarantine %s", dir);
	if (git_odb_add_backend(odb, loose, 2) < 0) {
		loose->free(loose);
		return gitops_error(err, ERROR_FAILED, "quarantine %s", dir);
	}
	return 0;
}

static int check_file(const char *dir, const char *name, struct error *err)
{
	AUTO_FREE char *path = mem_printf("%s/%s", dir, name);
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	error_set(err, ERROR_USAGE, "%s is no regular file", path);
	return error_next(err, "this is no repository that git made: look who put it there");
}

int repo_check_files(const char *gitdir, const char *common, struct error *err)
{
	static const char *const names[] = {"HEAD",
					    "config",
					    "index",
					    "packed-refs",
					    "shallow",
					    "commondir",
					    "gitdir",
					    "info/attributes",
					    "info/exclude",
					    "info/grafts",
					    "objects/info/alternates",
					    "objects/info/commit-graph",
					    "objects/pack/multi-pack-index"};
	const char *const dirs[] = {gitdir, common};

	for (size_t d = 0; d < ARRAY_LEN(dirs) && dirs[d]; d++)
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (check_file(dirs[d], names[i], err) < 0)
				return ERROR_USAGE;
	return 0;
}

static int open_source(struct gitops_repo *repo, const struct gitops_paths *paths,
		       struct error *err)
{
	const char *top = paths->common ? paths->common : paths->gitdir;
	AUTO_FREE char *objects = mem_printf("%s/objects", top);
	struct stat st;

	if (stat(objects, &st) < 0 || !S_ISDIR(st.st_mode)) {
		error_set(err, ERROR_USAGE, "%s: not a git repository (no objects directory)",
			  top);
		return error_next(err,
				  "run it inside a git repository, or name one with -C DIR");
	}
	if (git_odb_open(&repo->source, objects) < 0)
		return gitops_error(err, ERROR_USAGE, "%s", objects);
	for (const char *const *dir = paths->alternates; dir && *dir; dir++)
		if (git_odb_add_disk_alternate(repo->source, *dir) < 0)
			return gitops_error(err, ERROR_USAGE, "alternate object directory %s",
					    *dir);
	return 0;
}

static int wrap(struct gitops_repo *repo, struct error *err)
{
	git_config *config = NULL;

	/* An empty configuration, so that no lookup goes on to look for a file. */
	if (git_repository_wrap_odb(&repo->git, repo->odb) < 0 || git_config_new(&config) < 0)
		return gitops_error(err, ERROR_FAILED, "object database");
	int rc = git_repository_set_config(repo->git, config);
	git_config_free(config);
	if (rc < 0)
		return gitops_error(err, ERROR_FAILED, "object database");
	return 0;
}

int repo_open(const struct gitops_paths *paths, struct gitops_repo **out, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	int rc = gitops_init(err);

	if (rc < 0)
		return rc;
	if ((rc = repo_check_files(paths->gitdir, paths->common, err)) < 0)
		return rc;
	repo = mem_calloc(1, sizeof(*repo));
	if ((rc = open_source(repo, paths, err)) < 0)
		return rc;
	if (git_odb_new(&repo->odb) < 0 || add_readonly(repo->odb, repo->source) < 0)
		return gitops_error(err, ERROR_FAILED, "object database");
	if (paths->quarantine && (rc = add_quarantine(repo->odb, paths->quarantine, err)) < 0)
		return rc;
	if ((rc = wrap(repo, err)) < 0)
		return rc;
	*out = MEM_STEAL(repo);
	return 0;
}

/* A NULL-terminated array (borrowed strings) of a JSON array of strings; freed by the
 * caller. */
static const char **string_array(const struct json *array)
{
	size_t count = js_len(array), used = 0;
	const char **list = mem_calloc(count + 1, sizeof(*list));

	for (size_t i = 0; i < count; i++)
		if (js_text(js_at(array, i)))
			list[used++] = js_text(js_at(array, i));
	return list;
}

int repo_open_job(const struct json *job_paths, bool use_quarantine, struct gitops_repo **repo,
		  struct error *err)
{
	const struct json *alternates = js_get(job_paths, "alternates");
	const char **list = string_array(js_is_array(alternates) ? alternates : NULL);
	const char *one[2] = {js_text(alternates), NULL};
	struct gitops_paths paths = {
	    .gitdir = js_str(job_paths, "repo", NULL),
	    .common = js_str(job_paths, "common", NULL),
	    .alternates = one[0] ? one : list,
	    .quarantine = use_quarantine ? js_str(job_paths, "objects", NULL) : NULL,
	};
	int rc;

	if (!paths.gitdir)
		rc = error_set(err, ERROR_USAGE, "job: no repository among its paths");
	else if (use_quarantine && !paths.quarantine)
		rc = error_set(err, ERROR_USAGE, "job: no object directory among its paths");
	else
		rc = repo_open(&paths, repo, err);
	free(list);
	return rc;
}

void repo_close(struct gitops_repo *repo)
{
	if (!repo)
		return;
	git_repository_free(repo->git);
	git_odb_free(repo->odb);
	git_odb_free(repo->source);
	free(repo);
	git_libgit2_shutdown();
}

void repo_close_ptr(struct gitops_repo **repo)
{
	repo_close(*repo);
	*repo = NULL;
}

git_repository *repo_git(struct gitops_repo *repo)
{
	return repo->git;
}

git_odb *repo_odb(struct gitops_repo *repo)
{
	return repo->odb;
}

/* ---- objects ---- */

static int parse_oid(git_oid *id, const char *oid, struct error *err)
{
	if (!oid || strlen(oid) != GITOPS_OID_SIZE - 1 || git_oid_fromstr(id, oid) < 0)
		return error_set(err, ERROR_USAGE, "malformed object id '%.64s'",
				 oid ? oid : "");
	return 0;
}

static int read_failed(struct error *err, int rc, const char *oid)
{
	if (rc != GIT_ENOTFOUND)
		return gitops_error(err, ERROR_FAILED, "object %s", oid);
	error_set(err, ERROR_FAILED,
		  "missing object %s: the repository is damaged or a partial clone", oid);
	return error_next(err, "git fsck names what is missing; a full clone has all objects");
}

int repo_header(struct gitops_repo *repo, const char *oid, enum gitops_type *type,
		uint64_t *size, struct error *err)
{
	git_oid id;
	size_t len = 0;
	git_object_t kind = GIT_OBJECT_INVALID;
	int rc = parse_oid(&id, oid, err);

	if (rc < 0)
		return rc;
	if ((rc = git_odb_read_header(&len, &kind, repo->odb, &id)) < 0)
		return read_failed(err, rc, oid);
	*type = (enum gitops_type)kind;
	*size = len;
	return 0;
}

int repo_read(struct gitops_repo *repo, const git_oid *oid, git_odb_object **object)
{
	bool old = git_odb_exists_ext(repo->source, oid, GIT_ODB_LOOKUP_NO_REFRESH);

	return git_odb_read(object, old ? repo->source : repo->odb, oid);
}

int repo_read_quick(struct gitops_repo *repo, const git_oid *oid, git_odb_object **object)
{
	int rc = git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);

	if (rc == 0)
		rc = repo_read(repo, oid, object);
	if (git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 1) < 0 && rc == 0) {
		git_odb_object_free(*object);
		rc = -1;
	}
	return rc;
}

bool repo_has(struct gitops_repo *repo, const char *oid)
{
	git_oid id;

	return oid && strlen(oid) == GITOPS_OID_SIZE - 1 && git_oid_fromstr(&id, oid) == 0 &&
	       git_odb_exists(repo->odb, &id);
}

int repo_expand(struct gitops_repo *repo, const char *digits, char oid[GITOPS_OID_SIZE],
		struct error *err)
{
	size_t len = strlen(digits);
	git_oid id, found;
	int rc;

	if (len < GIT_OID_MINPREFIXLEN || len >= GITOPS_OID_SIZE ||
	    digits[strspn(digits, "0123456789abcdefABCDEF")] ||
	    git_oid_fromstrn(&id, digits, len) < 0)
		return 0;
	rc = git_odb_exists_prefix(&found, repo->source, &id, len);
	if (rc == GIT_ENOTFOUND)
		return 0;
	if (rc == GIT_EAMBIGUOUS) {
		error_set(err, ERROR_USAGE, "more than one object's id begins with %s", digits);
		return error_next(err,
				  "give more of its digits: git rev-parse "
				  "--disambiguate=%s tells them",
				  digits);
	}
	if (rc < 0)
		return gitops_error(err, ERROR_FAILED, "object %s", digits);
	git_oid_tostr(oid, GITOPS_OID_SIZE, &found);
	return 1;
}

int repo_blob(struct gitops_repo *repo, const char *oid, uint64_t max_bytes, struct strbuf *out,
	      struct error *err)
{
	enum gitops_type type = GITOPS_BLOB;
	uint64_t size = 0;
	git_odb_object *object = NULL;
	git_oid id;
	int rc = repo_header(repo, oid, &type, &size, err);

	if (rc < 0)
		return rc;
	if (type != GITOPS_BLOB)
		return error_set(err, ERROR_FAILED, "object %s is not a file", oid);
	if (size > max_bytes)
		return error_set(err, ERROR_NO, "too big: %llu bytes, the limit is %llu",
				 (unsigned long long)size, (unsigned long long)max_bytes);
	git_oid_fromstr(&id, oid);
	if ((rc = repo_read(repo, &id, &object)) < 0)
		return read_failed(err, rc, oid);
	rc = strbuf_add(out, git_odb_object_data(object), git_odb_object_size(object));
	git_odb_object_free(object);
	if (rc < 0)
		return error_set(err, ERROR_NO, "too big: %llu bytes",
				 (unsigned long long)size);
	return 0;
}

int repo_write_blob(struct gitops_repo *repo, const void *data, size_t len,
		    char oid[GITOPS_OID_SIZE], struct error *err)
{
	git_oid id;

	if (git_odb_write(&id, repo->odb, data, len, GIT_OBJECT_BLOB) < 0)
		return gitops_error(err, ERROR_FAILED, "writing an object into the quarantine");
	git_oid_tostr(oid, GITOPS_OID_SIZE, &id);
	return 0;
}

void repo_hash_blob(const void *data, size_t len, char oid[GITOPS_OID_SIZE])
{
	git_oid id = {{0}};

	git_odb_hash(&id, data, len, GIT_OBJECT_BLOB);
	git_oid_tostr(oid, GITOPS_OID_SIZE, &id);
}

int repo_commit_tree(struct gitops_repo *repo, const char *commit, char tree[GITOPS_OID_SIZE],
		     struct error *err)
{
	git_commit *object = NULL;
	enum gitops_type type = GITOPS_BLOB;
	uint64_t size = 0;
	git_oid id;
	int rc = repo_header(repo, commit, &type, &size, err);

	if (rc < 0)
		return rc;
	if (type != GITOPS_COMMIT)
		return error_set(err, ERROR_USAGE, "object %s is not a commit", commit);
	if (size > GITOPS_FILE_BYTES_MAX)
		return error_set(err, ERROR_FAILED, "commit %s is too big", commit);
	git_oid_fromstr(&id, commit);
	if (git_commit_lookup(&object, repo->git, &id) < 0)
		return gitops_error(err, ERROR_FAILED, "commit %s", commit);
	git_oid_tostr(tree, GITOPS_OID_SIZE, git_commit_tree_id(object));
	git_commit_free(object);
	return 0;
}
