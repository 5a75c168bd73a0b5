#include "tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <git2.h>

#include "gitops/base.h"
#include "gitops/pathset.h"
#include "gitops/refs.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define FILES_MAX 1000000

struct reading {
	struct gitops_repo *repo;
	struct view *view;
	char commit[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
};

/* ---- the tasks' files ---- */

static const char *read_text(struct view *view, const char *path, struct strbuf *text)
{
	struct error ignored = {0};
	struct view_stat st;

	if (view_stat(view, path, &st, &ignored) < 0)
		return "it cannot be read";
	if (st.kind != VIEW_FILE && st.kind != VIEW_EXEC)
		return "it is no regular file";
	if (st.size > TASKS_FILE_MAX)
		return "it is larger than 96 KiB";
	if (view_read(view, path, text, &ignored) < 0)
		return "it cannot be read";
	if (!text_is_utf8(text->data, text->len) || memchr(text->data, '\0', text->len))
		return "it is no text in UTF-8";
	return NULL;
}

static void add_file(struct view *view, const char *path, struct json *files)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *file = js_object_new();
	const char *why;

	strbuf_init(&text, TASKS_FILE_MAX + 1);
	strbuf_adds(&text, "");
	why = read_text(view, path, &text);
	js_set_strn(file, "path", path, strlen(path));
	if (why)
		js_set_str(file, "why", why);
	else
		js_set_strn(file, "text", text.data, text.len);
	js_push(files, file);
}

static int add_files(struct view *view, struct json *files, struct error *err)
{
	struct view_listing listing = {0};
	struct view_stat st;
	int rc = view_stat(view, TASKS_DIR, &st, err);

	if (rc == ERROR_NO || (rc == 0 && st.kind != VIEW_DIR)) {
		*err = (struct error){0};
		return 0;
	}
	if (rc == 0)
		rc = view_list(view, TASKS_DIR, false, NULL, TASKS_MAX, &listing, err);
	for (size_t i = 0; rc == 0 && i < listing.len; i++) {
		const char *path = listing.items[i].path;
		size_t len = strlen(path);

		if (len > 3 && strcmp(path + len - 3, ".md") == 0 &&
		    listing.items[i].kind != VIEW_DIR && text_is_utf8(path, len))
			add_file(view, path, files);
	}
	if (rc == 0 && listing.cut)
		rc = error_set(err, ERROR_USAGE, TASKS_DIR " has more than %d entries",
			       TASKS_MAX);
	view_listing_release(&listing);
	return rc;
}

/* ---- what a task sees ---- */

static int add_seen(struct reading *reading, const struct json *patterns,
		    const struct view_listing *all, struct json *seen, struct error *err)
{
	struct pathset *set AUTO_PATHSET = pathset_new(patterns, err);
	unsigned char digest[32];
	char hex[65] = "";
	struct sha256 hash;

	if (!set)
		return err->kind;
	if (!pathset_len(set) || all->cut) {
		js_push_str(seen, reading->tree);
		return 0;
	}
	sha256_init(&hash);
	for (size_t i = 0; i < all->len; i++) {
		const char *path = all->items[i].path;
		struct view_stat st;
		int rc;

		if (!pathset_has(set, path))
			continue;
		rc = view_stat(reading->view, path, &st, err);
		if (rc < 0 && rc != ERROR_NO)
			return rc;
		/* what is at a path that nobody may change is not seen either */
		if (rc == ERROR_NO)
			*err = (struct error){0};
		sha256_add(&hash, path, strlen(path) + 1);
		sha256_add(&hash, rc ? "" : view_mode_text(st.kind), rc ? 0 : 6);
		sha256_add(&hash, rc ? "" : st.oid, rc ? 0 : strlen(st.oid));
	}
	sha256_done(&hash, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	js_push_str(seen, hex);
	return 0;
}

static bool has_patterns(const struct json *wanted)
{
	for (size_t i = 0; i < js_len(wanted); i++)
		if (js_len(js_at(wanted, i)))
			return true;
	return false;
}

static int add_all_seen(struct reading *reading, const struct json *wanted, struct json *seen,
			struct error *err)
{
	struct view_listing all = {0};
	int rc = 0;

	if (has_patterns(wanted))
		rc = view_list(reading->view, "", true, NULL, FILES_MAX, &all, err);
	for (size_t i = 0; rc == 0 && i < js_len(wanted); i++)
		rc = add_seen(reading, js_at(wanted, i), &all, seen, err);
	view_listing_release(&all);
	return rc;
}

/* ---- what became of commits ---- */

static bool is_ancestor(struct reading *reading, const char *oid)
{
	git_oid head, made;

	if (!text_is_hex(oid, 40) || !repo_has(reading->repo, oid))
		return false;
	if (strcmp(oid, reading->commit) == 0)
		return true;
	git_oid_fromstr(&head, reading->commit);
	git_oid_fromstr(&made, oid);
	return git_graph_descendant_of(repo_git(reading->repo), &head, &made) == 1;
}

/* A squashed or rebased commit is not there by its name, but by what it did. */
static bool has_changes(struct reading *reading, const struct json *changes)
{
	for (size_t i = 0; i < js_len(changes); i++) {
		const struct json *change = js_at(changes, i);
		const char *wanted = js_str(change, "new_oid", "");
		struct error ignored = {0};
		struct view_stat st;
		bool there =
		    view_stat(reading->view, js_str(change, "path", ""), &st, &ignored) == 0 &&
		    st.kind != VIEW_NONE;

		if (there ? strcmp(wanted, st.oid) != 0 : wanted[0] != '\0')
			return false;
	}
	return js_len(changes) > 0;
}

/* ---- all of it ---- */

static int gather(struct reading *reading, const struct json *job, struct json *out,
		  struct error *err)
{
	struct json *files = js_array_new(), *seen = js_array_new(), *made = js_array_new();
	const struct json *asked = js_get(job, "made");
	int rc = 0;

	js_set(out, "files", files);
	js_set(out, "seen", seen);
	js_set(out, "made", made);
	if (js_bool(job, "read", false))
		rc = add_files(reading->view, files, err);
	if (rc == 0)
		rc = add_all_seen(reading, js_get(job, "seen"), seen, err);
	for (size_t i = 0; rc == 0 && i < js_len(asked); i++) {
		const struct json *one = js_at(asked, i);

		struct json *answer = js_object_new();

		js_set_bool(answer, "merged",
			    is_ancestor(reading, js_str(one, "commit", "")) ||
				has_changes(reading, js_get(one, "changes")));
		js_push(made, answer);
	}
	return rc;
}

static int open_tree(const struct gitops_paths *where, const struct json *job,
		     struct reading *reading, struct json *out, struct error *err)
{
	struct repo_format format = {0};
	struct ref_value value = {.oid = ""};
	int rc = refs_check_format(where, &format, err);

	if (rc == 0)
		rc = base_find(reading->repo, where, js_str(job, "rev", "HEAD"), &value, err);
	if (rc == 0)
		rc = base_peel(reading->repo, value.oid, err);
	if (rc == 0)
		rc = repo_commit_tree(reading->repo, value.oid, reading->tree, err);
	if (rc < 0)
		return rc;
	memcpy(reading->commit, value.oid, sizeof(reading->commit));
	js_set_str(out, "commit", reading->commit);
	js_set_str(out, "tree", reading->tree);
	js_set_str(out, "ref", value.name[0] ? value.name : NULL);
	reading->view = view_new(reading->repo, reading->tree, NULL, err);
	return reading->view ? 0 : err->kind;
}

struct json *tasks_read(const struct json *job, struct error *err)
{
	const struct json *paths = js_get(job, "paths");
	struct gitops_paths where = {.gitdir = js_str(paths, "repo", NULL),
				     .common = js_str(paths, "common", NULL)};
	struct json *out AUTO_JSON = js_artefact_new("tasks", 1);
	struct gitops_repo *repo AUTO_REPO = NULL;
	struct view *view AUTO_VIEW = NULL;
	struct reading reading = {.repo = NULL};
	int rc;

	if (!where.gitdir) {
		error_set(err, ERROR_USAGE, "job: no repository among its paths");
		return NULL;
	}
	rc = repo_open_job(paths, false, &repo, err);
	reading.repo = repo;
	if (rc == 0)
		rc = open_tree(&where, job, &reading, out, err);
	view = reading.view;
	if (rc == 0)
		rc = gather(&reading, job, out, err);
	return rc < 0 ? NULL : MEM_STEAL(out);
}
