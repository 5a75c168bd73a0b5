#!/usr/bin/python3
# deadline: 200
"""agent mirror: mirrors over HTTPS and SSH, from real git servers on loopback. Refs come and go, what a killed fetch leaves is swept,
hostile names, objects and configurations do no harm, limits hold; the read credential is nowhere but where it belongs."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import bombs  # noqa: E402
import gitservers  # noqa: E402
from e2e import Place, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

TOKEN = "read-4f1d7c2b9e8a6053-planted"


def refs(place, bare):
    out = place.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=bare)
    return dict(line.split() for line in out.splitlines())


def amounts(mirror):
    """(packs, loose objects) of a mirror."""
    names = [os.path.relpath(os.path.join(top, name), mirror) for top, _, files in os.walk(os.path.join(mirror, "objects")) for name in files]
    return sum(name.endswith(".pack") for name in names), sum(len(name.split("/")) == 3 and len(name.split("/")[1]) == 2 for name in names)


def scatter(place, mirror, repo):
    """So many packs that git's own upkeep is due, and one of old objects that no ref leads to: their ids."""
    owner = os.stat(mirror)
    blobs = [place.git("hash-object", "-w", "--stdin-paths", cwd=repo, input=f"{place.write('scattered', f'{i} {mirror}')}\n") for i in range(52)]
    for blob in blobs:
        base = os.path.join(mirror, "objects/pack/pack")
        name = place.git("pack-objects", "-q", base, cwd=repo, input=blob + "\n")
        for end in (".pack", ".idx"):
            os.utime(f"{base}-{name}{end}", (1000000000, 1000000000))
    for top, dirs, files in os.walk(os.path.join(mirror, "objects")):
        for name in dirs + files:
            os.chown(os.path.join(top, name), owner.st_uid, owner.st_gid)
    return blobs


def packing(t, place, way, repo, bare, fetch, configure):
    """git's own upkeep: where it is due, without any say of the mirror's configuration, never below a run's feet."""
    mirror = os.path.join(place.state, "mirrors", f"{way}.git")

    def gc(*more):
        return place.agent("gc", *more, *configure())

    def has(oid):
        return place.git("cat-file", "-t", oid, cwd=mirror, check=False) == "blob"

    def whole():
        return subprocess.run(["git", "fsck", "--full"], cwd=mirror, env=place.env, capture_output=True).returncode == 0

    result = gc()
    t.ok(result.status == 0 and "packed" not in result.out, f"{way}: what is not due is not packed", result.text)
    blobs = scatter(place, mirror, repo)
    before = refs(place, mirror)
    result = gc("--dry-run")
    t.ok(result.status == 0 and f"would let git pack mirror {way}" in result.out and amounts(mirror)[0] > 50, f"{way}: --dry-run says so",
         result.text)
    with open(os.path.join(place.state, "mirrors", f"{way}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = gc()
        t.ok(result.status == 0 and "by another: not packed" in result.out and amounts(mirror)[0] > 50,
             f"{way}: not while it is fetched", result.text)
    # a run that may be gone on with, of this mirror; what its ref was may be gone
    run = os.path.join(place.state, "runs", "20260101-000000-abcdef")
    place.write(os.path.join(run, "request.json"), json.dumps({"kind": "request", "version": 1, "repository": os.path.realpath(mirror)}))
    with open(os.path.join(mirror, "config"), "a") as f:
        f.write(f'[core]\n\tfsmonitor = touch {place.path("owned")}\n[gc]\n\tpruneExpire = now\n\tauto = 0\n\trecentObjectsHook = touch '
                f'{place.path("owned")}\n')
    for hook in ("pre-auto-gc", "post-rewrite", "reference-transaction"):
        place.write(os.path.join(mirror, "hooks", hook), f"#!/bin/sh\ntouch {place.path('owned')}\nexit 1\n", 0o755)
    place.write(os.path.join(mirror, "gc.pid"), f"1 {os.uname().nodename}")
    place.write(os.path.join(mirror, "objects/pack/tmp_pack_x"), "")
    result = gc()
    t.ok(result.status == 0 and f"mirror {way} packed: " in result.out and amounts(mirror)[0] <= 2, f"{way}: what is due is packed, and told",
         result.text)
    t.equal((os.path.exists(place.path("owned")), refs(place, mirror), whole()), (False, before, True),
            f"{way}: hooks and configuration in it are not used, refs stay, it is whole", result.text)
    t.ok(all(map(has, blobs)), f"{way}: all that a run may be based on stays, however old")
    t.equal(os.path.exists(os.path.join(mirror, "objects/pack/tmp_pack_x")), False, f"{way}: what a killed git left is swept")
    again = gc()
    t.ok(again.status == 0 and "packed" not in again.out, f"{way}: once", again.text)

    # fetching packs as well; without runs, what is old goes
    shutil.rmtree(run)
    more = scatter(place, mirror, repo)
    place.git("push", "-q", bare, "main:refs/heads/after-packing", cwd=repo)
    result = fetch()
    t.ok(result.status == 0 and "1 ref changed" in result.out and f"mirror {way} packed: " in result.out, f"{way}: a fetch lets it be packed, too",
         result.text)
    t.ok(not any(map(has, blobs[:3] + more[:3])) and whole(), f"{way}: then what no ref leads to goes, when it is old", result.text)
def size_of(top):
    return sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for folder, _, names in os.walk(top) for name in names)


def follow(t, place, way, repo, bare, configure):
    """What both ways have in common. configure(**more): options for the mirror "m"."""
    mirror = os.path.join(place.state, "mirrors", f"{way}.git")

    def fetch(**more):
        return place.agent("mirror", way, *configure(**more))

    def push(*what):
        place.git("push", "-q", bare, *what, cwd=repo)

    def wanted_refs():
        return {name: oid for name, oid in refs(place, bare).items() if not name.startswith("refs/replace/")}

    first = fetch()
    if not t.equal(first.status, 0, f"{way}: fetched", first.text):
        return
    t.equal(refs(place, mirror), refs(place, bare), f"{way}: all refs are there")
    t.contains(first.out, "changed", f"{way}: and it says that refs changed")
    again = fetch()
    t.equal((again.status, again.out, again.err), (0, "", ""), f"{way}: nothing new: quiet")

    place.write(os.path.join(repo, "a.txt"), f"{way}\n")
    place.git("commit", "-qam", "Change", cwd=repo)
    push("main", "main:refs/heads/gone/below", "main:refs/tags/v1")
    push(":refs/heads/topic", "main:refs/heads/topic/deeper", ":refs/heads/gone/below", "main:refs/heads/gone")
    push("+main:refs/tags/v1", "main:refs/pull/1/head", "main:refs/replace/" + "1" * 40)
    result = fetch()
    t.equal((result.status, refs(place, mirror)), (0, wanted_refs()), f"{way}: moved, new and removed refs, but no replacements",
            result.text)
    t.equal(place.git("symbolic-ref", "HEAD", cwd=mirror), "refs/heads/main", f"{way}: HEAD as there")
    place.git("symbolic-ref", "HEAD", "refs/heads/topic/deeper", cwd=bare)
    t.equal((fetch().status, place.git("symbolic-ref", "HEAD", cwd=mirror)), (0, "refs/heads/topic/deeper"),
            f"{way}: HEAD follows")
    place.git("symbolic-ref", "HEAD", "refs/heads/main", cwd=bare)

    # ---- whose configuration ----
    place.write(os.path.join(mirror, "hooks/reference-transaction"), f"#!/bin/sh\ntouch {place.path('owned')}\n", 0o755)
    with open(os.path.join(mirror, "config"), "a") as f:
        f.write(f'[core]\n\tfsmonitor = touch {place.path("owned")}\n\tsshCommand = touch {place.path("owned")}\n'
                f'[remote "x"]\n\tvcs = ext\n[url "file:///"]\n\tinsteadOf = https://\n[include]\n\tpath = {place.path("more")}\n')
    place.write(os.path.join(mirror, "objects/info/alternates"), "/etc\n")
    push("main:refs/heads/hooked")
    result = fetch()
    t.equal((result.status, refs(place, mirror).get("refs/heads/hooked"), os.path.exists(place.path("owned"))),
            (0, refs(place, bare)["refs/heads/hooked"], False), f"{way}: hooks and configuration in the mirror are not used",
            result.text)

    # ---- killed, locked ----
    for leftover in ("packed-refs.lock", "refs/heads/main.lock", "HEAD.lock", "config.lock", "objects/pack/tmp_pack_x"):
        place.write(os.path.join(mirror, leftover), "")
    place.write(os.path.join(repo, "big"), os.urandom(3000000))
    place.git("add", "big", cwd=repo)
    place.git("commit", "-qm", "Big", cwd=repo)
    push("main")
    child = place.start("mirror", way, *configure(), limits=False)
    wait_for(lambda: child.poll() is not None or os.path.exists(os.path.join(place.state, "mirrors", f"{way}.tmp")), what="the fetch")
    child.send_signal(signal.SIGKILL)
    child.wait()
    result = wait_for(lambda: (r := fetch()).status != 3 and r, what="the lock of a killed one")
    t.equal((result.status, refs(place, mirror)["refs/heads/main"]), (0, refs(place, bare)["refs/heads/main"]),
            f"{way}: what a killed fetch leaves does not hinder the next", result.text)
    t.equal(subprocess.run(["git", "fsck", "--full"], cwd=mirror, env=place.env, capture_output=True).returncode, 0,
            f"{way}: the mirror is whole")
    left = [name for _, _, files in os.walk(mirror) for name in files if name.endswith(".lock") or name.startswith("tmp_")]
    t.equal(left, [], f"{way}: and nothing of it is left")
    with open(os.path.join(place.state, "mirrors", f"{way}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        busy = fetch()
        t.ok(busy.status == 3 and "another" in busy.err, f"{way}: two at once: the second is skipped", busy.text)

    # ---- names like those of leftovers; directories of somebody else ----
    push(*(f"main:refs/heads/{name}" for name in ("tmp_one", "tmp_dir/one", "tmp-one", "dir/tmp_obj_x")))
    t.equal((fetch().status, refs(place, mirror)), (0, wanted_refs()), f"{way}: branches with names like leftovers'")
    again = fetch()
    t.equal((again.status, again.out), (0, ""), f"{way}: are not swept away")
    theirs = place.path(f"{way}-theirs")
    precious = ("Cargo.lock", "config", "hooks/pre-commit", "info/x", "sub/yarn.lock", "tmp_data")
    for name in precious:
        place.write(os.path.join(theirs, name), "precious\n")
    result = fetch(path=theirs)
    found = sorted(os.path.relpath(os.path.join(top, name), theirs) for top, _, files in os.walk(theirs) for name in files)
    t.equal((result.status, found, {open(os.path.join(theirs, name)).read() for name in precious},
             {os.lstat(top).st_uid for top, _, _ in os.walk(theirs)}), (2, sorted(precious), {"precious\n"}, {os.getuid()}),
            f"{way}: a directory of somebody's does not become a mirror", result.text)
    own = place.path(f"{way}-own.git")
    place.git("init", "-q", "--bare", own)
    place.git("push", "-q", own, "main:refs/heads/mine", cwd=repo)
    result = fetch(path=own)
    t.equal((result.status, list(refs(place, own))), (2, ["refs/heads/mine"]), f"{way}: nor does a repository", result.text)
    elsewhere = place.path(f"{way}-elsewhere.git")
    os.mkdir(elsewhere)
    for _ in range(2):
        result = fetch(path=elsewhere)
        t.equal((result.status, refs(place, elsewhere)), (0, wanted_refs()), f"{way}: an empty one does, and stays one", result.text)
    with open(os.path.join(elsewhere, "agent-mirror")) as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        t.equal(fetch(path=elsewhere).status, 3, f"{way}: two names of one place: the second is skipped")

    if way == "https":
        packing(t, place, way, repo, bare, fetch, configure)

    # ---- limits, hostile objects ----
    before = refs(place, mirror)
    place.write(os.path.join(repo, "big"), os.urandom(3000000))
    place.git("commit", "-qam", "Bigger", cwd=repo)
    push("main")
    result = fetch(maxBytes="1m")
    t.ok(result.status == 1 and "limit" in result.err and refs(place, mirror) == before,
         f"{way}: more bytes than allowed: refused, nothing moved", result.text)
    t.equal(fetch().status, 0, f"{way}: and taken where they are")
    # few objects were unpacked one by one, each as large as it can be made
    sent = bombs.plant(bare, "refs/heads/bomb", bombs.BOMBS["a file of deltas of deltas"])
    held = size_of(mirror)
    result = fetch()
    grown = size_of(mirror) - held
    t.ok(result.status == 0 and 0 < grown < 4 * sent, f"{way}: what is small on its way stays small, whatever it inflates to", (grown, result.text))
    place.git("update-ref", "-d", "refs/heads/bomb", cwd=bare)
    tree = subprocess.run(["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"], cwd=bare, env=place.env,
                          input=b"40000 .git\0" + bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
                          capture_output=True, check=True).stdout.decode().strip()
    place.git("hash-object", "-t", "tree", "-w", "/dev/null", cwd=bare)
    bad = place.git("commit-tree", "-m", "bad", tree, cwd=bare)
    place.git("update-ref", "refs/heads/bad", bad, cwd=bare)
    result = fetch()
    t.ok(result.status == 4 and "refs/heads/bad" not in refs(place, mirror), f"{way}: hostile objects are not taken", result.text)
    place.git("update-ref", "-d", "refs/heads/bad", cwd=bare)
    head = place.git("rev-parse", "main", cwd=repo)
    with open(os.path.join(bare, "packed-refs"), "a") as f:
        for name in ("refs/tags/a..b", "refs/tags/-x", "refs/tags/x.lock", "refs/tags/ä", "refs/tags/HEAD"):
            f.write(f"{head} {name}\n")
    result = fetch()
    t.equal((result.status, refs(place, mirror).get("refs/tags/ä")), (0, head), f"{way}: hostile names do no harm", result.text)
    shutil.rmtree(place.path("state", "mirrors", f"{way}.git"))
    t.equal(fetch().status, 0, f"{way}: a mirror that is gone is made again")
    for name in os.listdir(os.path.join(place.state, "mirrors")):
        t.ok(not name.endswith(".tmp"), f"{way}: no working directory is left: {name}")


with Tap() as t, Place() as place:
    missing = gitservers.missing()
    if missing:
        t.skip("mirrors", "not here: " + ", ".join(missing))
        sys.exit(0)
    os.chmod(place.dir, 0o755)
    # started by root, a mirror belongs to its row
    place.env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
    repo = place.repository({"a.txt": "one\n"}, remote=False)
    served = place.path("served")
    for way in ("https", "ssh"):
        place.git("init", "-q", "--bare", "-b", "main", os.path.join(served, f"{way}.git"))
        place.git("config", "http.receivepack", "true", cwd=os.path.join(served, f"{way}.git"))
        place.git("push", "-q", os.path.join(served, f"{way}.git"), "main", "main:refs/heads/topic", "main:refs/tags/v0", cwd=repo)

    # ---- what is refused before anything is started ----
    for what, words, status in (
            ("no mirror", [], 2), ("an unknown one", ["x", "-c", "mirror.y.url=https://localhost/x"], 2),
            ("a path", ["x", "-c", "mirror.x.url=/tmp"], 2), ("plain http", ["x", "-c", "mirror.x.url=http://localhost/x"], 2),
            ("a password in the URL", ["x", "-c", "mirror.x.url=https://u:p@localhost/x"], 2),
            ("a remote helper", ["x", "-c", "mirror.x.url=ext::sh -c id"], 2),
            ("a name with a slash", ["../x", "-c", "mirror.../x.url=https://localhost/x"], 2),
            ("an unknown key", ["x", "-c", "mirror.x.url=https://localhost/x", "-c", "mirror.x.what=1"], 2),
            ("ssh without a key", ["x", "-c", "mirror.x.url=ssh://localhost/x"], 2)):
        result = place.agent("mirror", *words)
        t.equal(result.status, status, f"{what}: {status}", result.text)
    result = place.agent("mirror", "-c", "mirror.x.what=1", "-c", "mirror.y.what=1")
    t.equal((result.status, result.err.count("is nothing that a mirror has"), result.err.count("agent: next: url, path, token")),
            (2, 2, 2), "of each that fails the next step is said", result.text)

    with gitservers.HttpsServer(place.path("nginx"), served, "bot", TOKEN) as server:
        place.write("token", TOKEN + "\n", 0o600)

        def https(token="file:" + place.path("token"), **more):
            pairs = {"url": f"https://localhost:{server.port}/git/https.git", "ca": server.authority.ca, "user": "bot",
                     "token": token, **more}
            return [word for key, value in pairs.items() for word in ("-c", f"mirror.https.{key}={value}")]

        follow(t, place, "https", repo, os.path.join(served, "https.git"), https)
        place.write("wrong", "not-it\n", 0o600)
        result = place.agent("mirror", "https", *https(token="file:" + place.path("wrong")))
        t.ok(result.status == 4 and "token" in result.err, "https: a wrong token is said", result.text)
        result = place.agent("mirror", "https", *https(token="env:READ_TOKEN"), env={"READ_TOKEN": TOKEN})
        t.equal(result.status, 0, "https: a token from the environment", result.text)
        result = place.agent("mirror", "https", *https(url=f"https://localhost:{server.port}/elsewhere/https.git"))
        t.equal(result.status, 4, "https: a redirect to another host is not followed", result.text)
    result = place.agent("mirror", "https", *https())
    t.equal(result.status, 4, "https: a server that is gone", result.text)

    why = gitservers.no_login()
    if why:
        t.skip("ssh", why)
    else:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path("key")], check=True)
        with gitservers.SshServer(place.path("sshd"), open(place.path("key.pub")).read()) as server:
            place.write("known", server.known_hosts())

            def ssh(**more):
                pairs = {"url": f"ssh://{server.user}@localhost:{server.port}{served}/ssh.git", "sshKey": "file:" + place.path("key"),
                         "knownHosts": place.path("known"), **more}
                return [word for key, value in pairs.items() for word in ("-c", f"mirror.ssh.{key}={value}")]

            follow(t, place, "ssh", repo, os.path.join(served, "ssh.git"), ssh)
            place.write("unknown", "")
            result = place.agent("mirror", "ssh", *ssh(knownHosts=place.path("unknown")))
            t.ok(result.status in (2, 4), "ssh: an unknown host is not trusted", result.text)

    planted = []
    for top, _, files in os.walk(place.state):
        for name in files:
            with open(os.path.join(top, name), "rb") as f:
                if TOKEN.encode() in f.read():
                    planted.append(os.path.join(top, name))
    t.equal(planted, [], "the read credential is in no file of ours")
    t.equal(place.leftovers(), [], "nothing is left")
