#!/usr/bin/python3
"""Whose a branch is when no receipt says so: a tip that verifies under our signing key and was made for this issue is ours;
everything that only looks like that is a person's, and left alone."""
# deadline: 240
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from publish_stage import FD, Scene, memfd
from tap import Tap

REF = "refs/heads/agent/return-zero"
TOKEN = "tok-3e0d9c5e1b8d2046-planted"
ISSUE, OTHER = "0123456789abcdef" * 2, "f" * 32


def keygen(scene, name):
    path = scene.path(name)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    return path


def git(bare, *args, data=None):
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", "-c", "safe.directory=*", *args], cwd=bare, input=data, check=True, env=env,
                          stdout=subprocess.PIPE).stdout


def signed(key, plain, namespace="git"):
    armour = subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key], input=plain, check=True,
                            stdout=subprocess.PIPE).stdout.rstrip(b"\n").replace(b"\n", b"\n ")
    head, body = plain.split(b"\n\n", 1)
    return head + b"\ngpgsig " + armour + b"\n\n" + body


def plain_of(raw):
    """The bytes that were signed."""
    lines, within = [], False
    head, body = raw.split(b"\n\n", 1)
    for line in head.split(b"\n"):
        within = line.startswith(b"gpgsig ") or (within and line.startswith(b" "))
        if not within:
            lines.append(line)
    return b"\n".join(lines) + b"\n\n" + body


class Story:
    def __init__(self, t, scene, what, bare, remote, **options):
        self.t, self.scene, self.what, self.bare, self.remote, self.options = t, scene, what, bare, remote, options
        self.number = 0

    def publish(self, key, issue=ISSUE, ref=REF, receipts=()):
        """Another change each time, by a machine that has no receipts but these."""
        scene = self.scene
        self.number += 1
        scene.change("src/main.c", f"int main(void) {{ return 0; }} /* {self.what} {self.number} */\n",
                     f"objects-{self.what}-{self.number}")
        scene.tree_json["message"] = f"Return zero\n\nAgent-Run: {self.number}\nAgent-Issue: {issue}\n"
        remote, more = dict(self.remote), dict(self.options)
        fds = {}
        if key:
            fds[FD["FD_SIGN"]] = memfd(open(key, "rb").read())
        job = {"ref": ref, "receipts": list(receipts), "sign": bool(key), "issue": issue}
        if remote["kind"] == "local":
            job["paths"] = {"repo": os.path.join(scene.repo, ".git"), "objects": scene.objects, "libexec": scene.bin,
                            "remote": [os.path.join(self.bare, "objects")]}
        return self.start(remote, fds, job, more)

    def start(self, remote, fds, job, more):
        scene = self.scene
        make = scene.job
        paths = job.pop("paths", None)

        def with_paths(remote, **given):
            made = make(remote, **given)
            if paths:
                made["paths"] = {**paths, "scratch": scene.scratch}
            return made
        scene.job = with_paths
        try:
            running = scene.start(remote, fds=fds, **more, **job)
        finally:
            scene.job = make
        return running.finish()

    def write(self, raw, kind="commit"):
        return git(self.bare, "hash-object", "-t", kind, "-w", "--stdin", "--literally", data=raw).decode().strip()

    def put(self, oid, ref=REF):
        """As somebody with access to the server's files could: whatever it is."""
        path = os.path.join(self.bare, ref)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(oid + "\n")

    def left_alone(self, what, oid, key, *words, issue=ISSUE):
        self.put(oid)
        outcome = self.publish(key, issue)
        self.t.equal((outcome.status, self.scene.refs(self.bare)[REF]), (1, oid), f"{self.what}: left alone: {what}", outcome.text)
        for word in words:
            self.t.contains(outcome.message, word, f"{self.what}: {what}: the message says why")


def story(t, s, key, stranger, brief=False):
    first = s.publish(key)
    t.equal(first.status, 0, f"{s.what}: pushed and signed", first.text)
    second = s.publish(key)
    t.equal((second.status, s.scene.refs(s.bare)[REF]), (0, second.commit), f"{s.what}: without receipts a branch that our key "
            "signed is ours and moved", second.text)
    raw = git(s.bare, "cat-file", "commit", second.commit)
    plain = plain_of(raw)
    child = plain.replace(b"parent " + plain.split(b"parent ")[1][:40], b"parent " + second.commit.encode())
    s.left_alone("a person's commit upon ours", s.write(child), key, "it is not signed")
    s.left_alone("one with our name, signed by another key", s.write(signed(stranger, plain)), key, "signed by another key", "SHA256:")
    s.left_alone("our signature over other bytes", s.write(raw.replace(b"Return zero", b"Return none")), key, "not one of its bytes")
    if brief:
        return second
    s.left_alone("our signature taken to another commit", s.write(raw.replace(b"\n\nReturn", b"\n\nreturn")), key, "not one of its bytes")
    s.left_alone("our key, in another namespace", s.write(signed(key, plain, "file")), key, "not one of its bytes")
    s.left_alone("two signatures, one of them ours", s.write(raw.replace(b"\ngpgsig ", b"\ngpgsig x\ngpgsig ", 1)), key, "more than one")
    s.left_alone("a signature that is none", s.write(plain.replace(b"\n\n", b"\ngpgsig x\n\n", 1)), key, "not one of its bytes")
    s.left_alone("a signature of 1 MiB", s.write(plain.replace(b"\n\n", b"\ngpgsig " + b"x" * (1 << 20) + b"\n\n", 1)), key)
    s.left_alone("a commit of 3 MiB", s.write(signed(key, plain + b"x" * (3 << 20) + b"\n")), key, "cannot be read")
    s.left_alone("a signed commit of ours without an issue", s.write(signed(key, plain.replace(b"Agent-Issue", b"Issue"))), key,
                 "for another issue")
    s.left_alone("one whose issue stands in the body alone",
                 s.write(signed(key, plain.replace(f"\nAgent-Issue: {ISSUE}".encode(), b"").replace(
                     b"\n\nAgent-Run", f"\n\nAgent-Issue: {ISSUE}\n\nAgent-Run".encode()))), key, "for another issue")
    s.left_alone("a blob", s.write(b"x", "blob"), key)
    s.put(second.commit)
    other = s.publish(key, OTHER)
    t.equal(other.status, 1, f"{s.what}: left alone: our own for another issue", other.text)
    t.contains(other.message, "made for another issue", f"{s.what}: and it is said")
    nobody = s.publish(None)
    t.equal(nobody.status, 1, f"{s.what}: without the key nothing can be shown", nobody.text)
    t.contains(nobody.message, "publish.signingKey", f"{s.what}: which is said")
    rotated = s.publish(stranger)
    t.equal(rotated.status, 1, f"{s.what}: another signing key does not know the commits of the last", rotated.text)
    t.equal(s.scene.refs(s.bare)[REF], second.commit, f"{s.what}: the branch is where it was")
    again = s.publish(stranger, receipts=[second.commit])
    t.equal(again.status, 0, f"{s.what}: with its receipt it is ours whatever the key", again.text)
    return again


with Tap() as t, Scene() as scene:
    key, stranger = keygen(scene, "ours"), keygen(scene, "stranger")
    bare = scene.bare()
    story(t, Story(t, scene, "local", bare, scene.local(bare)), key, stranger)
    if os.geteuid() == 0:
        with Scene(as_user=True) as other:
            key2, stranger2 = keygen(other, "ours"), keygen(other, "stranger")
            bare = other.bare()
            os.chmod(other.repo, 0o755)
            story(t, Story(t, other, "user", bare, other.local(bare)), key2, stranger2, brief=True)
    missing = gitservers.missing()
    if missing:
        t.skip("the same over https: needs " + " ".join(missing))
    else:
        os.mkdir(scene.path("served"))
        for filtered in (True, False):
            name = f"served/{'filter' if filtered else 'plain'}.git"
            bare = scene.bare(name)
            git(bare, "config", "uploadpack.allowFilter", str(filtered).lower())
            with gitservers.HttpsServer(scene.path("nginx-" + name[7:]), scene.path("served"), "bot", TOKEN) as server:
                remote = scene.https(server.port, f"/git/{name[7:]}", server.authority.ca)
                s = Story(t, scene, "https with filter" if filtered else "https", bare, remote, secret=f"bot:{TOKEN}")
                last = story(t, s, key, stranger, brief=filtered)
                asked = server.requests()
                t.contains(asked, "git-upload-pack", f"{s.what}: the commit was fetched for that")
                s.put(last.commit)
                t.equal(s.publish(key, receipts=[last.commit]).status, 0, f"{s.what}: with a receipt the branch is moved")
                t.ok(TOKEN not in asked, f"{s.what}: the token is in no request line")
