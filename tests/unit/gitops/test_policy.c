/* Protected paths and what else is decided about a whole change. */
#include "fixture.h"

#include "gitops/pathfold.h"
#include "gitops/policy.h"
#include "pipeline/base/json.h"

static struct policy *policy_of(const char *json)
{
	struct error err = {0};
	AUTO_JSON struct json *rules = js_parse(json, strlen(json), 65536, "rules", &err);
	assert_non_null(rules);
	struct policy *policy = policy_new(rules, &err);

	if (!policy)
		fail_msg("%s", err.message);
	return policy;
}

static void rules_are_put_in_order(void **state)
{
	static const struct {
		const char *path;
		enum policy_outcome want;
	} cases[] = {
	    {"src/a.c", POLICY_ALLOW},
	    {".github/workflows/ci.yml", POLICY_REFUSE}, /* operator's */
	    {".GitHub/Workflows/ci.yml", POLICY_REFUSE}, /* the same file on other systems */
	    {".github/ISSUE_TEMPLATE/bug.md",
	     POLICY_REVIEW},		    /* a later rule allows, the repository asks */
	    {"package.json", POLICY_ALLOW}, /* operator allows what the list asks for */
	    {"web/package.json", POLICY_ALLOW},
	    {"Cargo.lock", POLICY_REVIEW},
	    {"deep/down/go.mod", POLICY_REVIEW},
	    {"docs/x.md", POLICY_STRIP},  /* repository's */
	    {"dist/a.js", POLICY_REFUSE}, /* repository is stricter than the operator */
	    {".github/dependabot.yml",
	     POLICY_REFUSE}, /* repository is milder: does not count */
	};
	AUTO_POLICY struct policy *policy =
	    policy_of("{\"protect\":[\"refuse .github/**\",\"allow .github/ISSUE_TEMPLATE/**\","
		      "\"allow package.json\",\"allow dist/**\"],"
		      "\"also\":[\"strip docs/**\",\"refuse dist/**\",\"review .github/**\"]}");
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (policy_outcome(policy, cases[i].path, NULL) != cases[i].want)
			fail_msg("%s: %d", cases[i].path,
				 (int)policy_outcome(policy, cases[i].path, NULL));
}

static void malformed_rules_are_refused(void **state)
{
	static const char *const bad[] = {
	    "{\"protect\":[\"x\"]}",
	    "{\"protect\":[\"refuse\"]}",
	    "{\"protect\":[\"refuse \"]}",
	    "{\"protect\":[\"deny x\"]}",
	    "{\"protect\":[\"refuse [a\"]}",
	    "{\"protect\":[1]}",
	    "{\"also\":[\"allow x\"]}",
	    "{\"not_secret\":[\"[\"]}",
	    "{\"only\":[\"[\"]}",
	    "{\"only\":[7]}",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct error err = {0};
		AUTO_JSON struct json *rules =
		    js_parse(bad[i], strlen(bad[i]), 65536, "rules", &err);
		assert_non_null(rules);
		if (policy_new(rules, &err))
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
	}
}

/* A view of a small tree, put, then decided on; the report as text or the refusal. Owned. */
static char *decide(struct fixture *f, const char *rules, const char *path, const char *text)
{
	char tree[GITOPS_OID_SIZE];
	AUTO_POLICY struct policy *policy = policy_of(rules);
	AUTO_JSON struct json *report = NULL;
	struct strbuf out;
	struct error err = {0};

	fixture_tree(f, tree, "a.txt", "a\n", "tests/test_a.py",
		     "def test_a():\n    assert f()\n", "bare/objects/x", "x\n", "bare/refs/y",
		     "y\n", NULL);
	AUTO_VIEW struct view *view = view_new(f->repo, tree, NULL, &err);
	assert_non_null(view);
	if (view_put(view, "other.txt", VIEW_FILE, "o\n", 2, &err) < 0 ||
	    (text && view_put(view, path, VIEW_FILE, text, strlen(text), &err) < 0) ||
	    (!text && view_remove(view, path, &err) < 0))
		fail_msg("%s", err.message);
	if (policy_apply(policy, view, &report, &err) < 0) {
		assert_int_equal(err.kind, ERROR_NO);
		return mem_strdup(err.message);
	}
	strbuf_init(&out, STRBUF_MAX);
	js_format(report, &out);
	struct view_stat st;
	assert_int_equal(view_stat(view, path, &st, &err), 0);
	strbuf_adds(&out, st.changed ? " changed" : " unchanged");
	return strbuf_steal(&out);
}

static void a_change_is_decided(void **state)
{
	static const struct {
		const char *rules, *path, *text, *want;
	} cases[] = {
	    {"{}", "src/x.c", "x\n", "\"review\":[],\"stripped\":[],\"tests\":[]} changed"},
	    {"{}", "package.json", "{}\n",
	     "\"path\":\"package.json\",\"why\":\"package.json\""},
	    {"{\"protect\":[\"refuse *.json\"]}", "package.json", "{}\n",
	     "'package.json' is protected"},
	    {"{\"protect\":[\"strip *.json\"]}", "package.json", "{}\n",
	     "\"stripped\":[{\"path\":\"package.json\",\"rule\":\"*.json\"}],\"tests\":[]} "
	     "unchanged"},
	    {"{}", "tests/test_a.py", NULL, "\"kind\":\"deleted\""},
	    {"{\"tests\":\"refuse\"}", "tests/test_a.py", NULL, "tests say less (deleted"},
	    {"{\"test_command\":\"sh ./ci/run.sh -x\"}", "ci/run.sh", "true\n",
	     "\"why\":\"the test command names it\""},
	    {"{\"test_command\":\"make -s test\"}", "Makefile", "test:\n",
	     "\"why\":\"the test command reads it\""},
	    {"{}", "web/.vscode/tasks.json", "{}\n", "\"path\":\"web/.vscode/tasks.json\""},
	    {"{}", ".yarn/releases/yarn.cjs", "x\n", "\"path\":\".yarn/releases/yarn.cjs\""},
	    {"{}", "bare/HEAD", "ref: refs/heads/x\n", "a repository of its own"},
	    {"{}", "bare/head", "ref: refs/heads/x\n", "a repository of its own"},
	    {"{}", "sub/HEAD", "ref: refs/heads/x\n", "\"review\":[]"},
	    {"{}", "key.pem",
	     "-----BEGIN RSA PRIVATE"
	     " KEY-----\n",
	     "key.pem:1 looks like a private key"},
	    {"{\"not_secret\":[\"testkeys/**\"]}", "testkeys/key.pem",
	     "-----BEGIN RSA PRIVATE"
	     " KEY-----\n",
	     "\"review\":[]"},
	    {"{\"only\":[\"src\",\"other.txt\"]}", "src/x.c", "x\n", "\"review\":[]"},
	    {"{\"only\":[\"src\",\"other.txt\"]}", "lib/x.c", "x\n",
	     "'lib/x.c' is outside of the paths that this task may change"},
	    {"{\"only\":[\"src\",\"other.txt\"]}", "tests/test_a.py", NULL,
	     "'tests/test_a.py' is outside"},
	    {"{\"only\":[\"src\"]}", "src/x.c", "x\n", "'other.txt' is outside"},
	    {"{\"only\":[\"other.txt\"],\"protect\":[\"strip *.json\"]}", "package.json",
	     "{}\n", "unchanged"},
	};
	struct fixture f;
	(void)state;

	fixture_init(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *got AUTO_FREE = decide(&f, cases[i].rules, cases[i].path, cases[i].text);

		if (!strstr(got, cases[i].want))
			fail_msg("case %zu: %s", i, got);
	}
	fixture_release(&f);
}

/* Several changes at once: {"PATH": TEXT, or NULL to delete}…; the report or the refusal, and
 * the names left changed. Owned. */
struct step {
	const char *path, *text;
};

static char *decide_all(struct fixture *f, const char *rules, const char *tree,
			const struct step *steps, size_t count)
{
	AUTO_POLICY struct policy *policy = policy_of(rules);
	AUTO_JSON struct json *report = NULL;
	AUTO_FREE struct view_change *changes = NULL;
	struct strbuf out;
	struct error err = {0};
	struct view_limits limits = view_limits_default;
	size_t left = 0;

	limits.files = 1000;
	AUTO_VIEW struct view *view = view_new(f->repo, tree, &limits, &err);
	assert_non_null(view);
	for (size_t i = 0; i < count; i++)
		if (steps[i].text ? view_put(view, steps[i].path, VIEW_FILE, steps[i].text,
					     strlen(steps[i].text), &err) < 0
				  : view_remove(view, steps[i].path, &err) < 0)
			fail_msg("%s", err.message);
	if (policy_apply(policy, view, &report, &err) < 0) {
		assert_int_equal(err.kind, ERROR_NO);
		return mem_strdup(err.message);
	}
	strbuf_init(&out, STRBUF_MAX);
	js_format(report, &out);
	strbuf_adds(&out, " left:");
	if (view_changes(view, &changes, &left, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < left; i++)
		strbuf_addf(&out, " %s", changes[i].path);
	return strbuf_steal(&out);
}

static void what_excludes_a_stripped_path_goes_too(void **state)
{
	static const struct {
		const char *rules;
		struct step steps[3];
		const char *want;
	} cases[] = {
	    /* a protected file that becomes a directory */
	    {"{\"protect\":[\"strip /conf\"]}",
	     {{"conf", NULL}, {"conf/x", "1\n"}, {"b", "1\n"}},
	     "{\"path\":\"conf/x\",\"rule\":\"'conf' stays\"}],\"tests\":[]} left: b"},
	    /* a protected directory that becomes a file */
	    {"{\"protect\":[\"strip d/*\"]}",
	     {{"d/x", NULL}, {"d", "1\n"}, {"b", "1\n"}},
	     "{\"path\":\"d\",\"rule\":\"'d/x' stays\"}],\"tests\":[]} left: b"},
	    /* renamed away: the copy stays, the original too */
	    {"{\"protect\":[\"strip conf\"]}",
	     {{"conf", NULL}, {"other", "c\n"}, {"b", "1\n"}},
	     "left: b other"},
	    /* another spelling of a name that stays */
	    {"{\"protect\":[\"strip \xC3\xA9*\"]}",
	     {{"\xC3\xA9t", NULL}, {"e\xCC\x81t", "1\n"}, {"b", "1\n"}},
	     " left: b"},
	};
	char tree[GITOPS_OID_SIZE];
	struct fixture f;
	(void)state;

	fixture_init(&f);
	fixture_tree(&f, tree, "conf", "c\n", "d/x", "x\n", "\xC3\xA9t", "e\n", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *got AUTO_FREE = decide_all(&f, cases[i].rules, tree, cases[i].steps, 3);

		if (!strstr(got, cases[i].want))
			fail_msg("case %zu: %s", i, got);
	}
	fixture_release(&f);
}

static void a_secret_that_is_only_moved_is_no_news(void **state)
{
	static const char key[] = "x\npassword = \"8fK2mQ9xW4rT7yLpZ3vB\"\ny\n";
	static const struct {
		struct step steps[2];
		bool refused;
	} cases[] = {
	    {{{"conf", NULL}, {"sub/conf", key}}, false}, /* renamed */
	    {{{"conf", NULL}, {"new", "password = \"8fK2mQ9xW4rT7yLpZ3vB\"\n"}},
	     false},				      /* and edited */
	    {{{"conf", "x\n"}, {"new", key}}, false}, /* a line that goes elsewhere */
	    {{{"other", "1\n"}, {"new", key}}, true}, /* a copy is one more */
	    {{{"conf", NULL}, {"new", "password = \"9xW4rT7yLp8fK2mQZ3vB\"\n"}}, true},
	};
	char tree[GITOPS_OID_SIZE];
	struct fixture f;
	(void)state;

	fixture_init(&f);
	fixture_tree(&f, tree, "conf", key, "other", "o\n", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *got AUTO_FREE = decide_all(&f, "{}", tree, cases[i].steps, 2);

		if ((strstr(got, "a secret may not") != NULL) != cases[i].refused)
			fail_msg("case %zu: %s", i, got);
	}
	fixture_release(&f);
}

static void a_test_moved_out_of_sight_is_deleted(void **state)
{
	static const char text[] = "def test_a():\n    assert f()\n";
	static const struct {
		struct step steps[2];
		const char *want;
	} cases[] = {
	    {{{"tests/test_a.py", NULL}, {"tests/more/test_a.py", text}}, "\"tests\":[]"},
	    {{{"tests/test_a.py", NULL}, {"old/a.py", text}}, "\"kind\":\"deleted\""},
	    {{{"tests/test_a.py", NULL}, {"tests/test_a.py.off", text}},
	     "\"kind\":\"deleted\""},
	    {{{"pytest.ini", NULL}, {"old/pytest.ini", "[pytest]\n"}},
	     "\"kind\":\"configuration\""},
	};
	char tree[GITOPS_OID_SIZE];
	struct fixture f;
	(void)state;

	fixture_init(&f);
	fixture_tree(&f, tree, "pytest.ini", "[pytest]\n", "tests/test_a.py", text, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *got AUTO_FREE = decide_all(&f, "{}", tree, cases[i].steps, 2);

		if (!strstr(got, cases[i].want))
			fail_msg("case %zu: %s", i, got);
	}
	fixture_release(&f);
}

/* Nobody hides a path behind two hundred others without a word. */
static void a_list_that_is_cut_says_so(void **state)
{
	struct step steps[260];
	char *names[260];
	char tree[GITOPS_OID_SIZE];
	struct fixture f;
	(void)state;

	fixture_init(&f);
	fixture_tree(&f, tree, "a", "a\n", NULL);
	for (size_t i = 0; i < 260; i++) {
		names[i] = mem_printf(".envrc%03zu/package.json", i);
		steps[i] = (struct step){names[i], "{}\n"};
	}
	char *got AUTO_FREE = decide_all(&f, "{}", tree, steps, 260);
	assert_non_null(strstr(got, "{\"path\":\"...\",\"why\":\"60 more are not listed\"}]"));
	for (size_t i = 0; i < 260; i++)
		free(names[i]);
	fixture_release(&f);
}

static void names_are_compared_as_other_systems_do(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
	    {"README", "ReadMe", true},
	    {"README", "READM", false},
	    {"a[", "a{", false},
	    {"\xC3\xA9", "e\xCC\x81", true},	    /* composed or not */
	    {"\xC3\x89.txt", "\xC3\xA9.TXT", true}, /* case beyond ASCII */
	    {"stra\xC3\x9F"
	     "e",
	     "STRASSE", true},		    /* full folding */
	    {"\xCF\x83", "\xCF\x82", true}, /* final sigma */
	    {"\xC3\xA9", "e", false},
	    {"\xE2\x84\xAA", "k", true}, /* Kelvin sign */
	    {"a\xFF", "A\xFF", false},	 /* no UTF-8: not the same name anywhere */
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (path_same_fold(cases[i].a, strlen(cases[i].a), cases[i].b,
				   strlen(cases[i].b)) != cases[i].same)
			fail_msg("%s and %s", cases[i].a, cases[i].b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_are_put_in_order),
	    cmocka_unit_test(malformed_rules_are_refused),
	    cmocka_unit_test(a_change_is_decided),
	    cmocka_unit_test(what_excludes_a_stripped_path_goes_too),
	    cmocka_unit_test(a_secret_that_is_only_moved_is_no_news),
	    cmocka_unit_test(a_test_moved_out_of_sight_is_deleted),
	    cmocka_unit_test(a_list_that_is_cut_says_so),
	    cmocka_unit_test(names_are_compared_as_other_systems_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
