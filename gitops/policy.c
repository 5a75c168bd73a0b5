#include "policy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gitops/glob.h"
#include "gitops/leak.h"
#include "gitops/pathfold.h"
#include "gitops/pathset.h"
#include "gitops/policy_defaults.h"
#include "gitops/tamper.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define RULES_MAX 1000
#define LEAKS_MAX 16   /* shown of one file */
#define LISTED_MAX 200 /* entries of one list in the report */
#define EXCERPT_MAX 200

struct rule {
	enum policy_outcome outcome;
	struct glob *glob; /* owned */
	char *text;	   /* owned: the pattern */
};

struct rules {
	struct rule *items; /* owned */
	size_t count;
};

struct policy {
	struct rules fixed, operators, repository;
	struct rules not_secret; /* outcome unused */
	struct pathset *only;	 /* owned: no other path may be changed; NULL: any */
	char *test_command;	 /* owned */
	bool refuse_tampering;
};

/* ---- rules ---- */

static void release_rules(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		glob_free(rules->items[i].glob);
		free(rules->items[i].text);
	}
	free(rules->items);
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	release_rules(&policy->fixed);
	release_rules(&policy->operators);
	release_rules(&policy->repository);
	release_rules(&policy->not_secret);
	pathset_free(policy->only);
	free(policy->test_command);
	free(policy);
}

void policy_free_ptr(struct policy **policy)
{
	policy_free(*policy);
}

static int add_rule(struct rules *rules, enum policy_outcome outcome, const char *pattern,
		    struct error *err)
{
	/* A name differs from a protected one by case alone where that is the same file. */
	struct glob *glob = glob_new(pattern, strlen(pattern), true, err);

	if (!glob)
		return error_wrap(err, "protected path");
	if (rules->count >= RULES_MAX) {
		glob_free(glob);
		return error_set(err, ERROR_USAGE, "more than %d rules for protected paths",
				 RULES_MAX);
	}
	rules->items = mem_realloc(rules->items, rules->count + 1, sizeof(*rules->items));
	rules->items[rules->count++] = (struct rule){outcome, glob, mem_strdup(pattern)};
	return 0;
}

static int parse_rule(struct rules *rules, const char *text, bool may_allow, struct error *err)
{
	static const char *const words[] = {"allow", "review", "strip", "refuse"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t len = strlen(words[i]);

		if (strncmp(text, words[i], len) != 0 || text[len] != ' ')
			continue;
		if (i == POLICY_ALLOW && !may_allow)
			break;
		return add_rule(rules, (enum policy_outcome)i,
				text + len + strspn(text + len, " "), err);
	}
	return error_set(err, ERROR_USAGE,
			 "protected path \"%s\": not %sreview, strip or refuse and a pattern",
			 text, may_allow ? "allow, " : "");
}

static int parse_rules(struct rules *rules, const struct json *lines, bool may_allow,
		       struct error *err)
{
	for (size_t i = 0; i < js_len(lines); i++) {
		const char *text = js_text(js_at(lines, i));

		if (parse_rule(rules, text ? text : "", may_allow, err))
			return err->kind;
	}
	return 0;
}

struct policy *policy_new(const struct json *json, struct error *err)
{
	struct policy *policy AUTO_POLICY = mem_calloc(1, sizeof(*policy));
	const struct json *not_secret = js_get(json, "not_secret");
	size_t count;
	const char *const *defaults = policy_defaults(&count);

	for (size_t i = 0; i < count; i++)
		if (parse_rule(&policy->fixed, defaults[i], true, err))
			return NULL;
	if (parse_rules(&policy->operators, js_get(json, "protect"), true, err) ||
	    parse_rules(&policy->repository, js_get(json, "also"), false, err))
		return NULL;
	for (size_t i = 0; i < js_len(not_secret); i++) {
		const char *text = js_text(js_at(not_secret, i));

		if (add_rule(&policy->not_secret, POLICY_ALLOW, text ? text : "", err))
			return NULL;
	}
	if (js_len(js_get(json, "only"))) {
		policy->only = pathset_new(js_get(json, "only"), err);
		if (!policy->only)
			return NULL;
	}
	policy->test_command = mem_strdup(js_str(json, "test_command", ""));
	policy->refuse_tampering = strcmp(js_str(json, "tests", "report"), "refuse") == 0;
	return MEM_STEAL(policy);
}

static const struct rule *last_match(const struct rules *rules, const char *path)
{
	for (size_t i = rules->count; i-- > 0;)
		if (glob_match(rules->items[i].glob, path, strlen(path)))
			return &rules->items[i];
	return NULL;
}

enum policy_outcome policy_outcome(const struct policy *policy, const char *path,
				   const char **rule)
{
	const struct rule *found = last_match(&policy->operators, path);

	if (!found)
		found = last_match(&policy->fixed, path);
	/* All of the repository's count, the strictest most. */
	for (size_t i = 0; i < policy->repository.count; i++) {
		const struct rule *own = &policy->repository.items[i];

		if ((!found || own->outcome > found->outcome) &&
		    glob_match(own->glob, path, strlen(path)))
			found = own;
	}
	if (rule)
		*rule = found ? found->text : NULL;
	return found ? found->outcome : POLICY_ALLOW;
}

/* ---- the decision ---- */

struct decision {
	const struct policy *policy;
	struct view *view;
	const struct view_change *changes; /* borrowed */
	size_t count;
	struct json *review, *stripped, *tests; /* owned by the report */
	size_t review_left_out, tests_left_out;
	struct strbuf refused; /* reasons, one a line */
};

/* Where the next reason for a refusal goes. */
static struct strbuf *reason(struct decision *decision)
{
	if (decision->refused.len)
		strbuf_adds(&decision->refused, "; ");
	return &decision->refused;
}

static void ask_review(struct decision *decision, const char *path, const char *why)
{
	struct json *entry;

	if (js_len(decision->review) >= LISTED_MAX) {
		decision->review_left_out++;
		return;
	}
	entry = js_object_new();
	js_set_str(entry, "path", path);
	js_set_str(entry, "why", why);
	js_push(decision->review, entry);
}

/* A list that was cut says so in its last entry: nothing is hidden behind many of it. */
static void tell_left_out(struct json *list, size_t count, const char *key)
{
	struct json *entry;
	char *text AUTO_FREE = mem_printf("%zu more are not listed", count);

	if (!count)
		return;
	entry = js_object_new();
	js_set_str(entry, "path", "...");
	js_set_str(entry, key, text);
	js_push(list, entry);
}

static void tell_stripped(struct decision *decision, const char *path, const char *rule)
{
	struct json *entry = js_object_new();

	js_set_str(entry, "path", path);
	js_set_str(entry, "rule", rule);
	js_push(decision->stripped, entry);
}

/* Whether two different names cannot be in one tree: a file and what is below it, or one name in
 * two spellings. */
static bool exclude_each_other(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);
	size_t len = a_len < b_len ? a_len : b_len;
	const char *longer = a_len < b_len ? b : a;

	if (strcmp(a, b) == 0)
		return false;
	return (longer[len] == '/' && path_same_fold(a, len, b, len)) ||
	       path_same_fold(a, a_len, b, b_len);
}

/* What a stripped path needs back, in the base, has no room beside what the change put in its
 * place: that goes, too. */
static void strip_in_the_way(struct decision *decision, const struct view_change *changes,
			     size_t count, bool *gone)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; gone[i] && changes[i].old_kind && k < count; k++) {
			if (gone[k] || !changes[k].new_kind ||
			    !exclude_each_other(changes[i].path, changes[k].path))
				continue;
			char *why AUTO_FREE = mem_printf("'%s' stays", changes[i].path);

			gone[k] = true;
			tell_stripped(decision, changes[k].path, why);
		}
}

/* What is stripped leaves the view; the rest is what everything below looks at. */
static int strip(struct decision *decision, struct error *err)
{
	AUTO_FREE struct view_change *changes = NULL;
	size_t count = 0;
	int rc = view_changes(decision->view, &changes, &count, err);
	bool *gone AUTO_FREE = mem_calloc(count + 1, sizeof(*gone));

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		const char *rule;

		gone[i] =
		    policy_outcome(decision->policy, changes[i].path, &rule) == POLICY_STRIP;
		if (gone[i])
			tell_stripped(decision, changes[i].path, rule);
	}
	strip_in_the_way(decision, changes, count, gone);
	for (size_t i = count; i-- > 0;) {
		char *path AUTO_FREE = mem_strdup(changes[i].path); /* goes with the change */

		if (gone[i])
			view_revert(decision->view, path);
	}
	return 0;
}

static bool names_word(const char *command, const char *path)
{
	size_t len = strlen(path);

	for (const char *at = command; (at = strstr(at, path)); at++) {
		bool left = at == command || strchr(" \t\"'=;&|(", at[-1]) ||
			    (at - command >= 2 && at[-1] == '/' && at[-2] == '.');
		if (left && (!at[len] || strchr(" \t\"';&|)", at[len])))
			return true;
	}
	return false;
}

static void decide_path(struct decision *decision, const struct view_change *change)
{
	const char *rule;
	enum policy_outcome outcome = policy_outcome(decision->policy, change->path, &rule);

	if (decision->policy->only && !pathset_has(decision->policy->only, change->path))
		strbuf_addf(reason(decision),
			    "'%s' is outside of the paths that this task may change",
			    change->path);
	if (outcome == POLICY_REFUSE)
		strbuf_addf(reason(decision), "'%s' is protected (%s): leave it as it is",
			    change->path, rule);
	else if (outcome == POLICY_REVIEW)
		ask_review(decision, change->path, rule);
	if (change->old_kind != VIEW_NONE && change->new_kind != VIEW_NONE &&
	    change->old_kind != change->new_kind)
		ask_review(decision, change->path,
			   change->new_kind == VIEW_EXEC ? "becomes executable"
							 : "is not executable any more");
	if (change->data && view_is_binary(change->data, change->len))
		ask_review(decision, change->path, "binary");
	if (names_word(decision->policy->test_command, change->path))
		ask_review(decision, change->path, "the test command names it");
	else if (tamper_runs(decision->policy->test_command, change->path))
		ask_review(decision, change->path, "the test command reads it");
}

/* ---- nested repositories ---- */

/* Whether a directory of the view would be taken for a git directory: HEAD beside objects and
 * refs, or beside commondir (git's is_git_directory; names as a file system without case has
 * them). */
static int is_gitdir(struct view *view, const char *dir, bool *found, struct error *err)
{
	static const char *const names[] = {"HEAD", "objects", "refs", "commondir"};
	struct view_listing listing = {0};
	bool have[ARRAY_LEN(names)] = {false};
	int rc = view_list(view, dir, false, NULL, 100000, &listing, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < listing.len; i++) {
		const char *slash = strrchr(listing.items[i].path, '/');
		const char *name = slash ? slash + 1 : listing.items[i].path;

		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			have[k] = have[k] || path_same_fold(name, strlen(name), names[k],
							    strlen(names[k]));
	}
	view_listing_release(&listing);
	*found = have[0] && ((have[1] && have[2]) || have[3]);
	return 0;
}

/* Only a change that puts one of the names into a directory can make a git directory of it. */
static int decide_nested(struct decision *decision, const struct view_change *change,
			 struct error *err)
{
	static const char *const names[] = {"HEAD", "objects", "refs", "commondir"};
	const char *path = change->path;

	if (change->new_kind == VIEW_NONE)
		return 0;
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		size_t len = strcspn(part, "/");
		bool telling = false;

		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			telling =
			    telling || path_same_fold(part, len, names[k], strlen(names[k]));
		if (!telling)
			continue;
		char *dir AUTO_FREE =
		    mem_strndup(path, part > path ? (size_t)(part - path) - 1 : 0);
		bool found = false;
		int rc = is_gitdir(decision->view, dir, &found, err);

		if (rc < 0)
			return rc;
		if (found) {
			strbuf_addf(
			    reason(decision),
			    "'%s' makes the directory '%s' a repository of its own, whose "
			    "configuration git would run",
			    path, dir[0] ? dir : ".");
			return 0;
		}
	}
	return 0;
}

/* ---- content ---- */

static int read_old(struct decision *decision, const struct view_change *change,
		    struct strbuf *old, struct error *err)
{
	strbuf_init(old, STRBUF_MAX);
	return change->old_kind
		   ? repo_blob(view_repo(decision->view), change->old_oid, STRBUF_MAX, old, err)
		   : 0;
}

/* All that the changed files held before: a line that is only moved between them is no news. */
static int read_all_old(struct decision *decision, struct strbuf *all, struct error *err)
{
	strbuf_init(all, STRBUF_MAX);
	for (size_t i = 0; i < decision->count; i++) {
		struct strbuf old AUTO_STRBUF = STRBUF_NONE;
		int rc = read_old(decision, &decision->changes[i], &old, err);

		if (rc < 0)
			return rc;
		strbuf_add(all, old.data, old.len);
		strbuf_addc(all, '\n');
	}
	return 0;
}

static int decide_leaks(struct decision *decision, const struct view_change *change,
			const struct strbuf *old, struct error *err)
{
	struct strbuf all AUTO_STRBUF = STRBUF_NONE;
	struct leak found[LEAKS_MAX];
	size_t count;
	int rc;

	if (!change->data || last_match(&decision->policy->not_secret, change->path) ||
	    !leak_find(old->data, old->len, change->data, change->len, found, LEAKS_MAX))
		return 0;
	if ((rc = read_all_old(decision, &all, err)) < 0)
		return rc;
	count = leak_find(all.data, all.len, change->data, change->len, found, LEAKS_MAX);
	for (size_t i = 0; i < count && i < LEAKS_MAX; i++)
		strbuf_addf(reason(decision),
			    "%s:%zu looks like %s (%s): a secret may not be committed",
			    change->path, found[i].line, found[i].what, found[i].shown);
	return 0;
}

/* Whether the bytes are at another path now, where they do what they did. */
static bool is_moved(const struct decision *decision, const struct view_change *change)
{
	for (size_t i = 0; change->old_oid[0] && i < decision->count; i++)
		if (&decision->changes[i] != change &&
		    decision->changes[i].old_kind == VIEW_NONE &&
		    strcmp(decision->changes[i].new_oid, change->old_oid) == 0 &&
		    tamper_same_role(change->path, decision->changes[i].path))
			return true;
	return false;
}

static void decide_tests(struct decision *decision, const struct view_change *change,
			 const struct strbuf *old)
{
	struct tamper found[TAMPER_KIND_COUNT];
	struct tamper_file file = {.path = change->path,
				   .old = change->old_kind ? old->data : NULL,
				   .old_len = old->len,
				   .now = change->data,
				   .now_len = change->len,
				   .moved = change->new_kind == VIEW_NONE &&
					    is_moved(decision, change)};
	size_t count = tamper_find(&file, found);

	for (size_t i = 0; i < count; i++) {
		const char *kind = tamper_kind_text(found[i].kind);

		if (decision->policy->refuse_tampering)
			strbuf_addf(reason(decision),
				    "%s: tests say less (%s, line %zu): keep them as they are",
				    change->path, kind, found[i].line);
		if (js_len(decision->tests) >= LISTED_MAX) {
			decision->tests_left_out++;
			continue;
		}
		struct json *entry = js_object_new();

		js_set_str(entry, "path", change->path);
		js_set_str(entry, "kind", kind);
		js_set_int(entry, "line", (long long)found[i].line);
		js_set_int(entry, "count", (long long)found[i].count);
		if (found[i].text)
			js_set_strn(entry, "text", found[i].text,
				    found[i].len < EXCERPT_MAX ? found[i].len : EXCERPT_MAX);
		js_push(decision->tests, entry);
	}
}

static int decide(struct decision *decision, struct error *err)
{
	for (size_t i = 0; i < decision->count; i++) {
		const struct view_change *change = &decision->changes[i];
		struct strbuf old AUTO_STRBUF = STRBUF_NONE;
		int rc;

		decide_path(decision, change);
		if ((rc = decide_nested(decision, change, err)) < 0 ||
		    (rc = read_old(decision, change, &old, err)) < 0 ||
		    (rc = decide_leaks(decision, change, &old, err)) < 0)
			return rc;
		decide_tests(decision, change, &old);
	}
	tell_left_out(decision->review, decision->review_left_out, "why");
	tell_left_out(decision->tests, decision->tests_left_out, "kind");
	if (!decision->refused.len)
		return 0;
	return error_set(err, ERROR_NO, "%s", decision->refused.data);
}

int policy_apply(const struct policy *policy, struct view *view, struct json **out,
		 struct error *err)
{
	AUTO_FREE struct view_change *changes = NULL;
	AUTO_JSON struct json *report = js_object_new();
	struct decision decision = {.policy = policy,
				    .view = view,
				    .review = js_array_new(),
				    .stripped = js_array_new(),
				    .tests = js_array_new()};
	int rc;

	js_set(report, "review", decision.review);
	js_set(report, "stripped", decision.stripped);
	js_set(report, "tests", decision.tests);
	strbuf_init(&decision.refused, sizeof(err->message));
	rc = strip(&decision, err);
	if (rc == 0)
		rc = view_changes(view, &changes, &decision.count, err);
	decision.changes = changes;
	if (rc == 0)
		rc = decide(&decision, err);
	strbuf_release(&decision.refused);
	if (rc == 0)
		*out = MEM_STEAL(report);
	return rc;
}
