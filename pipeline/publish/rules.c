#include "rules.h"

#include <ctype.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

#define REF_MAX 200 /* bytes: a ref is a path on the server */

static bool part_is_fine(const char *part, size_t len)
{
	if (!len || *part == '.' || *part == '-' || part[len - 1] == '.')
		return false;
	if (len >= 5 && memcmp(part + len - 5, ".lock", 5) == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)part[i]) && !strchr("._-", part[i]))
			return false;
		if (part[i] == '.' && i + 1 < len && part[i + 1] == '.')
			return false;
	}
	return true;
}

bool rules_name_is_plain(const char *name)
{
	for (;;) {
		size_t len = strcspn(name, "/");

		if (!part_is_fine(name, len))
			return false;
		if (!name[len])
			return true;
		name += len + 1;
	}
}

int rules_check_ref(const char *ref, struct error *err)
{
	static const char *const spaces[] = {"refs/heads/", "refs/agent/"};
	const char *name = NULL;

	for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
		if (strncmp(ref, spaces[i], strlen(spaces[i])) == 0)
			name = ref + strlen(spaces[i]);
	if (!name)
		return error_set(err, ERROR_USAGE,
				 "ref %s: results go to refs/heads/ or refs/agent/", ref);
	if (strlen(ref) > REF_MAX)
		return error_set(err, ERROR_USAGE, "ref %s: longer than %d bytes", ref,
				 REF_MAX);
	/* the part that looks like a hash or like a keyword would be taken for one by people
	 * and tools */
	if (strcmp(name, "HEAD") == 0)
		return error_set(err, ERROR_USAGE, "ref %s: HEAD is no name for a branch", ref);
	return rules_name_is_plain(name)
		   ? 0
		   : error_set(err, ERROR_USAGE, "ref %s: not a name for a branch", ref);
}

int rules_check_verdict(const struct json *verdict, const char *tree, struct error *err)
{
	const char *tested;

	if (js_check_kind(verdict, "verdict", 1, err) ||
	    js_need_str(verdict, "tree", &tested, err))
		return error_wrap(err, "verdict");
	if (strcmp(tested, tree) != 0)
		return error_set(err, ERROR_FAILED,
				 "the verdict is about tree %s, not about %s: not published",
				 tested, tree);
	if (!js_bool(verdict, "green", false))
		return error_set(err, ERROR_NO,
				 "the tests of this tree did not pass (%s): not published",
				 js_str(verdict, "outcome", "no outcome"));
	return 0;
}

static bool is_receipt(const struct json *receipts, const char *oid)
{
	for (size_t i = 0; i < js_len(receipts); i++) {
		const char *text = js_text(js_at(receipts, i));

		if (text && strcmp(text, oid) == 0)
			return true;
	}
	return false;
}

static const char *short_name(const char *ref)
{
	return strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref;
}

bool rules_need_proof(const char *tip, const char *commit, const char *expect,
		      const struct json *receipts)
{
	return tip && strcmp(tip, commit) != 0 && !(expect && strcmp(tip, expect) == 0) &&
	       !is_receipt(receipts, tip);
}

int rules_decide(const char *ref, const char *tip, const char *commit, const char *expect,
		 const struct json *receipts, bool proven, const char *foreign,
		 enum rules_action *action, struct error *err)
{
	if (tip && strcmp(tip, commit) == 0) {
		*action = RULES_ALREADY;
		return 0;
	}
	if (!tip && !expect) {
		*action = RULES_CREATE;
		return 0;
	}
	if (tip && (proven || !rules_need_proof(tip, commit, expect, receipts))) {
		*action = RULES_UPDATE;
		return 0;
	}
	if (!tip) {
		error_set(err, ERROR_NO,
			  "branch %s was to be moved from %s but is not there any more",
			  short_name(ref), expect);
		return error_next(err,
				  "publish it as a new branch: agent publish --branch NAME");
	}
	error_set(err, ERROR_NO,
		  "branch %s exists and its tip %s was not made by this program for this "
		  "issue%s%s%s: it is left alone",
		  short_name(ref), tip, foreign[0] ? " (" : "", foreign, foreign[0] ? ")" : "");
	return error_next(err, "name another branch: agent publish --branch NAME; or delete "
			       "this one on the remote");
}
