#!/usr/bin/python3
"""Publishing to a bare repository on this machine, through its own hooks: what is pushed, what is left alone,
what the hooks and a hostile receive-pack can do."""
# deadline: 240
import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from e2e import differences, digest_tree
from publish_stage import FD, TIME, Scene
from tap import Tap

REF = "refs/heads/agent/return-zero"
MODES = [(False, "root"), (True, "user")] if os.geteuid() == 0 else [(False, "user")]


def hook(scene, bare, name, script):
    return scene.write(os.path.join(bare, "hooks", name), "#!/bin/sh\n" + script, 0o755)


def basics(t, scene, mode):
    bare = scene.bare()
    before = digest_tree(scene.repo)
    first = scene.publish(scene.local(bare))
    t.equal(first.status, 0, f"{mode}: a new branch is pushed", first.text)
    refs = scene.refs(bare)
    t.equal(refs.get(REF), first.commit, f"{mode}: the branch is at the commit that was announced", first.text)
    shown = scene.git("log", "-1", "--format=%T|%P|%an|%ae|%at|%cn|%ct|%B", REF, cwd=bare)
    t.equal(shown, f"{scene.tree}|{scene.base}|Agent|agent@example.com|{TIME}|Agent|{TIME}|Return zero\n\nAgent-Run: test",
            f"{mode}: tree, parent, identity, time and message are the ones of the run")
    t.equal(first.receipt, {"kind": "receipt", "version": 1, "commit": first.commit, "tree": scene.tree, "ref": REF,
                            "url": bare, "pushed": True, "already": False, "server": ""}, f"{mode}: the receipt says so")
    t.equal(differences(before, digest_tree(scene.repo)), [], f"{mode}: the user's repository is untouched")
    t.equal(scene.git("fsck", "--strict", cwd=bare), "", f"{mode}: the remote is sound")

    again = scene.publish(scene.local(bare))
    t.equal((again.status, again.commit, again.receipt and again.receipt["already"], again.receipt["pushed"]),
            (0, first.commit, True, False), f"{mode}: pushing again finds the same commit there", again.text)

    scene.change("src/main.c", "int main(void) { return 00; }\n")
    second = scene.publish(scene.local(bare), receipts=["1" * 40])
    t.equal(second.status, 1, f"{mode}: a branch with an unknown tip is not moved", second.text)
    t.contains(second.message, f"branch agent/return-zero exists and its tip {first.commit} was not made by this program",
               f"{mode}: the message says whose it is")
    t.contains(second.next, "--branch", f"{mode}: and what to do")
    t.equal(scene.refs(bare)[REF], first.commit, f"{mode}: it stays where it was")
    t.equal(second.receive, "", f"{mode}: receive-pack ended without a complaint")
    third = scene.publish(scene.local(bare), receipts=["1" * 40, first.commit])
    t.equal((third.status, scene.refs(bare)[REF]), (0, third.commit), f"{mode}: a branch of ours is moved", third.text)
    t.ok(third.commit != first.commit, f"{mode}: to the new commit")
    gone = scene.publish(scene.local(bare), ref="refs/heads/agent/other", expect=first.commit)
    t.equal(gone.status, 1, f"{mode}: a branch that should be there and is not is an error", gone.text)


def large(t, scene):
    scene.large_base()
    bare = scene.bare("large.git", seeded=False)
    done = scene.publish(scene.local(bare))
    t.equal((done.status, scene.refs(bare).get(REF)), (0, done.commit), "a push of 24 MB", done.text)


def refused_by_rule(t, scene):
    """Refusals that no hook makes."""
    work = scene.path("work")
    scene.git("clone", "-q", scene.repo, work)
    scene.git("checkout", "-q", "--orphan", "agent/return-zero", cwd=work)
    denied = scene.publish(scene.local(work))
    t.equal(denied.status, 1, "a branch that is checked out there is denied", denied.text)
    t.contains(denied.message, "currently checked out", "with the remote's reason")
    empty = scene.path("nothing")
    os.mkdir(empty)
    nothing = scene.publish(scene.local(empty))
    t.equal(nothing.status, 4, "a directory that is no repository is a failure", nothing.text)
    t.contains(nothing.next, f"git receive-pack {empty}", "with a way to see why")


def hooks(t, scene):
    bare = scene.bare("hooks.git")
    hook(scene, bare, "pre-receive", f'env > {scene.path("hook.env")}; ls /proc/self/fd > {scene.path("hook.fds")}\n'
         'echo "Policy 7 says no."; printf "\\033[31mask \\342\\200\\256release\\033[0m team\\n" >&2; exit 1\n')
    refused = scene.publish(scene.local(bare))
    t.equal(refused.status, 1, "a pre-receive that refuses is a clean no", refused.text)
    t.contains(refused.message, "Policy 7 says no.", "its own words are in the message")
    t.contains(refused.message, r"\x1b[31mask \u{202e}release\x1b[0m team", "escaped")
    told = [e["text"] for e in refused.events if e["event"] == "server"]
    t.equal(told, ["Policy 7 says no.\n\x1b[31mask \u202erelease\x1b[0m team\n"], "the event has them whole and raw")
    t.contains(refused.log.decode(errors="replace"), "Policy 7", "so has the log")
    t.contains(refused.next, "agent resume", "the next step is named")
    t.equal(scene.refs(bare).get(REF), None, "nothing was pushed")
    hook(scene, bare, "pre-receive", 'echo welcome; exit 0\n')
    accepted = scene.publish(scene.local(bare))
    t.equal((accepted.status, accepted.commit), (0, refused.commit), "the same commit goes in when the hook agrees",
            accepted.text)
    t.equal(accepted.receipt["server"], "welcome\n", "the receipt has what the hook said")

    hook(scene, bare, "pre-receive", 'head -c 8000000 /dev/zero | tr "\\0" "\\033"; '
         'i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done; exit 1\n')
    flood = scene.publish(scene.local(bare), ref="refs/heads/agent/flood")
    t.equal(flood.status, 1, "a flood of hook output is survived", flood.text[:2000])
    t.ok(len(flood.log) <= 1 << 20, "the log is capped", len(flood.log))
    t.ok(len(flood.message) <= 2000 and "\x1b" not in flood.message, "the message is short and escaped", flood.message)
    hook(scene, bare, "pre-receive", 'i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done; exit 0\n')
    flood = scene.publish(scene.local(bare), ref="refs/heads/agent/flood")
    t.equal(flood.status, 0, "one from a hook that agrees, too", flood.text[:2000])
    t.ok(len(flood.receipt["server"]) <= 1 << 16, "the receipt's part is capped")

    fifo = scene.path("fifo")
    os.mkfifo(fifo)
    hook(scene, bare, "pre-receive", f'echo thinking; read x < {fifo}\n')
    late = scene.publish(scene.local(bare), ref="refs/heads/agent/late", deadline_s=2)
    t.equal(late.status, 4, "a hook without end meets the deadline", late.text)
    t.contains(late.message, "within 2 s", "the message says so")

    hook(scene, bare, "pre-receive", 'kill -9 $PPID\n')
    dead = scene.publish(scene.local(bare), ref="refs/heads/agent/dead")
    t.equal(dead.status, 4, "a receive-pack that dies is a failure, not a success", dead.text)
    hook(scene, bare, "pre-receive", 'exit 0\n')
    hook(scene, bare, "update", 'echo "update: no $1"; exit 1\n')
    declined = scene.publish(scene.local(bare), ref="refs/heads/agent/update")
    t.equal(declined.status, 1, "an update hook that refuses is a clean no", declined.text)
    t.contains(declined.message, "update: no refs/heads/agent/update", "with its words")
    os.unlink(os.path.join(bare, "hooks/update"))
    hook(scene, bare, "post-receive", 'echo "see you"; exit 3\n')
    after = scene.publish(scene.local(bare), ref="refs/heads/agent/after")
    t.equal((after.status, after.receipt and after.receipt["server"]), (0, "see you\n"),
            "a post-receive that fails changes nothing", after.text)


def races(t, scene):
    bare = scene.bare("race.git")
    other = scene.git("commit-tree", "-m", "of somebody else", "-p", scene.base, scene.base_tree, cwd=scene.repo)
    scene.git("push", "-q", bare, f"{other}:refs/heads/theirs", cwd=scene.repo)
    hook(scene, bare, "pre-receive", f'unset GIT_QUARANTINE_PATH; git update-ref {REF} {other}\n')
    raced = scene.publish(scene.local(bare))
    t.equal(raced.status, 1, "a branch that somebody makes meanwhile is theirs", raced.text)
    t.equal(scene.refs(bare)[REF], other, "it stays theirs")
    os.unlink(os.path.join(bare, "hooks/pre-receive"))
    scene.git("update-ref", "refs/heads/agent2", other, cwd=bare)
    blocked = scene.publish(scene.local(bare), ref="refs/heads/agent2/x")
    t.equal(blocked.status, 1, "a branch whose name is in the way is told", blocked.text)
    t.contains(blocked.next, "--branch", "with a way out")


def laws(t, scene):
    bare = scene.bare("laws.git")
    red = scene.publish(scene.local(bare), verdict={**scene.verdict, "green": False, "value": 1})
    t.equal(red.status, 1, "a red verdict publishes nothing", red.text)
    missing = dict(scene.verdict)
    del missing["green"]
    t.equal(scene.publish(scene.local(bare), verdict=missing).status, 1, "nor does one that does not say green")
    other = scene.publish(scene.local(bare), verdict={**scene.verdict, "tree": scene.base_tree})
    t.equal(other.status, 4, "nor one about another tree", other.text)
    t.contains(other.message, "the verdict is about tree", "and it is said")
    t.ok(scene.publish(scene.local(bare), verdict=b"{").status != 0, "a malformed verdict is refused")
    forged = json.loads(json.dumps(scene.tree_json))
    forged["changes"][0]["new_oid"] = scene.git("hash-object", "-w", "--stdin", cwd=scene.repo) or None
    changed = scene.publish(scene.local(bare), tree=forged)
    t.ok(changed.status not in (0, None) and not changed.commit, "changes that do not make the tested tree are refused",
         changed.text)
    forged = {**scene.tree_json, "tree": scene.base_tree}
    t.ok(scene.publish(scene.local(bare), tree=forged).status != 0, "tree.json about another tree is refused")
    forged = {**scene.tree_json, "message": "x\n\x00"}
    t.ok(scene.publish(scene.local(bare), tree=forged).status != 0, "a message with NUL is refused")
    t.equal(list(scene.refs(bare)), ["refs/heads/main"], "none of it reached the remote")
    for ref in ("refs/heads/-x", "refs/heads/a..b", "refs/heads/a/../../b", "refs/tags/v1", "HEAD", "refs/replace/" + "1" * 40,
                "refs/heads/a b", "refs/heads/$(id)", "refs/heads/x.lock", "refs/heads/a//b", "refs/heads/é"):
        outcome = scene.publish(scene.local(bare), ref=ref)
        t.equal(outcome.status, 2, f"ref {ref} is refused", outcome.text)
    for url in ("ext::sh -c id", "fd::3", "git://localhost/x", "http://localhost/x"):
        outcome = scene.publish({"kind": "https", "url": url, "host": "localhost", "port": 443, "user": None, "path": "/x"})
        t.equal(outcome.status, 2, f"remote {url} is refused", outcome.text)
    author = scene.publish(scene.local(bare), author={"name": "x\nparent 1", "email": "e"})
    t.ok(author.status != 0, "a line break in the author's name is refused", author.text)
    extra = scene.publish(scene.local(bare), env={"GIT_DIR": "/x"})
    t.equal(extra.status, 125, "an environment name that the row does not have is refused", extra.text)


def hostile_configuration(t, scene):
    """Whatever the user's repository says, git push does not read it."""
    bare = scene.bare("config.git")
    evil = scene.bare("evil.git")
    marker = scene.path("marker")
    script = scene.write("evil.sh", f"#!/bin/sh\necho \"$0 $*\" >> {marker}\n", 0o755)
    scene.write("repo/.git/evil-hooks/pre-push", f"#!/bin/sh\necho pre-push >> {marker}\n", 0o755)
    config = {f"url.{evil}.insteadOf": bare, f"url.{evil}/.pushInsteadOf": bare, "url.ext::sh.insteadOf": "fd::",
              f"url.{evil}.pushInsteadOf": "fd::22", "core.sshCommand": script, "credential.helper": "!" + script,
              "core.askPass": script, "core.hooksPath": ".git/evil-hooks", "core.fsmonitor": script,
              "http.proxy": "http://127.0.0.1:1", "remote.origin.url": bare, "remote.origin.pushurl": evil,
              "remote.origin.receivepack": script, "push.recurseSubmodules": "on-demand", "push.followTags": "true",
              "push.gpgSign": "true", "gpg.program": script, "core.gitProxy": script, "core.pager": script,
              "core.alternateRefsCommand": script, "protocol.allow": "never", "trace2.eventTarget": marker,
              "uploadpack.packObjectsHook": script, "pack.packSizeLimit": "1", "include.path": "/nonexistent"}
    for key, value in config.items():
        scene.git("config", key, value, cwd=scene.repo)
    scene.write("repo/.git/hooks/pre-push", f"#!/bin/sh\necho pre-push >> {marker}\n", 0o755)
    scene.git("tag", "-a", "-m", "x", "v1", cwd=scene.repo)
    replaced = scene.git("commit-tree", "-m", "replacement", scene.base_tree, cwd=scene.repo)
    scene.git("-c", "core.fsmonitor=false", "replace", scene.base, replaced, cwd=scene.repo)
    if os.path.exists(marker):
        os.unlink(marker)
    done = scene.publish(scene.local(bare))
    t.equal(done.status, 0, "a repository with a hostile configuration is published from", done.text)
    t.ok(not os.path.exists(marker), "nothing of its configuration was run",
         open(marker).read() if os.path.exists(marker) else "")
    t.equal(scene.refs(evil), {"refs/heads/main": scene.base}, "nor was anything sent elsewhere")
    t.equal(sorted(scene.refs(bare)), [REF, "refs/heads/main"], "exactly one ref was pushed")
    t.equal(scene.git("rev-parse", REF + "^", cwd=bare), scene.base, "replace refs have no effect")


def repositories(t, scene):
    """Shallow, linked and borrowed repositories."""
    full = scene.path("full")
    scene.git("clone", "-q", scene.repo, full)
    for i in range(3):
        scene.write(f"{full}/n.txt", f"{i}\n")
        scene.git("add", "-A", cwd=full)
        scene.git("commit", "-q", "-m", f"n {i}", cwd=full)
    bare = scene.path("full.git")
    scene.git("clone", "-q", "--bare", full, bare)
    kept = scene.repo, scene.base, scene.base_tree, scene.objects

    def use(repo, objects):
        scene.repo = repo
        scene.base = scene.git("rev-parse", "HEAD", cwd=repo)
        scene.base_tree = scene.git("rev-parse", "HEAD^{tree}", cwd=repo)
        scene.change("src/main.c", "int main(void) { return 0; }\n", objects)

    shallow = scene.path("shallow")
    scene.git("clone", "-q", "--depth", "1", "file://" + full, shallow)
    use(shallow, "objects-shallow")
    done = scene.publish(scene.local(bare), ref="refs/heads/agent/shallow")
    t.equal(done.status, 0, "a shallow repository can be published from", done.text)
    t.equal(scene.git("rev-list", "--count", "refs/heads/agent/shallow", cwd=bare), "5", "the remote has the whole history")
    empty = scene.bare("empty.git", seeded=False)
    done = scene.publish(scene.local(empty), ref="refs/heads/agent/shallow")
    t.equal(done.status, 1, "a remote that lacks the history does not take it", done.text)
    t.contains(done.next, "--unshallow", "and the way out is named")
    scene.write(f"{shallow}/.git/shallow", "not an oid\n")
    t.ok(scene.publish(scene.local(bare)).status != 0, "a damaged list of shallow commits is refused")

    borrowed = scene.path("borrowed")
    scene.git("clone", "-q", "--shared", full, borrowed)
    use(borrowed, "objects-borrowed")
    alternate = os.path.join(full, ".git/objects")
    paths = lambda **more: {**scene.job({"kind": "local"})["paths"], **more}
    scene.scratch = scene.path("scratch-x")
    job_paths = paths(alternates=[alternate])
    done = scene.start(scene.local(bare), ref="refs/heads/agent/borrowed",
                       paths={**job_paths, "scratch": scene.path(f"scratch-{scene.number + 1}")}).finish()
    t.equal(done.status, 0, "a repository with alternates can be published from", done.text)

    linked = scene.path("linked")
    scene.git("worktree", "add", "-q", linked, cwd=full)
    use(full, "objects-linked")
    job_paths = paths(repo=os.path.join(full, ".git/worktrees/linked"), common=os.path.join(full, ".git"))
    done = scene.start(scene.local(bare), ref="refs/heads/agent/linked",
                       paths={**job_paths, "scratch": scene.path(f"scratch-{scene.number + 1}")}).finish()
    t.equal(done.status, 0, "a linked work tree can be published from", done.text)

    scene.repo, scene.base, scene.base_tree, scene.objects = kept
    use(kept[0], "objects")
    crowd = scene.bare("crowd.git")
    with open(os.path.join(crowd, "packed-refs"), "w") as f:
        f.write("# pack-refs with: peeled fully-peeled sorted \n")
        f.writelines(f"{scene.base} refs/heads/branch-{i:06}\n" for i in range(30000))
    done = scene.publish(scene.local(crowd))
    t.equal(done.status, 0, "a remote with 30,000 branches", done.text[:2000])


def hostile_receive_pack(t, scene):
    bare = scene.bare("hostile.git")

    def against(what, talk, **more):
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=talk, args=(ours,), daemon=True)
        thread.start()
        outcome = scene.start(scene.local(bare), fds={FD["FD_REMOTE"]: theirs.detach()}, **more).finish()
        ours.close()
        t.ok(outcome.status == 4 and not outcome.receipt, what, outcome.text)
        return outcome

    def say(data):
        def talk(s):
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
        return talk

    def flood(s):
        packet = b"003d" + b"1" * 40 + b" refs/heads/xxxxxxx\n"
        packet = b"%04x" % len(packet) + packet[4:]
        try:
            while True:
                s.sendall(packet * 1000)
        except OSError:
            pass

    against("a receive-pack that ends at once", say(b""))
    against("one that talks HTTP", say(b"HTTP/1.1 200 OK\r\n\r\n"))
    outcome = against("one that reports an error", say(b"0023ERR \x1b[31mno such repository here"))
    t.contains(outcome.message, r"\x1b[31mno such repository", "its words are shown, escaped")
    against("one whose packet has no end", say(b"fff0" + b"x" * 100))
    against("one that lists refs for ever", flood)
    line = b"0" * 40 + b" capabilities^{}\0report-status\n"
    line = b"%04x" % (len(line) + 4) + line + b"0000"
    against("one that stops after its refs", say(line))
    report = b"000eunpack ok\n" + b"0000"
    against("one that reports nothing about the ref", say(line + report))
    other = b"ok refs/heads/other\n"
    report = b"000eunpack ok\n" + b"%04x" % (len(other) + 4) + other + b"0000"
    against("one that reports about another ref", say(line + report))
    against("one that never says a word", lambda s: None, deadline_s=1)
    against("one that never answers the push", lambda s: s.sendall(line), deadline_s=1)


with Tap() as t:
    for as_user, mode in MODES:
        with Scene(as_user) as scene:
            basics(t, scene, mode)
    with Scene() as scene:
        hooks(t, scene)
        races(t, scene)
        refused_by_rule(t, scene)
        laws(t, scene)
        repositories(t, scene)
        hostile_receive_pack(t, scene)
        hostile_configuration(t, scene)
    with Scene() as scene:
        large(t, scene)
