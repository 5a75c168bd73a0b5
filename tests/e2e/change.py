#!/usr/bin/python3
# deadline: 300
# sanitizers: yes
"""agent run --command: a command in the jail makes the change, no model is asked. What it leaves in the work tree is
hostile: each kind of it is taken, left out or refused, with both ways to lay out the work tree."""
import base64
import hashlib
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import AGENT, Place, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

FILES = {
    "a.c": "int main(void) { return 0; }\n",
    "b.txt": "one\ntwo\n",
    "dir/one": "1\n",
    "dir/two": "2\n",
    "dir/deep/three": "3\n",
    "tool.sh": "#!/bin/sh\nexit 0\n",
    ".gitignore": "build/\n*.o\n/only-root\n!keep.o\ntracked-dir/\n",
    "tracked-dir/kept": "tracked though ignored\n",
    ".gitattributes": "*.crlf eol=crlf\n*.id ident\n*.lfs filter=lfs\n*.utf16 working-tree-encoding=UTF-16LE\n",
    "win.crlf": "a\nb\n",
    "id.id": "$Id$\nx\n",
    "big.lfs": "pointer\n",
    "wide.utf16": "wide\n".encode("utf-16-le"),
}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Case:
    def __init__(self, place, repo, *options):
        self.place, self.repo, self.options = place, repo, options

    def run(self, command, *more):
        return self.place.agent("run", "-m", "Change by command", "--dry-run", "--no-status", "--command", command,
                                *self.options, *more, cwd=self.repo)

    def changed(self):
        """{path: (mode, bytes or None)} of the newest run, from the objects."""
        tree = self.place.artefact("round-1/tree.json")
        objects = {**self.place.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(self.place.run_dir(), "objects")}
        found = {}
        for change in tree["changes"]:
            oid = change["new_oid"]
            data = oid and subprocess.run(["git", "cat-file", "blob", oid], cwd=self.repo, env=objects,
                                          stdout=subprocess.PIPE, check=True).stdout
            found[change["path"]] = (change["new_mode"], data or None) if oid else None
        return found


# command: what is changed then, {path: None (deleted) or (mode, bytes)}; a text: refused with it; None: nothing to do
TAKEN = [
    ("an edit, a new file, a removed one",
     "sed -i s/0/1/ a.c; echo new > new.txt; rm b.txt",
     {"a.c": ("100644", b"int main(void) { return 1; }\n"), "new.txt": ("100644", b"new\n"), "b.txt": None}),
    ("the same bytes again, a touched time, are no change", "cp a.c x; cat x > a.c; rm x; touch b.txt", None),
    ("an executable bit comes and goes; other modes do not count",
     "chmod 700 a.c; chmod 600 tool.sh; chmod 4755 b.txt; chmod 000 dir/one",
     {"a.c": ("100755", b"int main(void) { return 0; }\n"), "tool.sh": ("100644", b"#!/bin/sh\nexit 0\n"),
      "b.txt": ("100755", b"one\ntwo\n")}),
    ("files and directories without any right are read all the same",
     "mkdir -p n/m; echo x > n/m/f; chmod 000 n/m/f n/m n; echo y > dir/new; chmod 000 dir; chmod 000 .",
     {"n/m/f": ("100644", b"x\n"), "dir/new": ("100644", b"y\n")}),
    ("ignored files are not taken, tracked ones below ignored directories are",
     "mkdir -p build dir/build; echo x > build/x; echo x > dir/build/x; echo x > x.o; echo x > dir/y.o; echo x > only-root;"
     "echo x > dir/only-root; echo x > dir/keep.o; echo x > tracked-dir/new; echo more >> tracked-dir/kept",
     {"dir/only-root": ("100644", b"x\n"), "dir/keep.o": ("100644", b"x\n"),
      "tracked-dir/kept": ("100644", b"tracked though ignored\nmore\n")}),
    ("ignore files that the command made count",
     "mkdir cache; echo '*' > cache/.gitignore; echo x > cache/x; echo dir/new >> .gitignore; echo x > dir/new",
     {".gitignore": ("100644", (FILES[".gitignore"] + "dir/new\n").encode())}),
    ("a directory is removed, and made again with something else",
     "rm -r dir; mkdir dir; echo 4 > dir/four", {"dir/one": None, "dir/two": None, "dir/deep/three": None,
                                                  "dir/four": ("100644", b"4\n")}),
    ("a directory becomes a file, a file a directory",
     "rm -r dir; echo f > dir; rm a.c; mkdir a.c; echo g > a.c/g",
     {"dir": ("100644", b"f\n"), "dir/one": None, "dir/two": None, "dir/deep/three": None, "a.c": None,
      "a.c/g": ("100644", b"g\n")}),
    ("a directory is renamed", "mv dir moved",
     {"dir/one": None, "dir/two": None, "dir/deep/three": None, "moved/one": ("100644", b"1\n"),
      "moved/two": ("100644", b"2\n"), "moved/deep/three": ("100644", b"3\n")}),
    ("hard links are files of their own", "ln a.c dir/same; ln a.c dir/again",
     {"dir/same": ("100644", FILES["a.c"].encode()), "dir/again": ("100644", FILES["a.c"].encode())}),
    ("a sparse file within the limits is its bytes", "truncate -s 100000 sparse",
     {"sparse": ("100644", b"\0" * 100000)}),
    ("an empty directory is nothing", "mkdir -p e/f/g", None),
    ("sockets and FIFOs are left out", "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")';"
     "echo x > real", {"real": ("100644", b"x\n")}),
    ("names in any language, with blanks, quotes and line ends are names",
     "printf x > 'a b'; printf x > 'ü'; printf x > \"q'\\\"\"",
     {"a b": ("100644", b"x"), "ü": ("100644", b"x"), "q'\"": ("100644", b"x")}),
    ("line ends and keywords are stored as git would",
     "printf 'c\\r\\n' >> win.crlf; echo y >> id.id; printf 'n\\r\\n' > new.crlf",
     {"win.crlf": ("100644", b"a\nb\nc\n"), "id.id": ("100644", b"$Id$\nx\ny\n"), "new.crlf": ("100644", b"n\n")}),
    ("what is stored through a filter is not changed", "echo x >> big.lfs", "big.lfs"),
    ("nor what has an encoding of its own", "echo x >> wide.utf16", "wide.utf16"),
    ("but may be touched", "touch big.lfs wide.utf16 win.crlf id.id", None),
    ("a new link is refused", "ln -s /etc/passwd evil", "symbolic link"),
    ("a file that becomes a link is refused", "rm a.c; ln -s /etc/passwd a.c", "symbolic link"),
    ("a file that becomes a FIFO is refused", "rm a.c; mkfifo a.c", "no file"),
    ("a changed link is refused", "ln -sfn dir/two link", "symbolic link"),
    ("a removed link is refused", "rm link", "symbolic link"),
    ("a link that is made again is no change", "rm link; ln -s dir/one link", None),
    ("a repository in the tree is refused",
     "mkdir -p sub/.git/hooks; printf '[core]\\n\\tfsmonitor = touch /tmp/owned\\n' > sub/.git/config; echo x > sub/f", "sub"),
    ("so is a .git file", "mkdir sub; echo 'gitdir: /etc' > sub/.git", "sub"),
    ("and one in other letters", "mkdir sub; mkdir sub/.GIT; echo x > sub/.GIT/config", "sub"),
    ("but not in an ignored directory", "mkdir -p build/sub/.git; echo x > build/sub/.git/config; echo x > real",
     {"real": ("100644", b"x\n")}),
    ("the root's .git is nobody's", "mkdir -p .git/hooks; echo x > .git/config; echo x > real",
     {"real": ("100644", b"x\n")}),
    ("a name that no checkout could have is refused", "printf x > \"$(printf 'a\\nb')\"", "a"),
    ("names that differ in case alone are refused", "echo x > A.c", "A.c"),
    ("a file that is too large is refused unread", "truncate -s 3000000000 huge", "huge"),
    ("but not when it is ignored", "truncate -s 3000000000 huge.o; echo x > real", {"real": ("100644", b"x\n")}),
    ("too many files are refused", "for i in $(seq 250); do echo $i > f$i; done", "apply.maxFiles"),
    ("many ignored ones cost nothing", "mkdir build; cd build; python3 -c 'for i in range(50000): open(str(i), \"w\")';"
     "cd ..; echo x > real", {"real": ("100644", b"x\n")}),
    ("directories that are nested too deep are refused",
     "python3 -c 'import os\nfor i in range(150):\n os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"f\", \"w\")'", "deep"),
    ("unless they are ignored", "mkdir build; python3 -c 'import os\nos.chdir(\"build\")\nfor i in range(3000):\n"
     " os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"f\", \"w\")'; echo x > real", {"real": ("100644", b"x\n")}),
    ("a key in the change is refused", "printf '%s\\n' '-----BEGIN OPENSSH PRIVATE KEY-----' 'b3BlbnNzaC1rZXktdjEAAAAABG5v' > k",
     "secret"),
    ("a workflow is taken and named for a review", "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml",
     {".github/workflows/x.yml": ("100644", b"on: push\n")}),
]


def try_all(t, case, how, cases):
    for name, command, expected in cases:
        result = case.run(command)
        name = f"{how}: {name}"
        if expected is None:
            t.ok(result.status == 3 and "nothing to do" in result.err, name, result.text)
        elif isinstance(expected, str):
            t.ok(result.status == 1 and expected in result.err, name, result.text)
        elif t.equal(result.status, 0, name, result.text):
            t.equal(case.changed(), expected, f"{name}: exactly this")


WRITES = "for f in win.crlf new.crlf b.txt new.txt dir/one dir/new new.bin; do mkdir -p $(dirname $f); " \
    "printf 'x\\r\\ny $Id: 12 $\\r\\n' >> $f; done; printf 'a\\0b\\r\\n' >> new.bin; "
# what the command does to the attributes of what it writes
ATTRIBUTES = [
    ("nothing", ":"),
    ("text for all", "echo '* text' >> .gitattributes"),
    ("text=auto for all", "echo '* text=auto' > .gitattributes"),
    ("no text at all", "echo '* -text' >> .gitattributes"),
    ("line ends and keywords, by directory", "echo '*.crlf -text' > .gitattributes; echo '* eol=lf ident' > dir/.gitattributes"),
    ("a file of rules in a new directory", "mkdir -p new; echo '* text ident' > new/.gitattributes; printf 'a\\r\\n$Id: 1 $' > new/f"),
    ("an ignored file of rules", "echo .gitattributes >> dir/.gitignore; echo '* text ident' > dir/.gitattributes"),
    ("a word that is none, and its old name", "echo '* text=maybe crlf=input' > .gitattributes"),
    ("a macro", "printf '[attr]lines text=auto eol=crlf\\n* lines\\nb.txt !text !eol\\n' > .gitattributes"),
    ("rules made a directory", "rm -f dir/.gitattributes; mkdir -p dir/.gitattributes; echo '* text' > dir/.gitattributes/x"),
    ("a directory made anew", "rm -r dir; mkdir dir; echo '* text' > dir/.gitattributes"),
    ("a filter taken away", "echo '*.txt text' > .gitattributes; printf 'x\\r\\n' >> big.lfs"),
]


def against_git(t, place, case, how):
    """What the commit has is what git add --all makes of the same work tree."""
    for name, rules in ATTRIBUTES:
        command = f"{rules}; {WRITES}"
        result = case.run(command)
        if not t.equal(result.status, 0, f"{how}: attributes: {name}: taken", result.text):
            continue
        clone = place.path("clone")
        subprocess.run(["git", "clone", "-q", repo, clone], check=True)
        # files that are as new as the index are looked into, and stored anew if the rules for them changed
        subprocess.run("git ls-files -z | xargs -0 touch -h -d 2020-01-01; git update-index -q --refresh", shell=True, cwd=clone, check=True)
        subprocess.run(["sh", "-c", command], cwd=clone, check=True)
        subprocess.run(["git", "-c", "core.safecrlf=false", "add", "-A"], cwd=clone, check=True)
        expected = {}
        for line in subprocess.run(["git", "diff", "--cached", "--raw", "--no-abbrev", "--no-renames"], cwd=clone, check=True,
                                   capture_output=True, text=True).stdout.splitlines():
            (_, mode, _, oid, kind), path = line.split("\t")[0].split(), line.split("\t")[1]
            expected[path] = None if kind == "D" else (
                mode, subprocess.run(["git", "cat-file", "blob", oid], cwd=clone, check=True, capture_output=True).stdout)
        t.equal(case.changed(), expected, f"{how}: attributes: {name}: stored as git add stores it")
        subprocess.run(["rm", "-rf", clone], check=True)


with Tap() as t, Place() as place:
    repo = place.repository(FILES, test="true", config="", remote=True)
    place.git("add", "-f", "tracked-dir/kept", cwd=repo)
    os.symlink("dir/one", os.path.join(repo, "link"))
    place.git("add", "link", cwd=repo)
    place.git("commit", "-q", "--amend", "-m", "Begin", cwd=repo)
    place.git("push", "-qf", "origin", "main", cwd=repo)
    base = place.git("rev-parse", "HEAD", cwd=repo)

    # ---- a whole run ----
    command = "sed -i s/0/1/ a.c && printf '%s\\n' \"$HOME\" \"$ANTHROPIC_API_KEY\" > seen.txt"
    place.env["ANTHROPIC_API_KEY"] = "a-planted-key-0123456789"
    result = place.agent("run", "-m", "Return one", "--command", command, cwd=repo)
    if not t.equal(result.status, 0, "a command's change is tested and published", result.text):
        sys.exit(1)
    branches = place.branches(repo)
    commit = next(iter(branches.values()))
    message = place.git("log", "-1", "--format=%B", commit, cwd=repo + ".git")
    t.contains(message, f"Agent-Command: {command}", "the commit says which command made it")
    t.contains(message, f"Agent-Command-Digest: sha256:{digest(command)}", "and its digest")
    t.ok("Agent-Model" not in message, "and names no model", message)
    t.equal(place.git("show", f"{commit}:seen.txt", cwd=repo + ".git"), "/home/agent", "no key came into the jail")
    changes = place.artefact("round-1/changes.json")
    t.equal((changes["by"], changes["command"], changes["network"], "model" in changes), ("command", command, "none", False),
            "the record says so too")
    t.ok(not os.path.exists(os.path.join(place.run_dir(), "round-1/conversation.jsonl")), "no conversation was held")
    t.equal(json.load(open(os.path.join(place.run_dir(), "request.json")))["change"],
            {"by": "command", "command": command, "network": "none"}, "the request names the command")
    shown = place.agent("show", place.runs()[-1])
    t.contains(shown.out, command.split(" &&")[0], "agent show tells the command")
    replayed = place.agent("replay", place.runs()[-1])
    t.ok(replayed.status == 0 and "same tree" in replayed.out and "not run again" in replayed.out,
         "agent replay makes the same tree of the recorded change, and says what it did not do", replayed.text)
    audited = place.agent("audit", place.runs()[-1])
    t.ok(audited.status == 0 and "agent-change" in audited.out and "agent-model" not in audited.out,
         "agent audit lists the row", audited.text)

    t.equal(place.artefact("round-1/verdict.json")["change_by"], "command", "the verdict says who made what it judges")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path("key")], check=True)
    result = place.agent("run", "-m", "Return one, signed", "--command", command, "-c", f"publish.signingKey=file:{place.path('key')}",
                         cwd=repo)
    if t.equal(result.status, 0, "signed and attested", result.text):
        payload = place.artefact("publish/receipt.json")["attestation"]["payload"]
        facts = json.loads(base64.b64decode(payload))["predicate"]["agent"]
        t.equal((facts.get("command"), "model" in facts),
                ({"text": command, "digest": {"sha256": digest(command)}, "network": "none"}, False),
                "the attestation names the command and no model")

    # ---- what goes wrong ----
    before = place.branches(repo)
    result = place.agent("run", "-m", "x", "--command", "echo first; echo last words; exit 7", cwd=repo)
    t.ok(result.status == 1 and "exit status 7" in result.err and "last words" in result.err,
         "a command that fails: 1, with its last lines", result.text)
    t.ok(not os.path.exists(os.path.join(place.run_dir(), "round-1/changes.json")), "its change is dropped")
    replayed = place.agent("replay", place.runs()[-1])
    t.ok(replayed.status == 2 and "not run again" in replayed.err, "and there is nothing to replay", replayed.text)
    result = place.agent("run", "-m", "x", "--command", "true", cwd=repo)
    t.ok(result.status == 3 and "nothing to do" in result.err, "nothing changed: 3", result.text)
    again = place.agent("resume", place.runs()[-1])
    t.equal(again.status, 3, "and 3 again when it is resumed", again.text)
    result = place.agent("run", "-m", "x", "--command", "no-such-program-here x", cwd=repo)
    t.ok(result.status == 2 and "no-such-program-here" in result.err, "a command that is not there: 2", result.text)
    result = place.agent("run", "-m", "x", "--command", "sleep 100", "-c", "command.timeout=1", cwd=repo)
    t.ok(result.status == 1 and "timeout" in result.err, "one that does not end is ended", result.text)
    result = place.agent("run", "-m", "x", "--command", "sed -i s/0/2/ a.c", "--test", "false", cwd=repo)
    t.ok(result.status == 1 and "red" in result.err, "red tests: 1", result.text)
    t.ok(not os.path.exists(os.path.join(place.run_dir(), "round-2")), "after one round: it would change the same again")
    result = place.agent("run", "-m", "x", "--command", "echo x > AGENTS.md", "-c", "apply.protect=refuse AGENTS.md", cwd=repo)
    t.ok(result.status == 1 and "AGENTS.md" in result.err, "the path policy holds for commands", result.text)
    token = "gh" + "p_" + "A1b2" * 9
    result = place.agent("run", "-m", "x", "--command", f"echo x > x # {token}", cwd=repo)
    t.ok(result.status == 1 and "GitHub token" in result.err and token not in result.err,
         "a secret in the command is not published with it", result.text)
    for bad in (["--command", " "], ["--command-network", "none"], ["--command", "true", "--command-network", "all"]):
        t.equal(place.agent("run", "-m", "x", *bad, cwd=repo).status, 2, f"{bad}: 2")
    result = place.agent("run", "-m", "x", "--command", "true", "--command-network", "registries", cwd=repo)
    t.ok(result.status == 2 and "command.network" in result.err, "no network without the operator's word", result.text)
    t.equal(place.branches(repo), before, "nothing of all that was published")

    # ---- killed, and resumed ----
    known = set(place.runs())
    child = place.start("run", "-m", "Return three", "--command", "sed -i s/0/3/ a.c; echo ran; sleep 3", cwd=repo)
    wait_for(lambda: [run for run in place.runs() if run not in known
                      and os.path.isdir(os.path.join(place.run_dir(run), "round-1/command"))], what="the command's step")
    child.send_signal(signal.SIGKILL)
    child.wait()
    # a child on its way into its program holds the lock for an instant longer
    result = wait_for(lambda: (r := place.agent("resume", place.runs()[-1])).status != 3 and r, what="the lock of a killed one")
    t.equal(result.status, 0, "a run whose agent was killed is resumed", result.text)
    t.equal(len(place.branches(repo)), len(before) + 1, "and published once")

    # ---- every kind of change ----
    try_all(t, Case(place, repo), "overlay", TAKEN)
    try_all(t, Case(place, repo, "-c", "jail.layers=copy"), "copy", TAKEN)
    against_git(t, place, Case(place, repo), "overlay")
    against_git(t, place, Case(place, repo, "-c", "jail.layers=copy"), "copy")
    result = Case(place, repo).run("echo '*.txt filter=lfs' > .gitattributes; echo x >> b.txt")
    t.ok(result.status == 1 and "b.txt" in result.err, "a filter that the command sets is not passed by", result.text)
    try_all(t, Case(place, repo, "-c", "test.git=snapshot"), "with git", [
        ("git is there, and what the command does to it is not taken",
         "git config core.fsmonitor 'sh -c \"touch /tmp/owned\"'; git commit -qam x --allow-empty; git ls-files | wc -l > count",
         {"count": ("100644", f"{len(FILES) + 2}\n".encode())})])
    t.equal(place.git("status", "--porcelain", "--ignored", cwd=repo), "", "the work tree of the user is as it was")
    t.equal(place.git("rev-parse", "HEAD", cwd=repo), base, "and so is its commit")
