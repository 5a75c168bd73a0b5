#!/usr/bin/python3
# deadline: 600
"""Base layers in use: each commit's layer lies upon the nearest one and shows exactly what git checks out; made once by
whoever comes first; nothing half-made is ever used, whoever is killed; agent gc takes what nobody uses, the oldest first;
damage is found; a base that no checkout may follow is refused before the model is asked."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, descendants, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

KILLS = 10
LIST = """
import hashlib, os
for top, dirs, names in os.walk("."):
    dirs[:] = sorted(d for d in dirs if d != ".git")
    for name in sorted(dirs + [n for n in names if n != ".git"]):
        path = os.path.join(top, name)
        st = os.lstat(path)
        if os.path.islink(path):
            print(path, "->", os.readlink(path))
        elif os.path.isdir(path):
            print(path + "/")
        else:
            with open(path, "rb") as f:
                print(path, "x" if st.st_mode & 0o100 else "-", int(st.st_mtime), hashlib.sha256(f.read()).hexdigest())
"""
LISTER = ("/usr/bin/python3", "-c", LIST)
OLD = " 1000000000 "


def base(place):
    return os.path.join(place.state, "store/base")


def layers(place):
    """{tree id: seal} of the store."""
    found = {}
    for name in os.listdir(base(place)) if os.path.isdir(base(place)) else []:
        if name[0] != ".":
            with open(os.path.join(base(place), name, "sealed"), encoding="utf-8") as file:
                found[name] = dict(line.rstrip("\n").split(" ", 1) for line in file)
    return found


def others(place):
    return [n for n in os.listdir(base(place)) if n[0] == "."]


def by_git(place, repo):
    """The same list of a checkout by git."""
    tree = place.path("checkout")
    shutil.rmtree(tree, ignore_errors=True)
    place.git("worktree", "prune", cwd=repo)
    place.git("worktree", "add", "-q", "--detach", tree, "HEAD", cwd=repo)
    for top, _, names in os.walk(tree):
        for name in names:
            os.utime(os.path.join(top, name), (1000000000, 1000000000), follow_symlinks=False)
    return subprocess.run(LISTER, cwd=tree, capture_output=True, text=True, check=True).stdout


def commit(place, repo, message="Change"):
    place.git("add", "-A", cwd=repo)
    place.git("commit", "-q", "-m", message, cwd=repo)


def remove(repo, *names):
    for name in names:
        path = os.path.join(repo, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def changes(place, repo):
    """One commit after the other, each with a trap of its own."""
    def put(name, text, mode=None):
        place.write(os.path.join(repo, name), text, mode)
    put("d1/f1.c", "changed\n"), put("new/deep/er", "new\n")
    yield "a changed and a new file"
    remove(repo, "d2"), put("d2", "a file now\n")
    yield "a directory becomes a file"
    remove(repo, "d2"), put("d2/again", "a directory again\n")
    yield "and a directory again, without its old files"
    remove(repo, "d3"), remove(repo, "d1/f1.c")
    yield "a directory and a file go"
    put("d3/f3.c", "back\n")
    yield "and one comes back"
    put("mixed/.gitattributes", "*.txt text eol=crlf\n")
    yield "attributes change bytes of files that did not change"
    remove(repo, "mixed/.gitattributes"), put("mixed/b.txt", "b\nb\n")
    yield "and back again"
    os.symlink("../d1", os.path.join(repo, "new/link")), os.chmod(os.path.join(repo, "d4/f4.c"), 0o755)
    yield "a link and a mode"
    remove(repo, "new/link"), put("new/link/x", "x\n"), put("$Id$ x.c", "$Id$\n"), put(".gitattributes", "*x.c ident\n")
    yield "a link becomes a directory, and ident for some"
    put(".gitattributes", "* -text\n"), remove(repo, "d5")
    yield "the whole tree's attributes change"


def stacks(t, place):
    files = {f"d{i % 60}/f{i}.c": f"int f{i};\n" for i in range(3200)}
    files.update({"mixed/a.txt": "one\ntwo\n", "mixed/b.txt": "b\n", "mixed/c.c": "c\n"})
    repo = place.repository(files, test="true", remote=False)
    place.git("repack", "-adq", cwd=repo)
    result = place.agent("jail", "--", *LISTER, cwd=repo)
    t.ok(result.out == by_git(place, repo) and result.status == 0, "the first layer is what git checks out", result.err)
    first = layers(place)
    t.equal([(v["parent"], v["depth"]) for v in first.values() if int(v["files"]) > 3200], [("-", "0")], "it holds the whole tree")
    if len(os.sched_getaffinity(0)) > 1:
        t.equal([v["manifests"] for v in first.values() if int(v["files"]) > 3200], ["2"], "two processes wrote it")
    t.ok(OLD in result.out and not any(OLD not in line for line in result.out.splitlines() if ".c " in line),
         "its files have one old time stamp")
    for what in changes(place, repo):
        before = set(layers(place))
        commit(place, repo, what)
        result = place.agent("jail", "--", *LISTER, cwd=repo)
        wanted = by_git(place, repo)
        t.ok(result.status == 0 and result.out == wanted, f"{what}: as git checks it out",
             result.err + "\n".join(sorted(set(result.out.splitlines()) ^ set(wanted.splitlines()))[:20]))
        made = [v for k, v in layers(place).items() if k not in before]
        t.ok(len(made) == 1 and made[0]["parent"] != "-" and int(made[0]["files"]) < 200, f"{what}: in a small layer upon another", made)
    copied = place.agent("jail", "-c", "jail.layers=copy", "--", *LISTER, cwd=repo)
    t.equal((copied.status, copied.out), (0, result.out), "a copy of the stack is the same tree", copied.err)
    depths = [int(v["depth"]) for v in layers(place).values()]
    t.ok(max(depths) == 7, "no stack has more than eight layers", depths)
    made = len(depths)
    place.agent("jail", "--", "true", cwd=repo)
    t.equal(len(layers(place)), made, "a layer that is there is not made again")
    return repo


def together(t, place, repo):
    shutil.rmtree(base(place))
    children = []
    for i in range(4):
        children.append(subprocess.Popen(place.command(["jail", "--", *LISTER]), cwd=repo, env=place.env,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outs = [child.communicate(timeout=120) for child in children]
    wanted = by_git(place, repo)
    t.equal([child.returncode for child in children], [0] * 4, "four at once all run", outs[0][1])
    t.ok(all(out == wanted for out, _ in outs), "and see the same tree")
    t.equal((len(layers(place)), others(place)), (1, []), "the layer was made once, nothing is left of the making")


def killed(t, place, repo):
    """SIGKILL of the supervisor or of a maker, at an instant of the making that chance picks."""
    random.seed(int(os.environ.get("SEED", "7")))
    wanted, wrong = by_git(place, repo), []
    for i in range(KILLS):
        shutil.rmtree(base(place), ignore_errors=True)
        child = place.start("jail", "--", "true", cwd=repo)
        time.sleep(random.uniform(0, 0.25))
        victims = [child.pid] if i % 2 else descendants(child.pid)[:1]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait(60)
        result = place.agent("jail", "--", *LISTER, cwd=repo)
        if result.status != 0 or result.out != wanted:
            wrong.append((i, result.status, result.err))
    t.equal(wrong, [], f"{KILLS} kills: the next run always sees the whole tree")
    swept = place.agent("gc")
    t.equal((swept.status, others(place), os.listdir(os.path.join(place.state, "tmp"))), (0, [], []),
            "agent gc sweeps what they left", swept.text)


def collected(t, place, repo):
    child = place.start("jail", "--", "/bin/sh", "-c", "echo here; exec sleep 100", cwd=repo)
    wait_for(lambda: "here" in place.background_text(), 60, "the jail")
    place.write(os.path.join(repo, "more"), "more\n")
    commit(place, repo)
    place.agent("jail", "--", "true", cwd=repo)
    both = layers(place)
    upper = [k for k, v in both.items() if v["parent"] != "-"]
    result = place.agent("gc", "--days", "0")
    t.equal(list(layers(place)), [k for k in both if k not in upper], "agent gc leaves the layer of a run that goes on", result.text)
    child.kill()
    child.wait()
    place.agent("jail", "--", "true", cwd=repo)
    wait_for(lambda: place.agent("gc", "--days", "0") and not layers(place), 20, "gc")
    t.equal(os.listdir(os.path.join(place.state, "tmp")), [], "and takes it when the run has ended")
    # the cap: the oldest first, nothing that another lies upon
    for i in range(3):
        place.write(os.path.join(repo, "more"), f"{i}\n" * 3000)
        commit(place, repo)
        place.agent("jail", "--", "true", cwd=repo)
        place.agent("gc", "-c", "store.max=1g")
    names = sorted(layers(place), key=lambda n: os.stat(os.path.join(base(place), n)).st_mtime_ns)
    t.equal(len(names), 3, "under the cap all stay")
    dry = place.agent("gc", "--dry-run", "-c", "store.max=1k")
    t.equal((dry.status, len(layers(place))), (0, 3), "a dry run only tells", dry.text)
    total = sum(int(v["bytes"]) + 4096 * int(v["files"]) for v in layers(place).values())
    place.agent("gc", "-c", f"store.max={total - 1}")
    left = layers(place)
    t.ok(len(left) == 2 and all(v["parent"] in ("-", *left) for v in left.values()), "over it one goes, and no stack is broken", left)
    t.equal(place.agent("jail", "--", "true", cwd=repo).status, 0, "what is left is used")


def damaged(t, place, repo):
    result = place.agent("gc", "--verify")
    t.equal((result.status, "damaged" in result.out), (0, False), "--verify finds whole layers whole", result.text)
    victim = next(os.path.join(base(place), k, "tree/d6/f6.c") for k, v in layers(place).items() if v["parent"] == "-")
    with open(victim, "r+", encoding="utf-8") as file:
        file.write("INT")
    os.utime(victim, (1000000000, 1000000000))
    result = place.agent("gc", "--verify")
    t.ok(result.status == 0 and "damaged" in result.out and "d6/f6.c" in result.out, "--verify names a damaged file", result.text)
    t.ok(not os.path.exists(victim), "and removes its layer")
    result = place.agent("jail", "--", *LISTER, cwd=repo)
    t.equal((result.status, result.out), (0, by_git(place, repo)), "the next run makes it again", result.err)


def refused(t, place):
    """Trees that git itself would never make."""
    model = place.recording([[edit("a", "a", "b"), submit("x")]])
    repo = place.repository({"a": "a\n"}, name="hostile", test="true")
    blob = place.git("hash-object", "-w", "a", cwd=repo)
    agent = place.git("rev-parse", "HEAD:.agent", cwd=repo)

    def raw(entries):
        data = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        done = subprocess.run(["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"], cwd=repo, env=place.env,
                              input=data, capture_output=True, check=True)
        return done.stdout.decode().strip()
    top = [(b"40000", b".agent", agent)]
    cases = {
        "a name ..": [(b"100644", b"..", blob)],
        "a name .git": [(b"40000", b".git", agent)],
        "a slash": [(b"100644", b"../../x", blob)],
        "a name twice": [(b"100644", b"a", blob), (b"120000", b"a", blob)],
        "a file and a directory of one name": [(b"120000", b"a", blob), (b"40000", b"a", agent)],
        "an unsorted tree": [(b"100644", b"z", blob), (b"100644", b"a", blob)],
    }
    for what, entries in cases.items():
        below = raw(entries)
        for where, tree in (("at the top", raw(top + entries)), ("below", raw(top + [(b"40000", b"sub", below)]))):
            head = place.git("commit-tree", "-m", what, tree, cwd=repo)
            place.git("update-ref", "refs/heads/bad", head, cwd=repo)
            result = place.agent("run", "-m", "x", "--base", "bad", "--model", model, "--test", "true", "--dry-run", cwd=repo)
            asked = os.path.exists(os.path.join(place.run_dir(), "round-1"))
            t.ok(result.status == 1 and not asked and "cannot be checked out" in result.err,
                 f"{what} {where} is refused before the model", result.text)
    t.ok(not os.path.exists(os.path.join(place.dir, "x")), "nothing was written outside")


with Tap() as t, Place() as place:
    place.limits()
    repo = stacks(t, place)
    together(t, place, repo)
    killed(t, place, repo)
    collected(t, place, repo)
    damaged(t, place, repo)
    refused(t, place)
    t.equal(place.leftovers(), [], "no process, mount or control group is left")
