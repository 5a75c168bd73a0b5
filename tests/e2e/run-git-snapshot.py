#!/usr/bin/python3
# deadline: 300
"""[test] git = snapshot: the tests find the tested tree as the one commit of a repository, whole and clean, nothing of the history,
and whatever they do there stays there. Without it there is no repository."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, delete, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

TEST = """#!/bin/sh
# what test suites ask git
set -e
die() { echo "$*"; exit 1; }
test -z "$(git diff-files)" || die "the index must know the files: $(git diff-files)"
test -z "$(git status --porcelain)" || die "$(git status)"
git describe --exact-match; git log --oneline
test "$(git rev-list --count --all)" = 1
test -z "$(git remote)" || die remote
test "$(git rev-parse --show-toplevel)" = /work
test "$(git rev-parse HEAD^{tree})" = "$(git write-tree)"
git fsck --full --strict
test "$(git ls-files | wc -l)" = "$(git ls-tree -r HEAD | wc -l)"
test -z "$(git cat-file --batch-all-objects --batch-check='%(objectname)' | grep -E "$(cat old-objects)")" || die history
git cat-file -p HEAD:new.txt | grep -qx wanted
test ! -e gone.txt; git clone -q . /tmp/clone; test ! -e /tmp/evil
git submodule update --init 2>/dev/null && die submodule; git submodule status >/dev/null 2>&1 || true
echo '#!/bin/sh' >.git/hooks/post-commit; echo x >>new.txt; git add -A; git commit -qm 'by the tests'
git tag evil; git stash list; git config core.fsmonitor 'touch /tmp/evil'; git gc -q
echo "tree $(git rev-parse HEAD~1^{tree})"
"""

HOSTILE = {
    ".gitattributes": "*.bin filter=evil diff=evil\n*.txt text\n*.win text eol=crlf\n",
    ".gitmodules": '[submodule "m"]\n\tpath = m\n\turl = ext::sh -c touch% /tmp/evil\n',
    "a.bin": "x\n", "dos.win": "one\ntwo\n", "gone.txt": "to be deleted\n", "deep/er/f": "x\n", "suite.sh": TEST,
}

with Tap() as t, Place() as place:
    repo = place.repository({"secret.txt": "only in the history\n"})
    old = place.git("rev-parse", "HEAD", "HEAD:secret.txt", "HEAD^{tree}", cwd=repo).split()
    place.git("rm", "-q", "secret.txt", cwd=repo)
    for path, content in HOSTILE.items():
        place.write(os.path.join(repo, path), content, 0o755 if path.endswith(".sh") else None)
    place.write(os.path.join(repo, "old-objects"), "|".join(old) + "\n")
    place.write(os.path.join(repo, ".agent/config"), "[test]\n\tcommand = ./suite.sh\n\tgit = snapshot\n")
    os.symlink("deep", os.path.join(repo, "link"))
    place.git("add", "-A", cwd=repo)
    place.git("update-index", "--add", "--cacheinfo", f"160000,{old[0]},m", cwd=repo)
    place.git("commit", "-q", "-m", "Two", cwd=repo)
    place.git("push", "-q", "origin", "main", cwd=repo)
    os.mkdir(os.path.join(repo, "m"))
    model = place.recording([[write("new.txt", "wanted\n"), delete("gone.txt"), edit("dos.win", "two", "three"),
                              submit("Add a file", "As asked.")]])
    result = place.agent("run", "-m", "Add a file", "--model", model, cwd=repo)
    with open(os.path.join(place.run_dir(), "round-1/log"), encoding="utf-8") as log:
        text = log.read()
    if t.equal(result.status, 0, "a suite that asks git is green", result.text + text):
        commit = next(iter(place.branches(repo).values()))
        tree = place.git("rev-parse", commit + "^{tree}", cwd=repo + ".git")
        t.contains(text, f"tree {tree}", "the tree that git names in the jail is the tree that is pushed")
        t.contains(text, "v0.0.0", "there is a tag to describe it by")
        t.equal(place.git("diff", "--name-status", "main", commit, cwd=repo + ".git").split("\n"),
                ["M\tdos.win", "D\tgone.txt", "A\tnew.txt"], "nothing of what the tests did to the repository is pushed")
    t.equal(place.git("status", "--porcelain", cwd=repo), "", "the user's own repository is as it was")
    t.ok(not os.path.exists("/tmp/evil"), "nothing of the hostile tree ran outside")

    result = place.agent("jail", "-c", "test.git=none", "--", "sh", "-c", "git status 2>&1; test ! -e .git", cwd=repo)
    t.ok(result.status == 0 and "not a git repository" in result.out, "none: there is no repository", result.text)
    result = place.agent("jail", "--tree", "HEAD", "--", "sh", "-c", "test -z \"$(git diff-files)\" && git status -s", cwd=repo)
    t.ok(result.status == 0 and not result.out, "agent jail has it too, and the base's index knows every file", result.text)
    result = place.agent("jail", "-c", "jail.layers=copy", "--", "sh", "-c", "git status -s && git fsck", cwd=repo)
    t.ok(result.status == 0 and not result.out, "and where layers are copied", result.text)
    result = place.agent("jail", "-c", "test.git=history", "--", "true", cwd=repo)
    t.ok(result.status == 125 and "must be one of: none snapshot" in result.err, "another word is refused", result.text)
