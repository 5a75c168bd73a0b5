#!/usr/bin/python3
"""What agent-apply edit refuses, tried on the program itself: paths that leave the tree or name git's own
files, links and submodules, caps, malformed lists. And that the repository is not touched (law L8): not one byte, name or
time stamp of it, nor anything beside it. Run as root it does all of it again as an ordinary user."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))

from stage import BUILD, FD_OUT, Stage, row_uid
from tap import Tap

FD_CHANGES, FD_PATCH = 10, 13
UID_EDIT = row_uid("EDIT") if os.geteuid() == 0 else -1

GIT_ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
           "GIT_COMMITTER_EMAIL": "t@example.org"}


def git(*args, cwd=None, data=None):
    done = subprocess.run(["git", *args], cwd=cwd, env=GIT_ENV, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"git {args}: {done.stderr.decode()}")
    return done.stdout.decode().strip()


def snapshot(top):
    """Every name below top with kind, size, time stamp and content."""
    seen = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            digest = ""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    digest = hashlib.sha256(f.read()).hexdigest()
            seen[path] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_ino, digest)
    return seen


class Scene:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="agent-tree-")
        os.chmod(self.dir, 0o755)
        self.work = os.path.join(self.dir, "work")
        git("init", "-q", "-b", "main", self.work)
        for name, text in {"a.txt": "1\n2\n3\n", "d/b.txt": "b\n", "README.md": "x\n", ".gitattributes": "*.big filter=lfs\n",
                           "x.big": "pointer\n", "run.sh": "#!/bin/sh\n"}.items():
            path = os.path.join(self.work, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        os.chmod(os.path.join(self.work, "run.sh"), 0o755)
        os.symlink("../outside", os.path.join(self.work, "link"))
        os.symlink("/etc/passwd", os.path.join(self.work, "passwd"))
        git("add", "-A", cwd=self.work)
        git("update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",sub", cwd=self.work)
        # what the repository's own configuration says must have no effect
        with open(os.path.join(self.work, ".git/config"), "a", encoding="utf-8") as f:
            f.write(f"[core]\n\tfsmonitor = touch {self.dir}/PWNED\n\thooksPath = {self.dir}\n[include]\n\tpath = /nonexistent\n")
        git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "base", cwd=self.work)
        self.gitdir = os.path.join(self.work, ".git")
        self.commit = git("rev-parse", "HEAD", cwd=self.work)
        self.tree = git("rev-parse", "HEAD^{tree}", cwd=self.work)
        self.count = 0

    def edit(self, edits, limits=None, raw=None, **members):
        """Runs agent-apply edit. Gives status, error message, tree.json, patch, object directory."""
        self.count += 1
        objects = os.path.join(self.dir, f"objects{self.count}")
        os.mkdir(objects)
        if os.geteuid() == 0:
            os.chown(objects, UID_EDIT, UID_EDIT)
        changes = {"kind": "changes", "version": 1, "base_tree": self.tree, "model": "m", "title": "T", "body": "",
                   "edits": edits, **members}
        files = {FD_OUT: b"", FD_PATCH: b"", FD_CHANGES: raw if raw is not None else json.dumps(changes).encode()}
        handles = {}
        for number, data in files.items():
            handles[number] = tempfile.TemporaryFile()
            handles[number].write(data)
            handles[number].flush()
            handles[number].seek(0)
        job = {"paths": {"repo": self.gitdir, "common": self.gitdir, "objects": objects}, "base_commit": self.commit,
               "base_tree": self.tree, "limits": limits or {"files": 50, "bytes": 100000},
               "trailers": ["Agent-Run: 1"], "title": "T"}
        stage = Stage("agent-apply", "edit", job, {number: f.fileno() for number, f in handles.items()})
        event = stage.event("error") or {}
        status, _ = stage.wait(60)
        stage.kill()
        for f in handles.values():
            f.seek(0)
        out, patch = handles[FD_OUT].read(), handles[FD_PATCH].read()
        return status, event.get("message", ""), json.loads(out) if out else None, patch, objects


def write(path, content="x\n", **more):
    return {"op": "write", "path": path, "content": content, **more}


BAD_PATHS = [
    "/etc/evil", "../evil", "a/../../evil", "./../evil", "..", ".", "", "a//b", "a/", "./a",
    ".git/config", ".git/hooks/post-checkout", ".GIT/hooks/x", ".Git", "d/.git/config", ".git /x", ".git./x", ".git::$INDEX_ALLOCATION/x",
    "git~1/config", "GIT~2", ".g\u200cit/config", ".gi\u200dt", "\ufeff.git/x", ".g\u0131t/x", "\uff0egit/x", ".\uff47\uff49\uff54/x",
    ".gitmodules", ".GitModules", "gitmod~1", "d/.gitmodules", "a\\b", "..\\evil", "C:evil", "a:stream",
    "a\nb", "a\x1b[2Jb", "a\u202eb", "a\u2066b", "a\x7fb", "a\tb", "x.", "x ", "d./x", "a" * 256, "/".join("a" * 101), "a/" * 2100 + "b",
    "link/evil", "link", "passwd", "passwd/x", "sub", "sub/x", "a.txt/x", "Readme.md", "D/new", "x.big", "new.big",
]

BAD_LISTS = [
    ("unknown op", [{"op": "chown", "path": "a.txt"}]),
    ("unknown member", [write("n", evil=1)]),
    ("a link by mode", [write("n", mode="120000")]),
    ("a submodule by mode", [write("n", mode="160000")]),
    ("setuid by mode", [write("n", mode="104755")]),
    ("no path", [{"op": "write", "content": "x"}]),
    ("path is no text", [{"op": "write", "path": ["a"], "content": "x"}]),
    ("content twice", [{"op": "write", "path": "n", "content": "x", "content_base64": "eA=="}]),
    ("bad base64", [{"op": "write", "path": "n", "content_base64": "?"}]),
    ("edits is no list", {"op": "write"}),
    ("an edit is no object", ["x"]),
]


def refusals(t, scene):
    for path in BAD_PATHS:
        for edit in (write(path), {"op": "rename", "path": "run.sh", "to": path}):
            status, message, out, _, objects = scene.edit([edit])
            left = sum(len(files) for _, _, files in os.walk(objects))
            if not (status == 1 and message and out is None and left == 0):
                t.ok(False, f"{edit['op']} {path[:60]!r} is refused", f"status {status}, {message}, {left} objects")
                return
    t.ok(True, f"{2 * len(BAD_PATHS)} writes and renames to bad paths are refused, nothing is written")
    for path in ("link", "passwd", "sub", "nowhere", "d", ".git/config", "../x"):
        status, message, out, _, _ = scene.edit([{"op": "delete", "path": path}])
        t.ok(status == 1 and message and out is None, f"deleting {path} is refused", message)
    for path in ("link", "passwd"):
        status, message, _, _, _ = scene.edit([{"op": "edit", "path": path, "old": "root", "new": "evil"}])
        t.ok(status == 1 and "root:" not in message, f"{path} is not followed", message)


def malformed(t, scene):
    for name, edits in BAD_LISTS:
        status, message, out, _, _ = scene.edit(edits)
        t.ok(status == 2 and message and out is None, f"malformed changes: {name}", f"{status} {message}")
    good = json.dumps({"kind": "changes", "version": 1, "base_tree": scene.tree, "edits": [write("n")]})
    for name, raw in (("empty", b""), ("no JSON", b"\x00\xff"), ("cut off", good[:-5].encode()), ("something behind it", (good + "x").encode()),
                      ("of another kind", good.replace("changes", "tree").encode()), ("of another version", good.replace(": 1,", ": 2,").encode()),
                      ("for another tree", good.replace(scene.tree, "1" * 40).encode()), ("nested without end", b"[" * 100000),
                      ("a key twice", good.replace('"op"', '"op": "write", "op"').encode())):
        status, message, out, _, _ = scene.edit(None, raw=raw)
        t.ok(status == 2 and message and out is None, f"malformed changes: {name}", f"{status} {message}")


def caps(t, scene):
    status, message, _, _, _ = scene.edit([write(f"n{i}") for i in range(5)], {"files": 4, "bytes": 1000})
    t.ok(status == 1 and "4 files" in message, "more files than the cap are refused", message)
    status, message, _, _, _ = scene.edit([write("n", "x" * 2000)], {"files": 4, "bytes": 1000})
    t.ok(status == 1 and "1000" in message, "more bytes than the cap are refused", message)
    status, message, _, _, _ = scene.edit([write("n1", "x" * 600), write("n2", "x" * 600)], {"files": 4, "bytes": 1000})
    t.ok(status == 1 and "1000" in message, "more bytes in all files than the cap are refused", message)
    status, message, _, _, _ = scene.edit([write(f"n{i}") for i in range(5001)], {"files": 10000, "bytes": 1000000})
    t.ok(status == 2 and "5000" in message, "a list of more than 5,000 edits is refused", message)
    for name, edits in (("nothing", []), ("there and back", [write("n"), {"op": "delete", "path": "n"}]),
                        ("a change undone", [{"op": "edit", "path": "a.txt", "old": "1", "new": "x"}, {"op": "edit", "path": "a.txt", "old": "x", "new": "1"}])):
        status, message, _, _, _ = scene.edit(edits)
        t.ok(status == 1 and "no change" in message, f"an empty change is refused: {name}", message)
    status, message, _, _, _ = scene.edit([write("n"), {"op": "edit", "path": "a.txt", "old": "nowhere", "new": "x"}])
    t.ok(status == 1 and "edit 2" in message and "E_NO_MATCH" in message, "one refused edit refuses the whole list", message)


def good(t, scene):
    edits = [{"op": "edit", "path": "a.txt", "old": "2\n", "new": "two\n"}, write("new/x y.txt", "n\n"), write("tool", "#!\n", mode="100755"),
             {"op": "rename", "path": "d/b.txt", "to": "d2/b.txt"}, {"op": "delete", "path": "README.md"},
             {"op": "write", "path": "bin", "content_base64": base64.b64encode(b"\x00\x01\xff").decode()}]
    status, message, out, patch, objects = scene.edit(edits, title="Do it [skip ci]", body="Signed-off-by: B\n@x")
    again = scene.edit(edits, title="Do it [skip ci]", body="Signed-off-by: B\n@x")
    t.ok(status == 0 and out, "a good change is taken", message)
    t.ok(out and again[2] == out and again[3] == patch, "the same edits make the same bytes")
    return out, patch, objects


def verify(t, scene, out, patch, objects):
    """By git, which freshens what it reads."""
    index = os.path.join(scene.dir, "index")
    env = {**GIT_ENV, "GIT_INDEX_FILE": index, "GIT_OBJECT_DIRECTORY": objects,
           "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(scene.gitdir, "objects"), "GIT_DIR": scene.gitdir}
    run = lambda *args, data=None: subprocess.run(["git", "-c", "core.fsmonitor=false", *args], env=env, input=data, capture_output=True, check=False)
    listing = run("ls-tree", "-r", out["tree"]).stdout.decode()
    wanted = git("ls-tree", "-r", "HEAD", cwd=scene.work)
    t.ok("100755 blob" in listing and "\ttool" in listing and "d2/b.txt" in listing and "README.md" not in listing, "its tree is what was asked", listing)
    t.equal([line for line in listing.splitlines() if line.split("\t")[1] in ("link", "sub", "run.sh")],
            [line for line in wanted.splitlines() if line.split("\t")[1] in ("link", "sub", "run.sh")], "what was not named is as it was")
    shutil.copytree(objects, objects + ".copy")
    env["GIT_OBJECT_DIRECTORY"] = objects + ".copy"
    run("read-tree", scene.commit)
    applied = run("apply", "--cached", "-", data=patch)
    t.equal(run("write-tree").stdout.decode().strip(), out["tree"], "git apply makes the same tree of patch.diff", applied.stderr.decode())
    t.equal(out["patch_sha256"], hashlib.sha256(patch).hexdigest(), "the patch's digest is recorded")
    t.equal(out["message"], "Do it\n\n@ x\n\nAgent-Run: 1\nAgent-Needs-Review: bin (binary)\n",
            "the commit message is finished")


def main():
    scene = Scene()
    try:
        with Tap() as t:
            before = snapshot(scene.work)
            refusals(t, scene)
            malformed(t, scene)
            caps(t, scene)
            made = good(t, scene)
            after = snapshot(scene.work)
            differ = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
            t.equal(differ, [], "the repository and its work tree are as they were, time stamps included")
            names = sorted(n for n in os.listdir(scene.dir) if not n.startswith(("objects", "index")))
            t.equal(names, ["work"], "nothing was made beside it")
            if made[0]:
                verify(t, scene, *made)
            if os.geteuid() == 0:
                as_user(t)
    finally:
        shutil.rmtree(scene.dir)


def as_user(t):
    """The program where an ordinary user can read it, and this test again."""
    place = tempfile.mkdtemp(prefix="agent-tree-user-")
    try:
        os.chmod(place, 0o755)
        shutil.copy(os.path.join(BUILD, "agent-apply"), place)
        shutil.copytree(os.path.join(HERE, "../lib"), os.path.join(place, "tests/lib"), ignore=shutil.ignore_patterns("__pycache__"))
        os.makedirs(os.path.join(place, "tests/wall"))
        shutil.copy(os.path.abspath(__file__), os.path.join(place, "tests/wall"))
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-B",
                               os.path.join(place, "tests/wall", os.path.basename(__file__))],
                              env={**os.environ, "BUILD": place, "TMPDIR": "/tmp"}, capture_output=True, text=True, check=False)
        t.ok(done.returncode == 0 and "\nok " in "\n" + done.stdout, "an ordinary user gets the same answers", done.stdout + done.stderr)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
