#include "skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/inside.h"
#include "pipeline/fetch/npm_lock.h"
#include "pipeline/fetch/steers.h"
#include "sandbox/jail_spec.h"

#define FILES_MAX 20000
#define BYTES_MAX ((uint64_t)256 << 20) /* of the skeleton as a whole */
#define MANIFEST_MAX ((size_t)4 << 20)	/* of a package.json, an .npmrc */

/* ---- lists ---- */

static struct skeleton_file *find_file(const struct skeleton *out, const char *path)
{
	for (size_t i = 0; i < out->count; i++)
		if (strcmp(out->files[i].path, path) == 0)
			return &out->files[i];
	return NULL;
}

static struct skeleton_file *add_file(struct skeleton *out, const char *path)
{
	struct skeleton_file *file = find_file(out, path);

	if (file)
		return file;
	out->files = mem_realloc(out->files, out->count + 1, sizeof(*out->files));
	file = &out->files[out->count++];
	memset(file, 0, sizeof(*file));
	file->path = mem_strdup(path);
	return file;
}

static void add_word(char ***list, const char *word)
{
	size_t count = 0;

	while (*list && (*list)[count])
		count++;
	*list = mem_realloc(*list, count + 2, sizeof(**list));
	(*list)[count] = mem_strdup(word);
	(*list)[count + 1] = NULL;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct skeleton_file *)a)->path,
		      ((const struct skeleton_file *)b)->path);
}

static void sort_files(struct skeleton *out)
{
	if (out->count)
		mem_sort(out->files, out->count, sizeof(*out->files), by_path);
}

void skeleton_release(struct skeleton *skeleton)
{
	for (size_t i = 0; i < skeleton->count; i++) {
		free(skeleton->files[i].path);
		free(skeleton->files[i].text);
	}
	free(skeleton->files);
	text_free_words(skeleton->outputs);
	text_free_words(skeleton->required);
	text_free_words(skeleton->not_base);
	memset(skeleton, 0, sizeof(*skeleton));
}

/* ---- reading the base ---- */

/* A plain file of the tree. 0; ERROR_NO when it is missing or something else. */
static int add_input(struct view *view, const char *path, struct skeleton *out,
		     struct error *err)
{
	struct skeleton_file *file;
	struct view_stat found;
	int kind = view_stat(view, path, &found, err);

	if (kind)
		return kind;
	if (found.kind != VIEW_FILE && found.kind != VIEW_EXEC)
		return error_set(err, ERROR_NO, "%s is %s", path,
				 found.kind == VIEW_NONE ? "not in the base commit"
				 : found.kind == VIEW_LINK
				     ? "a symbolic link, which no warm gets"
				     : "not a file");
	if (out->count >= FILES_MAX)
		return error_set(err, ERROR_NO, "the inputs of the warm are more than %d files",
				 FILES_MAX);
	file = add_file(out, path);
	memcpy(file->oid, found.oid, sizeof(file->oid));
	file->executable = found.kind == VIEW_EXEC;
	return 0;
}

static bool view_has_file(struct view *view, const char *path)
{
	struct view_stat found;
	struct error ignored = {0};

	return view_stat(view, path, &found, &ignored) == 0 &&
	       (found.kind == VIEW_FILE || found.kind == VIEW_EXEC);
}

/* Reads a file that add_input took. */
static int read_input(struct view *view, const struct skeleton *out, const char *path,
		      size_t max_bytes, struct strbuf *data, struct error *err)
{
	const struct skeleton_file *file = find_file(out, path);

	if (!file)
		return error_set(err, ERROR_FAILED, "%s is no input", path);
	return repo_blob(view_repo(view), file->oid, max_bytes, data, err)
		   ? error_wrap(err, "%s", path)
		   : 0;
}

/* ---- whose version counts ---- */

/* What is at a path; nothing, too, where it leads through something that is no directory. */
static int look_at(struct view *view, const char *path, struct view_stat *found,
		   struct error *err)
{
	struct error nothing = {0};
	int kind = view_stat(view, path, found, &nothing);

	if (!kind)
		return 0;
	memset(found, 0, sizeof(*found));
	found->kind = VIEW_NONE;
	if (kind != ERROR_NO)
		*err = nothing;
	return kind == ERROR_NO ? 0 : kind;
}

static bool is_same(const struct view_stat *a, const struct view_stat *b)
{
	return a->kind == b->kind && strcmp(a->oid, b->oid) == 0;
}

/* 1 for a program: executable or a script. */
static int is_program(struct view *view, const struct view_stat *found, struct error *err)
{
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	int kind;

	if (found->kind != VIEW_FILE)
		return found->kind == VIEW_EXEC;
	strbuf_init(&data, BYTES_MAX);
	kind = repo_blob(view_repo(view), found->oid, BYTES_MAX, &data, err);
	return kind ? kind : steers_by_bytes(data.data, data.len);
}

/* 1 when how the warm works hangs on a path that differs: the trusted ref's version counts. */
static int steers(const struct skeleton_trees *trees, const char *path,
		  const struct view_stat *base, const struct view_stat *trusted,
		  struct error *err)
{
	enum steers name = steers_by_name(path);
	int program;

	if (name != STEERS_PROGRAM)
		return name == STEERS_YES;
	for (size_t i = 0; i < js_len(trees->words); i++)
		if (steers_is_word(js_text(js_at(trees->words, i)), path, JAIL_WORK))
			return 1;
	program = is_program(trees->base, base, err);
	return program ? program : is_program(trees->trusted, trusted, err);
}

static void note_not_base(struct skeleton *out, const char *path)
{
	for (char **known = out->not_base; known && *known; known++)
		if (strcmp(*known, path) == 0)
			return;
	add_word(&out->not_base, path);
}

/* An input that the configuration names. named: by this very path, so that it has to be there. */
static int add_ruled(const struct skeleton_trees *trees, const char *path, bool named,
		     struct skeleton *out, struct error *err)
{
	struct view_stat base, trusted;
	int kind = look_at(trees->base, path, &base, err);

	if (!kind)
		kind = look_at(trees->trusted, path, &trusted, err);
	if (!kind && !is_same(&base, &trusted))
		kind = steers(trees, path, &base, &trusted, err);
	if (kind < 0)
		return kind;
	if (!kind)
		return named || base.kind != VIEW_NONE ? add_input(trees->base, path, out, err)
						       : 0;
	note_not_base(out, path);
	return trusted.kind == VIEW_NONE ? 0 : add_input(trees->trusted, path, out, err);
}

/* ---- npm ---- */

static struct json *read_json_input(struct view *view, const struct skeleton *out,
				    const char *path, size_t max_bytes, struct error *err)
{
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;

	strbuf_init(&data, max_bytes);
	if (read_input(view, out, path, max_bytes, &data, err))
		return NULL;
	return js_parse(data.data, data.len, max_bytes, path, err);
}

/* A member's package.json, and empty files for the commands that it has: npm makes no link to a
 * command whose file is missing. */
static int add_member(struct view *view, const char *member, struct skeleton *out,
		      struct error *err)
{
	AUTO_FREE char *manifest = mem_printf("%s/package.json", member);
	AUTO_FREE char *modules = mem_printf("%s/node_modules", member);
	AUTO_JSON struct json *parsed = NULL;
	char **bins;

	if (add_input(view, manifest, out, err))
		return err->kind;
	parsed = read_json_input(view, out, manifest, MANIFEST_MAX, err);
	if (!parsed)
		return err->kind;
	bins = npm_lock_bins(parsed);
	for (char **bin = bins; *bin; bin++) {
		AUTO_FREE char *path = mem_printf("%s/%s", member, *bin);
		struct skeleton_file *file;

		if (!inside_path(path) || !view_has_file(view, path))
			continue;
		file = add_file(out, path);
		if (!file->oid[0] && !file->text)
			file->text = mem_strdup("");
	}
	text_free_words(bins);
	add_word(&out->outputs, modules);
	return 0;
}

/* The trusted ref's .npmrc, reduced to settings that only say how to read the lock file. */
static int add_settings(const struct skeleton_trees *trees, struct skeleton *out,
			struct error *err)
{
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	struct view_stat base, trusted;
	char *kept;

	if (look_at(trees->base, ".npmrc", &base, err) ||
	    look_at(trees->trusted, ".npmrc", &trusted, err))
		return err->kind;
	if (!is_same(&base, &trusted))
		note_not_base(out, ".npmrc");
	if (trusted.kind != VIEW_FILE && trusted.kind != VIEW_EXEC)
		return 0;
	strbuf_init(&data, MANIFEST_MAX);
	if (repo_blob(view_repo(trees->trusted), trusted.oid, MANIFEST_MAX, &data, err))
		return error_wrap(err, ".npmrc");
	kept = npm_lock_settings(data.data, data.len);
	if (*kept)
		add_file(out, ".npmrc")->text = kept;
	else
		free(kept);
	return 0;
}

static int lint(const struct json *lock, const char *file, const struct json *job,
		struct error *err)
{
	const struct json *hosts = js_get(job, "hosts");
	const char **list = mem_calloc(js_len(hosts) + 1, sizeof(*list));
	const struct npm_lint rules = {.hosts = list,
				       .replaced_host = js_str(job, "replaced_host", NULL)};
	int kind;

	for (size_t i = 0; i < js_len(hosts); i++)
		list[i] = js_text(js_at(hosts, i));
	kind = npm_lock_lint(lock, file, &rules, err);
	free(list);
	return kind;
}

int skeleton_npm(const struct skeleton_trees *trees, const struct json *job,
		 struct skeleton *out, struct error *err)
{
	struct view *view = trees->base;
	const char *file = view_has_file(view, "npm-shrinkwrap.json") ? "npm-shrinkwrap.json"
								      : "package-lock.json";
	AUTO_JSON struct json *lock = NULL;
	char **members;
	int kind = 0;

	memset(out, 0, sizeof(*out));
	if (add_input(view, file, out, err) || add_input(view, "package.json", out, err))
		return err->kind;
	lock = read_json_input(view, out, file, NPM_LOCK_MAX, err);
	if (!lock || lint(lock, file, job, err) || add_settings(trees, out, err))
		return err->kind;
	add_word(&out->outputs, "node_modules");
	members = npm_lock_members(lock);
	for (char **member = members; *member && !kind; member++)
		kind = add_member(view, *member, out, err);
	text_free_words(members);
	if (kind)
		return error_wrap(err, "%s names a package that is incomplete", file);
	add_word(&out->outputs, "~/.npm/_cacache");
	out->required = npm_lock_required(lock);
	sort_files(out);
	return 0;
}

/* ---- general ---- */

static int add_matches(const struct skeleton_trees *trees, struct view *view,
		       const char *pattern, size_t *matches, struct skeleton *out,
		       struct error *err)
{
	struct view_listing found = {NULL, 0, false};
	int kind = view_list(view, "", true, pattern, FILES_MAX, &found, err);

	if (!kind && found.cut)
		kind = error_set(err, ERROR_NO, "%s matches more than %d files", pattern,
				 FILES_MAX);
	for (size_t i = 0; i < found.len && !kind; i++) {
		const char *path = found.items[i].path;

		if (found.items[i].kind != VIEW_DIR)
			kind = add_ruled(trees, path, false, out, err);
		*matches += view == trees->base || find_file(out, path);
	}
	view_listing_release(&found);
	return kind;
}

/* What the trusted ref has and the base does not may be a setting that was taken away. */
static int add_pattern(const struct skeleton_trees *trees, const char *pattern,
		       struct skeleton *out, struct error *err)
{
	size_t matches = 0;

	if (!strpbrk(pattern, "*?[{"))
		return add_ruled(trees, pattern, true, out, err);
	if (add_matches(trees, trees->base, pattern, &matches, out, err) ||
	    (strcmp(view_tree(trees->base), view_tree(trees->trusted)) != 0 &&
	     add_matches(trees, trees->trusted, pattern, &matches, out, err)))
		return err->kind;
	return matches
		   ? 0
		   : error_set(err, ERROR_NO, "%s matches no file of the base commit", pattern);
}

int skeleton_general(const struct skeleton_trees *trees, const struct json *job,
		     struct skeleton *out, struct error *err)
{
	const struct json *inputs = js_get(job, "inputs"), *outputs = js_get(job, "outputs");

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < js_len(inputs); i++)
		if (add_pattern(trees, js_text(js_at(inputs, i)), out, err)) {
			error_wrap(err, "fetch.inputs");
			return error_next(err, "mend the list of inputs in the configuration");
		}
	for (size_t i = 0; i < js_len(outputs); i++)
		add_word(&out->outputs, js_text(js_at(outputs, i)));
	sort_files(out);
	return 0;
}

/* ---- key ---- */

void skeleton_key(const struct skeleton *skeleton, const char *plan, char key[STORE_KEY_SIZE])
{
	struct strbuf text;

	strbuf_init(&text, STRBUF_MAX);
	strbuf_addf(&text, "layer 1\nplan %zu:%s\n", strlen(plan), plan);
	for (size_t i = 0; i < skeleton->count; i++) {
		const struct skeleton_file *file = &skeleton->files[i];
		char hash[65] = "";

		if (file->text)
			sha256_hex(file->text, strlen(file->text), hash);
		strbuf_addf(&text, "%s %s %zu:%s\n", file->executable ? "100755" : "100644",
			    file->text ? hash : file->oid, strlen(file->path), file->path);
	}
	sha256_hex(text.data, text.len, key);
	strbuf_release(&text);
}

/* ---- writing ---- */

static int write_one(const struct skeleton_file *file, struct view *view, int dir_fd,
		     uint64_t *left_bytes, struct error *err)
{
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	AUTO_FD int fd = -1;

	strbuf_init(&data, (size_t)*left_bytes);
	if (file->text)
		strbuf_adds(&data, file->text);
	else if (repo_blob(view_repo(view), file->oid, *left_bytes, &data, err))
		return error_wrap(err, "%s", file->path);
	*left_bytes -= data.len;
	for (const char *slash = strchr(file->path, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *parent = mem_strndup(file->path, (size_t)(slash - file->path));

		if (mkdirat(dir_fd, parent, 0755) < 0 && errno != EEXIST)
			return error_errno(err, ERROR_FAILED, errno, "skeleton: %s", parent);
	}
	fd = fd_open_beneath(dir_fd, file->path, O_WRONLY | O_CREAT | O_EXCL,
			     file->executable ? 0755 : 0644);
	if (fd < 0 || fd_write_all(fd, data.data, data.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "skeleton: %s", file->path);
	return 0;
}

int skeleton_write(const struct skeleton *skeleton, struct view *view, int dir_fd,
		   struct error *err)
{
	uint64_t left_bytes = BYTES_MAX;
	int kind = 0;

	for (size_t i = 0; i < skeleton->count && !kind; i++)
		kind = write_one(&skeleton->files[i], view, dir_fd, &left_bytes, err);
	return kind;
}
