#!/usr/bin/python3
# deadline: 300
"""agent queue and agent work: a job from its addition to its branch; one a repository and issue; limits, attempts, parking,
cancelling, stopping; what a service manager is told; secrets that the environment of a worker cannot give."""
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t, Place() as place:
    limits = ["-c", "jail.limits=degraded-ok"] if place.limits() else []
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    count = 0

    def fresh(test="grep zwei a.txt"):
        global count
        count += 1
        return place.repository({"a.txt": "one\ntwo\n"}, name=f"repo{count}", test=test)

    def add(repo, text="Translate two", *more, **kw):
        return place.agent("queue", "add", "--json", "-m", text, "--model", model, *limits, *more, cwd=repo, **kw)

    def number(result):
        return json.loads(result.out)["job"] if result.status == 0 else result.text

    def job(i):
        return json.loads(place.agent("queue", "show", "--json", str(i)).out)

    def once(*more, **kw):
        return place.agent("work", "--once", *more, **kw)

    def wait_state(i, *states):
        return wait_for(lambda: job(i)["state"] in states and job(i), 60, f"job {i} to be {states}")

    def work(*more, **kw):
        return place.start("work", *more, limits=False, **kw)

    def end(worker, number=signal.SIGTERM):
        worker.send_signal(number)
        return worker.wait(60)

    # ---- from end to end ----
    repo = fresh()
    result = add(repo)
    t.equal(result.status, 0, "a job is added", result.text)
    first = number(result)
    t.equal(job(first)["state"], "queued", "and waits")
    again = add(repo)
    t.equal(again.status, 3, "the same once more is skipped", again.text)
    t.contains(again.err, f"job {first} is the same and queued", "and the reason is said")
    listed = place.agent("queue", "list")
    t.contains(listed.out, "Translate two", "the list shows it")
    worked = once()
    t.equal(worked.status, 0, "agent work --once ends with 0", worked.text)
    t.equal((job(first)["state"], job(first)["reason"]), ("done", "pushed agent/translate-two"), "the job is done", worked.text)
    t.equal(list(place.branches(repo)), ["refs/heads/agent/translate-two"], "one branch is pushed")
    t.equal(place.agent("queue", "list").out, "no jobs wait or run\n", "the list is empty then")
    t.contains(place.agent("queue", "list", "--all").out, "done", "but for --all")
    result = place.agent("queue", "retry", str(first))
    t.ok(result.status == 3 and f"next: agent queue show {first} tells" in result.err, "what is done is not done again, and what may be is said",
         result.text)

    # ---- one a repository and issue; the newer counts; priorities ----
    repo = fresh()
    old, new = number(add(repo, "Translate two")), number(add(repo, "Translate two", "--rounds", "2"))
    t.equal((job(old)["state"], job(old)["reason"]), ("superseded", f"superseded by job {new}"), "a newer job supersedes a queued one")
    urgent = number(add(fresh(), "Translate two, soon", "--priority", "5", "--origin", "hook"))
    worked = once("--jobs", "1")
    t.ok(job(urgent)["started"] < job(new)["started"], "the higher priority is first", worked.text)
    t.equal((job(urgent)["state"], job(new)["state"]), ("done", "done"), "both are done", worked.text)

    # ---- red tests are a refusal; retry begins anew ----
    repo = fresh(test="false")
    red = number(add(repo, "Translate two", "--rounds", "1"))
    worked = once()
    t.equal((job(red)["state"], job(red)["attempts"]), ("refused", 1), "red tests are the end", job(red))
    t.contains(job(red)["reason"], "still red", "with the reason")
    t.equal(worked.err.count("still red"), 1, "which the worker tells once", worked.err)
    t.contains(worked.err, f"job {red}: refused: ", "with what became of the job")
    told = [line.split(": ", 1)[1] for line in worked.err.splitlines() if line.startswith(f"job {red}: ")]
    t.ok(told[-1].startswith("next: "), "and last what to do next", worked.err)
    run = job(red)["run"]
    t.equal(place.agent("queue", "retry", str(red)).status, 0, "a person may have it tried again")
    once()
    t.ok(job(red)["run"] != run and job(red)["state"] == "refused", "by a new run", job(red))

    # ---- bad input is parked; retry sees what was mended in the repository ----
    repo = place.repository({"a.txt": "one\ntwo\n"}, name="untold")
    untold = number(add(repo))
    worked = once()
    t.equal((job(untold)["state"], job(untold)["reason"]), ("parked", "no test command"), "what lacks a test command is parked", worked.text)
    place.write(os.path.join(repo, ".agent/config"), "[test]\n\tcommand = grep zwei a.txt\n")
    place.git("add", ".agent/config", cwd=repo)
    place.git("commit", "-q", "-m", "Say how to test", cwd=repo)
    place.agent("queue", "retry", str(untold))
    worked = once()
    t.equal((job(untold)["state"], job(untold)["reason"]), ("done", "pushed agent/translate-two"), "once one is committed, retry finds it", worked.text)

    # ---- failures outside: again later, then parked ----
    repo = fresh()
    place.hook(repo, "pre-receive", "#!/bin/sh\nexit 0\n")
    os.rename(repo + ".git/objects", repo + ".git/gone")
    failing = number(add(repo))
    worker = work("-c", "queue.attempts=2", "-c", "queue.wait=1")
    wait_state(failing, "parked", "done", "refused", "skipped")
    status = end(worker)
    text = place.background_text()
    t.equal((job(failing)["state"], job(failing)["attempts"]), ("parked", 2), "what fails outside of the change is parked after its attempts", text)
    t.equal(status, 0, "SIGTERM ends an idle worker with 0", text)
    os.rename(repo + ".git/gone", repo + ".git/objects")
    place.agent("queue", "retry", str(failing))
    before = job(failing)["run"]
    worked = once()
    t.equal((job(failing)["state"], job(failing)["run"]), ("done", before), "retry resumes its run when it is mended", worked.text)

    # ---- secrets ----
    refused = place.agent("queue", "add", "-m", "x", "--model", "openai:m", "--key", "env:MY_KEY", cwd=fresh(), env={"MY_KEY": "k"})
    t.equal(refused.status, 2, "a secret from the environment is refused", refused.text)
    t.contains(refused.err, "file:PATH", "and what else there is, is said")
    unset = place.agent("queue", "add", "--json", "-m", "x", "--model", "openai:m", *limits, cwd=fresh())
    t.contains(unset.err, "the worker takes none", "a key that is not set here is noted")
    once(env={"OPENAI_API_KEY": "planted"})
    t.equal(job(number(unset))["state"], "parked", "a worker's variable does not reach the job", job(number(unset)))
    t.contains(job(number(unset))["reason"], "model.key: the environment variable OPENAI_API_KEY is not set", "the reason names the key")
    server = place.model_server([[edit("a.txt", "two", "zwei")]], key="sesame")
    repo = fresh()
    keyed = number(place.agent("queue", "add", "--json", "-m", "Translate two", "--model", "openai:m", "--base-url", server.url,
                               "--key", "file:" + place.write("key", "sesame\n", 0o600), *limits, cwd=repo))
    worked = once()
    t.equal(job(keyed)["state"], "done", "a key from a file does", worked.text)

    # ---- cancel, supersede and stop what runs ----
    slow = "sh -c 'sleep 3; grep zwei a.txt'"
    worker = work("-c", "queue.perRepository=4", "--jobs", "4")
    running = number(add(fresh(slow)))
    wait_state(running, "running")
    begun = time.monotonic()
    t.equal(place.agent("queue", "cancel", str(running)).status, 0, "a running job is cancelled")
    wait_state(running, "cancelled", "done", "refused")
    t.equal(job(running)["state"], "cancelled", "and ends", place.background_text())
    repo = fresh(slow)
    running = number(add(repo))
    wait_for(lambda: job(running)["run"] and any(e.get("stage") == "test" for e in place.events(job(running)["run"])), 60, "its test")
    newer = number(add(repo, "Translate two", "--rounds", "4"))
    wait_state(running, "superseded", "done")
    t.equal(job(running)["state"], "superseded", "a newer job stops a running one at its next step", place.background_text())
    t.equal(wait_state(newer, "done", "parked", "refused")["state"], "done", "and is run itself", place.background_text())
    t.equal(len(place.branches(repo)), 1, "one branch is pushed")
    repo = fresh(slow)
    running = number(add(repo))
    wait_for(lambda: job(running)["run"] and any(e.get("stage") == "test" for e in place.events(job(running)["run"])), 60, "its test")
    t.equal(end(worker), 0, "SIGTERM while a job runs ends the worker with 0", place.background_text())
    t.equal((job(running)["state"], job(running)["attempts"]), ("queued", 0), "the job waits again, without a lost attempt", place.background_text())
    t.ok(os.path.exists(os.path.join(place.run_dir(job(running)["run"]), "round-1/verdict.json")), "its step was finished")
    worker = work()
    wait_state(running, "running", "done")
    end(worker, signal.SIGKILL)
    # at once; but for a moment what the worker was just starting may have its lock
    wait_for(lambda: [once(), job(running)["state"]][1] != "running", 30, "somebody to take the job over")
    t.equal(job(running)["state"], "done", "a job whose worker was killed is taken over")
    asked = [e for e in place.events(job(running)["run"]) if e.get("event") == "stage" and e.get("stage") == "model"]
    t.equal(len(asked), 1, "and the model is asked once in all")

    # ---- the second signal ends at once ----
    worker = work()
    running = number(add(fresh("sleep 100")))
    wait_for(lambda: job(running)["run"] and any(e.get("stage") == "test" for e in place.events(job(running)["run"])), 60, "its test")
    worker.send_signal(signal.SIGTERM)
    wait_for(lambda: "stopping: " in place.background_text(), 10, "the first")
    begun = time.monotonic()
    t.equal(end(worker), 0, "a second SIGTERM ends the worker at once", place.background_text())
    t.ok(time.monotonic() - begun < 20, "without waiting for the step")
    t.equal(job(running)["state"], "queued", "its job waits again")
    place.agent("queue", "cancel", str(running))

    # ---- a service manager, and pick-up ----
    path = place.path("notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    manager.settimeout(20)
    worker = work(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
    t.contains(manager.recv(200).decode(), "READY=1", "the manager is told when it is ready")
    t.equal(manager.recv(200).decode(), "WATCHDOG=1", "and that it lives")
    added = number(add(fresh()))
    t.equal(wait_state(added, "done", "parked")["state"], "done", "a waiting worker takes a new job", place.background_text())
    status = end(worker)
    told = []
    manager.settimeout(0.1)
    try:
        while True:
            told.append(manager.recv(200).decode())
    except OSError:
        pass
    t.ok(status == 0 and any(word.startswith("STOPPING=1") for word in told), "and that it stops", told)

    # ---- PID 1 of a container ----
    if os.geteuid() == 0:
        def children(pid):
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return [int(word) for word in file.read().split()]

        def name(pid):
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                    return file.read()
            except OSError:
                return ""

        os.mkfifo(place.path("fifo"))
        worker = place.start("work", limits=False, before=["unshare", "--pid", "--fork", "--mount-proc"])
        wait_for(lambda: children(worker.pid) and name(children(worker.pid)[0]) == "agent\n", 30, "the worker")
        agent = children(worker.pid)[0]
        subprocess.run(["nsenter", "--pid", "--target", str(agent), "sh", "-c", 'read x <"$0" & exit 0', place.path("fifo")], check=True)

        def given():
            return [pid for pid in children(agent) if name(pid) == "sh\n"]
        wait_for(given, 30, "the worker to be given a process that is not its own")
        with open(place.path("fifo"), "w", encoding="ascii"):
            pass
        wait_for(lambda: not given(), 30, "the worker to reap it")
        t.equal(given(), [], "a worker that is PID 1 reaps what its jobs leave")
        os.kill(agent, signal.SIGTERM)
        t.equal(worker.wait(60), 0, "and stops as any", place.background_text())

    # ---- bad input ----
    for words, wanted in ((["frobnicate"], "no such thing"), (["show"], "number of a job"), (["show", "x"], "number of a job"),
                          (["show", "99999"], "no job 99999"), (["cancel", "99999"], "no job"), (["retry", "99999"], "no job"),
                          (["list", "--priority", "3"], "no options"), (["list", "1"], "no words"),
                          (["add", "-m", "x", "--priority", "10"], "-9 to 9"), (["add", "-m", "x", "--origin", "me"], "must be one of"),
                          (["add"], "takes one issue"), (["add", "-m", ""], "empty"), (["show", "--all", "1"], "--all is for list")):
        result = place.agent("queue", *words, cwd=repo)
        t.ok(result.status == 2 and wanted in result.err, f"agent queue {' '.join(words)}: 2, said", result.text)
    t.equal(place.agent("queue", "cancel", str(first)).status, 3, "what has ended is not cancelled")
    hostile = number(add(repo, "\x1b[31mred\u202e title"))
    t.ok("\x1b" not in place.agent("queue", "list").out and "\u202e" not in place.agent("queue", "show", str(hostile)).out,
         "a hostile title stays text")
    t.equal(os.listdir(os.path.join(place.state, "workers")), [], "no worker's lock file is left")

    # ---- a database that others hold, or that is none ----
    path = os.path.join(place.state, "agent.db")
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    result = place.agent("queue", "cancel", str(hostile))
    holder.rollback()
    holder.close()
    t.ok(result.status == 75 and "another process has held it" in result.err, "one that is held: try later", result.text)
    t.equal(place.agent("queue", "cancel", str(hostile)).status, 0, "as one can")
    for name in ("agent.db-wal", "agent.db-shm"):
        if os.path.exists(os.path.join(place.state, name)):
            os.unlink(os.path.join(place.state, name))
    place.write(path, "no database " * 400)
    for words in (["queue", "list"], ["work", "--once"]):
        result = place.agent(*words)
        t.ok(result.status == 4 and "move agent.db and agent.db-wal away" in result.err, f"agent {words[0]}: one that is none is said, with the way out",
             result.text)
    os.unlink(path)
    t.equal(place.agent("queue", "list").status, 0, "which leads out")
    t.equal(place.leftovers(), [], "nothing is left")
