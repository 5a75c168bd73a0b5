#!/usr/bin/python3
# deadline: 400
"""A warm that is killed: any of its processes, at any moment. No half layer is ever found; what is left is swept."""
import hashlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import registries  # noqa: E402
from e2e import Place, descendants, processes, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

SLOW = "sh -c 'mkdir -p out ~/x/y; echo a > out/a; chmod 0500 ~/x; touch started; sleep 100'"
ASKS = ("python3 -c 'import socket, time; open(\"started\", \"w\").close()\n"
        "while True: socket.create_connection((\"127.0.0.1\", 3128)).close(); time.sleep(0.05)'")
QUICK = "sh -c 'mkdir -p out/d; i=0; while [ $i -lt 400 ]; do echo $i > out/d/$i; i=$((i+1)); done'"


def repository(place, name, warm):
    quoted = warm.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return place.repository({"input": name + "\n"}, name=name, test="true",
                            config=f'[fetch]\n\twarm = "{quoted}"\n\tinputs = input\n\toutput = out\n\toutput = ~/x\n'
                            if "~/x" in warm else
                            f'[fetch]\n\twarm = "{quoted}"\n\tinputs = input\n\toutput = out\n')


def start(place, repo):
    model = place.recording([[("write_file", {"path": "added.txt", "content": "x\n"})]])
    return place.start("run", "-m", "Add", "--dry-run", "--rounds", "1", "--model", model, cwd=repo)


def find(child, program):
    names = {pid: words for pid, words, _ in processes()}
    return [pid for pid in descendants(child.pid) if names.get(pid, "").split(" ")[0].endswith(program)]


def whole(place, layer):
    """Whether every file of a sealed layer is what its manifest says."""
    top = os.path.join(place.state, "store/deps", layer)
    with open(os.path.join(top, "manifest"), encoding="utf-8") as f:
        lines = [line.rstrip("\n").split(" ", 3) for line in f]
    for mode, _, digest, path in lines:
        if mode.startswith("100"):
            with open(os.path.join(top, path), "rb") as f:
                if hashlib.sha256(f.read()).hexdigest() != digest:
                    return False
    return sum(1 for _ in os.walk(os.path.join(top, "work"))) > 0 and len(lines) > 400


def gone(place):
    wait_for(lambda: not [x for x in place.leftovers() if x.startswith("process")], 30, "the end of all processes")


def in_warm(place, child):
    """Until the command of the warm runs."""
    top = os.path.join(place.state, "store/deps")

    def there():
        if child.poll() is not None:
            raise RuntimeError("ended early: " + place.background_text())
        return [n for n in (os.listdir(top) if os.path.isdir(top) else []) if n.startswith(".tmp-")
                and os.path.exists(os.path.join(top, n, "work/started"))]
    wait_for(there, 60, "the warm")


def check_supervisor(t, place):
    repo = repository(place, "supervisor", SLOW)
    child = start(place, repo)
    in_warm(place, child)
    child.kill()
    child.wait()
    gone(place)
    layers, rest = registries.deps(place)
    t.equal((layers, len(rest)), ([], 1), "the supervisor is killed: everything ends, no layer, only the working directory is left")
    result = place.agent("gc")
    t.equal((result.status, registries.deps(place)), (0, ([], [])), "agent gc sweeps it", result.text)


def check_part(t, place, program, number):
    repo = repository(place, f"part{number}", ASKS if program == "agent-egress" else SLOW)
    child = start(place, repo)
    in_warm(place, child)
    for pid in find(child, program):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    child.wait(60)
    gone(place)
    t.ok(child.returncode in (4, 125) and registries.deps(place) == ([], []),
         f"{program} is killed: the run ends with a reason, nothing is sealed or left",
         f"{child.returncode} {registries.deps(place)}\n{place.background_text()}")


def check_interrupt(t, place):
    repo = repository(place, "interrupt", SLOW)
    child = start(place, repo)
    in_warm(place, child)
    os.killpg(child.pid, signal.SIGINT)
    child.wait(60)
    gone(place)
    t.equal((child.returncode, registries.deps(place)), (130, ([], [])), "Ctrl-C: 130, nothing is sealed or left",
            place.background_text())


def check_moments(t, place):
    """Killed at moments spread over a whole warm, the sealing included."""
    repo = repository(place, "moments", QUICK)
    begun = time.monotonic()
    first = start(place, repo)
    first.wait(100)
    length = time.monotonic() - begun
    layers, _ = registries.deps(place)
    t.ok(first.returncode == 0 and len(layers) == 1 and whole(place, layers[0]), "an undisturbed warm seals a whole layer",
         place.background_text())
    bad, sealed = [], 0
    for i in range(16):
        place.write(os.path.join(repo, "input"), f"{i}\n")
        place.git("commit", "-qam", str(i), cwd=repo)
        before = set(registries.deps(place)[0])
        child = start(place, repo)
        time.sleep(length * (i + 1) / 18)  # a moment to try, not a wait for something
        child.kill()
        child.wait()
        gone(place)
        new = set(registries.deps(place)[0]) - before
        sealed += len(new)
        bad += [x for x in new if not whole(place, x)]
    t.equal(bad, [], f"killed at 16 moments: each layer that was sealed ({sealed}) is whole")
    place.agent("gc")
    t.equal(registries.deps(place)[1], [], "agent gc sweeps the rest")


with Tap() as t, Place() as place:
    place.limits()
    check_supervisor(t, place)
    for number, program in enumerate(("agent-fetch", "agent-jail", "agent-egress")):
        check_part(t, place, program, number)
    check_interrupt(t, place)
    check_moments(t, place)
    t.equal([x for x in place.leftovers() if not x.startswith("cgroup")], [], "no process and no mount is left")
