#!/usr/bin/python3
"""Publishing over SSH to OpenSSH's sshd with a key: what works, whose host keys are believed, and where the key is while a
push is under way."""
# deadline: 240
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from e2e import descendants, wait_for
from publish_stage import Scene
from tap import Tap

REF = "refs/heads/agent/return-zero"
MODES = [(False, "root"), (True, "user")] if os.geteuid() == 0 else [(False, "user")]


def hook(scene, bare, name, script):
    return scene.write(os.path.join(bare, "hooks", name), "#!/bin/sh\n" + script, 0o755)


def make_key(scene, name, *options):
    """The private key's text and the public key's line; no file of it stays."""
    path = scene.path(name)
    gitservers.run("ssh-keygen", "-q", "-C", name, "-f", path, *options)
    texts = [open(path + end).read() for end in ("", ".pub")]
    os.unlink(path)
    return texts


def basics(t, scene, server, keys, mode):
    bare = scene.bare(f"{mode}.git")
    remote = scene.ssh(server.port, bare, server.user, server.known_hosts())
    first = scene.publish(remote, secret=keys["ed25519"])
    t.equal(first.status, 0, f"{mode}: pushed over ssh with an ed25519 key", first.text + server.log())
    t.equal(scene.refs(bare).get(REF), first.commit, f"{mode}: the branch is there")
    again = scene.publish(remote, secret=keys["rsa"])
    t.equal((again.status, again.receipt and again.receipt["already"]), (0, True),
            f"{mode}: again, with an RSA key: it is there already", again.text)
    pem = scene.publish(remote, secret=keys["pem"], ref="refs/heads/agent/pem")
    t.equal(pem.status, 0, f"{mode}: with a key in PEM form", pem.text)
    bare_key = scene.publish(remote, secret=keys["ed25519"].strip(), ref="refs/heads/agent/strip")
    t.equal(bare_key.status, 0, f"{mode}: a key without its last newline, as variables have it", bare_key.text)
    scene.change("src/main.c", "int main(void) { return 00; }\n")
    second = scene.publish(remote, secret=keys["ed25519"])
    t.equal(second.status, 1, f"{mode}: a branch with an unknown tip is not moved", second.text)
    t.contains(second.message, first.commit, f"{mode}: its tip is named")
    third = scene.publish(remote, secret=keys["ed25519"], receipts=[first.commit])
    t.equal((third.status, scene.refs(bare)[REF]), (0, third.commit), f"{mode}: a branch of ours is moved", third.text)
    t.equal(os.listdir(scene.scratch) and sorted(os.listdir(scene.scratch)), ["git", "known_hosts"],
            f"{mode}: no socket of the private agent is left")


def large(t, scene, server, keys):
    scene.large_base()
    bare = scene.bare("large.git", seeded=False)
    done = scene.publish(scene.ssh(server.port, bare, server.user, server.known_hosts()), secret=keys["ed25519"])
    t.equal((done.status, scene.refs(bare).get(REF)), (0, done.commit), "a push of 24 MB", done.text)


def refusals(t, scene, server, keys):
    bare = scene.bare("refuse.git")
    known = server.known_hosts()
    remote = scene.ssh(server.port, bare, server.user, known)
    name = f"[localhost]:{server.port}"

    def refused(what, outcome, status, *words):
        t.equal(outcome.status, status, f"{what}: status", outcome.text)
        for word in words:
            t.contains(outcome.message + " | " + outcome.next, word, f"{what}: says \"{word}\"")

    key = keys["ed25519"]
    refused("an unknown host", scene.publish({**remote, "known_hosts": known.replace("localhost", "elsewhere")}, secret=key),
            2, "known_hosts has no host key", name)
    refused("an empty known_hosts", scene.publish({**remote, "known_hosts": ""}, secret=key), 2, "known_hosts", name)
    gitservers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", scene.path("other_host"))
    other = open(scene.path("other_host.pub")).read().split()[:2]
    changed = f"{name} {other[0]} {other[1]}\n"
    refused("a changed host key", scene.publish({**remote, "known_hosts": changed}, secret=key), 2, "has changed", name,
            "known_hosts")
    refused("a revoked host key", scene.publish({**remote, "known_hosts": known + "@revoked " + known}, secret=key), 2, name)
    refused("no key", scene.publish(remote), 2, "publish.sshKey")
    refused("a key with a passphrase", scene.publish(remote, secret=keys["locked"]), 2, "passphrase", "ssh-keygen")
    refused("a PEM key with a passphrase", scene.publish(remote, secret=keys["locked-pem"]), 2, "passphrase")
    refused("a public key", scene.publish(remote, secret=keys["public"]), 2, "public SSH key")
    refused("a token", scene.publish(remote, secret="some-token"), 2, "not an SSH private key")
    broken = key.splitlines()
    broken[2] = "A" * 20 + broken[2][20:]
    refused("a damaged key", scene.publish(remote, secret="\n".join(broken) + "\n"), 2)
    refused("a key that the server does not know", scene.publish(remote, secret=keys["stranger"]), 2, "refused the SSH key")
    refused("no such repository",
            scene.publish(scene.ssh(server.port, scene.path("none.git"), server.user, known), secret=key), 2,
            "no repository at that path")
    refused("an option as user", scene.publish({**remote, "user": "-oProxyCommand=id"}, secret=key), 2)
    refused("an option as path", scene.publish(scene.ssh(server.port, "/-x", server.user, known), secret=key), 2)
    hook(scene, bare, "pre-receive", 'echo "Not on a Friday."; exit 1\n')
    refused("a hook that refuses", scene.publish(remote, secret=key), 1, "Not on a Friday.", "agent resume")
    os.unlink(os.path.join(bare, "hooks/pre-receive"))
    t.equal(scene.refs(bare), {"refs/heads/main": scene.base}, "none of it reached the repository")
    scene.write("hashed", known)
    gitservers.run("ssh-keygen", "-q", "-H", "-f", scene.path("hashed"))
    hashed = scene.publish({**remote, "known_hosts": open(scene.path("hashed")).read()}, secret=key)
    t.equal(hashed.status, 0, "a hashed known_hosts is understood", hashed.text)
    quoted = scene.bare("it's $(id) `x`.git")
    outcome = scene.publish(scene.ssh(server.port, quoted.replace(" ", "%20").replace("`", "%60"), server.user, known)
                            | {"path": quoted}, secret=key)
    t.equal((outcome.status, REF in scene.refs(quoted)), (0, True), "a path with quotes and blanks stays one", outcome.text)


def bad_weather(t, scene, server, keys):
    bare = scene.bare("weather.git")
    known = lambda port: server.known_hosts().replace(str(server.port), str(port))
    with gitservers.silent_server() as silent:
        outcome = scene.publish(scene.ssh(silent.port, bare, server.user, known(silent.port)), secret=keys["ed25519"],
                                deadline_s=2)
        t.equal(outcome.status, 4, "a silent server meets the deadline", outcome.text)
    for after in (500, 3000):
        with gitservers.Passage(server.port, stop_after=after, then_close=True) as cut:
            outcome = scene.publish(scene.ssh(cut.port, bare, server.user, known(cut.port)), secret=keys["ed25519"])
            t.equal((outcome.status, scene.refs(bare)), (4, {"refs/heads/main": scene.base}),
                    f"a connection that breaks after {after} bytes is a failure", outcome.text)
    outcome = scene.publish(scene.ssh(server.port, bare, server.user, known(server.port)), secret=keys["ed25519"])
    t.equal(outcome.status, 0, "afterwards it goes in", outcome.text)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return "?"


def where_the_key_is(t, scene, server, keys):
    bare = scene.bare("slow.git")
    secret_part = keys["ed25519"].splitlines()[3].encode()
    known = lambda port: server.known_hosts().replace(str(server.port), str(port))
    with gitservers.Passage(server.port, stop_after=4000) as slow:
        running = scene.start(scene.ssh(slow.port, bare, server.user, known(slow.port)), secret=keys["ed25519"])
        t.ok(slow.reached.wait(60), "a push is held half-way")
        bad = []
        for name in os.listdir("/proc"):
            for which in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{name}/{which}", "rb") as f:
                        if secret_part in f.read() and int(name) != os.getpid():
                            bad.append((name, which))
                except (OSError, ValueError):
                    pass
        t.equal(bad, [], "the key is in no process's arguments or environment")
        family = descendants(running.process.pid)
        names = {name_of(pid) for pid in family}
        t.ok("ssh-agent" in names and "ssh" in names and names <= {"git", "ssh", "ssh-agent", "agent-publish"},
             "only the listed children run below agent-publish", names)
        files = []
        for top, _, found in os.walk(scene.dir):
            for name in found:
                path = os.path.join(top, name)
                if os.path.isfile(path) and secret_part in open(path, "rb").read():
                    files.append(path)
        t.equal(files, [], "it is in no file")
        slow.release()
        outcome = running.finish()
        t.equal(outcome.status, 0, "the push goes on and ends well", outcome.text)
        t.ok(all(not os.path.exists(f"/proc/{pid}") for pid in family), "the private agent has ended with it")
    with gitservers.Passage(server.port, stop_after=3000) as slow:
        running = scene.start(scene.ssh(slow.port, bare, server.user, known(slow.port)), secret=keys["ed25519"],
                              ref="refs/heads/agent/killed")
        t.ok(slow.reached.wait(60), "another is held half-way")
        family = descendants(running.process.pid)
        t.ok(len(family) >= 3, "a push is under way", family)
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


def make_keys(scene):
    keys, authorized = {}, []
    for name, options in {"ed25519": ["-t", "ed25519", "-N", ""], "rsa": ["-t", "rsa", "-b", "2048", "-N", ""],
                          "pem": ["-t", "rsa", "-b", "2048", "-N", "", "-m", "PEM"],
                          "locked": ["-t", "ed25519", "-N", "open sesame"],
                          "locked-pem": ["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame"]}.items():
        keys[name], public = make_key(scene, name, *options)
        authorized.append(public)
    keys["stranger"], _ = make_key(scene, "stranger", "-t", "ed25519", "-N", "")
    keys["public"] = authorized[0]
    return keys, "".join(authorized)


with Tap() as t:
    absent = gitservers.missing()
    if absent or gitservers.no_login():
        t.skip("publishing over ssh", "not installed: " + ", ".join(absent) if absent else gitservers.no_login())
    else:
        for as_user, mode in MODES:
            with Scene(as_user) as scene:
                keys, authorized = make_keys(scene)
                with gitservers.SshServer(scene.path("sshd"), authorized) as server:
                    basics(t, scene, server, keys, mode)
                    if not as_user:
                        refusals(t, scene, server, keys)
                        bad_weather(t, scene, server, keys)
                        where_the_key_is(t, scene, server, keys)
                        large(t, scene, server, keys)
