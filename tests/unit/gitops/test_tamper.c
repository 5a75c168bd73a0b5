/* Changes that make the tests say less. */
#include "fixture.h"

#include "gitops/tamper.h"

/* The kinds found, as words; owned. */
static char *kinds(const char *path, const char *old, const char *now, bool moved)
{
	struct tamper found[TAMPER_KIND_COUNT];
	struct tamper_file file = {.path = path,
				   .old = old,
				   .old_len = old ? strlen(old) : 0,
				   .now = now,
				   .now_len = now ? strlen(now) : 0,
				   .moved = moved};
	size_t count = tamper_find(&file, found);
	struct strbuf out;

	strbuf_init(&out, STRBUF_MAX);
	for (size_t i = 0; i < count; i++)
		strbuf_addf(&out, "%s%s", i ? " " : "", tamper_kind_text(found[i].kind));
	return strbuf_steal(&out);
}

static void each_kind_is_told(void **state)
{
	static const struct {
		const char *path, *old, *now, *want;
	} cases[] = {
	    {"tests/test_a.py", "def test_a():\n    assert f() == 1\n", NULL, "deleted"},
	    {"tests/test_a.py", "def test_a():\n    assert f() == 1\n",
	     "def test_a():\n    assert f() == 2\n", "expectation"},
	    {"tests/test_a.py", "def test_a():\n    assert f() == 1\n    assert g()\n",
	     "def test_a():\n    assert f() == 1\n", "assertions"},
	    {"tests/test_a.py", "def test_a():\n    assert f()\n",
	     "def test_a():\n    # assert f()\n    pass\n", "assertions"},
	    {"tests/test_a.py",
	     "def test_a():\n    assert f()\ndef test_b():\n    assert g()\n",
	     "def test_a():\n    assert f()\n", "removed assertions"},
	    {"tests/test_a.py", "def test_a():\n    assert f()\n",
	     "@pytest.mark.skip(reason='x')\ndef test_a():\n    assert f()\n", "skipped"},
	    {"tests/test_a.py", "def test_a():\n    assert f()\n",
	     "@pytest.mark.xfail\ndef test_a():\n    assert f()\n", "skipped"},
	    {"src/a.test.ts", "it('x', () => {\n  expect(f()).toBe(1);\n});\n",
	     "it.only('x', () => {\n  expect(f()).toBe(1);\n});\n", "removed focused"},
	    {"src/a.test.ts", "it('x', () => {\n  expect(f()).toBe(1);\n});\n",
	     "it.skip('x', () => {\n  expect(f()).toBe(1);\n});\n", "removed skipped"},
	    {"pkg/a_test.go",
	     "func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n",
	     "func TestA(t *testing.T) {\n\tt.Skip(\"later\")\n\tif f() != 1 "
	     "{\n\t\tt.Fatal(1)\n\t}\n}\n",
	     "skipped"},
	    {"src/lib.rs", "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
	     "#[test]\n#[ignore]\nfn a() {\n    assert_eq!(f(), 1);\n}\n", "skipped"},
	    {"src/lib.rs", "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n", "fn g() {}\n",
	     "removed assertions"},
	    {"src/test/java/ATest.java", "@Test\nvoid a() { assertEquals(1, f()); }\n",
	     "@Disabled\n@Test\nvoid a() { assertEquals(1, f()); }\n", "skipped"},
	    {"web/__snapshots__/a.snap", "exports[`a`] = `1`;\n", "exports[`a`] = `2`;\n",
	     "snapshot"},
	    {"tests/conftest.py", "x = 1\n", "x = 2\n", "configuration"},
	    {"tests/a.sh", "set -e\n./x\n", "set -e\nexit 0\n./x\n", "skipped"},
	    {"tests/a.sh", "set -e\n./x\n", "set -e\nif true; then exit 0; fi\n./x\n",
	     "skipped"},
	    {"tests/a.sh", "./x\n", "[ \"$A\" ] || exit 0\n./x\n", "skipped"},
	    {"tests/a.sh", "./x\n", "[ -e 'a b' ] && { exit 0; }\n./x\n", "skipped"},
	    {"tests/a.sh", "./x\n", "(exit 0)\n./x\n", "skipped"},
	    {"test/a.c", "#include <x.h>\nTEST(a)\n{\n\tASSERT_EQ(1, f());\n}\n",
	     "#include <x.h>\n#if 0\nTEST(a)\n{\n\tASSERT_EQ(1, f());\n}\n#endif\n", "skipped"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *found AUTO_FREE = kinds(cases[i].path, cases[i].old, cases[i].now, false);

		if (strcmp(found, cases[i].want) != 0)
			fail_msg("case %zu: '%s', not '%s'", i, found, cases[i].want);
	}
}

static void honest_changes_are_not_told(void **state)
{
	static const struct {
		const char *path, *old, *now;
	} cases[] = {
	    /* a new test, a new file of tests */
	    {"tests/test_a.py", "def test_a():\n    assert f()\n",
	     "def test_a():\n    assert f()\n\ndef test_b():\n    assert g()\n"},
	    {"tests/test_b.py", NULL, "def test_b():\n    assert g()\n"},
	    /* moved and indented */
	    {"tests/test_a.py",
	     "def test_a():\n    assert f()\ndef test_b():\n    assert g()\n",
	     "class T:\n    def test_b():\n        assert g()\n    def test_a():\n        "
	     "assert f()\n"},
	    /* other code */
	    {"src/a.py", "assert x\nskip = 1\n", "skip = 2\n"},
	    {"src/lib.rs", "fn f() { assert!(x); }\n", "fn f() {}\n"},
	    {"web/__snapshots__/new.snap", NULL, "exports[`a`] = `1`;\n"},
	    {"tests/data.json", "{\"a\": 1}\n", "{\"a\": 2}\n"},
	    /* the word in a script that a test writes, in a message, in a longer one */
	    {"tests/test_a.py", "x\n", "run('#!/bin/sh\\nexit 0\\n')\nx\n"},
	    {"tests/a.sh", "./x\n", "printf '#!/bin/sh\\nexit 0\\n' >hook\n./x\n"},
	    {"tests/a.sh", "./x\n", "sh -c \"exit 0\"\n./x\n"},
	    {"tests/a.sh", "./x\n", "./run --then exit 0\n./x\n"},
	    {"tests/a.sh", "./x\n", "exit 01\n./x\n"},
	    {"tests/a.sh", "./x\n", "echo it should exit 0\n./x\n"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *found AUTO_FREE = kinds(cases[i].path, cases[i].old, cases[i].now, false);

		if (found[0])
			fail_msg("case %zu: '%s'", i, found);
	}
	char *moved AUTO_FREE =
	    kinds("tests/test_a.py", "def test_a():\n    assert f()\n", NULL, true);
	assert_string_equal(moved, "");
}

static void the_place_is_told(void **state)
{
	struct tamper found[TAMPER_KIND_COUNT];
	const char *old = "def test_a():\n    assert f() == 1\n",
		   *now = "import x\ndef test_a():\n    assert f() == 2\n";
	struct tamper_file file = {"tests/test_a.py", old,	   now,
				   strlen(old),	      strlen(now), false};
	(void)state;

	assert_int_equal(tamper_find(&file, found), 1);
	assert_int_equal(found[0].line, 3);
	assert_int_equal(found[0].count, 1);
	assert_int_equal(found[0].len, strlen("assert f() == 2"));
	assert_memory_equal(found[0].text, "assert f() == 2", found[0].len);
}

static void a_move_counts_only_where_it_is_still_a_test(void **state)
{
	static const struct {
		const char *from, *to;
		bool same;
	} cases[] = {
	    {"tests/test_a.py", "tests/unit/test_a.py", true},
	    {"tests/test_a.py", "tests/test_b.py", true},
	    {"tests/test_a.py", "tests/a.py", false}, /* no runner finds it */
	    {"tests/test_a.py", "old/a.py", false},
	    {"tests/test_a.py", "tests/test_a.py.bak", false},
	    {"tests/test_a.py", "tests/test_a.txt", false},
	    {"a_test.go", "b_test.go", true},
	    {"a_test.go", "a_test.go.off", false},
	    {"test/helper.c", "test/lib/helper.c", true},
	    {"test/helper.c", "src/helper.c", false},
	    {"web/__snapshots__/a.snap", "web2/__snapshots__/a.snap", true},
	    {"web/__snapshots__/a.snap", "web/a.txt", false},
	    {"pytest.ini", "old/pytest.ini", false}, /* it counts where it is */
	    {"tests/conftest.py", "conftest.py", false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (tamper_same_role(cases[i].from, cases[i].to) != cases[i].same)
			fail_msg("%s to %s", cases[i].from, cases[i].to);
}

static void the_orders_of_a_runner_are_known(void **state)
{
	static const struct {
		const char *command, *path;
		bool runs;
	} cases[] = {
	    {"make test", "Makefile", true},
	    {"make -j2 test", "sub/GNUmakefile", true},
	    {"cd x && make", "rules.MK", true},
	    {"/usr/bin/make", "Makefile", true},
	    {"cmake --build .", "Makefile", false},
	    {"remake", "Makefile", false},
	    {"tox -q", "tox.ini", true},
	    {"meson test -C b", "src/meson.build", true},
	    {"pytest", "Makefile", false},
	    {"", "Makefile", false},
	    {"make", "Makefile.md", false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (tamper_runs(cases[i].command, cases[i].path) != cases[i].runs)
			fail_msg("%s: %s", cases[i].command, cases[i].path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_move_counts_only_where_it_is_still_a_test),
	    cmocka_unit_test(the_orders_of_a_runner_are_known),
	    cmocka_unit_test(each_kind_is_told),
	    cmocka_unit_test(honest_changes_are_not_told),
	    cmocka_unit_test(the_place_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
