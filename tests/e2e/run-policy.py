#!/usr/bin/python3
# deadline: 200
# sanitizers: yes
"""What a change may do to which paths: needs-review is published and named, strip leaves out, refuse gives the model another
round; secrets and tests that say less; who may set the rules; where results go."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

with Tap() as t, Place() as place:
    files = {"a.txt": "one\n", "package.json": "{}\n", "tests/test_a.py": "def test_a():\n    assert f() == 1\n"}
    repo = place.repository(files, test="true")
    bare = repo + ".git"

    # ---- review: published, named in the commit ----
    model = place.recording([[edit("a.txt", "one", "eins"), write("package.json", "{\"a\": 1}\n"),
                              write(".github/workflows/x.yml", "on: push\n"),
                              edit("tests/test_a.py", "== 1", "== 2"), submit("Change")]])
    result = place.agent("run", "-m", "Review", "--model", model, cwd=repo)
    t.equal(result.status, 0, "a change that needs a review is published", result.text)
    t.contains(result.err, "needs review: .github/workflows/x.yml", "the user is told which path")
    t.contains(result.err, "tests say less: tests/test_a.py:2: expectation", "and what became of the tests")
    message = place.git("log", "-1", "--format=%B", "agent/review", cwd=bare)
    t.contains(message, "Agent-Needs-Review: .github/workflows/x.yml", "the commit names it")
    t.contains(message, "Agent-Needs-Review: package.json", "and the manifest")
    policy = place.artefact("round-1/tree.json")["policy"]
    t.equal(sorted(entry["path"] for entry in policy["review"]), [".github/workflows/x.yml", "package.json"],
            "so does tree.json")

    # ---- strip, by the operator ----
    result = place.agent("run", "-m", "Strip", "--model", model, "-c", "apply.protect=strip .github/**", cwd=repo)
    t.equal(result.status, 0, "a stripped path does not hold up the rest", result.text)
    t.contains(result.err, "left out: .github/workflows/x.yml", "the user is told")
    names = place.git("ls-tree", "-r", "--name-only", "agent/strip", cwd=bare)
    t.ok(".github" not in names and "package.json" in names, "it is not in the commit", names)
    only = place.recording([[write(".github/x.yml", "a\n"), submit("Only")]], name="only.jsonl")
    result = place.agent("run", "-m", "Strip all", "--model", only, "-c", "apply.protect=strip .github/**",
                         "-c", "run.rounds=1", cwd=repo)
    t.equal(result.status, 1, "nothing is left when every path is stripped", result.text)
    t.contains(result.err, "no change is left", "and that is said")

    # ---- refuse: the model gets another round with the reason ----
    two = place.recording([[write("package.json", "{\"b\": 1}\n"), submit("First")],
                           [write("package.json", "{}\n"), edit("a.txt", "one", "uno"), submit("Second")]], name="two.jsonl")
    result = place.agent("run", "-m", "Refuse", "--model", two, "-c", "apply.protect=refuse package.json", cwd=repo)
    t.equal(result.status, 0, "a refused change is mended in the next round", result.text)
    t.contains(result.err, "'package.json' is protected", "the reason is told")
    t.equal(place.git("diff-tree", "-r", "--name-only", "--no-commit-id", "agent/refuse", cwd=bare), "a.txt",
            "the refused path is not in the commit")

    # ---- secrets ----
    leaky = place.recording([[write("conf.py", f"x = 1\nTOKEN = '{SECRET}'\n"), submit("Leak")]], name="leak.jsonl")
    result = place.agent("run", "-m", "Leak", "--model", leaky, "-c", "run.rounds=1", cwd=repo)
    t.equal(result.status, 1, "a secret in the change is refused", result.text)
    t.contains(result.err, "conf.py:2 looks like a GitHub token (ghp_... (40 characters))", "with file, line and kind")
    t.ok(SECRET not in result.text, "the value is not repeated")
    result = place.agent("run", "-m", "Leak allowed", "--model", leaky, "-c", "apply.notSecret=conf.py", cwd=repo)
    t.equal(result.status, 0, "unless the operator says that there is none", result.text)

    # ---- tests that say less ----
    weak = place.recording([[edit("tests/test_a.py", "    assert f() == 1", "    pass"), submit("Weak")]], name="weak.jsonl")
    result = place.agent("run", "-m", "Weak", "--model", weak, "-c", "apply.tests=refuse", "-c", "run.rounds=1", cwd=repo)
    t.equal(result.status, 1, "apply.tests = refuse refuses a weaker test", result.text)
    t.contains(result.err, "tests/test_a.py: tests say less (assertions, line 2)", "and says where")
    result = place.agent("run", "-m", "Fewer", "--command", "rm tests/test_a.py", "--dry-run", cwd=repo)
    t.contains(result.err, "tests say less: tests/test_a.py: deleted\n", "a deleted file is told without a line")

    # ---- who may set what ----
    other = place.repository(dict(files, **{".agent/config": "[test]\ncommand = true\n[apply]\nprotect = allow .github/**\n"}),
                             name="other")
    result = place.agent("run", "-m", "x", "--model", model, cwd=other)
    t.equal(result.status, 2, "a repository cannot allow what the operator protects", result.text)
    t.contains(result.err, "a repository may only make apply.protect stricter", "and is told so")
    third = place.repository(dict(files, **{".agent/config": "[test]\ncommand = true\n[apply]\nprotect = refuse a.txt\n"}),
                             name="third")
    result = place.agent("run", "-m", "x", "--model", model, "-c", "run.rounds=1", cwd=third)
    t.equal(result.status, 1, "a repository can protect more", result.text)
    result = place.agent("run", "-m", "x", "--model", model, "-c", "apply.protect=deny x", cwd=repo)
    t.equal(result.status, 2, "a malformed rule is a usage error before anything runs", result.text)

    # ---- where results go ----
    plain = place.recording([[edit("a.txt", "one", "zwei"), submit("Plain")]], name="plain.jsonl")
    result = place.agent("run", "-m", "Elsewhere", "--model", plain, "-c", "publish.ref=refs/agent/*", cwd=repo)
    t.equal(result.status, 0, "results may go where no branch is", result.text)
    t.ok("refs/agent/elsewhere" in place.git("for-each-ref", "--format=%(refname)", cwd=bare).split(),
         "the ref is there")
    result = place.agent("run", "-m", "Elsewhere", "--model", plain, "-c", "publish.ref=refs/tags/*", cwd=repo)
    t.equal(result.status, 2, "but not anywhere", result.text)
    t.contains(result.err, "publish.ref = refs/tags/* is no place for results", "and that is said")
