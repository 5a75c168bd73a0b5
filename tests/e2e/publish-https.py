#!/usr/bin/python3
"""Publishing over HTTPS to git http-backend behind nginx, with a token: what works, what is refused, and where the token
is while a push is under way."""
# deadline: 240
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from e2e import descendants, processes, wait_for
from publish_stage import Scene
from tap import Tap

REF = "refs/heads/agent/return-zero"
TOKEN = "tok-7f3a9c5e1b8d2046-planted"
MODES = [(False, "root"), (True, "user")] if os.geteuid() == 0 else [(False, "user")]


def hook(scene, bare, name, script):
    return scene.write(os.path.join(bare, "hooks", name), "#!/bin/sh\n" + script, 0o755)


def basics(t, scene, server, mode):
    bare = scene.bare(f"served/{mode}.git")
    remote = scene.https(server.port, f"/git/{mode}.git", scene.ca)
    first = scene.publish(remote, secret=f"bot:{TOKEN}")
    t.equal(first.status, 0, f"{mode}: pushed over https with user:token", first.text)
    t.equal(scene.refs(bare).get(REF), first.commit, f"{mode}: the branch is there")
    t.equal(first.receipt and (first.receipt["pushed"], first.receipt["url"]), (True, remote["url"]),
            f"{mode}: the receipt says so")
    again = scene.publish(remote, secret=TOKEN)
    t.equal((again.status, again.receipt and again.receipt["already"]), (0, True),
            f"{mode}: again, with a bare token: it is there already", again.text)
    named = scene.publish({**remote, "user": "bot"}, secret=TOKEN, ref="refs/heads/agent/named")
    t.equal(named.status, 0, f"{mode}: with a bare token and a configured user", named.text)
    newline = scene.publish(remote, secret=TOKEN + "\n", ref="refs/heads/agent/newline")
    t.equal(newline.status, 0, f"{mode}: a newline behind the token, as files have it, is no part of it", newline.text)

    scene.change("src/main.c", "int main(void) { return 00; }\n")
    second = scene.publish(remote, secret=TOKEN)
    t.equal(second.status, 1, f"{mode}: a branch with an unknown tip is not moved", second.text)
    t.contains(second.message, first.commit, f"{mode}: its tip is named")
    t.equal(scene.refs(bare)[REF], first.commit, f"{mode}: it stays where it was")
    third = scene.publish(remote, secret=TOKEN, receipts=[first.commit])
    t.equal((third.status, scene.refs(bare)[REF]), (0, third.commit), f"{mode}: a branch of ours is moved", third.text)
    moved = scene.publish(remote, secret=TOKEN, expect="1" * 40, ref="refs/heads/agent/named")
    t.equal(moved.status, 1, f"{mode}: one that is not where it should be is not", moved.text)
    for outcome in (first, again, named, second, third):
        if TOKEN in outcome.text:
            t.ok(False, f"{mode}: the token is in no output", outcome.text)


def refusals(t, scene, server, other):
    bare = scene.bare("served/refuse.git")
    remote = scene.https(server.port, "/git/refuse.git", scene.ca)

    def refused(what, outcome, status, *words):
        t.equal(outcome.status, status, f"{what}: status", outcome.text)
        for word in words:
            t.contains(outcome.message + " | " + outcome.next, word, f"{what}: says \"{word}\"")
        t.ok(TOKEN not in outcome.text, f"{what}: the token is not shown")

    refused("a wrong token", scene.publish(remote, secret="wrong"), 2, "refused the credential", "publish.token")
    refused("no token", scene.publish(remote), 2, "asks for a credential", "publish.token")
    refused("a token of two lines", scene.publish(remote, secret="a\nb"), 2, "credential")
    refused("an unknown authority", scene.publish({**remote, "ca": None}, secret=TOKEN), 2, "certificate", "publish.ca")
    refused("another name than the certificate's",
            scene.publish(scene.https(server.port, "/git/refuse.git", scene.ca, host="127.0.0.1"), secret=TOKEN), 2,
            "certificate")
    refused("a redirect to another host",
            scene.publish(scene.https(server.port, "/elsewhere/refuse.git", scene.ca), secret=TOKEN), 2, "redirect")
    t.ok(not other.accepted.is_set(), "a redirect to another host: no connection was made there")
    refused("403", scene.publish(scene.https(server.port, "/forbidden/x.git", scene.ca), secret=TOKEN), 2, "may not push")
    refused("no such repository", scene.publish(scene.https(server.port, "/git/none.git", scene.ca), secret=TOKEN), 2,
            "no such repository")
    refused("nobody listens", scene.publish(scene.https(gitservers.free_port(), "/git/x.git", scene.ca), secret=TOKEN), 4,
            "cannot push to")
    refused("a private address", scene.publish(remote, secret=TOKEN, private_ok=False), 4, "cannot push to")
    basic = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    hook(scene, bare, "pre-receive", f'echo "Your token is {TOKEN}, or {basic}."; exit 1\n')
    outcome = scene.publish(remote, secret=TOKEN)
    refused("a server that says the token back", outcome, 1, "Your token is [key], or [key].")
    hook(scene, bare, "pre-receive", 'echo "Not on a Friday."; printf "\\033]0;title\\007" >&2; exit 1\n')
    outcome = scene.publish(remote, secret=TOKEN)
    refused("a hook that refuses", outcome, 1, "Not on a Friday.", r"\x1b]0;title\x07", "agent resume")
    os.unlink(os.path.join(bare, "hooks/pre-receive"))
    t.equal(scene.refs(bare), {"refs/heads/main": scene.base}, "none of it reached the repository")
    outcome = scene.publish(remote, secret=TOKEN)
    t.equal(outcome.status, 0, "afterwards it goes in", outcome.text)


def large(t, scene, server):
    scene.large_base()
    bare = scene.bare("served/large.git", seeded=False)
    done = scene.publish(scene.https(server.port, "/git/large.git", scene.ca), secret=TOKEN)
    t.equal((done.status, scene.refs(bare).get(REF)), (0, done.commit), "a push of 24 MB", done.text)


def release(fifo):
    """Lets a hook go on that still waits for it."""
    try:
        fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.write(fd, b"go\n")
    os.close(fd)


def bad_weather(t, scene, server):
    bare = scene.bare("served/weather.git")
    with gitservers.silent_server() as silent:
        outcome = scene.publish(scene.https(silent.port, "/git/x.git", scene.ca), secret=TOKEN, deadline_s=2)
        t.equal(outcome.status, 4, "a silent server meets the deadline", outcome.text)
        t.contains(outcome.message, "within 2 s", "the message says so")
    for after in (100, 700, 1500):
        with gitservers.Passage(server.port, stop_after=after, then_close=True) as broken:
            outcome = scene.publish(scene.https(broken.port, "/git/weather.git", scene.ca), secret=TOKEN,
                                    ref=f"refs/heads/agent/cut-{after}")
            t.equal((outcome.status, scene.refs(bare)), (4, {"refs/heads/main": scene.base}),
                    f"a connection that breaks after {after} bytes is a failure", outcome.text)
    fifo = scene.path("fifo")
    os.mkfifo(fifo)
    hook(scene, bare, "pre-receive", f"read x < {fifo}\n")
    outcome = scene.publish(scene.https(server.port, "/git/weather.git", scene.ca), secret=TOKEN, deadline_s=3)
    t.equal(outcome.status, 4, "a hook without end meets the deadline", outcome.text)
    release(fifo)
    os.unlink(os.path.join(bare, "hooks/pre-receive"))
    outcome = scene.publish(scene.https(server.port, "/git/weather.git", scene.ca), secret=TOKEN)
    t.equal(outcome.status, 0, "afterwards the push goes in, or was in", outcome.text)


def holders(scene, needle):
    """Processes (of any user) whose arguments, environment, open files or readable memory hold the needle."""
    found = {"cmdline": [], "environ": [], "memory": []}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        for which in ("cmdline", "environ"):
            try:
                with open(f"/proc/{name}/{which}", "rb") as f:
                    if needle in f.read():
                        found[which].append(int(name))
            except OSError:
                pass
    return found


def memory_holds(pid, needle):
    """Whether the process's readable memory holds the needle (the sanitizers' shadow of terabytes apart)."""
    step = 16 << 20
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                span, rights = line.split()[:2]
                low, high = (int(x, 16) for x in span.split("-"))
                if rights[0] != "r" or high - low > 4 << 30:
                    continue
                for at in range(low, high, step):
                    try:
                        memory.seek(at)
                        if needle in memory.read(min(step, high - at) + len(needle)):
                            return True
                    except (OSError, ValueError, OverflowError):
                        pass
    except OSError:
        return None
    return False


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return "?"


def where_the_token_is(t, scene, server):
    scene.bare("served/slow.git")
    needle = TOKEN.encode()
    with gitservers.Passage(server.port, stop_after=1500) as slow:
        running = scene.start(scene.https(slow.port, "/git/slow.git", scene.ca), secret=TOKEN)
        t.ok(slow.reached.wait(60), "a push is held half-way")
        found = holders(scene, needle)
        t.equal(found["cmdline"], [], "the token is in no process's arguments")
        t.equal(found["environ"], [], "nor in any environment")
        family = {pid: name_of(pid) for pid in descendants(running.process.pid)}
        names = sorted(set(family.values()))
        t.ok(set(names) <= {"git", "git-remote-http", "git-remote-https", "agent-publish"},
             "only the listed children run below agent-publish", names)
        if os.geteuid() == 0:
            holding = [name_of(pid) for pid in [running.process.pid] + list(family) if memory_holds(pid, needle)]
            t.ok(holding and set(holding) <= {"git-remote-http", "git-remote-https"},
                 "git's helper for https has it in memory, nobody else of the family", holding)
            others = [pid for pid, words, _ in processes()
                      if "agent-dial" in words and memory_holds(pid, needle)]
            t.equal(others, [], "agent-dial has it not")
        scratch = []
        for top, _, files in os.walk(scene.dir):
            for name in files:
                path = os.path.join(top, name)
                if os.path.isfile(path) and name != "htpasswd" and needle in open(path, "rb").read():
                    scratch.append(path)
        t.equal(scratch, [], "it is in no file")
        slow.release()
        outcome = running.finish()
        t.equal(outcome.status, 0, "the push goes on and ends well", outcome.text)
        t.ok(needle.decode() not in outcome.text + str(outcome.events), "the token is in no output")

    # killed at any moment: nothing of it stays
    with gitservers.Passage(server.port, stop_after=1500) as slow:
        running = scene.start(scene.https(slow.port, "/git/slow.git", scene.ca), secret=TOKEN,
                              ref="refs/heads/agent/killed")
        slow.reached.wait(60)
        family = descendants(running.process.pid)
        t.ok(len(family) >= 2, "a push is under way", family)
        os.kill(running.process.pid, 9)
        running.process.wait()
        gone = lambda: all(not os.path.exists(f"/proc/{pid}") or
                           open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z" for pid in family)
        try:
            wait_for(gone, 20)
            t.ok(True, "killed half-way, all of its children end too")
        except TimeoutError:
            t.ok(False, "killed half-way, all of its children end too", [(p, name_of(p)) for p in family])
        running.finish()


with Tap() as t:
    absent = gitservers.missing()
    if absent:
        t.skip("publishing over https", "not installed: " + ", ".join(absent))
    else:
        for as_user, mode in MODES:
            with Scene(as_user) as scene, gitservers.silent_server() as other:
                with gitservers.HttpsServer(scene.path("nginx"), scene.path("served"), "bot", TOKEN,
                                            other_port=other.port) as server:
                    scene.ca = os.path.join(scene.dir, "ca.pem")
                    scene.write("ca.pem", open(server.authority.ca).read(), 0o644)
                    basics(t, scene, server, mode)
                    if not as_user:
                        refusals(t, scene, server, other)
                        bad_weather(t, scene, server)
                        where_the_token_is(t, scene, server)
                        large(t, scene, server)
