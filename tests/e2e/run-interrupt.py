#!/usr/bin/python3
# deadline: 500
"""Ctrl-C, SIGTERM and SIGHUP in each stage: 130, nothing left, the run saved, and resume goes on."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, descendants, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

ENDS_S = 20


def commands(child):
    found = []
    for pid in descendants(child.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found.append(f.read().replace(b"\0", b" ").decode(errors="replace").strip())
        except OSError:
            pass
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


with Tap() as t, Place() as place:
    place.limits()
    replay = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])

    def runs(stage, word):
        """Waits until that stage runs a command with that word in it."""
        def ready(child):
            place.wait_stage(child, stage)
            wait_for(lambda: any(word in words for words in commands(child)), 60, word)
        return ready

    def interrupted(name, repo, ready, number, group=True, unblock=lambda: None, model=replay, extra=()):
        known = place.runs()
        child = place.start("run", "-m", "Translate two", "--model", model, *extra, cwd=repo)
        ready(child)
        mine = [child.pid] + descendants(child.pid)
        if group:
            os.killpg(child.pid, number)
        else:
            os.kill(child.pid, number)
        try:
            status = child.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            status = f"still running after {ENDS_S} s"
            child.kill()
        text = place.background_text()
        t.equal(status, 130, f"{name}: ends with 130", text)
        said = [line for line in text.splitlines() if line.startswith("agent:")]
        t.ok("interrupted" in text and 1 <= len(said) <= 2 and "resume" in text,
             f"{name}: says so, and what to do next", text)
        try:
            wait_for(lambda: not [pid for pid in mine if alive(pid)], 10, "the processes to end")
        except TimeoutError:
            pass
        t.equal([words for words in map(name_of, filter(alive, mine))], [], f"{name}: no process is left")
        t.equal(place.leftovers(), [], f"{name}: no mount or control group either")
        t.equal(place.branches(repo), {}, f"{name}: nothing was pushed")
        unblock()
        left = [run for run in place.runs() if run not in known]
        t.equal(len(left), 1, f"{name}: its run is there", left)
        resumed = place.agent("resume", *left)
        t.equal((resumed.status, len(place.branches(repo))), (0, 1), f"{name}: resume brings it to its end", resumed.text)

    def name_of(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return pid, f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return pid, ""

    for number, group in ((signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, False)):
        repo = place.repository({"a.txt": "one\ntwo\n"}, name=f"test-{number.name}",
                                test="sh -c 'sleep 4.25; grep zwei a.txt'")
        interrupted(f"test, {number.name}", repo, runs("test", "sleep 4.25"), number, group)

        waiting = place.write(f"wait-{number.name}", "")
        repo = place.repository({"a.txt": "one\ntwo\n"}, name=f"publish-{number.name}", test="grep zwei a.txt")
        place.hook(repo, "pre-receive", f"#!/bin/sh\nwhile test -e {waiting}; do sleep 0.1; done\n")
        interrupted(f"publish, {number.name}", repo, runs("publish", "pre-receive"), number, group,
                    unblock=lambda name=waiting: os.unlink(name))

    repo = place.repository({"a.txt": "one\ntwo\n", "needs.txt": "x\n"}, name="fetch", test="grep zwei a.txt",
                            config="[fetch]\n\twarm = \"sh -c 'sleep 4.5; mkdir -p deps; echo 1 >deps/x'\"\n"
                                   "\tinputs = needs.txt\n\toutput = deps\n")
    interrupted("fetch, SIGINT", repo, runs("fetch", "sleep 4.5"), signal.SIGINT)

    # ---- model: a server that says nothing to the first request and answers the second ----
    server = place.model_server([[edit("a.txt", "two", "zwei"), submit("Translate two")]], {1: ["silence", "ok"]})
    repo = place.repository({"a.txt": "one\ntwo\n"}, name="model", test="grep zwei a.txt")

    def asked(child):
        place.wait_stage(child, "model")
        wait_for(server.requests, 60, "a request")
    interrupted("model, SIGINT", repo, asked, signal.SIGINT, model="openai:test", extra=["--base-url", server.url])
    server.stop()

    # ---- two of the same issue: the second one stops before the model is paid for ----
    waiting = place.write("wait-two", "")
    repo = place.repository({"a.txt": "one\ntwo\n"}, name="two", test=f"sh -c 'sleep 0; grep zwei a.txt'")
    place.hook(repo, "pre-receive", f"#!/bin/sh\n: >{waiting}.seen\nwhile test -e {waiting}; do sleep 0.1; done\n")
    recording = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]], name="two.jsonl")
    known = place.runs()
    first = place.start("run", "-m", "Translate two", "--model", recording, cwd=repo)
    wait_for(lambda: os.path.exists(waiting + ".seen"), 60, "the first run's push")
    before = place.runs()
    running = next(run for run in before if run not in known)
    second = place.agent("run", "-m", "Translate two", "--model", recording, cwd=repo)
    t.equal(second.status, 3, "a second run of an issue that is being worked on is skipped", second.text)
    t.contains(second.err, f"run {running} works on the same issue", "it names the first")
    t.equal(place.runs(), before, "no model was asked, and no run is left of it")
    other = place.agent("run", "-m", "Another thing", "--model", recording, "--dry-run", cwd=repo)
    t.equal(other.status, 0, "another issue goes on", other.text)
    first.kill()
    first.wait()
    os.unlink(waiting)
    again = place.agent("run", "-m", "Translate two", "--model", recording, cwd=repo)
    t.equal(again.status, 0, "the lock ends with its holder, however it ends", again.text)
