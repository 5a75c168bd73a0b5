#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/diff.h"
#include "gitops/dirtree.h"
#include "gitops/edit_text.h"
#include "gitops/index.h"
#include "gitops/policy.h"
#include "gitops/tree.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"

struct trial {
	const struct json *job, *paths;
	struct gitops_repo *repo; /* owned */
	struct view *view;	  /* owned */
	struct edit_list list;	  /* owned */
	struct view_limits limits;
	struct json *out; /* owned */
	struct error *err;
};

static void trial_release(struct trial *trial)
{
	edit_list_release(&trial->list);
	view_free(trial->view);
	repo_close(trial->repo);
	js_free(trial->out);
}

static const char *op_text(const struct edit *edit)
{
	switch (edit->op) {
	case EDIT_WRITE:
		return "write";
	case EDIT_REPLACE:
		return "replace";
	case EDIT_INSERT:
		return "insert";
	case EDIT_DELETE:
		return "delete";
	case EDIT_RENAME:
		return "rename";
	case EDIT_CHMOD:
		return "chmod";
	case EDIT_PATCH:
		return edit->create ? "create" : edit->remove ? "delete" : "patch";
	}
	return "?";
}

static int read_limits(struct trial *trial)
{
	const struct json *limits = js_get(trial->job, "limits");
	long long files = 0, bytes = 0;
	int rc = js_need_int(limits, "files", 0, 1000000, &files, trial->err);

	if (rc == 0)
		rc = js_need_int(limits, "bytes", 0, (long long)STRBUF_MAX, &bytes, trial->err);
	trial->limits = view_limits_default;
	trial->limits.files = (size_t)files;
	trial->limits.bytes = (uint64_t)bytes;
	if (trial->limits.file_bytes > trial->limits.bytes)
		trial->limits.file_bytes = trial->limits.bytes;
	return rc;
}

static int open_view(struct trial *trial)
{
	const char *tree = js_str(trial->job, "tree", NULL);
	const char *dir = js_str(trial->paths, "dir", NULL);
	char made[GITOPS_OID_SIZE];
	int rc = repo_open_job(trial->paths, true, &trial->repo, trial->err);

	if (rc < 0)
		return rc;
	if (!tree) {
		int fd AUTO_FD = open(dir ? dir : "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return error_errno(trial->err, ERROR_USAGE, errno, "%s",
					   dir ? dir : "directory");
		rc = dirtree_make(trial->repo, fd, &trial->list, trial->limits.file_bytes, made,
				  trial->err);
		if (rc < 0)
			return rc;
		tree = made;
	}
	trial->view = view_new(trial->repo, tree, &trial->limits, trial->err);
	return trial->view ? 0 : trial->err->kind;
}

static int try_edits(struct trial *trial, enum edit_code *outcome)
{
	struct json *edits = js_array_new();
	AUTO_FREE struct edit_result *results =
	    mem_calloc(trial->list.len + 1, sizeof(*results));
	int rc = edit_try(trial->view, &trial->list, results, outcome, trial->err);

	for (size_t i = 0; i < trial->list.len && rc == 0; i++) {
		struct json *one = js_object_new();
		js_set_str(one, "path", trial->list.items[i].path);
		js_set_str(one, "op", op_text(&trial->list.items[i]));
		js_set_str(one, "code", edit_code_text(results[i].code));
		js_set_str(one, "message", results[i].message);
		if (results[i].line)
			js_set_int(one, "line", (long long)results[i].line);
		js_push(edits, one);
	}
	js_set(trial->out, "edits", edits);
	js_set_str(trial->out, "outcome", edit_code_text(*outcome));
	return rc;
}

static int add_file(struct trial *trial, const struct view_change *change, struct json *files)
{
	AUTO_STRBUF struct strbuf old = STRBUF_NONE;
	struct json *one = js_object_new();
	char digest[65];

	js_push(files, one);
	js_set_str(one, "path", change->path);
	if (change->new_kind != VIEW_NONE) {
		js_set_str(one, "mode", view_mode_text(change->new_kind));
		js_set_bytes(one, "content", change->data, change->len);
	}
	if (change->old_kind == VIEW_NONE)
		return 0;
	strbuf_init(&old, trial->limits.file_bytes);
	int rc =
	    repo_blob(trial->repo, change->old_oid, trial->limits.file_bytes, &old, trial->err);
	if (rc < 0)
		return rc;
	sha256_hex(old.data, old.len, digest);
	js_set_str(one, "old", digest);
	js_set_str(one, "old_mode", view_mode_text(change->old_kind));
	return 0;
}

/* The accepted change: policy, tree, diff, files. */
static int finish(struct trial *trial, struct strbuf *patch)
{
	AUTO_POLICY struct policy *policy =
	    policy_new(js_get(trial->job, "policy"), trial->err);
	AUTO_FREE struct view_change *changes = NULL;
	AUTO_JSON struct json *report = NULL;
	struct json *files = js_array_new();
	struct diff_stat stat;
	char tree[GITOPS_OID_SIZE];
	size_t count = 0;
	int rc =
	    policy ? policy_apply(policy, trial->view, &report, trial->err) : trial->err->kind;

	js_set(trial->out, "files", files);
	if (rc == 0)
		rc = view_changes(trial->view, &changes, &count, trial->err);
	if (rc == 0)
		rc = tree_write(trial->view, tree, trial->err);
	if (rc == 0)
		rc = diff_format(trial->view, changes, count, patch, &stat, trial->err);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = add_file(trial, &changes[i], files);
	if (rc == 0 && js_bool(trial->job, "index", false)) {
		AUTO_FREE char *copy =
		    mem_printf("%s/index", js_str(trial->paths, "objects", ""));
		rc = index_update(js_str(trial->paths, "repo", ""), changes, count, copy,
				  trial->err);
	}
	if (rc < 0)
		return rc;
	if (js_get(trial->job, "tree"))
		js_set_str(trial->out, "tree", tree);
	js_set(trial->out, "policy", js_copy(report));
	return 0;
}

int trial_run(const struct json *job, const char *text, unsigned long len, struct strbuf *patch,
	      struct json **out, struct error *err)
{
	struct trial trial
	    __attribute__((cleanup(trial_release))) = {.job = job,
						       .paths = js_get(job, "paths"),
						       .out = js_artefact_new("trial", 1),
						       .err = err};
	enum edit_format format = FORMAT_AUTO;
	enum edit_code outcome = EDIT_NOOP;
	struct edit_fault fault;
	const char *name = js_str(job, "format", "auto");
	int rc = read_limits(&trial);

	if (rc < 0)
		return rc;
	if (!edit_format_find(name, &format)) {
		error_set(err, ERROR_USAGE, "unknown format '%.40s'", name);
		return error_next(err,
				  "auto, udiff, search-replace, apply-patch, whole or tool");
	}
	if (edit_text_parse(text, len, &format, &trial.list, &fault) < 0) {
		js_set_str(trial.out, "format", edit_format_name(format));
		js_set_str(trial.out, "outcome", edit_code_text(fault.code));
		js_set_int(trial.out, "line", (long long)fault.line);
		js_set_str(trial.out, "message", fault.message);
		*out = MEM_STEAL(trial.out);
		return 0;
	}
	js_set_str(trial.out, "format", edit_format_name(format));
	rc = open_view(&trial);
	if (rc == 0)
		rc = try_edits(&trial, &outcome);
	if (rc == 0 && outcome == EDIT_OK)
		rc = finish(&trial, patch);
	if (rc == 0)
		*out = MEM_STEAL(trial.out);
	return rc;
}
