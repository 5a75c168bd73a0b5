#include "pushed.h"

#include <string.h>

#include <git2.h>

#include "gitops/base.h"
#include "gitops/history.h"
#include "gitops/policy.h"
#include "gitops/rederive.h"
#include "gitops/refs.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define TITLE_MAX 200
/* As for the tree of a run that is checked again: gitops/rederive.c. */
#define POLICY_FILES_MAX 100000
#define POLICY_BYTES_MAX ((uint64_t)1 << 30)
#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

struct pushed {
	struct gitops_repo *repo;
	struct policy *policy;
	struct gitops_paths where;    /* borrowed */
	const char *option;	      /* borrowed; NULL: none */
	char commit[GITOPS_OID_SIZE]; /* of the trusted ref; "" when it is not there yet */
	char tree[GITOPS_OID_SIZE];
	const char **known; /* owned array: commits that were judged, of this push or before */
	size_t known_count;
};

/* ---- the issue ---- */

/* The first line with a word in it, without heading marks; false when there is none. */
static bool find_title(const char *text, char *title, size_t size)
{
	while (*text) {
		size_t len = strcspn(text, "\r\n");
		size_t skip = strspn(text, "# \t");

		if (skip < len) {
			text_escape(title, size, text + skip, len - skip);
			return true;
		}
		text += len + (text[len] ? 1 : 0);
	}
	return false;
}

/* The line that the first byte which is no text stands in; 0: all is UTF-8 without NUL. */
static size_t bad_line(const char *data, size_t len)
{
	size_t line = 1;
	unsigned code;

	for (size_t i = 0; i < len;) {
		size_t n = data[i] ? text_utf8_next(data + i, len - i, &code) : 0;

		if (n == 0)
			return line;
		line += data[i] == '\n';
		i += n;
	}
	return 0;
}

static void set_problem(struct json *out, char *text)
{
	js_set_str(out, "problem", text);
	mem_free_ptr(&text);
}

static void take_issue(struct json *out, const char *source, const char *what, const char *data,
		       size_t len, bool whole)
{
	size_t line = bad_line(data, len);
	char title[TITLE_MAX];

	if (line)
		set_problem(out, mem_printf("%s, line %zu: not text in UTF-8", what, line));
	else if (!find_title(data, title, sizeof(title)))
		set_problem(out,
			    mem_printf("%s: empty: nothing says what is to be done", what));
	if (!js_is_null(js_get(out, "problem")))
		return;
	js_set_str(out, "source", source);
	js_set_str(out, "title", title);
	if (whole)
		js_set_strn(out, "text", data, len);
}

/*
 * 1 when the tip has a task file of its own, 0 when it has none, or the very one of the trusted ref:
 * that one was another task's. What is wrong with it is a problem, not an error.
 */
static int from_file(struct pushed *pushed, const char *tree, bool whole, struct json *out,
		     struct error *err)
{
	AUTO_VIEW struct view *view = view_new(pushed->repo, tree, NULL, err), *base = NULL;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct view_stat st, old = {.kind = VIEW_NONE};
	int rc = view ? view_stat(view, PUSHED_TASK_PATH, &st, err) : err->kind;

	if (rc == ERROR_NO || (rc == 0 && st.kind == VIEW_NONE)) {
		memset(err, 0, sizeof(*err));
		return 0;
	}
	if (rc == 0 && pushed->tree[0]) {
		base = view_new(pushed->repo, pushed->tree, NULL, err);
		rc = base ? view_stat(base, PUSHED_TASK_PATH, &old, err) : err->kind;
		if (rc == ERROR_NO)
			memset(err, 0, sizeof(*err));
	}
	if (rc < 0 && rc != ERROR_NO)
		return rc;
	if (old.kind == st.kind && strcmp(old.oid, st.oid) == 0)
		return 0;
	if (st.kind != VIEW_FILE && st.kind != VIEW_EXEC) {
		js_set_str(out, "problem", PUSHED_TASK_PATH ": not a regular file");
		return 1;
	}
	if (st.size > PUSHED_ISSUE_MAX) {
		js_set_str(out, "problem", PUSHED_TASK_PATH ": larger than 1 MiB");
		return 1;
	}
	strbuf_init(&text, PUSHED_ISSUE_MAX);
	rc = view_read(view, PUSHED_TASK_PATH, &text, err);
	if (rc < 0)
		return rc;
	take_issue(out, "file", PUSHED_TASK_PATH, text.data, text.len, whole);
	return 1;
}

/* Whether a line of the message is our own trailer. */
static bool is_ours(const char *message)
{
	return strncmp(message, "Agent-Run: ", 11) == 0 || strstr(message, "\nAgent-Run: ");
}

static int find_issue(struct pushed *pushed, const struct json *update, const char *commit,
		      const char *tree, const char *message, struct json *out,
		      struct error *err)
{
	const char *option = js_str(update, "option", pushed->option);
	bool whole = js_bool(update, "text", false);
	int rc;

	if (is_ours(message)) {
		js_set_str(out, "source", "agent");
		return 0;
	}
	if (option) {
		take_issue(out, "option", "push option " PUSHED_OPTION, option, strlen(option),
			   whole);
		return 0;
	}
	rc = from_file(pushed, tree, whole, out, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (strcmp(commit, pushed->commit) == 0)
		js_set_str(
		    out, "problem",
		    "no issue: its tip is the default branch's, without a word about a task");
	else
		take_issue(out, "message", "message of the tip", message, strlen(message),
			   whole);
	return 0;
}

/* ---- the path policy ---- */

/* What the change is measured from: where the branch left the trusted ref; nothing when it never did. */
static int find_fork(struct pushed *pushed, const char *commit, char tree[GITOPS_OID_SIZE],
		     struct error *err)
{
	git_oid tip, trusted, fork;
	char oid[GITOPS_OID_SIZE];
	int rc;

	memcpy(tree, EMPTY_TREE, GITOPS_OID_SIZE);
	if (!pushed->commit[0])
		return 0;
	git_oid_fromstr(&tip, commit);
	git_oid_fromstr(&trusted, pushed->commit);
	rc = git_merge_base(&fork, repo_git(pushed->repo), &tip, &trusted);
	if (rc == GIT_ENOTFOUND)
		return 0;
	if (rc < 0)
		return gitops_error(err, ERROR_FAILED, "history of %s", commit);
	git_oid_tostr(oid, sizeof(oid), &fork);
	return repo_commit_tree(pushed->repo, oid, tree, err);
}

static void know(struct pushed *pushed, const char *commit)
{
	pushed->known =
	    mem_realloc(pushed->known, pushed->known_count + 1, sizeof(*pushed->known));
	pushed->known[pushed->known_count++] = commit;
}

/* Each commit of the push, after the change as a whole stands. */
static int judge_history(struct pushed *pushed, const struct json *update, const char *commit,
			 struct error *no)
{
	const char *old = js_str(update, "old", "");
	char oid[GITOPS_OID_SIZE] = "";
	size_t before = pushed->known_count;
	struct error ignored = {0};
	int rc;

	/* What the ref had was judged when it came; it may be no commit. */
	if (old[strspn(old, "0")] && text_is_hex(old, sizeof(oid) - 1)) {
		memcpy(oid, old, sizeof(oid));
		if (base_peel(pushed->repo, oid, &ignored) == 0)
			know(pushed, oid);
	}
	rc = history_judge(pushed->repo, pushed->policy, commit, pushed->known,
			   pushed->known_count, no);
	pushed->known_count = before;
	return rc;
}

static void refuse(struct json *out, const struct error *why)
{
	js_set_str(out, "refused", why->message);
	js_set_str(out, "next", why->next[0] ? why->next : NULL);
}

static int judge_change(struct pushed *pushed, const struct json *update, const char *tree,
			struct json *out, struct error *err)
{
	const struct view_limits limits = {POLICY_FILES_MAX, POLICY_BYTES_MAX,
					   GITOPS_FILE_BYTES_MAX};
	AUTO_VIEW struct view *view = NULL;
	AUTO_JSON struct json *report = NULL;
	struct error no = {0};
	const char *commit = js_str(out, "commit", "");
	char fork[GITOPS_OID_SIZE];
	int rc = find_fork(pushed, commit, fork, err);

	if (rc < 0)
		return rc;
	/* libgit2 knows the empty tree only where it is stored. */
	if (strcmp(fork, EMPTY_TREE) == 0 && !repo_has(pushed->repo, fork)) {
		js_set_str(out, "refused", "it shares no commit with the trusted ref");
		return 0;
	}
	if (!(view = view_new(pushed->repo, fork, &limits, err)))
		return err->kind;
	rc = rederive_view(view, tree, &no);
	if (rc == 0)
		rc = policy_apply(pushed->policy, view, &report, &no);
	if (rc == 0 && js_len(js_get(report, "stripped"))) {
		const struct json *first = js_at(js_get(report, "stripped"), 0);

		rc = error_set(&no, ERROR_NO, "%s: not to be changed (rule %s)",
			       js_str(first, "path", ""), js_str(first, "rule", ""));
	}
	if (rc == 0)
		rc = judge_history(pushed, update, commit, &no);
	if (rc == 0)
		know(pushed, commit);
	if (rc == ERROR_NO) {
		refuse(out, &no);
		return 0;
	}
	if (rc < 0)
		*err = no;
	return rc;
}

/* ---- a ref ---- */

static int read_message(struct pushed *pushed, const char *oid, struct strbuf *message,
			struct error *err)
{
	enum gitops_type type;
	git_commit *commit = NULL;
	uint64_t size;
	git_oid id;
	int rc = repo_header(pushed->repo, oid, &type, &size, err);

	if (rc < 0)
		return rc;
	if (size > GITOPS_FILE_BYTES_MAX)
		return error_set(err, ERROR_USAGE, "commit %s is larger than 8 MiB", oid);
	git_oid_fromstr(&id, oid);
	if (git_commit_lookup(&commit, repo_git(pushed->repo), &id) < 0)
		return gitops_error(err, ERROR_FAILED, "commit %s", oid);
	strbuf_adds(message, git_commit_message(commit));
	git_commit_free(commit);
	return message->full ? error_set(err, ERROR_USAGE,
					 "the message of commit %s is larger than 1 MiB", oid)
			     : 0;
}

/* What the ref is to become, or is. 0, 1 when it is not there, or an error. */
static int find_tip(struct pushed *pushed, const struct json *update, char *oid,
		    struct json *out, struct error *err)
{
	const char *new = js_str(update, "new", NULL);
	struct ref_value value;
	int rc;

	if (new && !text_is_hex(new, GITOPS_OID_SIZE - 1))
		return error_set(err, ERROR_USAGE, "job: malformed object id");
	if (new) {
		memcpy(oid, new, GITOPS_OID_SIZE);
		return 0;
	}
	rc = refs_look(&pushed->where, js_str(update, "ref", ""), &value, err);
	js_set_str(out, "tip", rc == 0 ? value.oid : NULL);
	memcpy(oid, value.oid, GITOPS_OID_SIZE);
	return rc;
}

static int read_tip(struct pushed *pushed, const struct json *update, struct json *out,
		    struct error *err)
{
	struct strbuf message AUTO_STRBUF = STRBUF_NONE;
	char oid[GITOPS_OID_SIZE] = "", tree[GITOPS_OID_SIZE];
	int rc = find_tip(pushed, update, oid, out, err);

	if (rc)
		return rc < 0 ? rc : 0;
	strbuf_init(&message, PUSHED_ISSUE_MAX);
	rc = base_peel(pushed->repo, oid, err);
	if (rc == 0)
		rc = repo_commit_tree(pushed->repo, oid, tree, err);
	if (rc == 0 && js_bool(update, "issue", false))
		rc = read_message(pushed, oid, &message, err);
	if (rc == ERROR_USAGE) { /* the push's own fault */
		js_set_str(out, "problem", err->message);
		memset(err, 0, sizeof(*err));
		return 0;
	}
	if (rc < 0)
		return rc;
	js_set_str(out, "commit", oid);
	js_set_str(out, "tree", tree);
	if (js_bool(update, "issue", false))
		rc = find_issue(pushed, update, oid, tree, message.data, out, err);
	if (rc == 0 && js_bool(update, "policy", false))
		rc = judge_change(pushed, update, tree, out, err);
	return rc;
}

static int read_all(struct pushed *pushed, const struct json *job, struct json *facts,
		    struct error *err)
{
	const struct json *updates = js_get(job, "updates");
	struct json *list = js_array_new();

	js_set(facts, "updates", list);
	for (size_t i = 0; i < js_len(updates); i++) {
		struct json *out = js_object_new();
		int rc;

		js_push(list, out);
		js_set_str(out, "source", NULL);
		js_set_str(out, "problem", NULL);
		js_set_str(out, "refused", NULL);
		js_set_str(out, "next", NULL);
		rc = read_tip(pushed, js_at(updates, i), out, err);
		if (rc < 0)
			return error_wrap(err, "%s", js_str(js_at(updates, i), "ref", ""));
	}
	return 0;
}

/* The trusted ref; a repository without a commit has none yet. */
static int read_trusted(struct pushed *pushed, const struct json *job, struct json *facts,
			struct error *err)
{
	struct ref_value value = {.oid = ""};
	struct repo_format format;
	struct error none = {0};
	struct json *base;
	int rc = refs_check_format(&pushed->where, &format, err);

	js_set_str(facts, "base", NULL);
	if (rc < 0 ||
	    refs_resolve(&pushed->where, js_str(job, "rev", "HEAD"), &value, &none) < 0)
		return rc;
	memcpy(pushed->commit, value.oid, sizeof(pushed->commit));
	rc = base_peel(pushed->repo, pushed->commit, err);
	if (rc == 0)
		rc = repo_commit_tree(pushed->repo, pushed->commit, pushed->tree, err);
	if (rc < 0)
		return error_wrap(err, "%s", js_str(job, "rev", "HEAD"));
	base = js_object_new();
	js_set_str(base, "commit", pushed->commit);
	js_set_str(base, "tree", pushed->tree);
	js_set(facts, "base", base);
	return 0;
}

struct json *pushed_read(const struct json *job, struct error *err)
{
	AUTO_JSON struct json *facts = js_artefact_new("pushed", 1);
	AUTO_POLICY struct policy *policy = policy_new(js_get(job, "policy"), err);
	AUTO_REPO struct gitops_repo *repo = NULL;
	const struct json *paths = js_get(job, "paths");
	struct pushed pushed = {.policy = policy,
				.where = {.gitdir = js_str(paths, "repo", NULL),
					  .common = js_str(paths, "common", NULL)},
				.option = js_str(job, "option", NULL)};
	int rc = policy ? repo_open_job(paths, false, &repo, err) : err->kind;

	pushed.repo = repo;
	if (rc == 0)
		rc = read_trusted(&pushed, job, facts, err);
	if (rc == 0 && js_bool(job, "list", false)) {
		js_set(facts, "refs", js_object_new());
		rc = refs_list(&pushed.where, js_get(facts, "refs"), err);
	}
	if (rc == 0) {
		know(&pushed, pushed.commit);
		rc = read_all(&pushed, job, facts, err);
	}
	mem_free_ptr(&pushed.known);
	return rc < 0 ? NULL : MEM_STEAL(facts);
}
