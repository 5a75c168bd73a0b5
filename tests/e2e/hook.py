#!/usr/bin/python3
"""agent hook on real bare repositories, by real pushes: over a path, SSH and smart HTTP. What is refused is refused with its
reason, what is let in is what was tested, and git's quarantine stays git's own."""

import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers  # noqa: E402
from e2e import AGENT, Place, ZERO, differences, digest_tree  # noqa: E402
from tap import Tap  # noqa: E402

ROOT_USER = os.geteuid() == 0


class Site:
    """A bare repository with our hooks, and a clone that pushes to it."""

    def __init__(self, place, name, files=None, test=None, **config):
        self.place = place
        self.repo = place.repository(files or {"a.txt": "1\n"}, name=name, test=test)
        self.bare = self.repo + ".git"
        self.git("branch", "base")  # where the server's default branch is
        place.git("config", "receive.advertisePushOptions", "true", cwd=self.bare)
        for key, value in config.items():
            place.git("config", "agent." + key, value, cwd=self.bare)
        result = place.agent("hook", "install", self.bare)
        if result.status:
            raise RuntimeError(result.text)

    def git(self, *args, **more):
        return self.place.git(*args, cwd=self.repo, **more)

    def commit(self, message, files=None, options=()):
        for path, content in (files or {}).items():
            if content is None:
                os.unlink(os.path.join(self.repo, path))
            else:
                self.place.write(os.path.join(self.repo, path), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", message, *options)
        return self.git("rev-parse", "HEAD")

    def push(self, *args, env=None, remote="origin"):
        def whole(word):
            source, colon, target = word.partition(":")
            return f"{source}:refs/heads/{target}" if colon and not target.startswith("refs/") else word
        done = subprocess.run(["git", "push", *(a for a in args if a.startswith("-")), remote,
                               *(whole(a) for a in args if not a.startswith("-"))], cwd=self.repo,
                              env={**self.place.env, **(env or {})}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
        return done.returncode, done.stdout.decode(errors="replace")

    def refs(self):
        return self.place.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.bare)


def refused(t, site, name, why, *args, **more):
    before = site.refs()
    status, text = site.push(*args, **more)
    t.ok(status == 1 and why in text and "declined" in text and site.refs() == before, name, f"{status}\n{text}")


def accepted(t, site, name, *args, **more):
    status, text = site.push(*args, **more)
    t.ok(status == 0, name, text)
    return text


# ---- install, uninstall, check ------------------------------------------------------------------------


def installing(t, place):
    place.repository({"a": "1\n"}, name="i")
    bare = place.path("i.git")
    hooks = os.path.join(bare, "hooks")
    before = digest_tree(bare)
    t.equal(place.agent("hook", "check", bare).status, 1, "check says that nothing is installed")
    t.equal(place.agent("hook", "install", bare).status, 0, "install")
    t.equal(place.agent("hook", "check", bare).status, 0, "check is content then")
    once = digest_tree(bare)
    t.equal(place.agent("hook", "install", bare).status, 0, "install once more")
    t.equal(differences(once, digest_tree(bare)), [], "a second install changes nothing")
    for name in ("pre-receive", "post-receive"):
        with open(os.path.join(hooks, name)) as f:
            text = f.read()
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../hooks", name)) as f:
            t.equal(text.replace(f"'{os.path.realpath(AGENT)}'", "agent"), f.read(), f"what is installed is hooks/{name}")
    place.agent("hook", "uninstall", bare)
    t.equal(differences(before, digest_tree(bare)), [], "uninstall leaves the repository as it was")

    for what, mode in (("a hook", 0o750), ("a hook that is switched off", 0o640)):
        place.write(os.path.join(hooks, "pre-receive"), "#!/bin/sh\nexit 0\n", mode)
        before = digest_tree(bare)
        place.agent("hook", "install", bare)
        place.agent("hook", "install", bare)
        place.agent("hook", "uninstall", bare)
        t.equal(differences(before, digest_tree(bare)), [], f"{what} is put back as it was")
        os.unlink(os.path.join(hooks, "pre-receive"))
    os.symlink("/nonexistent/hook", os.path.join(hooks, "pre-receive"))
    place.agent("hook", "install", bare)
    place.agent("hook", "uninstall", bare)
    t.equal(os.readlink(os.path.join(hooks, "pre-receive")), "/nonexistent/hook", "a link is put back as a link")
    os.unlink(os.path.join(hooks, "pre-receive"))

    place.write(os.path.join(hooks, "pre-receive"), "#!/bin/sh\nexit 0\n", 0o755)
    place.agent("hook", "install", bare)
    place.write(os.path.join(hooks, "pre-receive"), "#!/bin/sh\nexit 0\n", 0o755)
    result = place.agent("hook", "install", bare)
    t.ok(result.status == 2 and "join the two by hand" in result.err, "two foreign hooks are nobody's to choose from", result.text)
    os.unlink(os.path.join(hooks, "pre-receive.chained"))

    # an install that was killed between its two steps
    os.link(os.path.join(hooks, "pre-receive"), os.path.join(hooks, "pre-receive.chained"))
    t.equal(place.agent("hook", "install", bare).status, 0, "an interrupted install is finished by the next")


def checking(t, place):
    place.repository({"a": "1\n"}, name="c")
    bare = place.path("c.git")
    hook = os.path.join(bare, "hooks/pre-receive")

    def says(name, word, undo):
        result = place.agent("hook", "check", bare)
        t.ok(result.status == 1 and word in result.out, "check: " + name, result.text)
        undo()
        place.agent("hook", "install", bare)

    place.agent("hook", "install", bare)
    os.chmod(hook, 0o644)
    says("not executable", "not executable", lambda: None)
    os.chmod(hook, 0o777)
    says("writable by others", "other users", lambda: None)
    with open(hook) as f:
        text = f.read()
    place.write(hook, text.replace(os.path.realpath(AGENT), "/nonexistent/agent"))
    says("a program that is gone", "/nonexistent/agent cannot be run", lambda: None)
    place.write(hook, text.replace(os.path.realpath(AGENT), "/bin/true"))
    says("another program", "runs /bin/true", lambda: None)
    place.git("config", "core.hooksPath", "/elsewhere", cwd=bare)
    result = place.agent("hook", "install", bare)
    t.ok(result.status == 2 and "core.hooksPath" in result.err, "install: git looks elsewhere", result.text)
    says("git looks elsewhere", "core.hooksPath", lambda: place.git("config", "--unset", "core.hooksPath", cwd=bare))
    place.git("config", "agent.gaet", "refs/heads/main", cwd=bare)
    says("an unknown variable", "agent.gaet", lambda: place.git("config", "--unset", "agent.gaet", cwd=bare))
    place.git("config", "include.path", "x", cwd=bare)
    says("an include", "include", lambda: place.git("config", "--unset", "include.path", cwd=bare))
    other = place.path("sha256.git")
    place.git("init", "-q", "--bare", "--object-format=sha256", other)
    place.agent("hook", "install", other)
    result = place.agent("hook", "check", other)
    t.ok(result.status == 1 and "not SHA-1" in result.out, "check: a repository of SHA-256", result.text)
    if ROOT_USER:
        os.chown(hook, 1, 1)
        says("a foreign owner", "belongs to uid 1", lambda: os.chown(hook, 0, 0))
    else:
        place.git("config", "agent.gate", "refs/heads/main", cwd=bare)
        says("a gate without root", "must start as root", lambda: place.git("config", "--unset", "agent.gate", cwd=bare))
    t.equal(place.agent("hook", "check", place.path("c.git")).status, 0, "check: all mended")
    t.equal(place.agent("hook", "install", place.home).status, 2, "install: no repository")
    t.equal(place.agent("hook", "sing").status, 2, "an unknown verb")


# ---- tasks -----------------------------------------------------------------------------------------------


def tasks(t, place):
    site = Site(place, "tasks")
    refused(t, site, "a task branch at the default branch carries no issue", "no issue", "base:task/1")
    accepted(t, site, "a push option carries one", "-oissue=mend it", "base:task/1")
    refused(t, site, "an empty push option is none", "push option issue=: empty", "-oissue=", "base:task/2")
    site.commit("Sum is wrong")
    accepted(t, site, "so does the tip's message", "HEAD:task/3")
    accepted(t, site, "and a branch that is no task needs none", "HEAD:topic")
    site.commit("")
    refused(t, site, "an empty message is none", "message of the tip: empty", "HEAD:task/4")
    site.commit("x", {".agent/task.md": "# Sum is wrong\n\nIt adds.\n"})
    accepted(t, site, "so does .agent/task.md", "HEAD:task/5")
    site.commit("x", {".agent/task.md": b"# Sum\n\nline \xff\xfe three\n"})
    refused(t, site, "one that is no text is refused, with the line", ".agent/task.md, line 3: not text in UTF-8", "HEAD:task/6")
    site.commit("x", {".agent/task.md": b"a\0b"})
    refused(t, site, "one with a NUL", ".agent/task.md, line 1", "HEAD:task/6")
    site.commit("x", {".agent/task.md": "\n \n#\n"})
    refused(t, site, "one that says nothing", ".agent/task.md: empty", "HEAD:task/6")
    site.commit("x", {".agent/task.md": "x" * (1 << 20) + "y"})
    refused(t, site, "one that is too large", "larger than 1 MiB", "HEAD:task/6")
    os.unlink(os.path.join(site.repo, ".agent/task.md"))
    os.symlink("/etc/passwd", os.path.join(site.repo, ".agent/task.md"))
    site.commit("x")
    refused(t, site, "one that is a link", "not a regular file", "HEAD:task/6")
    os.unlink(os.path.join(site.repo, ".agent/task.md"))
    os.makedirs(os.path.join(site.repo, ".agent/task.md"))
    site.commit("A directory in its place", {".agent/task.md/x": "1\n"})
    refused(t, site, "one that is a directory", "not a regular file", "HEAD:task/6")
    site.git("reset", "-q", "--hard", "base")
    blob = site.git("rev-parse", "HEAD:a.txt")
    site.git("tag", "-f", "blob", blob)
    status, text = site.push("refs/tags/blob:task/7")
    t.ok(status == 1 and "task/7" not in site.refs(), "a blob is no task", text)
    site.commit("By the agent\n\nAgent-Run: 1")
    accepted(t, site, "a commit of the agent's own asks for nothing", "HEAD:task/8")
    accepted(t, site, "deleting one", ":task/5")
    site.commit("esc \x1b]0;title\x07 \x1b[31mred", {".agent/task.md": b"\xff"})
    status, text = site.push("HEAD:task/9")
    t.ok(status == 1 and "\x1b" not in text, "nothing of a push gets to the pusher's terminal raw", repr(text))

    # an issue that came with the default branch was another task's
    old = Site(place, "old", {".agent/task.md": "Done long ago\n"})
    refused(t, old, "the task of the default branch is not this one's", "no issue", "base:task/1")
    old.commit("A new one")
    accepted(t, old, "but a message is", "HEAD:task/1")

    site.git("checkout", "-q", "-b", "many", "base")
    stream = "".join(f"commit refs/heads/many\ncommitter a <a@b> {i} +0000\ndata 1\nx\n" + ("from refs/heads/base\n" if i == 1 else "")
                     for i in range(1, 10001))
    subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=site.repo, input=stream.encode(), check=True, env=place.env)
    accepted(t, site, "10,000 commits", "--force", "many:task/many")
    before = site.refs()
    status, text = site.push("--atomic", "many:topic2", "base:task/none")
    t.ok(status == 1 and site.refs() == before, "an atomic push goes in whole or not at all", text)
    status, text = site.push("many:topic2", "base:task/none")
    t.ok(status == 1 and site.refs() == before, "and so does every other: pre-receive decides over all", text)
    site.git("tag", "-am", "tag", "v1", "many")
    accepted(t, site, "tags", "v1")
    refused(t, site, "refs that hide objects from the server are refused", "agent.refuse", "many:refs/replace/" + "0" * 39 + "1")
    site.commit("A task among others")
    before = site.refs()
    status, text = site.push("--force", "HEAD:task/mixed", "base:topic", ":task/8", "many:refs/notes/x", "refs/tags/v1:refs/tags/v2",
                             "base:task/empty")
    t.ok(status == 1 and "1 of 6 refs" in text and site.refs() == before,
         "a creation, a force, a deletion, a note, a tag, and one that is refused: none goes in", text)
    accepted(t, site, "without that one all do", "--force", "--atomic", "HEAD:task/mixed", "base:topic", ":task/8", "many:refs/notes/x",
             "refs/tags/v1:refs/tags/v2")
    t.ok("refs/heads/task/8 " not in site.refs() and "refs/heads/task/mixed" in site.refs(), "as asked")
    place.git("config", "agent.task", "none", cwd=site.bare)
    accepted(t, site, "a rule that is switched off", "base:task/none")
    place.git("config", "agent.refs/heads/need/*.task", "true", cwd=site.bare)
    refused(t, site, "and on for other refs by a section", "no issue", "base:need/1")
    place.git("config", "agent.refs/heads/need/*.refuse", "true", cwd=site.bare)
    refused(t, site, "as is any other", "agent.refuse", "HEAD:need/1")
    place.git("config", "agent.need.refuse", "true", cwd=site.bare)
    refused(t, site, "a section without full ref names refuses all", "pattern of full ref names", "HEAD:topic9")
    place.git("config", "--unset", "agent.need.refuse", cwd=site.bare)
    place.git("config", "agent.gaet", "refs/heads/main", cwd=site.bare)
    refused(t, site, "a misspelt rule refuses all", "unknown variable agent.gaet", "base:topic3")


def bad_input(t, place):
    site = Site(place, "bad")
    oid = site.git("rev-parse", "HEAD")
    for name, text in (("no line end", f"{ZERO} {oid}"), ("short ids", "00 11 refs/heads/x\n"), ("no ref", f"{ZERO} {oid} \n"),
                       ("a NUL", f"{ZERO} {oid} refs/heads/a\0b\n"), ("HEAD", f"{ZERO} {oid} HEAD\n"), ("words", "hello\n"),
                       ("upper case", f"{'A' * 40} {oid} refs/heads/x\n")):
        result = place.agent("hook", "pre-receive", cwd=site.bare, stdin=text)
        t.ok(result.status == 2, f"input with {name}: 2", result.text)
    t.equal(place.agent("hook", "pre-receive", cwd=site.bare, stdin="").status, 0, "no input: nothing to say")
    t.equal(place.agent("hook", "pre-receive", cwd=site.bare, stdin=f"{ZERO} {ZERO} refs/heads/task/x\n").status, 0,
            "a deletion of what is not there")
    result = place.agent("hook", "pre-receive", cwd=site.bare, stdin=f"{ZERO} {'1' * 40} refs/heads/task/x\n")
    t.ok(result.status == 1 and "there is no object" in result.err, "an object that is not there", result.text)
    result = place.agent("hook", "pre-receive", cwd=site.bare, stdin=f"{ZERO} {'1' * 64} refs/heads/task/x\n")
    t.ok(result.status in (1, 2), "an id of SHA-256", result.text)
    lines = "".join(f"{ZERO} {oid} refs/heads/b{i}\n" for i in range(5000))
    t.equal(place.agent("hook", "pre-receive", cwd=site.bare, stdin=lines).status, 0, "5,000 refs")
    lines = "".join(f"{ZERO} {oid} refs/heads/task/{i}\n" for i in range(1001))
    result = place.agent("hook", "pre-receive", cwd=site.bare, stdin=lines)
    t.ok(result.status == 1 and "in parts" in result.err, "more tasks than one push may have", result.text)


    line = f"{ZERO} {oid} refs/heads/x\n"
    for name, env, status, word in (
            ("a count that is no number", {"GIT_PUSH_OPTION_COUNT": "many"}, 2, "GIT_PUSH_OPTION_COUNT = many"),
            ("an empty count", {"GIT_PUSH_OPTION_COUNT": ""}, 2, "no number"),
            ("a negative count", {"GIT_PUSH_OPTION_COUNT": "-1"}, 2, "no number"),
            ("a count with a unit", {"GIT_PUSH_OPTION_COUNT": "1k"}, 2, "no number"),
            ("a count past every number", {"GIT_PUSH_OPTION_COUNT": "9" * 40}, 1, "at most 1000"),
            ("a count of more than there are", {"GIT_PUSH_OPTION_COUNT": "2", "GIT_PUSH_OPTION_0": "a"}, 2, "GIT_PUSH_OPTION_1 is missing"),
            ("control characters in it", {"GIT_PUSH_OPTION_COUNT": "\x1b[31m"}, 2, "no number")):
        result = place.agent("hook", "pre-receive", cwd=site.bare, stdin=line, env=env)
        t.ok(result.status == status and word in result.err and "\x1b" not in result.err, f"push options: {name}: {status}", result.text)
    many = [f"-oo{i}" for i in range(1000)]
    accepted(t, site, "1,000 push options", *many[1:], "-oissue=the last", "base:task/o")
    refused(t, site, "more are refused, not read in part", "1001 push options, at most 1000", *many, "-oissue=one more", "base:task/p")
    refused(t, site, "whatever is pushed", "1001 push options", *many, "-ox", "base:topic")
    status, text = site.push("-oissue=\udcff\udcfe", "base:task/q")
    t.ok(status == 1 and "push option issue= is not text in UTF-8" in text, "an option that is no text", text)


# ---- agents --------------------------------------------------------------------------------------------------


def agents(t, place):
    site = Site(place, "agents", identity="bot")
    bot = {"REMOTE_USER": "bot"}
    place.git("config", "agent.identity", "bot", cwd=site.bare)
    site.commit("Work", {"b.txt": "2\n"})
    refused(t, site, "an agent may not write a branch of people", "bot is an agent", "HEAD:main", env=bot)
    refused(t, site, "nor a task branch", "bot is an agent", "HEAD:task/x", env=bot)
    refused(t, site, "nor a tag", "bot is an agent", "HEAD:refs/tags/v9", env=bot)
    refused(t, site, "nor delete a branch of people", "bot is an agent", ":main", env=bot)
    refused(t, site, "nor one among others that it may write", "bot is an agent", "HEAD:agent/x", "HEAD:main", env=bot)
    accepted(t, site, "it may write its own", "HEAD:agent/x", env=bot)
    accepted(t, site, "and results that are no branch", "HEAD:refs/agent/x", env=bot)
    accepted(t, site, "and notes", "HEAD:refs/notes/agent", env=bot)
    accepted(t, site, "a person may do all that", "HEAD:main", "HEAD:task/x", env={"REMOTE_USER": "person"})
    for name in ("GL_USER", "GL_USERNAME", "GITEA_PUSHER_NAME", "AGENT_PUSHER"):
        refused(t, site, f"an agent by {name}", "bot is an agent", "HEAD~:refs/heads/x", env={name: "bot", "REMOTE_USER": "person"})
    oid = site.git("rev-parse", "HEAD")
    accepted(t, site, "an attestation is made", f"HEAD:refs/agent/attest/{oid}", env=bot)
    refused(t, site, "and not replaced", "made once", "--force", f"HEAD~:refs/agent/attest/{oid}", env=bot)
    refused(t, site, "nor taken away", "made once", f":refs/agent/attest/{oid}", env=bot)

    place.write(os.path.join(place.home, ".config/agent/config"), '[apply]\n\tprotect = refuse ci/**\n\tprotect = strip lock.txt\n')
    site.commit("CI", {"ci/run": "1\n"})
    refused(t, site, "the path policy holds for it", "ci/run", "HEAD:agent/y", env=bot)
    accepted(t, site, "and not for people", "HEAD:main")
    site.commit("On top", {"c.txt": "1\n"})
    accepted(t, site, "what people changed before is not its change", "HEAD:agent/y", env=bot)
    site.git("checkout", "-q", "--detach", "HEAD~2")
    site.commit("From an old place", {"d.txt": "1\n"})
    accepted(t, site, "nor is what the default branch has and it has not", "HEAD:agent/z", env=bot)
    site.commit("Lock", {"lock.txt": "1\n"})
    refused(t, site, "what a run would strip is refused", "lock.txt", "HEAD:agent/z", env=bot)
    site.git("reset", "-q", "--hard", "HEAD~")
    site.commit("Key", {"k.pem": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAA" * 20 +
                        "\n-----END OPENSSH PRIVATE KEY-----\n"})
    refused(t, site, "a secret in it is refused", "k.pem", "HEAD:agent/z", env=bot)
    site.git("checkout", "-q", "--orphan", "alone")
    site.commit("Alone")
    refused(t, site, "a history of its own is refused", "shares no commit", "HEAD:agent/alone", env=bot)
    in_between(t, place, site, bot)
    os.unlink(os.path.join(place.home, ".config/agent/config"))


def in_between(t, place, site, bot):
    """What a commit adds and a later one takes away is in the history: each is judged."""
    def fresh(name):
        site.git("checkout", "-q", "-B", name, "origin/main")
    site.git("fetch", "-q", "origin")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAA" * 20 + "\n-----END OPENSSH PRIVATE KEY-----\n"
    fresh("gone")
    culprit = site.commit("Add", {"k.pem": key})
    site.commit("And take away", {"k.pem": None})
    refused(t, site, "a secret that a later commit takes away again", f"commit {culprit[:12]}: ", "HEAD:agent/gone", env=bot)
    refused(t, site, "in a tag, too", "is an agent", "HEAD:refs/tags/gone", env=bot)
    place.git("config", "agent.refs/tags/gone.writable", "true", cwd=site.bare)
    refused(t, site, "which it may write", f"commit {culprit[:12]}: ", "HEAD:refs/tags/gone", env=bot)
    fresh("ci")
    site.commit("Add", {"ci/deploy": "1\n"})
    site.commit("Take away", {"ci/deploy": None, "fine": "1\n"})
    refused(t, site, "a protected path, too", "ci/deploy", "HEAD:agent/ci", env=bot)
    refused(t, site, "in any of several refs", "ci/deploy", "HEAD~2:agent/ci2", "HEAD:agent/ci", env=bot)
    site.commit("A lock", {"lock.txt": "2\n"})
    site.commit("None", {"lock.txt": None})
    refused(t, site, "and what a run would strip", "ci/deploy", "HEAD:agent/ci", env=bot)
    accepted(t, site, "a person may", "HEAD:agent/theirs")
    site.commit("Mine", {"mine": "1\n"})
    accepted(t, site, "what the ref had before is not judged again", "HEAD:agent/theirs", env=bot)
    place.git("config", "agent.refs/heads/agent/all/*.policy", "all", cwd=site.bare)
    refused(t, site, "policy = all: nor may people", "ci/deploy", "HEAD:agent/all/1")
    place.git("config", "agent.refs/heads/agent/none/*.policy", "none", cwd=site.bare)
    accepted(t, site, "policy = none: agents may", "HEAD:agent/none/1", env=bot)

    # merges
    fresh("people")
    site.commit("CI of people", {"ci/run": "2\n", "gone-later": None} if os.path.exists(os.path.join(site.repo, "gone-later"))
                else {"ci/run": "2\n"})
    site.git("checkout", "-q", "-B", "merging", "origin/main")
    site.commit("Work", {"w": "1\n"})
    accepted(t, site, "people change CI", "people:main")
    site.git("merge", "-q", "--no-edit", "people")
    accepted(t, site, "a merge of it is not the agent's change", "HEAD:agent/merge", env=bot)
    site.git("checkout", "-q", "-B", "evil", "people~")
    site.commit("Work", {"w": "2\n"})
    site.git("merge", "-q", "--no-commit", "people")
    site.commit("A merge that adds", {"ci/evil": "1\n"})
    site.commit("Clean", {"ci/evil": None})
    refused(t, site, "what a merge adds by itself is", "ci/evil", "HEAD:agent/evil", env=bot)
    site.git("checkout", "-q", "-B", "rooted", "people")
    other = site.git("commit-tree", "-m", "Another root", site.git("rev-parse", "people^{tree}"))
    site.git("merge", "-q", "--allow-unrelated-histories", "--no-edit", "-s", "ours", other)
    refused(t, site, "a second root", "begins a history of its own", "HEAD:agent/root", env=bot)

    # many
    def many(count):
        stream = "".join(f"commit refs/heads/long\ncommitter a <a@b> {i} +0000\ndata 1\nx\n" +
                         ("from refs/heads/people\n" if i == 1 else "") for i in range(1, count + 1))
        subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=site.repo, input=stream.encode(), check=True, env=place.env)
    many(10001)
    refused(t, site, "more commits than are judged in one push", "in parts", "long:agent/long", env=bot)
    accepted(t, site, "in parts", "long~1:agent/long", env=bot)
    accepted(t, site, "the rest", "long:agent/long", env=bot)


# ---- what was there before -------------------------------------------------------------------------------------


def chained(t, place):
    place.repository({"a.txt": "1\n"}, name="chain")
    hook = place.path("chain.git/hooks/pre-receive")
    place.write(hook, "#!/bin/sh\ncat >seen\nenv | grep ^GIT_QUAR >>seen\nexit $(cat status)\n", 0o755)
    place.write("chain.git/status", "0\n")
    place.agent("hook", "install", place.path("chain.git"))
    site = Site(place, "chain2")
    site.repo, site.bare = place.path("chain"), place.path("chain.git")
    site.git("branch", "base")
    new = site.commit("Mend it")
    accepted(t, site, "a chained hook that agrees", "HEAD:task/x")
    with open(place.path("chain.git/seen")) as f:
        seen = f.read()
    t.ok(f"{ZERO} {new} refs/heads/task/x\n" in seen and "GIT_QUARANTINE_PATH" in seen,
         "it saw what git says, in git's environment", seen)
    refused(t, site, "ours has its say behind it", "no issue", "base:task/y")
    place.write("chain.git/status", "7\n")
    refused(t, site, "one that refuses has the last word", "pre-receive.chained", "HEAD:task/z")
    os.chmod(hook + ".chained", 0o644)
    accepted(t, site, "one that is switched off is left out", "HEAD:task/z")


# ---- the gate ------------------------------------------------------------------------------------------------------


SPY = "env > env.txt; ls -d /proc/[0-9]*/ > /dev/null; grep -E 'QUARANTINE|GIT_DIR|GIT_OBJECT|PUSH_OPTION|REMOTE' env.txt && exit 9; test -f ok"


def gate(t, place):
    limits = place.limits()
    if limits:
        place.write(os.path.join(place.home, ".config/agent/config"), "[jail]\n\tlimits = degraded-ok\n")
    site = Site(place, "gate", {"ok": "1\n", "t.sh": SPY}, test="sh t.sh", gate="refs/heads/main")
    objects = os.path.join(site.bare, "objects")
    if not ROOT_USER:
        site.commit("Green", {"b": "1\n"})
        refused(t, site, "without a uid of its own a test is not run", "would have the uid of whoever starts", "HEAD:main")
        place.git("config", "agent.gateFail", "open", cwd=site.bare)
        text = accepted(t, site, "unless the operator lets in what cannot be tested", "HEAD:main")
        t.contains(text, "WITHOUT a test: agent.gateFail = open", "and it is said")
        return
    first = site.commit("Green", {"b": "1\n"})
    text = accepted(t, site, "a green tree is let in", "-oissue=1", "HEAD:main", env={"REMOTE_USER": "x"})
    t.contains(text, "remote:   test     green: exit status 0", "and the pusher sees it")
    before = digest_tree(objects)
    site.commit("Red", {"ok": None})
    refused(t, site, "a red one is not", "its tests are red", "HEAD:main")
    t.equal(differences(before, digest_tree(objects)), [], "and leaves no object behind")
    t.equal(os.listdir(os.path.join(place.state, "tmp")), [], "nor a file of ours")
    t.equal(len(os.listdir(os.path.join(place.state, "store/base"))) <= 2 * 2, True, "nor a layer")
    site.git("branch", "topic")
    accepted(t, site, "on another branch it is nobody's concern", "topic:topic")
    refused(t, site, "that it was pushed elsewhere changes nothing", "its tests are red", "topic:main")
    site.git("reset", "-q", "--hard", first)
    site.commit("Red, and says that it is not", {"ok": None, ".agent/config": '[test]\n\tcommand = "true"\n'})
    refused(t, site, "the pushed configuration has no say", "its tests are red", "HEAD:main")
    site.git("reset", "-q", "--hard", first)
    site.commit("Other")
    site.git("commit", "-q", "--amend", "--allow-empty", "-m", "Forced")
    place.git("config", "receive.denyNonFastForwards", "false", cwd=site.bare)
    accepted(t, site, "a forced push is tested as any other", "--force", "HEAD:main")
    site.git("tag", "-am", "tag", "v1", "topic")
    place.git("config", "--add", "agent.gate", "refs/tags/v*", cwd=site.bare)
    refused(t, site, "a tag is tested as its commit", "refs/tags/v1: its tests are red", "refs/tags/v1")
    place.git("config", "--add", "agent.gate", "refs/heads/rel/*", cwd=site.bare)
    text = accepted(t, site, "several refs of one tree", "HEAD:rel/1", "HEAD:rel/2", "HEAD:rel/3")
    t.equal(text.count("green"), 1, "are tested once")
    refused(t, site, "one red ref keeps all out", "refs/heads/rel/5: its tests are red", "HEAD:rel/4", "topic:rel/5")
    accepted(t, site, "deleting a gated ref", ":rel/1")
    accepted(t, site, "a new commit of a tree that is in", "HEAD:rel/6")

    sections(t, place, site, first)
    site.git("checkout", "-q", "-B", "slow", first)
    site.commit("Slow", {"t.sh": "sleep 60\n"})
    place.git("config", "agent.gateTime", "1", cwd=site.bare)
    refused(t, site, "a test that takes too long", "not done within 1 s (agent.gateTime)", "--force", "HEAD:main")
    place.git("config", "agent.gateFail", "open", cwd=site.bare)
    text = accepted(t, site, "is let in where the operator says so", "HEAD:rel/7")
    t.contains(text, "WITHOUT a test: agent.gateFail = open", "and it is said")
    place.git("config", "agent.gateTime", "60", cwd=site.bare)  # which a red test needs on a busy machine, too
    site.git("reset", "-q", "--hard", "topic")
    refused(t, site, "but a red one never", "its tests are red", "--force", "HEAD:main")
    t.equal(place.leftovers(), [], "nothing is left of any of them")

    concurrent(t, place)
    unborn(t, place)


def sections(t, place, site, green):
    """Rules of their own for some refs: [agent "PATTERN"]."""
    def rule(pattern, key, value):
        place.git("config", f"agent.{pattern}.{key}", value, cwd=site.bare)
    site.git("checkout", "-q", "-B", "red", green)
    site.commit("Red", {"ok": None})
    rule("refs/heads/main", "gate", "false")
    rule("refs/heads/own/*", "gate", "true")
    rule("refs/heads/own/*", "gateTest", "test -f b")
    accepted(t, site, "a section takes a ref out of the gate", "--force", "red:main")
    text = accepted(t, site, "and another in, with a test of its own", "red:own/1")
    t.contains(text, "green: exit status 0", "which was run")
    site.commit("Red there", {"b": None, "ok": "1\n"})
    refused(t, site, "and which alone decides", "refs/heads/own/2: its tests are red", "HEAD:own/2")
    status, text = site.push("HEAD:rel/own", "red~:rel/own2", "red~:own/3", "HEAD:own/4")
    t.ok(status == 1 and text.count("test     green") == 1 and "its tests are red" in text and "own/3" not in site.refs(),
         "refs of several rules: each by its own, and in whole or not at all", text)
    rule("refs/heads/late/*", "gate", "true")
    rule("refs/heads/late/*", "gateTest", "sleep 30")
    rule("refs/heads/late/*", "gateTime", "1")
    rule("refs/heads/late/open/*", "gateFail", "open")
    refused(t, site, "a section's time, closed", "within 1 s (agent.gateTime)", "HEAD:late/1")
    t.contains(accepted(t, site, "a section's time, open", "HEAD:late/open/1"), "WITHOUT a test", "is said")
    refused(t, site, "one of each: the closed one keeps both out", "not let in", "HEAD:late/open/2", "HEAD:late/2")
    place.git("branch", "-f", "rules", green, cwd=site.bare)
    rule("refs/heads/by/*", "gate", "true")
    rule("refs/heads/by/*", "configRef", "refs/heads/rules")
    accepted(t, site, "a section's own trusted ref", "HEAD:by/1")
    rule("refs/heads/by/*", "configRef", "refs/heads/nowhere")
    refused(t, site, "which must be there", "refs/heads/nowhere", "HEAD:by/2")
    place.git("config", "--unset", "agent.refs/heads/main.gate", cwd=site.bare)


def concurrent(t, place):
    site = Site(place, "crowd", {"ok": "1\n"}, test="sh -c 'sleep 0.2; test -f ok'", gate="refs/heads/*")
    results = {}
    site.git("checkout", "-q", "-b", "good")
    site.commit("Good", {"g": "1\n"})
    site.git("checkout", "-q", "-b", "bad")
    site.commit("Bad", {"ok": None})

    def one(i):
        results[i] = site.push(f"{'good' if i % 2 else 'bad'}:r{i}")[0]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal(results, {i: 0 if i % 2 else 1 for i in range(6)}, "six pushes at once, each with its own verdict")
    t.equal(place.git("fsck", cwd=site.bare, check=False), "", "and the repository is sound")
    child = subprocess.Popen(["git", "push", "-q", "origin", "good:killed"], cwd=site.repo, env=place.env,
                             stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.15)  # somewhere in the test; wherever it falls, nothing may be left
    os.killpg(child.pid, 9)
    child.wait()
    t.equal(place.leftovers(), [], "a pusher that is killed leaves no process")


def unborn(t, place):
    site = Site(place, "unborn", gate="refs/heads/*")
    place.git("update-ref", "-d", "refs/heads/main", cwd=site.bare)
    refused(t, site, "no default branch: nothing says how to test", "not let in (agent.gateFail = closed)", "HEAD:main")
    refused(t, site, "what lets the first push in is said", "let the first push in, with git config agent.gateFail open on the server", "HEAD:main")
    place.git("config", "agent.gateFail", "open", cwd=site.bare)
    accepted(t, site, "which does", "HEAD:main")
    place.git("config", "--unset", "agent.gateFail", cwd=site.bare)
    site = Site(place, "silent", gate="refs/heads/*")
    refused(t, site, "no test command", "agent.gateTest on the server", "HEAD:x")
    site = Site(place, "ref", {"ok": "1\n"}, test="false", gate="refs/heads/*", configRef="refs/heads/rules")
    refused(t, site, "a trusted ref that is not there", "refs/heads/rules", "HEAD:x")
    site.commit("Rules", {".agent/config": '[test]\n\tcommand = "true"\n'})
    place.git("fetch", "-q", site.repo, "HEAD:rules", cwd=site.bare)
    accepted(t, site, "the operator names the ref that says how", "main:x")


# ---- over the network -------------------------------------------------------------------------------------------------


def gate_over(t, place, what, site, **more):
    """The gate behind a server, on a branch that an agent may write."""
    for key, value in (("gate", "true"), ("gateTest", "test -f ok")):
        place.git("config", f"agent.refs/heads/agent/gated/*.{key}", value, cwd=site.bare)
    if not ROOT_USER:
        refused(t, site, f"{what}: the gate, where it has no uid to give", "would have the uid of whoever starts them", "HEAD:agent/gated/1", **more)
        return
    refused(t, site, f"{what}: the gate, red", "its tests are red", "HEAD:agent/gated/1", **more)
    site.commit("Green", {"ok": "1\n"})
    text = accepted(t, site, f"{what}: the gate, green", "HEAD:agent/gated/1", **more)
    t.contains(text, "remote:   test     green: exit status 0", f"{what}: which is told")


def over_http(t, place):
    if gitservers.missing():
        t.skip("smart HTTP", "no server: " + ", ".join(gitservers.missing()))
        return
    site = Site(place, "http", identity="bot")
    place.git("config", "http.receivepack", "true", cwd=site.bare)
    with gitservers.HttpsServer(place.path("https"), root=place.dir, user="bot", token="t0ken") as server:
        env = {"GIT_SSL_CAINFO": server.authority.ca}
        url = f"https://%s:t0ken@localhost:{server.port}/git/http.git"
        bot, person = url % "bot", url % "x-access-token"
        site.commit("Mend it")
        refused(t, site, "HTTP: the server's user name is the identity", "bot is an agent", "HEAD:task/h", remote=bot, env=env)
        accepted(t, site, "HTTP: an agent's own branch", "HEAD:agent/h", remote=bot, env=env)
        accepted(t, site, "HTTP: a person's task", "HEAD:task/h", remote=person, env=env)
        refused(t, site, "HTTP: a task without an issue", "no issue", "base:task/i", remote=person, env=env)
        if place.limits():
            place.write("https/.config/agent/config", "[jail]\n\tlimits = degraded-ok\n")
        gate_over(t, place, "HTTP", site, remote=bot, env=env)


def over_ssh(t, place):
    reason = gitservers.no_login() or (gitservers.missing() and "no server: " + ", ".join(gitservers.missing()))
    if reason:
        t.skip("SSH", reason)
        return
    site = Site(place, "ssh", identity="bot")
    key = place.path("key")
    gitservers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with open(key + ".pub") as f:
        public = f.read()
    forced = 'command="AGENT_PUSHER=bot HOME=%s AGENT_STATE_DIR=%s git-shell -c \\"$SSH_ORIGINAL_COMMAND\\"",restrict ' % (place.home, place.state)
    with gitservers.SshServer(place.path("sshd"), public) as server:
        place.write("known", server.known_hosts())
        url = f"ssh://{server.user}@localhost:{server.port}{site.bare}"
        env = {"GIT_SSH_COMMAND": f"ssh -F none -i {key} -o UserKnownHostsFile={place.path('known')} -o IdentitiesOnly=yes"}
        site.commit("Mend it")
        accepted(t, site, "SSH: a person's task", "HEAD:task/s", remote=url, env=env)
        refused(t, site, "SSH: a task without an issue", "no issue", "base:task/i", remote=url, env=env)
        server.authorize(forced + public)
        refused(t, site, "SSH: a key that the operator gave to an agent", "bot is an agent", "HEAD:task/t", remote=url, env=env)
        accepted(t, site, "SSH: an agent's own branch", "HEAD:agent/s", remote=url, env=env)
        gate_over(t, place, "SSH", site, remote=url, env=env)


GITOLITE = "/usr/share/gitolite3/gitolite-shell"


def over_gitolite(t, place):
    reason = (gitservers.no_login() or (gitservers.missing() and "no server: " + ", ".join(gitservers.missing())) or
              (not os.path.exists(GITOLITE) and "gitolite is not installed"))
    if reason:
        t.skip("gitolite", reason)
        return
    home = place.path("gitolite")
    os.mkdir(home)
    keys, lines = {}, ""
    for name in ("admin", "bot"):
        keys[name] = place.path("gl-" + name)
        gitservers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys[name])
        with open(keys[name] + ".pub") as f:
            lines += f'command="HOME={home} AGENT_STATE_DIR={place.state} {GITOLITE} {name}",restrict ' + f.read()
    gitservers.run("gitolite", "setup", "-pk", keys["admin"] + ".pub", env={**place.env, "HOME": home})
    conf = os.path.join(home, ".gitolite/conf/gitolite.conf")
    with open(conf) as f:
        text = f.read()
    place.write(conf, text.replace("gl-admin", "admin") + "\nrepo project\n    RW+ = @all\n    - refs/heads/closed = @all\n")
    gitservers.run("gitolite", "compile", env={**place.env, "HOME": home})
    bare = os.path.join(home, "repositories/project.git")
    site = Site(place, "gl")
    site.bare = bare
    place.git("fetch", "-q", site.repo, "base:refs/heads/master", cwd=bare)
    place.git("symbolic-ref", "HEAD", "refs/heads/master", cwd=bare)
    before = os.readlink(os.path.join(bare, "hooks/update"))
    place.git("config", "agent.identity", "bot", cwd=bare)
    t.equal(place.agent("hook", "install", bare).status, 0, "gitolite: install")
    with gitservers.SshServer(place.path("gl-sshd"), lines) as server:
        place.write("gl-known", server.known_hosts())
        url = f"ssh://{server.user}@localhost:{server.port}/project"

        def as_user(name):
            return {"GIT_SSH_COMMAND": f"ssh -F none -i {keys[name]} -o UserKnownHostsFile={place.path('gl-known')} "
                                       "-o IdentitiesOnly=yes"}
        site.commit("Mend it")
        accepted(t, site, "gitolite: a person's task", "HEAD:task/g", remote=url, env=as_user("admin"))
        refused(t, site, "gitolite: a task without an issue", "no issue", "base:task/i", remote=url, env=as_user("admin"))
        refused(t, site, "gitolite: its user name is the identity", "bot is an agent", "HEAD:task/h", remote=url, env=as_user("bot"))
        accepted(t, site, "gitolite: an agent's own branch", "HEAD:agent/g", remote=url, env=as_user("bot"))
        if place.limits():
            place.write("gitolite/.config/agent/config", "[jail]\n\tlimits = degraded-ok\n")
        gate_over(t, place, "gitolite", site, remote=url, env=as_user("bot"))
    t.equal(os.readlink(os.path.join(bare, "hooks/update")), before, "gitolite: its own hook is as it was")
    gitservers.run("gitolite", "setup", env={**place.env, "HOME": home})
    checked = place.agent("hook", "check", bare)
    wrong = [line for line in checked.out.splitlines() if line.startswith("wrong")]
    t.ok(wrong == [] if ROOT_USER else len(wrong) == 1 and "a uid of their own" in wrong[0], "gitolite: and its set-up leaves ours", checked.text)


def main():
    with Tap() as t, Place() as place:
        os.chmod(place.dir, 0o755)
        for part in (installing, checking, tasks, bad_input, agents, chained, over_http, over_ssh, over_gitolite, gate):
            part(t, place)


main()
