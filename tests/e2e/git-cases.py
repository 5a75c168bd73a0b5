#!/usr/bin/python3
# deadline: 300
"""The 28 known ways in which a git repository, its files, its refs or its server turn against a program that works on it: one row
each, tried on whole runs and on the hooks. Nothing that a repository names is started outside of the jail, what is read is what the
commit has, and what cannot be read ends the run in one line."""
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, ZERO, differences, digest_tree, edit, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

USER = int(os.environ.get("AGENT_TEST_UID", "1000"))
FILES = {"a.txt": "one\ntwo\n"}
CHANGE = [[edit("a.txt", "two", "zwei"), submit("Translate two")]]


def raw_git(repo, *args, data=None):
    return subprocess.run(["git", *args], cwd=repo, input=data, stdout=subprocess.PIPE, check=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org",
                               "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}).stdout.decode().strip()


def tree_of(repo, *lines):
    return raw_git(repo, "mktree", "--missing", data="".join(line + "\n" for line in lines).encode())


def commit_tree(repo, *lines):
    """HEAD becomes a commit of a.txt and these entries."""
    blob = raw_git(repo, "rev-parse", "HEAD:a.txt")
    tree = tree_of(repo, f"100644 blob {blob}\ta.txt", *lines)
    raw_git(repo, "update-ref", "HEAD", raw_git(repo, "commit-tree", "-p", "HEAD", "-m", "x", tree))


class Case:
    """A number, and what its checks share. Canary: a file that a program writes when it is started outside of a jail."""

    def __init__(self, t, place, number, title):
        self.t, self.place, self.number, self.title = t, place, number, title
        self.canary = place.path(f"canary-{number}")
        self.program = place.write(place.path(f"touch-{number}.sh"), f"#!/bin/sh\necho \"$0 $*\" >>{self.canary}\n", 0o755)
        self.repos = 0

    def name(self, what):
        return f"{self.number} {self.title}: {what}"

    def ok(self, condition, what, detail=""):
        self.t.ok(condition, self.name(what), detail)

    def equal(self, got, wanted, what, detail=""):
        self.t.equal(got, wanted, self.name(what), detail)

    def repository(self, files=None, test="true", **more):
        self.repos += 1
        return self.place.repository({**FILES, **(files or {})}, name=f"r{self.number}-{self.repos}", test=test, **more)

    def evil_git_dir(self, path):
        """The files of a bare repository whose configuration names our program."""
        config = f"[core]\n\tbare = true\n\tfsmonitor = {self.program}\n\thooksPath = {os.path.dirname(self.program)}\n"
        return {f"{path}/HEAD": "ref: refs/heads/main\n", f"{path}/config": config, f"{path}/objects/k": "", f"{path}/refs/k": ""}

    def run(self, repo, *options, rounds=None, text="Translate two", env=None, one_round=False):
        model = self.place.recording(rounds or CHANGE, name=f"model-{self.number}.jsonl")
        if one_round:  # each answer of the model follows on the last in the same round
            lines = [json.loads(line) for line in open(model[7:])]
            self.place.write(model[7:], "".join(json.dumps({**line, "round": 1}) + "\n" for line in lines))
        return self.place.agent("run", "-m", text, "--model", model, "-c", "run.rounds=1", *options, cwd=repo, env=env)

    def published(self, repo, what, *options, branch="agent/translate-two", **more):
        result = self.run(repo, *options, **more)
        self.equal(result.status, 0, what, result.text)
        self.quiet()
        if result.status == 0:
            self.equal(self.place.git("show", f"{branch}:a.txt", cwd=repo + ".git"), "one\nzwei", "the branch has the change to what the "
                       "commit has")
        return result

    def refused(self, repo, what, words, *options, **more):
        before = set(self.place.runs())
        result = self.run(repo, *options, **more)
        self.ok(result.status in (1, 2, 4) and any(word in result.err for word in words), f"{what} is refused in words", result.text)
        tested = [run for run in set(self.place.runs()) - before
                  if os.path.exists(os.path.join(self.place.run_dir(run), "round-1/verdict.json"))]
        self.equal(tested, [], "and nothing of it is tested")
        self.quiet()
        return result

    def turned_down(self, repo, *paths):
        """The model tries each of them and is told no; the rest of its change is published."""
        result = self.published(repo, "a model that writes where it may not",
                                rounds=[[write(path, "x\n") for path in paths]] + CHANGE, one_round=True)
        lines = [json.loads(line) for line in open(os.path.join(self.place.run_dir(), "round-1/conversation.jsonl"))]
        answers = [block for line in lines if isinstance(line.get("content"), list) for block in line["content"]
                   if block.get("type") == "tool_result"]
        for i, path in enumerate(paths):
            self.ok(i < len(answers) and answers[i].get("error") is True, f"{path!r} is refused",
                    json.dumps(answers[i]) if i < len(answers) else result.text)
        self.equal(raw_git(repo + ".git", "diff-tree", "-r", "--name-only", "--no-commit-id", "agent/translate-two"), "a.txt",
                   "and nothing of them is in the branch")

    def quiet(self):
        seen = open(self.canary, errors="replace").read() if os.path.exists(self.canary) else ""
        self.equal(seen, "", "nothing was started that the repository names")

    def server(self, repo):
        """The remote with our hooks, as pushes meet them."""
        bare = repo + ".git"
        result = self.place.agent("hook", "install", bare)
        if result.status:
            raise RuntimeError(result.text)
        return bare

    def push_refused(self, repo, what, refspec, word):
        bare = repo + ".git"
        before = self.place.git("for-each-ref", cwd=bare)
        done = subprocess.run(["git", "push", "-q", "origin", refspec], cwd=repo, env=self.place.env, capture_output=True, check=False)
        text = done.stderr.decode(errors="replace")
        self.ok(done.returncode != 0 and word in text and self.place.git("for-each-ref", cwd=bare) == before, what, text)
        return text


# ---- files of the tree, and what the tests do to them -----------------------------------------------------------------


def swapped_git_file(c):
    evil = c.evil_git_dir("evil")
    repo = c.repository(evil, test="echo 'gitdir: /work/evil' >.git; git status >/dev/null 2>&1; test -f .git")
    c.published(repo, "a .git file that the tests plant names another repository")
    before = digest_tree(repo)
    c.place.write(os.path.join(repo, "sub/.git"), "gitdir: ../evil\n")
    c.run(os.path.join(repo, "sub"), text="From below", env={"GIT_DIR": os.path.join(repo, "evil")})
    c.quiet()
    os.unlink(os.path.join(repo, "sub/.git"))
    os.rmdir(os.path.join(repo, "sub"))
    c.equal(differences(before, digest_tree(repo)), [], "the repository is as it was")


def embedded_bare(c):
    repo = c.repository(c.evil_git_dir("vendor/x"), test="cd vendor/x && git status; cd ../.. && grep -q zwei a.txt")
    c.published(repo, "a bare repository among the files")
    c.run(os.path.join(repo, "vendor/x"), text="From within")
    c.quiet()


def real_repository(c):
    path = c.place.path("r3-1")
    attack = f"for d in {path} {path}.git; do echo x >$d/hooks/post-receive; echo x >$d/.git/hooks/x; echo x >$d/a.txt; rm -rf $d; done"
    repo = c.repository({"attack.sh": attack + "\nexit 0\n"}, test="sh attack.sh 2>/dev/null")
    before, server = digest_tree(repo), digest_tree(repo + ".git")
    c.published(repo, "tests that look for the repository by its path")
    c.equal(differences(before, digest_tree(repo)), [], "do not find it")
    changed = [name for name in differences(server, digest_tree(repo + ".git")) if not name.startswith(("objects", "refs", "logs"))]
    c.equal(changed, [], "nor the server's")


def hooks_of_plain_commands(c):
    repo = c.repository()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "prepare-commit-msg", "post-commit",
                 "pre-push", "fsmonitor-watchman"):
        c.place.write(os.path.join(repo, ".git/hooks", name), f"#!/bin/sh\necho {name} >>{c.canary}\n", 0o755)
    c.published(repo, "hooks of the repository that is worked on")


def config_by_environment(c):
    repo = c.repository()
    c.published(repo, "configuration in the caller's environment", env={
        "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": c.program, "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": os.path.dirname(c.program), "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={c.program}'", "GIT_SSH_COMMAND": c.program,
        "GIT_EXEC_PATH": os.path.dirname(c.program), "GIT_EXTERNAL_DIFF": c.program})


def replace_refs(c):
    repo = c.repository(test="grep -q zwei a.txt && ! grep -q replaced a.txt")
    head = raw_git(repo, "rev-parse", "HEAD")
    other = raw_git(repo, "hash-object", "-w", "--stdin", data=b"one\nreplaced\n")
    raw_git(repo, "replace", raw_git(repo, "rev-parse", "HEAD:a.txt"), other)
    raw_git(repo, "update-ref", f"refs/replace/{head}", raw_git(repo, "commit-tree", "-m", "evil", "HEAD^{tree}"))
    c.place.write(os.path.join(repo, ".git/info/grafts"), f"{head}\n")
    c.place.write(os.path.join(repo, ".git/objects/info/alternates"), "/nonexistent/objects\n\n# nothing\n")
    c.published(repo, "replace refs and grafts")
    c.equal(c.place.git("rev-parse", "agent/translate-two^", cwd=repo + ".git"), head, "its base is the commit itself")
    c.server(repo)
    raw_git(repo, "update-ref", "refs/poison/x", other)
    c.push_refused(repo, "and none gets in by a push", f"refs/poison/x:refs/replace/{raw_git(repo, 'rev-parse', 'HEAD:a.txt')}", "agent.refuse")


def lfs_configuration(c):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/evil"
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "1" * 64 + "\nsize 3\n"
        repo = c.repository({".lfsconfig": f"[lfs]\n\turl = {url}\n", "big.bin": pointer,
                             ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}, test="grep -q lfs big.bin")
        raw_git(repo, "config", "lfs.url", url)
        c.published(repo, "a .lfsconfig that names a server")
        try:
            listener.accept()
            called = True
        except TimeoutError:
            called = False
    c.ok(not called, "which nobody calls")
    c.run(repo, rounds=[[write(".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1/x\n"), submit("More")]], text="More")
    policy = c.place.artefact("round-1/tree.json")["policy"]
    c.equal([entry["path"] for entry in policy["review"]], [".lfsconfig"], "a change of it wants a review")


def link_as_context(c):
    repo = c.repository()
    os.symlink("/etc/passwd", os.path.join(repo, "CONTEXT.md"))
    os.symlink("/etc", os.path.join(repo, "conf"))
    c.place.git("add", "-A", cwd=repo)
    c.place.git("commit", "-q", "-m", "Link", cwd=repo)
    looks = [("read_file", {"path": path}) for path in ("CONTEXT.md", "conf/passwd", "/etc/passwd", "../r8-1/a.txt", ".git/config")]
    result = c.published(repo, "links to files of the machine", rounds=[looks + CHANGE[0]])
    talk = open(os.path.join(c.place.run_dir(), "round-1/conversation.jsonl"), errors="replace").read()
    c.ok("root:x:0" not in talk and "repositoryformatversion" not in talk, "what they lead to is not read", result.text)


def write_through_links(c):
    outside = c.place.path("outside")
    os.mkdir(outside)
    c.place.write(os.path.join(outside, "keep"), "keep\n")
    repo = c.repository()
    os.symlink(outside, os.path.join(repo, "dlink"))
    os.symlink(os.path.join(outside, "keep"), os.path.join(repo, "flink"))
    c.place.git("add", "-A", cwd=repo)
    c.place.git("commit", "-q", "-m", "Link", cwd=repo)
    c.turned_down(repo, "dlink/x", "dlink/keep", "flink")
    target = c.place.path("target")
    os.makedirs(os.path.join(target, "real"))
    os.symlink(outside, os.path.join(target, "d"))
    for path in ("d/keep", "d/x"):
        old = "-keep\n" if path == "d/keep" else ""
        diff = f"--- {'a/' + path if old else '/dev/null'}\n+++ b/{path}\n@@ -{'1' if old else '0,0'} +1 @@\n{old}+x\n"
        result = c.place.agent("edit", "--dir", target, "--write", "-", cwd=repo, stdin=diff)
        c.ok(result.status != 0, f"nor does agent edit write {path} through one", result.text)
    c.equal((os.listdir(outside), open(os.path.join(outside, "keep")).read()), (["keep"], "keep\n"), "nothing was written outside")


def foreign_spellings(c):
    repo = c.repository()
    c.turned_down(repo, ".g\u200cit/x", ".GIT/x", "git~1/x", ".git::$INDEX_ALLOCATION/x", ".git /x", ".git./x", "a/.git/hooks/x",
                  "\u212b/../.git/x", ".git\\x", "..\\x")


def words_for_options(c):
    repo, out = c.repository(), c.place.path("output-11")
    for word in (f"--output={out}", "--upload-pack=touch " + out, "-x", "--exec=" + c.program):
        for args in (("run", "-m", "x", "--base", word), ("run", "-m", "x", "--branch", word), ("verify", word),
                     ("edit", "--tree", word, "-"), ("run", "-m", "x", "-c", f"publish.remote={word}")):
            result = c.place.agent(*args, *(("--model", "replay:/nonexistent") if args[0] == "run" else ()), cwd=repo, stdin="x")
            c.ok(result.status == 2, f"agent {' '.join(args)} is refused", result.text)
    raw_git(repo, "config", "remote.origin.url", f"--receive-pack={c.program}")
    c.refused(repo, "a remote that begins with '-'", ("remote", "-"))
    raw_git(repo, "config", "remote.origin.url", f"ext::{c.program}")
    c.refused(repo, "a remote that is a command", ("ext",))
    raw_git(repo, "config", "remote.origin.url", "ssh://-oProxyCommand=x/y")
    c.refused(repo, "a host that is an option", ("host", "-o"))
    c.ok(not os.path.exists(out), "no file of that name was written")


def branch_as_option(c):
    repo = c.repository()
    raw_git(repo, "update-ref", "refs/heads/-x", "HEAD")
    raw_git(repo, "symbolic-ref", "HEAD", "refs/heads/-x")
    c.published(repo, "HEAD names a branch -x")
    c.server(repo)
    c.push_refused(repo, "and a task named like that is not let in", "HEAD:refs/heads/task/-x", "declined")


def shell_in_refs(c):
    repo = c.repository()
    for name in ("task/$(touch canary)", "task/`id`", "task/a'b", "task/a|b", "task/a&b", "task/a;b", "task/a>b"):
        name = name.replace(" ", "${IFS}")
        raw_git(repo, "update-ref", "refs/heads/" + name, "HEAD")
        raw_git(repo, "symbolic-ref", "HEAD", "refs/heads/" + name)
        result = c.run(repo, "--dry-run")
        c.equal(result.status, 0, f"a branch {name} is a name and no more", result.text)
    c.ok(not any("canary" in names for _, _, names in os.walk(repo)), "no shell has seen it")
    c.server(repo)
    for name in ("task/$(id)", "task/a'b", "task/a&b"):
        raw_git(repo, "commit", "-q", "--allow-empty", "-m", f"Do {name}")
        c.push_refused(repo, f"a task of the name {name} is not let in", f"HEAD:refs/heads/{name}", "declined")


def look_alikes(c):
    repo = c.repository()
    head = raw_git(repo, "rev-parse", "HEAD")
    other = raw_git(repo, "commit-tree", "-m", "other", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
    for name in (f"refs/heads/{head}", "refs/tags/main", "refs/heads/HEAD", "refs/heads/refs/heads/main", "refs/tags/HEAD",
                 "refs/tags/agent/translate-two", "refs/heads/@"):
        raw_git(repo, "update-ref", name, other)
    for base in (None, "main", head, "refs/heads/main"):
        options = ("--base", base, "--branch", f"agent/b{len(base)}") if base else ()
        c.published(repo, f"the base is what {base or 'HEAD'} means", *options, branch=options[3] if options else "agent/translate-two")
    for name in ("x\u202ey", "x\u009by", "x\x7fy"):
        result = c.run(repo, "--branch", "agent/" + name)
        c.equal(result.status, 2, f"--branch {name!r} is refused", result.text)
        c.ok(name not in result.err, "and not shown raw", repr(result.err))
    text = c.run(repo, "--base", "x\u202ey\u009bz").err
    c.ok("\u202e" not in text and "\u009b" not in text, "nor is a base", repr(text))


def names_in_the_way(c):
    for taken in ("agent", "agent/translate-two/sub"):
        repo = c.repository()
        raw_git(repo + ".git", "update-ref", f"refs/heads/{taken}", "main")
        result = c.run(repo)
        c.ok(result.status == 1 and "in the way" in result.err and "--branch" in result.err, f"a branch {taken} is in the way, which is said",
             result.text)
        c.equal(raw_git(repo + ".git", "rev-parse", taken), raw_git(repo, "rev-parse", "HEAD"), "it stays")
        again = c.place.agent("publish", c.place.runs()[-1], "--branch", "other", cwd=repo)
        c.equal(again.status, 0, "another name goes in", again.text)


# ---- text --------------------------------------------------------------------------------------------------------


def identities(c):
    repo = c.repository()
    for key in ("name", "email"):
        for value in ("a\nparent 123", "a<b", "a>b", "a\x1bb", "a\x00b"[:1] + "\u202eb", " "):
            result = c.run(repo, "-c", f"author.{key}={value}")
            c.ok(result.status == 2, f"author.{key} = {value!r} is refused", result.text)
    c.equal(c.place.branches(repo), {}, "nothing was pushed")
    c.published(repo, "one that is only strange", "-c", "author.name=O'Neil \"Bob\" $(id)")
    shown = c.place.git("log", "-1", "--format=%an|%cn|%P", "agent/translate-two", cwd=repo + ".git")
    c.equal(shown, f"O'Neil \"Bob\" $(id)|O'Neil \"Bob\" $(id)|{raw_git(repo, 'rev-parse', 'HEAD')}", "is kept as it is")


def trailers(c):
    repo = c.repository()
    evil = "Translate two\n\nSigned-off-by: Boss <b@x>\nCo-authored-by: B <b@x>\nReviewed-by: B <b@x>\nFixes #1\n[skip ci]\nAgent-Run: 1\n"
    c.published(repo, "an issue in the shape of trailers", text=evil, rounds=[[CHANGE[0][0], submit(evil, evil)]])
    message = c.place.git("log", "-1", "--format=%B", "agent/translate-two", cwd=repo + ".git")
    keys = c.place.git("log", "-1", "--format=%(trailers:keyonly)", "agent/translate-two", cwd=repo + ".git").split()
    c.equal(sorted(keys), ["Agent-Issue", "Agent-Model", "Agent-Run", "Agent-Test", "Issue"], "the commit has our trailers alone", message)
    c.ok("skip ci" not in message and "Fixes #1" not in message, "no word steers CI or closes an issue", message)


def terminal_escapes(c):
    evil = "\x1b]0;title\x07 \x1b[2J \u009b31m \u202e \x7f"
    repo = c.repository({"esc.sh": f"printf '{evil}'\n"}, test="sh esc.sh")
    c.place.hook(repo, "pre-receive", f"#!/bin/sh\nprintf '{evil}\\n'\nprintf '{evil}\\n' >&2\nexit 1\n")
    result = c.run(repo, text="Translate two " + evil, rounds=[[CHANGE[0][0], submit("Translate " + evil, evil)]])
    c.equal(result.status, 1, "an issue, a model, tests and a hook with escape sequences", result.text)
    bad = [code for code in ("\x1b", "\x07", "\u009b", "\u202e", "\x7f") if code in result.err or code in result.out]
    c.equal(bad, [], "none of it reaches the terminal")
    os.unlink(repo + ".git/hooks/pre-receive")
    again = c.place.agent("resume", c.place.runs()[-1], cwd=repo)
    c.equal(again.status, 0, "published afterwards", again.text)
    message = c.place.git("log", "-1", "--format=%B", next(iter(c.place.branches(repo))), cwd=repo + ".git")
    c.equal([code for code in ("\x1b", "\x07", "\u009b", "\u202e", "\x7f") if code in message], [], "nor the commit's message")
    shown = c.place.agent("show", c.place.runs()[-1], cwd=repo)
    c.equal([code for code in ("\x1b", "\x07", "\u009b", "\u202e", "\x7f") if code in shown.out], [], "nor agent show")


# ---- objects ---------------------------------------------------------------------------------------------------------


def submodules(c):
    for what, text in (("a command", f'[submodule "x"]\n\tpath = x\n\turl = ./x\n\tupdate = !{c.program}\n'),
                       ("an option", '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'),
                       ("a name outside", '[submodule "../../x"]\n\tpath = x\n\turl = ext::sh -c x\n'),
                       ("a CR in its path", '[submodule "x"]\n\tpath = "x\r"\n\turl = ./x\n')):
        repo = c.repository()
        blob = raw_git(repo, "hash-object", "-w", "--stdin", data=text.encode())
        commit_tree(repo, f"100644 blob {blob}\t.gitmodules", f"160000 commit {'1' * 40}\tx")
        c.published(repo, f"a submodule with {what}", "--test", "test ! -e x || test -z \"$(ls x)\"")
    repo = c.repository()
    c.turned_down(repo, ".gitmodules")


def tree_bomb(c):
    repo = c.repository()
    tree = tree_of(repo, *(f"100644 blob {raw_git(repo, 'rev-parse', 'HEAD:a.txt')}\tf{i}" for i in range(10)))
    for _ in range(8):
        tree = tree_of(repo, *(f"040000 tree {tree}\td{i}" for i in range(10)))
    commit_tree(repo, f"040000 tree {tree}\td")
    c.refused(repo, "a tree of 10^9 files in 20 objects", ("more than", "too many", "limit"), "--test", "true")


def deep_tree(c):
    repo = c.repository()
    tree = tree_of(repo, f"100644 blob {raw_git(repo, 'rev-parse', 'HEAD:a.txt')}\tx")
    for _ in range(150):
        tree = tree_of(repo, f"040000 tree {tree}\td")
    commit_tree(repo, f"040000 tree {tree}\td")
    c.refused(repo, "a tree of 150 levels", ("deep", "level", "long"), "--test", "true")


def loose(repo, oid, kind, size):
    """A loose object of zeros under a name that need not be its own."""
    data = zlib.compressobj(9)
    body = data.compress(b"%s %d\0" % (kind, size))
    block = bytes(1 << 22)
    for _ in range(size >> 22):
        body += data.compress(block)
    path = os.path.join(repo, f".git/objects/{oid[:2]}/{oid[2:]}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(body + data.flush())


def zlib_bomb(c):
    repo, oid = c.repository(), "ab" * 20
    loose(repo, oid, b"blob", 1 << 30)
    commit_tree(repo, f"100644 blob {oid}\tzeros")
    c.refused(repo, "a file of 1 GiB in a megabyte, under a name that is not its own", ("zeros", oid[:12], "object", "large"), "--test", "true")
    for kind in (b"tree", b"commit"):
        other, oid = c.repository(), ("cd" if kind == b"tree" else "ef") * 20
        loose(other, oid, kind, 1 << 28)
        if kind == b"tree":
            commit_tree(other, f"040000 tree {oid}\td")
        else:
            c.place.write(os.path.join(other, ".git/refs/heads/main"), oid + "\n")
        c.refused(other, f"a {kind.decode()} of 256 MiB", (oid[:12], "object", "large", "more than"), "--test", "true")


def delta_bomb(c):
    def number(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    def entry(kind, size, data):
        first, size = kind << 4 | size & 15, size >> 4
        out = b""
        while size:
            out += bytes([first | 128])
            first, size = size & 127, size >> 7
        return out + bytes([first]) + data

    repo = c.repository()
    base = bytes(1 << 20)
    base_oid = hashlib.sha1(b"blob %d\0" % len(base) + base).digest()
    copies = 4096  # of 1 MiB: 4 GiB out of 30 KB
    delta = number(len(base)) + number(len(base) * copies) + (b"\xf0\x00\x00\x10" * copies)
    pack = b"PACK" + (2).to_bytes(4, "big") + (2).to_bytes(4, "big")
    at = [len(pack)]
    pack += entry(3, len(base), zlib.compress(base))
    at.append(len(pack))
    pack += entry(7, len(delta), base_oid + zlib.compress(delta))
    pack += hashlib.sha1(pack).digest()
    oid = "12" * 20  # an index may say what it wants
    names = sorted([(base_oid, at[0]), (bytes.fromhex(oid), at[1])])
    index = b"\xfftOc" + (2).to_bytes(4, "big")
    index += b"".join(sum(name[0] <= i for name, _ in names).to_bytes(4, "big") for i in range(256))
    index += b"".join(name for name, _ in names) + bytes(8) + b"".join(offset.to_bytes(4, "big") for _, offset in names)
    index += pack[-20:]
    index += hashlib.sha1(index).digest()
    stem = os.path.join(repo, ".git/objects/pack/pack-" + pack[-20:].hex())
    for suffix, data in ((".pack", pack), (".idx", index)):
        c.place.write(stem + suffix, data)
    commit_tree(repo, f"100644 blob {oid}\tzeros")
    c.refused(repo, "a delta of 4 GiB in 30 KB", ("zeros", oid[:12], "object", "large"), "--test", "true")


# ---- servers ---------------------------------------------------------------------------------------------------------


def quarantine(c):
    repo = c.repository(test="false")
    bare = c.server(repo)
    raw_git(bare, "config", "agent.gate", "refs/heads/gated/*")
    raw_git(bare, "config", "agent.refuse", "refs/heads/no/*")
    before = digest_tree(bare)
    raw_git(repo, "commit", "-q", "--allow-empty", "-m", "Do it")
    c.push_refused(repo, "a push that is refused", "HEAD:refs/heads/no/1", "declined")
    c.equal([name for name in differences(before, digest_tree(bare)) if not name.startswith("hooks")], [],
            "leaves no ref and no object: the hook writes none")
    c.equal(raw_git(bare, "fsck", "--strict"), "", "the server is sound")


def hook_bypass(c):
    repo = c.repository()
    seen = c.place.path("seen-25")
    for name in ("pre-receive", "update", "reference-transaction", "post-receive", "post-update"):
        c.place.hook(repo, name, f"#!/bin/sh\necho {name} >>{seen}\n")
    c.published(repo, "a remote that is a path")
    c.ok({"pre-receive", "update", "post-receive", "post-update"} <= set(open(seen).read().split()), "its hooks run", open(seen).read())
    c.place.hook(repo, "update", "#!/bin/sh\nexit 1\n")
    result = c.run(repo, "--branch", "agent/second")
    c.equal((result.status, "refs/heads/agent/second" in c.place.branches(repo)), (1, False), "and decide", result.text)


def protected_paths(c):
    paths = [".github/workflows/x.yml", ".gitlab-ci.yml", "package.json", ".envrc", ".vscode/tasks.json", ".pre-commit-config.yaml",
             ".gitattributes", ".lfsconfig", ".mailmap", "AGENTS.md", "CLAUDE.md", ".agent/config", "sub/.gitattributes", "sub/.envrc",
             "Jenkinsfile", ".husky/pre-commit", ".CircleCI/config.yml"]
    repo = c.repository()
    content = {".agent/config": '[test]\n\tcommand = "true"\n# x\n', "package.json": "{}\n", ".gitattributes": "*.x text\n"}
    result = c.run(repo, rounds=[[write(path, content.get(path, "x\n")) for path in paths] + CHANGE[0]])
    c.equal(result.status, 0, "files that run later on other machines", result.text)
    review = [entry["path"] for entry in c.place.artefact("round-1/tree.json")["policy"]["review"]]
    c.equal(sorted(review), sorted(paths), "every one wants a person")
    message = c.place.git("log", "-1", "--format=%B", "agent/translate-two", cwd=repo + ".git")
    c.ok(message.count("Agent-Needs-Review: ") >= 10, "and the commit says so", message)


def foreign_owner(c):
    if os.geteuid() != 0:
        return c.t.skip(c.name("all"), "needs root, to make what another owns")
    repo = c.repository()
    seen = c.place.path("seen-27")
    c.place.write(seen, "", 0o666)
    for key, value in (("core.fsmonitor", c.program), ("core.sshCommand", c.program), ("core.hooksPath", os.path.dirname(c.program))):
        raw_git(repo, "config", key, value)
    c.place.hook(repo, "pre-receive", f"#!/bin/sh\nid -u >>{seen}\n")
    os.chmod(c.place.dir, 0o711)
    for top in (repo, repo + ".git"):
        for folder, _, names in os.walk(top):
            for name in ["."] + names:
                os.lchown(os.path.join(folder, name), USER, USER)
    result = c.run(repo)
    c.ok(result.status == 2 and "root takes no remote from it" in result.err, "another user's configuration names no remote for root", result.text)
    result = c.run(repo, "-c", f"publish.remote={repo}.git")
    c.equal(result.status, 0, "a repository and a remote that another user owns", result.text)
    c.quiet()
    c.equal(open(seen).read().split(), [str(USER)], "the remote's hooks run as that user")
    for top, whose in ((repo, "the repository"), (repo + ".git", "what the remote got")):
        owners = {os.lstat(os.path.join(folder, name)).st_uid for folder, dirs, names in os.walk(top) for name in names + dirs}
        c.equal(owners, {USER}, f"{whose} is that user's")
    return None


def prompts_and_urls(c):
    repo = c.repository()
    for url, words in (("https://user:secret-word@localhost:1/x.git", ("password",)), ("https://tok-secret-word:@localhost:1/x", ("password", "token")),
                       ("http://localhost:1/x", ("http",)), ("git://localhost:1/x", ("git:",)), ("https://lo\ncalhost/x", ("control", "character")),
                       ("https://lo\rcalhost/x", ("control", "character")), ("https://localhost/x\x1b[2J", ("control", "character")),
                       ("https://local%0ahost/x", ("host", "%")), ("https://localhost/x?y=1", ("query", "?")),
                       ("https://localh\u043est/x", ("host", "character"))):
        result = c.run(repo, "-c", f"publish.remote={url}", "-c", "publish.token=env:T", env={"T": "planted-token"})
        c.ok(result.status == 2 and any(word in result.err for word in words), f"the remote {url!r} is refused", result.text)
        c.ok("secret-word" not in result.text.replace(url, "") and "\x1b[2J" not in result.err, "and its secret not shown", repr(result.err))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            try:
                while True:
                    peer, _ = listener.accept()
                    peer.close()
            except OSError:
                pass
        threading.Thread(target=serve, daemon=True).start()
        result = c.run(repo, "-c", f"publish.remote=https://localhost:{listener.getsockname()[1]}/x.git", "-c", "publish.token=env:T",
                       env={"T": "planted-token", "GIT_TERMINAL_PROMPT": "1", "GIT_ASKPASS": c.program, "SSH_ASKPASS": c.program})
        listener.close()
    c.ok(result.status == 4 and "cannot push" in result.err, "a server that hangs up is told, and nobody is asked", result.text)
    c.ok("planted-token" not in result.text, "the token is not shown")
    c.quiet()


CASES = [
    (1, "a .git file that is swapped", swapped_git_file),
    (2, "a bare repository in the tree", embedded_bare),
    (3, "tests that write the real repository", real_repository),
    (4, "hooks of plain commands", hooks_of_plain_commands),
    (5, "configuration by the environment", config_by_environment),
    (6, "replace refs", replace_refs),
    (7, ".lfsconfig", lfs_configuration),
    (8, "links read as context", link_as_context),
    (9, "writing through links", write_through_links),
    (10, "spellings of .git", foreign_spellings),
    (11, "words that are options", words_for_options),
    (12, "a branch named -x", branch_as_option),
    (13, "shell characters in refs", shell_in_refs),
    (14, "look-alikes", look_alikes),
    (15, "a branch in the way", names_in_the_way),
    (16, "identities", identities),
    (17, "trailers and keywords", trailers),
    (18, "terminal escapes", terminal_escapes),
    (19, "submodules", submodules),
    (20, "a tree bomb", tree_bomb),
    (21, "deep trees", deep_tree),
    (22, "a zlib bomb", zlib_bomb),
    (23, "a delta bomb", delta_bomb),
    (24, "quarantine", quarantine),
    (25, "hooks that are gone round", hook_bypass),
    (26, "files that run later", protected_paths),
    (27, "foreign owners", foreign_owner),
    (28, "prompts and URLs", prompts_and_urls),
]

with Tap() as t, Place() as place:
    place.limits()
    only = [int(word) for word in sys.argv[1:]]
    for number, title, function in CASES:
        if not only or number in only:
            function(Case(t, place, number, title))
    t.equal([number for number, _, _ in CASES], list(range(1, 29)), "each of the 28 cases has its row")
