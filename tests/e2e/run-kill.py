#!/usr/bin/python3
# deadline: 900
"""SIGKILL of the supervisor and of each stage, at many instants: nothing is lost that was finished, nothing is left,
and resume brings the run to its end. "Instants" are spread over the length of an undisturbed run."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, descendants, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

INSTANTS = 24
PROGRAMS = ("agent-apply", "agent-model", "agent-test", "agent-jail", "agent-publish")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def quick_descendants(pid):
    """By the kernel's list of children: quick enough to meet a program that lives for some milliseconds."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            found = [int(word) for word in f.read().split()]
    except OSError:
        pass
    return found + [deeper for child in found for deeper in quick_descendants(child)]


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        pass
    try:  # a process that gave up being looked at still has its name
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


with Tap() as t, Place() as place:
    place.limits()
    rounds = [[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]]
    model = place.recording(rounds)
    count = 0

    def fresh(test="grep zwei a.txt"):
        global count
        count += 1
        return place.repository({"a.txt": "one\ntwo\n"}, name=f"repo{count}", test=test)

    def settle(pids):
        wait_for(lambda: not [p for p in pids if alive(p)], 15, "the processes of a killed run to end")

    def finish(repo, known):
        """Resume the run, if it got that far; or run again. Returns what is wrong, or ''."""
        new = [r for r in place.runs() if r not in known]
        if new and os.path.exists(os.path.join(place.run_dir(new[-1]), "request.json")):
            result = place.agent("resume", new[-1])
            if result.status == 3 and "push" in result.text:
                result.status = 0
        else:
            result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
        branches = place.branches(repo)
        if result.status != 0 or len(branches) != 1:
            return f"{branches}\n{result.text}"
        content = place.git("show", next(iter(branches.values())) + ":a.txt", cwd=repo + ".git")
        return "" if content == "one\nzwei" else content

    # how long an undisturbed one takes
    repo = fresh()
    begun = time.monotonic()
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    length = time.monotonic() - begun
    if not t.equal(result.status, 0, "an undisturbed run ends with 0", result.text):
        sys.exit(1)

    # ---- the supervisor, at instants over the whole length ----
    wrong, left = [], []
    for i in range(INSTANTS):
        repo, known = fresh(), place.runs()
        child = place.start("run", "-m", "Translate two", "--model", model, cwd=repo)
        time.sleep(length * (i + 0.5) / INSTANTS)
        pids = descendants(child.pid)
        child.kill()
        child.wait()
        try:
            settle(pids)
        except TimeoutError:
            left.append((i, [(p, program_of(p)) for p in pids if alive(p)]))
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)
        try:
            place.git("fsck", "--strict", "--no-dangling", cwd=repo + ".git")
        except RuntimeError as e:
            wrong.append((i, f"the server's repository is damaged: {e}"))
        what = finish(repo, known)
        if what:
            wrong.append((i, what))
    t.equal(left, [], f"killing the supervisor at {INSTANTS} instants leaves no process")
    t.equal(wrong, [], "and each of these runs is brought to its end afterwards, with one branch on the server")
    t.equal(place.leftovers(), [], "no mount or control group is left")

    # ---- each program, when it is there ----
    for program in PROGRAMS:
        repo, known = fresh(test="sh -c 'sleep 0.3; grep zwei a.txt'"), place.runs()
        child = place.start("run", "-m", "Translate two", "--model", model, cwd=repo)
        victim = None

        def find():
            global victim
            found = [p for p in quick_descendants(child.pid) if program_of(p) == program]
            victim = found[0] if found else None
            return victim or child.poll() is not None
        wait_for(find, 60, program)
        if victim is None:
            t.ok(False, f"{program} was seen", place.background_text())
            continue
        pids = descendants(child.pid)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = child.wait(60)
        text = place.background_text()
        t.ok(status in (0, 4), f"{program} killed: the run ends with 4", f"status {status}\n{text}")
        if status:
            t.ok(program.replace("agent-", "") in text, f"{program} killed: said", text)
        try:
            settle(pids)
            t.ok(True, f"{program} killed: no process is left")
        except TimeoutError as e:
            t.ok(False, f"{program} killed: no process is left", [(p, program_of(p)) for p in pids if alive(p)])
        what = finish(repo, known)
        t.equal(what, "", f"{program} killed: resume brings the run to its end")

    # ---- the untrusted command itself: a verdict, not a failure of ours ----
    repo = fresh(test="kill -9 $$")
    result = place.agent("run", "-m", "x", "--model", model, "--rounds", "1", cwd=repo)
    t.equal(result.status, 1, "a test command that is killed is a red test", result.text)
    t.equal(place.artefact("round-1/verdict.json")["outcome"], "signalled", "and the verdict says by what")
    t.equal(place.leftovers(), [], "nothing is left")

    # ---- gc ----
    # "not used for 0 days" is told in whole seconds
    swept = wait_for(lambda: place.agent("gc", "--days", "0"), 5, "gc")
    t.equal(swept.status, 0, "agent gc ends with 0", swept.text)
    try:
        wait_for(lambda: place.agent("gc", "--days", "0") and not place.runs(), 10, "gc to remove all")
    except TimeoutError:
        pass
    t.equal([(run, os.listdir(place.run_dir(run))) for run in place.runs()], [], "--days 0 removes every run")
