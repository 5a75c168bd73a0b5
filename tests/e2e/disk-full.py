#!/usr/bin/python3
"""A disk that is full, wherever it is met: one clear line, nothing half-written that counts, and with room again the run goes on to
its end. The state directory is a tmpfs of every size from none to enough, in a mount namespace of the test's own."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

FILES = {"a.txt": "one\ntwo\n", **{f"f{i}": "x" * 4000 + "\n" for i in range(20)}}


def mount(path, kib):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={max(kib, 4)}k,mode=700", "tmpfs", path], check=True)
    if kib == 0:
        with open(os.path.join(path, "fill"), "wb") as f:
            f.write(b"x" * 4096)


def fill(path):
    try:
        with open(os.path.join(path, "fill"), "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
    except OSError:
        pass


def give_room(path):
    subprocess.run(["mount", "-o", "remount,size=64m", path], check=True)


def said(result):
    lines = [line for line in result.err.splitlines() if line.startswith("agent:")]
    return [line for line in lines if not line.startswith("agent: next:")], [line for line in lines if line.startswith("agent: next:")]


def is_clear(result, resumable, status=4):
    what, following = said(result)
    return (result.status == status and len(what) == 1 and len(following) == 1 and "make room" in following[0] and
            ("No space left" in what[0] or "disk is full" in what[0]) and ("agent resume" in following[0]) == resumable)


def every_size(t, place, repo, model):
    bad, ends, done = [], set(), 0
    for kib in [*range(0, 24, 4), *range(24, 400, 12), 1000]:
        mount(place.state, kib)
        result = place.agent("run", "-m", "Translate two", "--model", model, "--branch", f"agent/k{kib}", cwd=repo)
        runs = place.runs()
        if result.status == 0:
            done += 1
        elif not is_clear(result, bool(runs)):
            bad.append((kib, result.text))
        else:
            ends.add(said(result)[0][0].split(":")[1].split("/")[0])
        give_room(place.state)
        if result.status and runs:
            again = place.agent("resume", cwd=repo)
            if again.status or f"refs/heads/agent/k{kib}" not in place.branches(repo):
                bad.append((kib, result.text, "resumed:", again.text))
        elif result.status and place.agent("show").out != "no runs yet\n":
            bad.append((kib, "a run of nothing is listed"))
        subprocess.run(["umount", "-l", place.state], check=True)
    t.equal(bad, [], "the state directory is full at any point: one line, what to do, and it goes on from there")
    t.ok(done >= 1 and len(ends) >= 6, "many points were met, the end too", f"{done} {ends}")


def others(t, place, repo, model):
    mount(place.state, 1000)
    place.agent("run", "-m", "Translate two", "--model", model, "--dry-run", cwd=repo)
    fill(place.state)
    result = place.agent("queue", "add", "-m", "x", "--model", model, cwd=repo)
    t.ok(is_clear(result, False), "a job cannot be queued: said", result.text)
    result = place.agent("jail", "--", "true", cwd=repo)
    t.ok(is_clear(result, False, 125), "a jail cannot be opened: said", result.text)
    result = place.agent("doctor")
    t.contains(result.out, "0 MiB free", "agent doctor tells it")
    result = place.agent("show")
    t.ok(result.status == 0 and "Translate two" in result.out, "agent show reads", result.text)
    result = place.agent("gc", "--days", "0")
    t.equal(result.status, 0, "agent gc makes room where there is none", result.text)
    t.equal(place.runs(), [], "as it was told")
    subprocess.run(["umount", "-l", place.state], check=True)


def remote(t, place, repo, model):
    os.rename(repo + ".git", repo + ".kept")
    mount(repo + ".git", 4000)
    subprocess.run(["cp", "-a", repo + ".kept/.", repo + ".git"], check=True)
    fill(repo + ".git")
    before = place.branches(repo)
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    what, following = said(result)
    t.ok(result.status == 4 and len(what) == 1 and "agent resume" in "".join(following), "the remote's disk is full: said, and saved", result.text)
    t.equal(place.branches(repo), before, "and nothing is there")
    give_room(repo + ".git")
    result = place.agent("resume", cwd=repo)
    t.equal((result.status, len(place.branches(repo)) - len(before)), (0, 1), "with room it is pushed", result.text)
    subprocess.run(["umount", "-l", repo + ".git"], check=True)


def warm(t, place, model):
    """Dependencies that do not fit."""
    repo = place.repository({"a.txt": "one\ntwo\n", "warm.sh": "mkdir -p out; head -c 3000000 /dev/urandom > out/x\n"}, name="warmed",
                            test="grep zwei a.txt", config="[fetch]\n\twarm = sh warm.sh\n\tinputs = warm.sh\n\toutput = out\n")
    mount(place.state, 2000)
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    t.ok(is_clear(result, True), "dependencies do not fit: said", result.text)
    give_room(place.state)
    result = place.agent("resume", cwd=repo)
    t.equal((result.status, len(place.branches(repo))), (0, 1), "with room they are warmed, and it goes on", result.text)
    subprocess.run(["umount", "-l", place.state], check=True)


def main():
    with Tap() as t, Place() as place:
        place.limits()
        repo = place.repository(FILES, test="grep zwei a.txt")
        model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
        every_size(t, place, repo, model)
        others(t, place, repo, model)
        remote(t, place, repo, model)
        warm(t, place, model)
        t.equal(place.leftovers(), [], "nothing is left behind")


if os.geteuid() != 0:
    with Tap() as tap:
        tap.skip("disk full", "only root can mount a disk to fill")
elif len(sys.argv) > 1:
    main()
else:
    os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, os.path.abspath(__file__), "inside"])
