#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include <git2.h>

#include "gitops/pathpolicy.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

#define TREE_CHANGES_MAX 100000 /* of one tree.json */

enum phase { PHASE_ALL, PHASE_DELETIONS, PHASE_PUTS };

static bool in_phase(const struct tree_change *change, enum phase phase)
{
	bool deletion = change->new_kind == VIEW_NONE;

	return phase == PHASE_ALL || deletion == (phase == PHASE_DELETIONS);
}

/* One call of the library. It costs the directories on the changed paths and no others. */
static int update(struct gitops_repo *repo, git_tree *base, const struct tree_change *changes,
		  size_t count, enum phase phase, git_oid *out, struct error *err)
{
	AUTO_FREE git_tree_update *updates = mem_calloc(count + 1, sizeof(*updates));
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		const struct tree_change *change = &changes[i];
		if (!in_phase(change, phase))
			continue;
		bool deletion = change->new_kind == VIEW_NONE;
		updates[used].action =
		    deletion ? GIT_TREE_UPDATE_REMOVE : GIT_TREE_UPDATE_UPSERT;
		updates[used].path = change->path;
		updates[used].filemode = change->new_kind == VIEW_EXEC
					     ? GIT_FILEMODE_BLOB_EXECUTABLE
					     : GIT_FILEMODE_BLOB;
		if (!deletion && git_oid_fromstr(&updates[used].id, change->new_oid) < 0)
			return gitops_error(err, ERROR_FAILED, "change of '%s'", change->path);
		used++;
	}
	if (git_tree_create_updated(out, repo_git(repo), base, used, updates) < 0)
		return gitops_error(err, ERROR_FAILED, "making the tree");
	return 0;
}

/* Whether a file takes the place of a directory or the other way round: the library looks at
 * the tree that it started from and would see a conflict. */
static bool swaps_kind(const struct tree_change *changes, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++) {
		size_t len = strlen(changes[i].path);
		bool deletion = changes[i].new_kind == VIEW_NONE;
		for (size_t j = i + 1;
		     j < count && !strncmp(changes[j].path, changes[i].path, len); j++)
			if (changes[j].path[len] == '/' &&
			    (changes[j].new_kind == VIEW_NONE) != deletion)
				return true;
	}
	return false;
}

/* changes are sorted by path. */
static int make_tree(struct gitops_repo *repo, git_tree *base,
		     const struct tree_change *changes, size_t count, git_oid *out,
		     struct error *err)
{
	git_tree *between = NULL;

	if (!swaps_kind(changes, count))
		return update(repo, base, changes, count, PHASE_ALL, out, err);
	int rc = update(repo, base, changes, count, PHASE_DELETIONS, out, err);
	if (rc == 0)
		rc = view_load_tree(repo, out, &between, err);
	if (rc == 0)
		rc = update(repo, between, changes, count, PHASE_PUTS, out, err);
	git_tree_free(between);
	return rc;
}

/* The base must be what the change says it was. */
static int check_old(struct view *view, const struct tree_change *change, struct error *err)
{
	struct view_stat st = {.kind = VIEW_NONE};
	int rc = view_stat(view, change->path, &st, err);

	if (rc < 0 && rc != ERROR_NO)
		return rc;
	if (rc == ERROR_NO) /* through a file that becomes a directory: nothing was there */
		st = (struct view_stat){.kind = VIEW_NONE};
	if (st.kind == VIEW_DIR && change->old_kind == VIEW_NONE &&
	    change->new_kind != VIEW_NONE)
		return 0; /* a directory that becomes a file; its files are changes of their own
			   */
	if (st.kind != change->old_kind || strcmp(st.oid, change->old_oid) != 0)
		return error_set(err, ERROR_FAILED,
				 "'%s' is not in the base as the change recorded it",
				 change->path);
	return 0;
}

static int compare_changes(const void *a, const void *b)
{
	return strcmp(((const struct tree_change *)a)->path,
		      ((const struct tree_change *)b)->path);
}

int tree_update(struct gitops_repo *repo, const char *base, const struct tree_change *changes,
		size_t count, char tree[GITOPS_OID_SIZE], struct error *err)
{
	AUTO_VIEW struct view *view = view_new(repo, base, NULL, err);
	AUTO_FREE struct tree_change *sorted = mem_calloc(count + 1, sizeof(*sorted));
	git_oid oid;
	int rc = 0;

	if (!view)
		return err ? err->kind : ERROR_FAILED;
	if (!count) {
		memcpy(tree, base, GITOPS_OID_SIZE);
		return 0;
	}
	memcpy(sorted, changes, count * sizeof(*sorted));
	mem_sort(sorted, count, sizeof(*sorted), compare_changes);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (i && strcmp(sorted[i].path, sorted[i - 1].path) == 0)
			return error_set(err, ERROR_FAILED, "'%s' is changed twice",
					 sorted[i].path);
		rc = check_old(view, &sorted[i], err);
	}
	if (rc == 0)
		rc = make_tree(repo, view->root, sorted, count, &oid, err);
	if (rc < 0)
		return rc;
	git_oid_tostr(tree, GITOPS_OID_SIZE, &oid);
	return 0;
}

int tree_write(struct view *view, char tree[GITOPS_OID_SIZE], struct error *err)
{
	AUTO_FREE struct view_change *changes = NULL;
	AUTO_FREE struct tree_change *plain = NULL;
	size_t count = 0;
	int rc = view_changes(view, &changes, &count, err);

	if (rc < 0)
		return rc;
	plain = mem_calloc(count + 1, sizeof(*plain));
	for (size_t i = 0; i < count; i++) {
		char oid[GITOPS_OID_SIZE];
		plain[i].path = changes[i].path;
		plain[i].old_kind = changes[i].old_kind;
		plain[i].new_kind = changes[i].new_kind;
		memcpy(plain[i].old_oid, changes[i].old_oid, GITOPS_OID_SIZE);
		memcpy(plain[i].new_oid, changes[i].new_oid, GITOPS_OID_SIZE);
		if (changes[i].new_kind != VIEW_NONE &&
		    (rc = repo_write_blob(view->repo, changes[i].data, changes[i].len, oid,
					  err)) < 0)
			return rc;
	}
	return tree_update(view->repo, view->tree, plain, count, tree, err);
}

/* ---- as JSON ---- */

static void set_side(struct json *object, const char *oid_key, const char *mode_key,
		     const char *oid, enum view_kind kind)
{
	js_set_str(object, oid_key, oid[0] ? oid : NULL);
	js_set_str(object, mode_key, view_mode_text(kind));
}

struct json *tree_changes_to_json(const struct view_change *changes, size_t count)
{
	struct json *array = js_array_new();

	for (size_t i = 0; i < count; i++) {
		struct json *object = js_object_new();
		js_set_str(object, "path", changes[i].path);
		set_side(object, "old_oid", "old_mode", changes[i].old_oid,
			 changes[i].old_kind);
		set_side(object, "new_oid", "new_mode", changes[i].new_oid,
			 changes[i].new_kind);
		js_push(array, object);
	}
	return array;
}

static int get_side(const struct json *object, const char *oid_key, const char *mode_key,
		    char oid[GITOPS_OID_SIZE], enum view_kind *kind, struct error *err)
{
	const char *mode = js_str(object, mode_key, ""), *text = js_str(object, oid_key, NULL);

	if (strcmp(mode, "100644") == 0)
		*kind = VIEW_FILE;
	else if (strcmp(mode, "100755") == 0)
		*kind = VIEW_EXEC;
	else if (strcmp(mode, "000000") == 0)
		*kind = VIEW_NONE;
	else
		return error_set(err, ERROR_FAILED, "mode '%.20s' is refused", mode);
	if (*kind == VIEW_NONE && js_is_null(js_get(object, oid_key)))
		return 0;
	if (*kind == VIEW_NONE || !text || !text_is_hex(text, GITOPS_OID_SIZE - 1))
		return error_set(err, ERROR_FAILED, "malformed %s", oid_key);
	memcpy(oid, text, GITOPS_OID_SIZE);
	return 0;
}

static int get_change(const struct json *object, struct tree_change *change, struct error *err)
{
	static const char *const keys[] = {"path",     "old_oid",  "new_oid",
					   "old_mode", "new_mode", NULL};
	int rc = js_check_keys(object, keys, err);

	if (rc == 0)
		rc = js_need_str(object, "path", &change->path, err);
	if (rc == 0)
		rc = path_check(change->path, strlen(change->path), err);
	if (rc == 0)
		rc = get_side(object, "old_oid", "old_mode", change->old_oid, &change->old_kind,
			      err);
	if (rc == 0)
		rc = get_side(object, "new_oid", "new_mode", change->new_oid, &change->new_kind,
			      err);
	if (rc == 0 && change->old_kind == change->new_kind &&
	    strcmp(change->old_oid, change->new_oid) == 0)
		rc = error_set(err, ERROR_FAILED, "'%s' is recorded but not changed",
			       change->path);
	return rc < 0 ? error_set(err, ERROR_FAILED, "recorded changes: %s",
				  err ? err->message : "")
		      : 0;
}

int tree_changes_from_json(const struct json *array, struct tree_change **out, size_t *count,
			   struct error *err)
{
	size_t len = js_len(array);

	if (!js_is_array(array) || len > TREE_CHANGES_MAX)
		return error_set(err, ERROR_FAILED, "recorded changes: no list of at most %d",
				 TREE_CHANGES_MAX);
	AUTO_FREE struct tree_change *changes = mem_calloc(len + 1, sizeof(*changes));
	for (size_t i = 0; i < len; i++) {
		int rc = get_change(js_at(array, i), &changes[i], err);
		if (rc < 0)
			return rc;
	}
	*out = MEM_STEAL(changes);
	*count = len;
	return 0;
}
