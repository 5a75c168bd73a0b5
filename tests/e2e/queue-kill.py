#!/usr/bin/python3
# deadline: 300
"""SIGKILL of workers, supervisors and stages, at random instants and in any order: no job is lost, none is done twice. Two workers
serve jobs of as many repositories, and whoever is killed of them is started again; in the end every job is done, and each
server has had its branch moved once. Where tests can have a uid of their own, some jobs are born of pushes, while reconcilers look on. The seed is printed; SEED repeats it, as far as instants can be repeated."""
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, descendants, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402
from tasksite import TaskSite, configure_operator  # noqa: E402

JOBS, TASKS, KILLS, END_S = 10, 4, 70, 150
ROOT_USER = os.geteuid() == 0
WORK = ("work", "--jobs", "4", "-c", "queue.attempts=1000", "-c", "queue.wait=1", "-c", "queue.reconcile=1")

with Tap() as t, Place() as place:
    limits = ["-c", "jail.limits=degraded-ok"] if place.limits() else []
    model = place.recording([[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]])
    seed = int(os.environ.get("SEED") or time.time())
    print(f"# SEED={seed}", flush=True)
    chance = random.Random(seed)
    repos = {}
    for i in range(JOBS):
        repo = place.repository({"a.txt": "one\ntwo\n"}, name=f"repo{i}", test="sh -c 'sleep 0.2; grep zwei a.txt'")
        place.git("config", "core.logAllRefUpdates", "always", cwd=repo + ".git")
        added = place.agent("queue", "add", "--json", "-m", "Translate two", "--model", model, *limits, cwd=repo)
        repos[json.loads(added.out)["job"]] = repo

    # jobs of hooks, of which every second one is lost: reconcilers find it; one repository has the result on the task branch
    sites = {}
    configure_operator(place, "[model]\n\tname = " + model + "\n")
    for i in range(TASKS if ROOT_USER else 0):
        site = TaskSite(place, f"task{i}", test="sh -c 'sleep 0.2; grep zwei a.txt'", **({"result": "task"} if i == 1 else {}))
        place.git("config", "core.logAllRefUpdates", "always", cwd=site.bare)
        if i % 2:
            os.unlink(os.path.join(site.bare, "hooks/post-receive"))
        sites[site] = (site.commit(f"Translate two, {i}"), "task/x" if i == 1 else "agent/x")
        site.push("HEAD:task/x")

    def worker():
        return place.start(*WORK, limits=False)

    def jobs():
        return json.loads(place.agent("queue", "list", "--all", "--json").out)

    def victims():
        """[(kind, pid)] of what lives below our workers."""
        found = []
        for one in workers:
            found.append(("worker", one.pid))
            for pid in descendants(one.pid):
                try:
                    with open(f"/proc/{pid}/comm") as f:
                        name = f.read().strip()
                except OSError:
                    continue
                # the untrusted command and the shell of a hook are not ours: killed, the tests are red, which is a verdict
                if name.startswith("agent"):
                    found.append((name, pid))
        return found

    workers = [worker(), worker()]
    killed = {}
    while sum(killed.values()) < KILLS and any(job["state"] not in ("done", "skipped") for job in jobs()):
        time.sleep(chance.random() * 0.25)
        by_kind = {}
        for kind, pid in victims():
            by_kind.setdefault(kind, []).append(pid)
        if not by_kind:
            continue
        kind = chance.choice(sorted(by_kind))  # each kind as often as another, however many there are
        try:
            os.kill(chance.choice(by_kind[kind]), signal.SIGKILL)
            killed[kind] = killed.get(kind, 0) + 1
        except ProcessLookupError:
            pass
        for i, one in enumerate(workers):
            try:
                one.wait(0.01)
                workers[i] = worker()
            except subprocess.TimeoutExpired:
                pass
    print(f"# killed: {killed}", flush=True)
    t.ok(sum(killed.values()) >= KILLS / 3 and {"worker", "agent"} & set(killed), "enough was killed to mean something", killed)
    try:
        wait_for(lambda: all(job["state"] in ("done", "skipped") for job in jobs()) and
                 sum(job["state"] == "done" for job in jobs()) == JOBS + len(sites), END_S, "the jobs' end")
    except TimeoutError:
        pass
    for one in workers:
        one.send_signal(signal.SIGTERM)
    t.equal([one.wait(90) for one in workers], [0, 0], "the workers end when they are asked", place.background_text())
    ended = jobs()
    t.equal([(job["id"], job["state"], job["reason"]) for job in ended if job["state"] != "done" and job["id"] in repos], [],
            "every job is done")
    t.equal(sum(job["state"] == "done" for job in ended), JOBS + len(sites), "and there is no other")
    for site, (tip, name) in sites.items():
        t.ok(site.states("task/x")[0] == "done" and set(site.states("task/x")[1:]) <= {"skipped"}, "a push has made one job", site.jobs())
        moves = place.git("reflog", "show", "refs/heads/" + name, cwd=site.bare).splitlines()
        t.ok(len(moves) == (2 if name == "task/x" else 1) and site.ref(name + "~") == tip and
             place.git("show", name + ":a.txt", cwd=site.bare) == "one\nzwei", "and one result", moves)
        t.contains(site.note(tip), "agent: published", "and its note")
    wrong = []
    for i, repo in repos.items():
        branches = place.branches(repo)
        if list(branches) != ["refs/heads/agent/translate-two"]:
            wrong.append((i, branches))
            continue
        if place.git("show", "agent/translate-two:a.txt", cwd=repo + ".git") != "one\nzwei":
            wrong.append((i, "content"))
        moves = place.git("reflog", "show", "agent/translate-two", cwd=repo + ".git").splitlines()
        if len(moves) != 1:
            wrong.append((i, moves))
        place.git("fsck", "--strict", "--no-dangling", cwd=repo + ".git")
    t.equal(wrong, [], "each server has the branch, moved once, with the tested change")
    t.equal(len(place.runs()), JOBS + len(sites), "each job had one run, from its first claim to its end")
    # what SIGKILL has left is swept by the next command
    swept = place.agent("gc")
    t.equal(swept.status, 0, "agent gc ends with 0", swept.text)
    t.equal(place.leftovers(), [], "no process, mount or control group is left")
    t.equal(os.listdir(os.path.join(place.state, "workers")), [], "no worker's lock file is left")
