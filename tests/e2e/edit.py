#!/usr/bin/python3
# deadline: 200
"""agent edit: a model's answer in a file, applied to a directory, a commit, the index; all of it or nothing."""
import json
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402

DIFF = "--- a/f\n+++ b/f\n@@ -9 +9 @@\n one\n-two\n+2\n"
BLOCK = "sub/g\n```\n<<<<<<< SEARCH\nx\n=======\ny\nz\n>>>>>>> REPLACE\n```\n"


def envelope(*lines):
    return "\n".join(("*** Begin Patch",) + lines + ("*** End Patch", ""))


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def listing(root):
    found = {}
    for top, names, files in os.walk(root):
        names[:] = [n for n in names if n != ".git"]
        for name in files:
            path = os.path.join(top, name)
            info = os.lstat(path)
            found[os.path.relpath(path, root)] = (stat.S_IMODE(info.st_mode), os.readlink(path) if
                                                  stat.S_ISLNK(info.st_mode) else read(path))
    return found


def try_directory(t, place):
    tree = place.path("d")
    place.write("d/f", "one\ntwo\n", 0o640)
    place.write("d/sub/g", "w\r\nx\r\n")
    place.write("d/run.sh", "#!/bin/sh\n", 0o750)
    place.write("outside", "secret\n")
    os.symlink("../outside", os.path.join(tree, "link"))
    os.symlink("..", os.path.join(tree, "up"))
    before = listing(tree)

    result = place.agent("edit", "--dir", "d", "-", stdin=DIFF)
    t.ok(result.status == 0 and "-two\n+2\n" in result.out and "ok" in result.err, "shown", result.text)
    t.equal(listing(tree), before, "not written without --write")
    result = place.agent("edit", "--write", "-", stdin=DIFF + "--- a/f2\n+++ b/f2\n@@ -1 +1 @@\n-q\n+r\n", cwd=tree)
    t.ok(result.status == 1 and "E_MISSING_FILE" in result.err, "one of two refused", result.text)
    t.equal(listing(tree), before, "then nothing is written")
    result = place.agent("edit", "--write", "--json", "-", stdin=BLOCK, cwd=tree)
    answer = json.loads(result.out)
    t.ok(result.status == 0 and answer["written"] and answer["edits"][0]["code"] == "ok", "a block, as JSON", result.text)
    t.equal(read(tree, "sub/g"), b"w\r\ny\r\nz\r\n", "line ends are the file's")
    result = place.agent("edit", "--write", "-", stdin=BLOCK, cwd=tree)
    t.ok(result.status == 0 and "E_ALREADY_APPLIED" in result.err and not result.out, "there already: 0", result.text)
    result = place.agent("edit", "--write", "-", stdin=envelope(
        "*** Update File: run.sh", "@@", "-#!/bin/sh", "+#!/bin/bash", "*** Update File: f", "*** Move to: n/e/w", "@@",
        "-one", "+1", "*** Delete File: sub/g"), cwd=tree)
    t.equal(result.status, 0, "an envelope with all operations", result.text)
    now = listing(tree)
    t.equal((now.get("run.sh"), now.get("n/e/w", (0, b""))[1], "f" in now, os.path.exists(os.path.join(tree, "sub"))),
            ((0o750, b"#!/bin/bash\n"), b"1\ntwo\n", False, False), "written, rights kept, empty directories gone")
    t.ok(not [n for n in now if ".agent-" in n], "no temporary file is left", now)

    for what, path in (("a link", "link"), ("a linked directory", "up/outside"), ("..", "../outside"),
                       (".git", ".git/config"), ("absolute", place.path("outside"))):
        result = place.agent("edit", "--write", "--json", "-", stdin=envelope(
            f"*** Update File: {path}", "@@", "-secret", "+public"), cwd=tree)
        code = json.loads(result.out)["outcome"] if result.out else ""
        t.ok(result.status == 1 and code in ("E_MODE", "E_PATH") and "secret" not in result.err + result.out
             .replace("-secret", ""), f"through {what}: {code}", result.text)
    t.equal(read(place.path("outside")), b"secret\n", "nothing outside was written")
    result = place.agent("edit", "--write", "-", stdin=envelope("*** Add File: N/x", "+x"), cwd=tree)
    t.ok(result.status == 1 and "case" in result.err, "a name that differs in case alone", result.text)


def try_statuses(t, place):
    place.write("s/f", "one\ntwo\n")
    where = place.path("s")
    for what, text, args, status, words in (
            ("prose", "It is fine.\n", [], 2, "E_MALFORMED"),
            ("cut", "```diff\n" + DIFF, [], 2, "E_TRUNCATED"),
            ("another format than it is", BLOCK, ["--format", "udiff"], 2, "E_MALFORMED"),
            ("an unknown format", DIFF, ["--format", "x"], 2, "format"),
            ("no such directory", DIFF, ["--dir", "nope"], 2, "nope"),
            ("both --dir and --tree", DIFF, ["--dir", ".", "--tree", "HEAD"], 2, "exclude"),
            ("--tree outside of a repository", DIFF, ["--tree", "HEAD"], 2, "repository"),
            ("no match", DIFF.replace("-two", "-tow"), [], 1, "E_NO_MATCH"),
            ("hostile words", DIFF.replace("-two", "-\x1b]0;x\x07"), [], 1, "E_NO_MATCH")):
        result = place.agent("edit", *args, "-", stdin=text, cwd=where)
        t.ok(result.status == status and words in result.err and "\x1b" not in result.err, f"{what}: {status}",
             result.text)
    result = place.agent("edit", "nope.txt", cwd=where)
    t.equal(result.status, 2, "no such file: 2", result.text)
    result = place.agent("edit", cwd=where)
    t.equal(result.status, 2, "no file named: 2", result.text)


def try_tree(t, place):
    repo = place.repository({"f": "one\ntwo\n", "sub/g": "x\n", ".github/workflows/ci.yml": "a: 1\n"}, test="true")
    head = place.git("rev-parse", "HEAD", cwd=repo)
    place.write(os.path.join(repo, "f"), "dirty\n")
    result = place.agent("edit", "--tree", "HEAD", "--json", "-", stdin=DIFF + BLOCK, cwd=repo)
    t.equal((result.status, json.loads(result.out)["outcome"]), (2, "E_MALFORMED"),
            "two formats in one answer: neither is left out in silence", result.text)
    result = place.agent("edit", "--tree", "HEAD", "--json", "-", stdin=DIFF, cwd=repo)
    answer = json.loads(result.out)
    t.ok(result.status == 0 and not answer["written"], "tried on a commit, not on the dirty file", result.text)
    t.equal(place.git("diff", "--cached", "--name-only", cwd=repo), "", "the index is as it was")
    result = place.agent("edit", "--tree", head, "--write", "-", stdin=DIFF, cwd=repo)
    t.equal(result.status, 0, "written into the index", result.text)
    t.equal(place.git("write-tree", cwd=repo), answer["tree"], "the index is that tree")
    t.equal(read(repo, "f"), b"dirty\n", "the work tree is as it was")
    t.ok(not os.path.exists(os.path.join(repo, ".git/index.lock")), "no lock is left")
    place.git("fsck", "--strict", cwd=repo)
    result = place.agent("edit", "--tree", "HEAD", "--write", "-", stdin=DIFF, cwd=repo)
    t.ok(result.status == 1 and "index" in result.err, "staged already: refused", result.text)
    place.write(os.path.join(repo, ".git/index.lock"), "")
    result = place.agent("edit", "--tree", "HEAD", "--write", "-", stdin=BLOCK, cwd=repo)
    t.ok(result.status == 4 and "index.lock" in result.err and os.path.exists(os.path.join(repo, ".git/index.lock")),
         "another's lock is respected", result.text)
    os.unlink(os.path.join(repo, ".git/index.lock"))
    workflow = "--- a/.github/workflows/ci.yml\n+++ b/.github/workflows/ci.yml\n@@ -1 +1 @@\n-a: 1\n+a: 2\n"
    result = place.agent("edit", "--tree", "HEAD", "-", stdin=workflow, cwd=repo)
    t.ok(result.status == 0 and "needs review" in result.err, "a protected path is named", result.text)
    result = place.agent("edit", "--tree", "HEAD", "-c", "apply.protect=refuse .github/**", "-", stdin=workflow, cwd=repo)
    t.ok(result.status == 1, "and refused where the operator says so", result.text)
    patch = subprocess.run(["git", "apply", "--cached", "--check", "-R"], cwd=repo, env=place.env, input=place.git(
        "diff", "--cached", cwd=repo) + "\n", text=True, stderr=subprocess.PIPE)
    t.equal(patch.returncode, 0, "git takes what was staged", patch.stderr)


with Tap() as t, Place() as place:
    try_directory(t, place)
    try_statuses(t, place)
    try_tree(t, place)
    t.equal(os.listdir(os.path.join(place.state, "tmp")), [], "nothing is left in the state directory")
