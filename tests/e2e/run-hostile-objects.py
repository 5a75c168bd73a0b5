#!/usr/bin/python3
# deadline: 120
"""A repository whose objects, refs and files beside them want to be read as something else: replace refs, grafts, alternates,
ambiguous names, bare repositories and links in the tree, files that grow when they are read. What is read is what the
commit has; what cannot be read ends the run in one line before anything is tested."""
import os
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402


def raw_git(repo, *args, data=None):
    return subprocess.run(["git", *args], cwd=repo, input=data, stdout=subprocess.PIPE, check=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org",
                               "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}).stdout.decode().strip()


def tree_of(repo, *lines):
    return raw_git(repo, "mktree", "--missing", data="".join(line + "\n" for line in lines).encode())


with Tap() as t, Place() as place:
    touched = place.path("touched")
    program = place.write(place.path("touch.sh"), f"#!/bin/sh\ntouch {touched}\n", 0o755)
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    config = f"[core]\n\tbare = true\n\tfsmonitor = {program}\n\thooksPath = {os.path.dirname(program)}\n"
    files = {"a.txt": "one\ntwo\n", "vendor/x/HEAD": "ref: refs/heads/main\n", "vendor/x/config": config, "vendor/x/objects/k": "",
             "vendor/x/refs/k": "", ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/evil\n", "big.bin": "version https://git-lfs\n",
             ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}
    repo = place.repository(files, test="cd vendor/x && git status; cd ../.. && grep -q zwei a.txt")
    bare = repo + ".git"
    head = place.git("rev-parse", "HEAD", cwd=repo)

    # what the objects say is what counts
    blob = raw_git(repo, "rev-parse", "HEAD:a.txt")
    other = raw_git(repo, "hash-object", "-w", "--stdin", data=b"one\nreplaced\n")
    raw_git(repo, "replace", blob, other)
    raw_git(repo, "update-ref", f"refs/replace/{head}", raw_git(repo, "commit-tree", "-m", "evil", "HEAD^{tree}"))
    for name in (f"refs/heads/{head}", "refs/tags/main", "refs/heads/HEAD", "refs/heads/refs/heads/main", "refs/tags/agent/translate-two"):
        raw_git(repo, "update-ref", name, other if name.startswith("refs/tags/agent") else raw_git(repo, "commit-tree", "-m", "other", "HEAD^{tree}"))
    raw_git(repo, "config", "extensions.worktreeConfig", "true")
    place.write(os.path.join(repo, ".git/info/grafts"), f"{head}\n")
    place.write(os.path.join(repo, ".git/objects/info/alternates"), "/nonexistent/objects\n\n# nothing\n")
    place.write(os.path.join(repo, ".git/config.worktree"), f"[core]\n\tfsmonitor = {program}\n\tworktree = /\n")
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    t.equal(result.status, 0, "a run past replace refs, grafts, alternates and ambiguous names", result.text)
    if result.status == 0:
        t.equal(place.git("rev-parse", "agent/translate-two^", cwd=bare), head, "its base is the commit that HEAD names")
        t.equal(place.git("show", "agent/translate-two:a.txt", cwd=bare), "one\nzwei", "its bytes are the objects'")
    t.ok(not os.path.exists(touched), "no program of a repository in the tree, or beside it, ran outside of the jail")

    # what cannot be read as it should: one line, before anything runs
    def refused(what, repo, words, *options):
        result = place.agent("run", "-m", "x", "--model", model, "-c", "run.rounds=1", *options, cwd=repo)
        t.ok(result.status in (1, 2, 4) and any(word in result.err for word in words),
             f"{what} is refused in words", result.text)
        t.ok(not os.path.exists(os.path.join(place.run_dir(), "round-1/verdict.json")), "and nothing of it is tested")

    deep = place.repository({"a.txt": "one\ntwo\n"}, name="deep", test="true")
    tree = tree_of(deep, f"100644 blob {blob}\tx")
    for _ in range(150):
        tree = tree_of(deep, f"040000 tree {tree}\td")
    raw_git(deep, "update-ref", "HEAD", raw_git(deep, "commit-tree", "-p", "HEAD", "-m", "deep", tree_of(
        deep, f"100644 blob {raw_git(deep, 'rev-parse', 'HEAD:a.txt')}\ta.txt", f"040000 tree {tree}\td")))
    refused("a tree of 150 levels", deep, ("deep", "level", "long"), "--test", "true")

    bomb = place.repository({"a.txt": "one\ntwo\n"}, name="bomb", test="true")
    tree = tree_of(bomb, *(f"100644 blob {raw_git(bomb, 'rev-parse', 'HEAD:a.txt')}\tf{i}" for i in range(10)))
    for _ in range(8):
        tree = tree_of(bomb, *(f"040000 tree {tree}\td{i}" for i in range(10)))
    raw_git(bomb, "update-ref", "HEAD", raw_git(bomb, "commit-tree", "-p", "HEAD", "-m", "bomb", tree))
    refused("a tree of 10^9 files in 20 objects", bomb, ("more than", "too many", "limit"), "--test", "true")

    inflated = place.repository({"a.txt": "one\ntwo\n"}, name="inflated", test="true")
    size = 1 << 30
    data = zlib.compressobj(9)
    body = data.compress(b"blob %d\0" % size)
    body += b"".join(data.compress(bytes(1 << 22)) for _ in range(size >> 22)) + data.flush()
    oid = "ab" * 20
    place.write(os.path.join(inflated, f".git/objects/{oid[:2]}/{oid[2:]}"), "")
    with open(os.path.join(inflated, f".git/objects/{oid[:2]}/{oid[2:]}"), "wb") as f:
        f.write(body)
    raw_git(inflated, "update-ref", "HEAD", raw_git(inflated, "commit-tree", "-p", "HEAD", "-m", "big", tree_of(
        inflated, f"100644 blob {oid}\tzeros", f"100644 blob {raw_git(inflated, 'rev-parse', 'HEAD:a.txt')}\ta.txt")))
    refused("a file of 1 GiB in a megabyte, under a name that is not its own", inflated, ("zeros", oid[:12], "object", "large"), "--test", "true")
