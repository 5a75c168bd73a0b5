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

#define FILES_MAX 20000
#define BYTES_MAX ((uint64_t)256 << 20) /* of the skeleton as a whole */
#define MANIFEST_MAX ((size_t)4 << 20)	/* of a package.json, an .npmrc */

/* ---- lists ---- */

static struct skeleton_file *add_file(struct skeleton *out, const char *path)
{
	struct skeleton_file *file;

	for (size_t i = 0; i < out->count; i++)
		if (strcmp(out->files[i].path, path) == 0)
			return &out->files[i];
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
	for (size_t i = 0; i < out->count; i++)
		if (strcmp(out->files[i].path, path) == 0) {
			int kind =
			    repo_blob(view_repo(view), out->files[i].oid, max_bytes, data, err);

			return kind ? error_wrap(err, "%s", path) : 0;
		}
	return error_set(err, ERROR_FAILED, "%s is no input", path);
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

/* The repository's .npmrc, reduced to settings that only say how to read the lock file. */
static int add_settings(struct view *view, struct skeleton *out, struct error *err)
{
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	struct view_stat found;
	char *kept;
	int kind;

	if (!view_has_file(view, ".npmrc"))
		return 0;
	kind = view_stat(view, ".npmrc", &found, err);
	strbuf_init(&data, MANIFEST_MAX);
	if (!kind)
		kind = repo_blob(view_repo(view), found.oid, MANIFEST_MAX, &data, err);
	if (kind)
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

int skeleton_npm(struct view *view, const struct json *job, struct skeleton *out,
		 struct error *err)
{
	const char *file = view_has_file(view, "npm-shrinkwrap.json") ? "npm-shrinkwrap.json"
								      : "package-lock.json";
	AUTO_JSON struct json *lock = NULL;
	char **members;
	int kind = 0;

	memset(out, 0, sizeof(*out));
	if (add_input(view, file, out, err) || add_input(view, "package.json", out, err))
		return err->kind;
	lock = read_json_input(view, out, file, NPM_LOCK_MAX, err);
	if (!lock || lint(lock, file, job, err) || add_settings(view, out, err))
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

static int add_pattern(struct view *view, const char *pattern, struct skeleton *out,
		       struct error *err)
{
	struct view_listing found = {NULL, 0, false};
	int kind;

	if (!strpbrk(pattern, "*?[{"))
		return add_input(view, pattern, out, err);
	kind = view_list(view, "", true, pattern, FILES_MAX, &found, err);
	if (!kind && found.cut)
		kind = error_set(err, ERROR_NO, "%s matches more than %d files", pattern,
				 FILES_MAX);
	if (!kind && !found.len)
		kind =
		    error_set(err, ERROR_NO, "%s matches no file of the base commit", pattern);
	for (size_t i = 0; i < found.len && !kind; i++)
		if (found.items[i].kind != VIEW_DIR)
			kind = add_input(view, found.items[i].path, out, err);
	view_listing_release(&found);
	return kind;
}

int skeleton_general(struct view *view, const struct json *job, struct skeleton *out,
		     struct error *err)
{
	const struct json *inputs = js_get(job, "inputs"), *outputs = js_get(job, "outputs");

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < js_len(inputs); i++)
		if (add_pattern(view, js_text(js_at(inputs, i)), out, err)) {
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
