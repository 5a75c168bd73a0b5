/* Names of issues and repositories, requests, and what answers mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/forge/forge.h"
#include "pipeline/forge/words.h"

static void remotes_name_their_api(void **state)
{
	static const struct {
		const char *url, *kind, *api,
		    *want; /* KIND HOST:PORT PATH OWNER REPO, or NULL */
	} cases[] = {
	    {"https://github.com/o/r.git", "auto", NULL, "github api.github.com:443  o r"},
	    {"git@github.com:o/r.git", "auto", NULL, "github api.github.com:443  o r"},
	    {"ssh://git@github.example.org:2222/o/r", "auto", NULL,
	     "github github.example.org:443 /api/v3 o r"},
	    {"https://gitlab.com/g/sub/r.git", "auto", NULL,
	     "gitlab gitlab.com:443 /api/v4 g/sub r"},
	    {"https://codeberg.org/o/r", "auto", NULL, "gitea codeberg.org:443 /api/v1 o r"},
	    {"https://git.example.org/o/r", "gitea", NULL,
	     "gitea git.example.org:443 /api/v1 o r"},
	    {"https://git.example.org/o/r", "gitlab", "http://127.0.0.1:8/x",
	     "gitlab 127.0.0.1:8 /x o r"},
	    {"https://git.example.org/o/r", "auto", NULL, NULL},
	    {"https://github.com/o", "auto", NULL, NULL},
	    {"https://github.com/../r", "auto", NULL, NULL},
	    {"https://github.com/o/..", "auto", NULL, NULL},
	    {"https://github.com/o/r%2f", "auto", NULL, NULL},
	    {"https://github.com/o/-r", "auto", NULL, NULL},
	    {"/srv/git/github.com/r.git", "auto", NULL, NULL},
	    {"https://notgithub.com/o/r", "auto", NULL, NULL},
	    {"https://git.example.org/o/r", "gitea", "http://git.example.org/api", NULL},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct forge forge;
		struct error err = {0};
		int rc =
		    forge_from_url(cases[i].url, cases[i].kind, cases[i].api, &forge, &err);
		char *got AUTO_FREE =
		    rc ? NULL
		       : mem_printf("%s %s:%d %s %s %s", forge_kind_text(forge.kind),
				    forge.host, forge.port, forge.path, forge.owner,
				    forge.repo);

		if (cases[i].want ? rc || strcmp(got, cases[i].want) != 0 : rc != ERROR_USAGE)
			fail_msg("%s: %s", cases[i].url, got ? got : err.message);
	}
}

static void requests_are_each_forge_s(void **state)
{
	struct forge forge = {
	    .kind = FORGE_GITLAB, .path = "/api/v4", .owner = "g/s", .repo = "r"};
	struct forge_pull pull = {
	    .head = "agent/x", .base = "main", .title = "T", .body = "B", .draft = true};
	struct forge_request request;
	(void)state;

	forge_get_issue(&forge, 7, &request);
	assert_string_equal(request.path, "/api/v4/projects/g%2Fs%2Fr/issues/7");
	forge_make_pull(&forge, &pull, &request);
	assert_string_equal(js_str(request.body, "title", ""), "Draft: T");
	assert_string_equal(js_str(request.body, "source_branch", ""), "agent/x");
	assert_null(js_get(request.body, "target_project_id"));
	forge_request_release(&request);
	pull.fork = "me";
	pull.target = 7;
	forge_make_pull(&forge, &pull, &request);
	assert_string_equal(js_str(request.body, "source_branch", ""), "agent/x");
	assert_int_equal(js_int(request.body, "target_project_id", 0), 7);
	forge_request_release(&request);
	forge.kind = FORGE_GITHUB;
	pull.fork = "me";
	forge_make_pull(&forge, &pull, &request);
	assert_string_equal(js_str(request.body, "head", ""), "me:agent/x");
	assert_true(js_bool(request.body, "draft", false));
	forge_request_release(&request);
	forge_find_pulls(&forge, "me", "agent/x&y=#", 1, &request);
	assert_non_null(strstr(request.path, "head=me%3Aagent%2Fx%26y%3D%23"));
}

static void refusals_are_told_apart(void **state)
{
	static const struct {
		struct forge_refusal refusal;
		int kind;
	} cases[] = {
	    {{.status = 403, .rate_left = 0}, ERROR_LATER},
	    {{.status = 403, .rate_left = -1, .body = "{\"message\":\"secondary rate limit\"}"},
	     ERROR_LATER},
	    {{.status = 403, .rate_left = 9}, ERROR_NO},
	    {{.status = 429, .rate_left = -1}, ERROR_LATER},
	    {{.status = 401, .rate_left = -1}, ERROR_USAGE},
	    {{.status = 404, .rate_left = -1}, ERROR_USAGE},
	    {{.status = 410, .rate_left = -1}, ERROR_USAGE},
	    {{.status = 301, .rate_left = -1}, ERROR_USAGE},
	    {{.status = 422, .rate_left = -1, .body = "{\"errors\":[{\"message\":\"x\"}]}"},
	     ERROR_NO},
	    {{.status = 500, .rate_left = -1}, ERROR_LATER},
	    {{.status = 418, .rate_left = -1, .body = "\xff\x00["}, ERROR_FAILED},
	};
	struct forge forge = {.host = "h", .owner = "o", .repo = "r"};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct forge_refusal refusal = cases[i].refusal;
		struct error err = {0};

		refusal.body = refusal.body ? refusal.body : "";
		refusal.len = strlen(refusal.body);
		refusal.location = "";
		refusal.retry_after_s = -1;
		if (forge_refused(&forge, "issue 1", &refusal, &err) != cases[i].kind ||
		    err.kind != cases[i].kind || !err.message[0])
			fail_msg("%d: %d %s", refusal.status, err.kind, err.message);
	}
}

static void answers_of_other_shapes_are_refused(void **state)
{
	static const char *const bad[] = {
	    "{}",
	    "[]",
	    "1",
	    "{\"title\":1,\"state\":\"open\",\"number\":1}",
	    "{\"title\":\"x\",\"state\":7,\"number\":1}",
	    "{\"title\":\"x\",\"state\":\"open\",\"number\":-1}",
	    "{\"title\":\"x\",\"state\":\"open\"}",
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		for (int kind = FORGE_GITHUB; kind <= FORGE_GITEA; kind++) {
			struct error err = {0};
			struct forge_issue issue;
			AUTO_JSON struct json *json =
			    js_parse(bad[i], strlen(bad[i]), 4096, "answer", &err);

			/* a document that is no object or array is refused by the parser */
			err = (struct error){0};
			if (forge_read_issue((enum forge_kind)kind, json, &issue, &err) !=
			    ERROR_FAILED)
				fail_msg("taken: %s", bad[i]);
		}
}

static void words_stay_text(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	static const char hostile[] =
	    "<b>@ann [x](y) ![z](w) `c` #1 https://e\n    code\n> q\n\tt\\*";
	(void)state;

	strbuf_init(&out, STRBUF_MAX);
	words_escape(hostile, strlen(hostile), &out);
	assert_string_equal(out.data,
			    "`<b>@ann` `[x](y)` `![z](w)` `c` `#1` `https://e`\ncode\n`>` "
			    "q\n`t\\*`");
	strbuf_reset(&out);
	/* orders to GitLab, headings, links without a scheme */
	words_escape("/close\n  /merge\n\t/label\na\n===\nb\n---\nWWW.evil.example a/b", 57,
		     &out);
	assert_string_equal(out.data, "`/close`\n`/merge`\n`/label`\na\n&#61;==\nb\n&#45;--\n"
				      "`WWW.evil.example` `a/b`");
}

/* A forge looks for them in what Markdown made of the text, but not in code. */
static void words_call_nobody(void **state)
{
	static const char *const cases[][2] = {
	    {"Thanks @ann, see #12.", "Thanks `@ann`, see `#12`."},
	    {"(@org/team's)", "&#40;`@org/team's`&#41;"},
	    {"fixes octo/sums#12!", "fixes `octo/sums#12`&#33;"},
	    {"GH-12 PROJ-7 UTF-8", "`GH-12` `PROJ-7` `UTF-8`"},
	    {"!12 $12 %12 &12 ~bug ^a *b", "`!12` `$12` `%12` `&12` `~bug` `^a` `*b`"},
	    {"at deadbeef1 and 1234567", "at `deadbeef1` and `1234567`"},
	    {"see http://x.example/issues/1", "see `http://x.example/issues/1`"},
	    {"a@b.example", "`a@b.example`"},
	    {"&#64;ann", "`&#64;ann`"},
	    {"`@ann`, `a b`.", "`@ann`, `a b`."},
	    {"`a`@ann", "`` `a`@ann ``"},
	    {"``x` @ann`", "``` ``x` ``` `` @ann` ``"},
	    {"a`b @ann", "``a`b`` `@ann`"},
	    {"```\n@ann\n```", "```` ``` ````\n`@ann`\n```` ``` ````"},
	    {"It's \"done\", isn't it?", "It's &#34;done&#34;, isn't it?"},
	    {"\xc3\xa4h 1.5 e.g. x-y", "\xc3\xa4h 1.5 e.g. x-y"},
	    {"- item\n---\n-x", "&#45; item\n&#45;--\n`-x`"},
	    {"@\x01"
	     "ann \x01#12",
	     "`@ann` `#12`"},
	    {"'.' ... (", "&#39;.&#39; ... &#40;"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&out, STRBUF_MAX);
		words_escape(cases[i][0], strlen(cases[i][0]), &out);
		if (strcmp(out.data, cases[i][1]) != 0)
			fail_msg("%s\nbecame %s\nnot    %s", cases[i][0], out.data,
				 cases[i][1]);
	}
}

/* The marker is in the page's source, so anybody can write it: what counts is where the branch is. */
static void a_pull_request_is_judged_by_its_branch(void **state)
{
	static const struct {
		enum forge_kind kind;
		const char *fork, *head, *answer;
		bool ours;
	} cases[] = {
	    {FORGE_GITHUB, NULL, "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"Octo/"
	     "Sums\"}}}",
	     true},
	    {FORGE_GITHUB, NULL, NULL,
	     "{\"number\":1,\"head\":{\"ref\":\"b\",\"repo\":{\"full_name\":\"octo/sums\"}}}",
	     true},
	    {FORGE_GITHUB, NULL, "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"b\",\"repo\":{\"full_name\":\"octo/sums\"}}}",
	     false},
	    {FORGE_GITHUB, NULL, "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"eve/"
	     "sums\"}}}",
	     false},
	    {FORGE_GITEA, NULL, "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"octo/"
	     "sums2\"}}}",
	     false},
	    {FORGE_GITEA, NULL, "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"octo2/"
	     "sums\"}}}",
	     false},
	    {FORGE_GITHUB, NULL, NULL,
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":null}}", false},
	    {FORGE_GITHUB, NULL, NULL, "{\"number\":1,\"head\":[],\"base\":1}", false},
	    {FORGE_GITHUB, "me", "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"me/"
	     "other\"}}}",
	     true},
	    {FORGE_GITHUB, "me", "agent/x",
	     "{\"number\":1,\"head\":{\"ref\":\"agent/x\",\"repo\":{\"full_name\":\"mee/"
	     "other\"}}}",
	     false},
	    {FORGE_GITLAB, NULL, "agent/x",
	     "{\"iid\":1,\"source_branch\":\"agent/"
	     "x\",\"source_project_id\":7,\"target_project_id\":7}",
	     true},
	    {FORGE_GITLAB, NULL, "agent/x",
	     "{\"iid\":1,\"source_branch\":\"agent/"
	     "x\",\"source_project_id\":8,\"target_project_id\":7}",
	     false},
	    {FORGE_GITLAB, NULL, NULL, "{\"iid\":1,\"source_branch\":\"agent/x\"}", false},
	    {FORGE_GITLAB, NULL, NULL,
	     "{\"iid\":1,\"source_project_id\":\"7\",\"target_project_id\":\"7\"}", false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct forge forge = {.kind = cases[i].kind, .owner = "octo", .repo = "sums"};
		struct forge_pull_seen seen;
		struct error err = {0};
		AUTO_JSON struct json *answer =
		    js_parse(cases[i].answer, strlen(cases[i].answer), 4096, "answer", &err);

		assert_true(forge_read_pull(forge.kind, answer, &seen));
		if (forge_pull_is_from(&forge, &seen, cases[i].fork, cases[i].head) !=
		    cases[i].ours)
			fail_msg("case %zu", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pull_request_is_judged_by_its_branch),
	    cmocka_unit_test(remotes_name_their_api),
	    cmocka_unit_test(requests_are_each_forge_s),
	    cmocka_unit_test(refusals_are_told_apart),
	    cmocka_unit_test(answers_of_other_shapes_are_refused),
	    cmocka_unit_test(words_stay_text),
	    cmocka_unit_test(words_call_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
