#!/usr/bin/python3
# deadline: 300
"""A pushed task branch becomes one job, and its result comes back: over a path, git:// with pushers that are killed, and a root
worker's socket. However a push is told of, by its hook, by reconcilers, by several at once or by ones that are killed, there is one job."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers  # noqa: E402
from e2e import AGENT, BUILD, Place, ZERO, digest_tree, differences, wait_for  # noqa: E402
from tap import Tap  # noqa: E402
from tasksite import TaskSite, configure_operator  # noqa: E402

ROOT_USER = os.geteuid() == 0


def issue_of(place, job):
    with open(os.path.join(place.run_dir(job["run"]), "issue.md")) as f:
        return f.read()


def from_end_to_end(t, place):
    site = TaskSite(place, "end")
    tip = site.commit("Translate two\n\nInto German.")
    status, text = site.push("HEAD:task/german")
    t.ok(status == 0 and "agent: task/german: job 1 queued: Translate two" in text, "the pusher sees the job", text)
    t.contains(text, "its result comes to agent/german", "and where its result will be")
    t.contains(text, "agent queue show 1 follows it", "and how to follow it")
    t.equal(site.states(), ["queued"], "there is one")
    t.equal(site.jobs()[0]["origin"], "hook", "of a hook")
    worked = place.agent("work", "--once")
    job = site.jobs()[0]
    if not ROOT_USER:
        t.ok(job["state"] == "parked" and "would have the uid of whoever starts" in job["reason"],
             "without a uid of its own its tests are not run: parked", worked.text)
        t.contains(worked.err, "start agent work as root", "with the remedy")
        t.contains(worked.err, "job 1: parked: nobody watches", "and the worker's last word of a job says what became of it")
        t.equal(place.artefact("report.json", job["run"])["exit_status"], 125, "as 125")
        t.ok(not os.path.exists(os.path.join(place.run_dir(job["run"]), "round-1")), "before the model is asked")
        t.contains(site.note(tip), "agent: isolation", "and the pusher finds a note")
        return
    t.equal((job["state"], job["reason"]), ("done", "pushed agent/german"), "the job is done", worked.text)
    site.git("fetch", "-q", "origin", "agent/german", "refs/notes/agent:refs/notes/agent")
    t.equal(site.git("show", "FETCH_HEAD:a.txt"), "one\nzwei", "the pusher fetches the result")
    t.equal(site.git("rev-parse", "FETCH_HEAD~"), tip, "on top of what was pushed")
    note = site.git("notes", "--ref=agent", "show", tip)
    t.contains(note, "agent: published\ntask: Translate two\nresult: agent/german\ncommit: " + site.git("rev-parse", "FETCH_HEAD"),
               "and the note")
    t.contains(site.git("log", "-1", "--format=%B", "FETCH_HEAD"), "Issue: task/german", "the commit names the task")
    t.equal(issue_of(place, job), "Translate two\n\nInto German.\n", "the issue is the message")
    t.ok(f"refs/heads/task/german {tip[:12]}" in worked.err and "detached" not in worked.err, "its base is told by its branch", worked.text)
    base = place.artefact("base.json", job["run"])
    t.equal((base["commit"], base["config_ref"], base["config_commit"]), (tip, "refs/heads/main", site.git("rev-parse", "main~")),
            "the record names the commit that the configuration came from")
    t.equal(place.artefact("round-1/verdict.json", job["run"])["uid"], "separate", "the tests had a uid of their own")
    t.equal(place.agent("queue", "reconcile").out, "", "reconcile has nothing to say")
    t.equal(site.states(), ["done"], "nor to add")
    listed = place.agent("show", job["run"])
    t.contains(listed.out, "Into German", "and agent show tells of it")
    t.contains(listed.out, f"{tip} (refs/heads/task/german)", "and of its base")
    t.contains(listed.out, site.git("rev-parse", "main~") + " (refs/heads/main)", "and whose rules it had")


def sources(t, place):
    site = TaskSite(place, "sources")
    site.push("-oissue=Translate two by option", "base:task/option")
    site.commit("Not this", {".agent/task.md": "# Translate two by file\n\nAnd no other.\n"})
    site.push("HEAD:task/file")
    t.equal([job["title"] for job in site.jobs()], ["Translate two by option", "Translate two by file"], "an option, a file")
    t.equal(os.listdir(os.path.join(site.bare, "agent-tasks")), [], "nothing is kept behind a job")
    status, text = site.push("HEAD:topic")
    t.ok(status == 0 and "agent:" not in text, "a branch that is no task makes no word", text)
    t.equal(len(site.jobs()), 2, "and no job")
    status, text = site.push("-oissue=Both", "HEAD:task/a", "HEAD:task/b", "HEAD:topic2")
    t.equal([text.count(f"task/{name}: job") for name in "ab"], [1, 1], "several of one push", text)
    shutil.rmtree(os.path.join(site.bare, "hooks"))
    place.git("config", "agent.task", "refs/heads/bug/*", cwd=site.bare)
    place.git("config", "agent.refs/heads/odd.task", "true", cwd=site.bare)
    site.install()
    text = site.push("HEAD:bug/deep/er", "HEAD:odd", "HEAD:task/none")[1]
    t.ok("agent/deep/er" in text and "agent/odd" in text and "task/none:" not in text, "which refs are tasks, the operator says", text)


def stealing(t, place):
    """L9: what is pushed has no say in how it is tested, nor where the result goes."""
    site = TaskSite(place, "steal", test="grep never a.txt", settings="[run]\n\trounds = 1\n")
    evil = '[test]\n\tcommand = "true"\n\tenv = EVIL=1\n'
    tip = site.commit("Translate two", {".agent/config": evil})
    site.push("HEAD:task/steal")
    worked = place.agent("work", "--once", "-c", "queue.perRepository=4")
    job = site.jobs()[0]
    t.equal(job["state"], "refused", "a pushed .agent/config does not make its tests green", worked.text)
    verdict = place.artefact("round-1/verdict.json", job["run"])
    t.equal(verdict["command"], "grep never a.txt", "the command is the default branch's")
    base = place.artefact("base.json", job["run"])
    t.ok(base["commit"] == tip and "EVIL" not in base["config"] and base["config_commit"] == site.git("rev-parse", "base"),
         "and so is the rest", base)
    t.contains(site.note(tip), "agent: red", "the note says what became of it")
    # a config that would be refused, or name secrets, is nobody's concern
    site.commit("Translate two", {".agent/config": "[publish]\n\tremote = /elsewhere\n[no such thing\n"})
    site.push("HEAD:task/steal2")
    place.agent("work", "--once")
    t.equal(site.states("task/steal2"), ["refused"], "a pushed configuration is not even read")
    # where the trusted ref is missing, a branch of its whole name does not step in
    site.configure(configRef="refs/heads/rules")
    site.git("checkout", "-q", "--detach", "base")
    site.commit("Translate two", {".agent/config": '[test]\n\tcommand = "true"\n'})
    site.push("HEAD:refs/heads/refs/heads/rules", "HEAD:refs/heads/heads/rules", "HEAD:refs/tags/rules", "HEAD:task/steal3")
    place.agent("work", "--once")
    job = site.jobs("task/steal3")[0]
    t.ok(job["state"] == "parked" and "refs/heads/rules" in job["reason"], "no trusted ref: the job is parked", job)


def loops(t, place):
    site = TaskSite(place, "loop", result="task")
    tip = site.commit("Translate two")
    site.push("HEAD:task/loop")
    for _ in range(3):
        place.agent("work", "--once")
        place.agent("queue", "reconcile")
    made = site.ref("refs/heads/task/loop")
    t.ok(made != tip and site.ref(made + "~") == tip, "the result is on the task branch itself", site.jobs())
    t.equal(site.states(), ["done", "skipped"], "and starts nothing", site.jobs())
    t.contains(site.jobs()[1]["reason"], "pushed by run", "which is said")
    # the same with nobody who tells that it was ours
    os.unlink(os.path.join(site.bare, "hooks/post-receive"))
    again = site.commit("Translate two once more")
    site.push("-f", "HEAD:task/loop")
    for _ in range(3):
        place.agent("queue", "reconcile")
        place.agent("work", "--once")
    t.equal(site.states(), ["done", "skipped", "done", "skipped"], "nor where the hook is lost", site.jobs())
    t.contains(site.jobs()[3]["reason"], "Agent-Run", "its trailer says whose it is")
    t.equal(site.ref(site.ref("task/loop") + "~"), again, "each push has one result")
    site.install()
    # a person goes on where the agent ended
    site.git("fetch", "-q", "origin", "task/loop")
    site.git("checkout", "-q", "--detach", "FETCH_HEAD")
    site.commit("And back", {"a.txt": "one\ntwo\n"})
    status, text = site.push("HEAD:task/loop")
    t.contains(text, "queued: And back", "a person's commit on top asks again")
    # the branch is moved while the run works: the result is nobody's to force
    place.git("fetch", "-q", "-f", site.repo, "base:refs/heads/task/loop", cwd=site.bare)
    worked = place.agent("work", "--once")
    t.equal(site.ref("task/loop"), site.git("rev-parse", "base"), "a branch that was moved meanwhile is left alone", worked.text)
    # identity
    site = TaskSite(place, "identity", identity="bot")
    place.git("config", "agent.writable", "refs/heads/*", cwd=site.bare)
    site.commit("By a robot")
    status, text = site.push("HEAD:task/bot", env={"REMOTE_USER": "bot"})
    t.contains(text, "no job: pushed by bot, an agent (agent.identity)", "what an agent pushes asks for nothing")
    place.agent("queue", "reconcile")
    t.equal(site.states(), ["skipped"], "whoever looks later")


def lost(t, place):
    site = TaskSite(place, "lost")
    hook = os.path.join(site.bare, "hooks/post-receive")
    os.unlink(hook)
    site.commit("Translate two")
    site.push("HEAD:task/lost1", "HEAD:task/lost2")
    site.push("-oissue=Translate two, said as an option", "base:task/lost3")
    t.equal(site.states(), [], "no hook, no job")
    found = place.agent("queue", "reconcile", "--repo", site.bare)
    t.equal(found.out.count("queued"), 3, "reconcile finds them", found.text)
    t.equal([job["title"] for job in site.jobs("task/lost3")], ["Translate two, said as an option"], "with what the option said")
    t.equal(place.agent("queue", "reconcile").out, "", "once")
    t.equal({job["origin"] for job in site.jobs()}, {"cron"}, "and their origin is told")
    site.push(":task/lost2")
    found = place.agent("queue", "reconcile")
    t.ok("deleted: its job" in found.out and site.states("task/lost2") == ["cancelled"], "a lost deletion cancels", found.text)
    place.git("pack-refs", "--all", cwd=site.bare)
    t.equal(place.agent("queue", "reconcile").out, "", "packed refs are the same refs")
    site.push("-oissue=Translate two, and pack it", "base:task/packed")
    place.git("pack-refs", "--all", cwd=site.bare)
    place.agent("queue", "reconcile")
    t.equal([job["title"] for job in site.jobs("task/packed")], ["Translate two, and pack it"], "with what was kept of them")
    for i, spoilt in enumerate(("", "{", "[]", '{"kind":"task","version":1,"commit":"x","title":"a","text":"b"}',
                                '{"kind":"task","version":1,"commit":"' + "1" * 40 + '","title":"' + "a" * 2000 + '","text":"b"}', None)):
        site.push("-oissue=An option", f"base:task/spoilt{i}", env={"GIT_TRACE": "0"})
        kept = [os.path.join(site.bare, "agent-tasks", name) for name in os.listdir(os.path.join(site.bare, "agent-tasks"))]
        os.unlink(kept[0])
        if spoilt is None:
            os.mkfifo(kept[0])
        else:
            place.write(kept[0], spoilt)
        found = place.agent("queue", "reconcile")
        job = site.jobs(f"task/spoilt{i}")[0]
        t.ok(job["state"] == "skipped" and "no issue" in job["reason"] and len(kept) == 1,
             f"what is kept and spoilt counts as not kept: {str(spoilt)[:50]}", found.text)
    site.push("HEAD:task/lost2")
    t.equal(place.agent("queue", "reconcile").out.count("queued"), 1, "the same commit once more is news where the branch was gone")
    site.commit("Translate two at the start of a worker")
    site.push("HEAD:task/start")
    worked = place.agent("work", "--once", "-c", "queue.perRepository=4")
    t.equal(site.states("task/start"), ["done" if ROOT_USER else "parked"], "a worker reconciles at its start", worked.text)
    status, text = site.push(":task/lost1", ":task/lost2", ":task/lost3", ":task/start")
    site.install()

    # pushers that vanish while pre-receive runs: git moves the ref, and runs no post-receive
    site = TaskSite(place, "vanish")
    os.rename(os.path.join(site.bare, "hooks/pre-receive"), os.path.join(site.bare, "hooks/pre-receive.ours"))
    place.write(os.path.join(site.bare, "hooks/pre-receive"), "#!/bin/sh\ncat >/dev/null; echo $$ >here; sleep 0.3\n", 0o755)
    port = gitservers.free_port()
    daemon = subprocess.Popen(["git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--enable=receive-pack", "--export-all",
                               "--base-path=" + place.dir, place.dir], env=place.env, stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True)
    place.children.append(daemon)
    url = f"git://127.0.0.1:{port}/vanish.git"
    try:
        wait_for(lambda: subprocess.run(["git", "ls-remote", url], env=place.env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL).returncode == 0, 20, "git daemon")
        moved = 0
        for i in range(3):
            tip = site.commit(f"Translate two, {i}")
            child = subprocess.Popen(site.command(f"HEAD:task/v{i}", remote=url), cwd=site.repo, env=place.env,
                                     stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            here = os.path.join(site.bare, "here")
            wait_for(lambda: os.path.exists(here), 20, "the hook")
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            os.unlink(here)
            try:
                wait_for(lambda: site.ref(f"refs/heads/task/v{i}") == tip, 5, "the ref")
                moved += 1
            except TimeoutError:
                pass
            wait_for(lambda: not any(name.startswith("tmp_objdir") for name in os.listdir(os.path.join(site.bare, "objects"))), 20, "git")
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
    t.ok(moved, "killed pushers leave refs moved", moved)
    before = len(site.jobs())
    found = place.agent("queue", "reconcile")
    t.equal((before, len(site.jobs())), (0, moved), "whose hooks were not run: reconcile makes their jobs", found.text)


def at_once(t, place):
    site = TaskSite(place, "crowd", install=False)
    names = [f"task/c{i:02}" for i in range(24)]
    site.commit("Translate two")
    site.push(*(f"HEAD:{name}" for name in names))
    site.install()

    # two reconcilers that are killed at any instant, again and again, and two that are not
    chance = random.Random(int(os.environ.get("SEED") or time.time()))
    for _ in range(8):
        children = [subprocess.Popen([AGENT, "queue", "reconcile"], env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(chance.random() * 0.06)
        for child in children:
            child.kill()
            child.wait()
    children = [subprocess.Popen([AGENT, "queue", "reconcile"], env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                for _ in range(3)]
    t.equal([child.wait(60) for child in children], [0, 0, 0], "reconcilers at once end well")
    for child in children:
        child.stdout.close()
    t.equal(sorted(job["identity"] for job in site.jobs()), sorted("ref:refs/heads/" + name for name in names),
            "and there is one job of each branch")

    # pushes, deletions and reconcilers in one race; in the end the queue is what the branches are
    clones = []
    for i in range(4):
        clone = place.path(f"clone{i}")
        place.git("clone", "-q", site.bare, clone)
        clones.append(clone)
    stop = threading.Event()

    def pusher(number):
        dice = random.Random(number)
        for i in range(6):
            name = f"refs/heads/task/r{dice.randrange(3)}"
            place.git("commit", "-q", "--allow-empty", "-m", f"Race {number}.{i}", cwd=clones[number])
            word = f":{name}" if dice.random() < 0.25 else f"HEAD:{name}"
            place.git("push", "-q", "-f", "origin", word, cwd=clones[number], check=False)

    def reconciler():
        while not stop.is_set():
            place.agent("queue", "reconcile")

    threads = [threading.Thread(target=pusher, args=(i,)) for i in range(4)]
    watcher = threading.Thread(target=reconciler)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()
    place.agent("queue", "reconcile")
    wrong = []
    for i in range(3):
        name = f"task/r{i}"
        live = [job for job in site.jobs(name) if job["state"] == "queued"]
        tip = site.ref("refs/heads/" + name)
        title = place.git("log", "-1", "--format=%s", tip, cwd=site.bare) if tip else None
        if [job["title"] for job in live] != ([title] if tip else []):
            wrong.append((name, tip, title, site.jobs(name)))
    t.equal(wrong, [], "a race of pushers and reconcilers ends with one queued job of each branch, for its tip")


def superseding(t, place):
    site = TaskSite(place, "newer", test="sh -c 'sleep 2; grep zwei a.txt'")
    site.commit("Translate two")
    site.push("HEAD:task/x")
    site.commit("Translate two, better")
    site.push("HEAD:task/x")
    t.equal(site.states("task/x"), ["superseded", "queued"], "a newer push supersedes a queued job")
    status, text = site.push(":task/x")
    t.ok("deleted: its job" in text and site.states("task/x") == ["superseded", "cancelled"], "deleting the branch cancels it", text)
    if not ROOT_USER:
        return
    site.push("HEAD:task/x")
    worker = place.start("work", limits=False)
    wait_for(lambda: site.jobs("task/x")[-1]["run"] and any(e.get("stage") == "test" for e in place.events(site.jobs("task/x")[-1]["run"])),
             60, "its test")
    site.push(":task/x")
    wait_for(lambda: site.states("task/x")[-1] != "running", 60, "its end")
    t.equal((site.states("task/x")[-1], site.jobs("task/x")[-1]["reason"]), ("cancelled", "its branch was deleted"),
            "and ends one that runs", place.background_text())
    worker.send_signal(signal.SIGTERM)
    t.equal(worker.wait(60), 0, "its worker lives on")


def telling(t, place):
    spy = "sh -c 'cat; echo; id -u; cat /proc/net/dev; ls /'"
    site = TaskSite(place, "tell", notify=spy)
    tip = site.commit("Translate two")
    site.push("HEAD:task/n", env={"REMOTE_USER": "a\x1bperson"})
    place.agent("work", "--once")
    told = place.artefact("told.json", site.jobs()[0]["run"])
    if not ROOT_USER:
        t.contains(told["agent.notify"], "uid", "without a uid of its own the command is not run, which is recorded")
        return
    t.equal((told["note"], told["agent.notify"], told["jailed"]), ("done", "done", True), "the note and the command are recorded", told)
    first = json.loads(told["output"].splitlines()[0])
    t.equal((first["outcome"], first["task"], first["tip"], first["commit"], first["pusher"]),
            ("published", "refs/heads/task/n", tip, site.ref("agent/n"), "a\x1bperson"), "the command reads what became of it")
    t.ok("eth" not in told["output"] and "lo:" in told["output"], "in a jail without network", told["output"])
    t.ok("\x1b" not in site.note(tip), "a hostile name stays text")
    for command, wanted in (("sh -c 'exit 7'", "exit status 7"), ("/no/such/program", "could not be started"),
                            ("sh -c 'head -c 200000 /dev/zero | tr \\\\0 x'", "done")):
        site.configure(notify=command)
        site.commit("Again, " + command)
        site.push("HEAD:task/n")
        worked = place.agent("work", "--once")
        job = site.jobs()[-1]
        told = place.artefact("told.json", job["run"])
        t.ok(job["state"] == "done" and wanted in told["agent.notify"], f"a command that fails is recorded, and no more: {command}", told)
    t.ok(len(told["output"]) <= 16384, "its output is kept within bounds")
    out = place.path("said")
    site.configure(notify=f"sh -c 'cat >{out}'", notifyNetwork="yes")
    site.commit("Loud")
    site.push("HEAD:task/n")
    place.agent("work", "--once")
    with open(out) as f:
        t.equal(json.loads(f.read())["title"], "Loud", "the operator may let it out of the jail")
    t.equal(place.artefact("told.json")["jailed"], False, "which is recorded")
    # nobody can be told where notes cannot be written: the result is there all the same
    site.configure(notify="")
    place.write(os.path.join(site.bare, "refs/notes/agent.lock"), "")
    site.commit("Locked")
    site.push("HEAD:task/n")
    worked = place.agent("work", "--once")
    t.ok(site.states()[-1] == "done" and "note: note:" in worked.err, "a note that cannot be written is said, and no more", worked.text)


def names(t, place):
    """What git takes for a branch's name, and nobody else: it must not hide the other branches."""
    site = TaskSite(place, "names")
    site.commit("Translate two")
    deep = "task/" + "/".join(["a" * 200] * 6)
    status, text = site.push("HEAD:" + deep)
    t.ok(status == 1 and "the name of a task is too long" in text, "a name of 1200 bytes is refused", text)
    status, text = site.push("HEAD:task/none\udcff")
    t.ok(status == 1 and "letters, digits" in text, "one that is no UTF-8, too", text)
    status, text = site.push("HEAD:topic\udcff\udcfe")
    t.ok(status == 0 and "agent:" not in text, "but for a branch that is no task", text)
    os.unlink(os.path.join(site.bare, "hooks/pre-receive"))
    status, text = site.push("HEAD:" + deep, "HEAD:task/none\udcff", "HEAD:task/$(id);'--\x9b\u202e", "HEAD:task/good")
    t.ok(status == 0 and text.count("no job: its name is longer than 999 bytes, or not in UTF-8") == 2, "where nobody refuses it, it is said", text)
    t.ok("task/good: job 2 queued" in text and r"--\u{9b}\u{202e}: job 1 queued" in text, "and those pushed with it are jobs, shown as text", text)
    os.unlink(os.path.join(site.bare, "hooks/post-receive"))
    site.push("HEAD:task/lost")
    place.git("pack-refs", "--all", cwd=site.bare)
    found = place.agent("queue", "reconcile")
    t.ok(found.status == 0 and "task/lost: job 3 queued" in found.out, "reconcile finds what was lost among them", found.text)
    t.equal((place.agent("queue", "reconcile").text.count("job"), len(site.jobs())), (0, 3), "once")


def unwell(t, place):
    site = TaskSite(place, "unwell")
    site.configure(state="/proc/none")
    site.commit("Translate two")
    status, text = site.push("HEAD:task/x")
    t.ok(status == 0 and "no job was queued" in text and "/proc/none" in text, "a queue out of reach fails no push, and is said", text)
    t.contains(text, "agent queue reconcile", "with what finds the branch")
    site.configure(state=place.state)
    t.equal(place.agent("queue", "reconcile").out.count("queued"), 1, "as it does")
    place.git("config", "agent.gaet", "x", cwd=site.bare)
    result = place.agent("hook", "post-receive", cwd=site.bare, stdin=f"{ZERO} {site.ref('task/x')} refs/heads/task/x\n")
    t.ok(result.status == 2 and "no job was queued" in result.err and "agent.gaet" in result.err, "malformed rules are said", result.text)
    found = place.agent("queue", "reconcile")
    t.ok(found.status == 4 and "agent.gaet" in found.err, "by reconcile too", found.text)
    place.git("config", "--unset", "agent.gaet", cwd=site.bare)
    for name, text in (("words", "hello\n"), ("a NUL", "a\0b\n"), ("no ref", f"{ZERO} {ZERO}\n")):
        result = place.agent("hook", "post-receive", cwd=site.bare, stdin=text)
        t.equal(result.status, 2, f"input with {name}: 2", result.text)
    before = len(site.jobs())
    for line in (f"{ZERO} {'1' * 40} refs/heads/task/x\n", f"{'1' * 40} {ZERO} refs/heads/task/x\n", f"{ZERO} {'1' * 40} refs/heads/task/none\n",
                 f"{'1' * 40} {ZERO} refs/heads/task/none\n"):
        result = place.agent("hook", "post-receive", cwd=site.bare, stdin=line)
        t.ok(result.status == 0 and site.states() == ["queued"], "what is not so (any more) makes no job: " + line[41:], result.text)
    t.equal(len(site.jobs()), before, "none of them")
    chained = os.path.join(site.bare, "hooks/post-receive.chained")
    place.write(chained, "#!/bin/sh\ncat >seen\nexit 3\n", 0o755)
    tip = site.commit("Translate two again")
    status, text = site.push("HEAD:task/y")
    with open(os.path.join(site.bare, "seen")) as f:
        t.equal(f.read(), f"{ZERO} {tip} refs/heads/task/y\n", "a chained hook gets git's input")
    t.ok(status == 0 and "job" in text and "post-receive.chained" in text, "and its failure is said", text)
    os.unlink(chained)
    # a reconcile of what is no repository (any more)
    result = place.agent("queue", "reconcile", "--repo", place.home)
    t.equal(result.status, 2, "reconcile: no repository", result.text)
    os.rename(site.bare, site.bare + ".gone")
    result = place.agent("queue", "reconcile")
    t.ok(result.status == 4 and "unwell.git" in result.err and "1 of" in result.err, "one that is gone is said, the others are done", result.text)
    os.rename(site.bare + ".gone", site.bare)
    t.equal(place.agent("hook", "uninstall", site.bare).status, 0, "uninstall takes it out")
    os.rename(site.bare, site.bare + ".gone")
    t.equal(place.agent("queue", "reconcile").status, 0, "of those that are looked at")
    for words, wanted in ((["reconcile", "x"], "no words"), (["reconcile", "-m", "x"], "no options"), (["list", "--repo", "x"], "for reconcile"),
                          (["take"], "no socket")):
        result = place.agent("queue", *words, stdin="{}")
        t.ok(result.status == 2 and (wanted in result.err or wanted in result.out), f"agent queue {' '.join(words)}: 2", result.text)


def starting(t, place):
    site = TaskSite(place, "starting", startWorker="yes")
    log = os.path.join(place.state, "worker.log")
    for count in (1, 2):
        place.write(log, "x" * (2 << 20 if count == 1 else 0))
        site.commit(f"Translate two, {count}")
        status, text = site.push(f"HEAD:task/{count}")
        t.ok(status == 0 and f"task/{count}: job" in text and "note:" not in text, "a push starts a worker and does not wait for it", text)
        wanted = "done" if ROOT_USER else "parked"
        t.ok(wait_for(lambda: site.states() == [wanted] * count), "which does the job", str(site.jobs()))
        t.ok(wait_for(lambda: not place.leftovers()), "and ends")
    with open(log) as f:
        said = f.read()
    t.ok("xxx" not in said and "job" in said, "what it says is kept, up to a size", said[:2000])
    os.unlink(log)
    os.mkdir(log)
    site.commit("Translate two, 3")
    status, text = site.push("HEAD:task/3")
    t.ok(status == 0 and "no worker was started" in text and "worker.log" in text, "one that cannot start is said", text)
    t.equal(site.states()[2], "queued", "and the job waits")


def socket(t, place):
    """A worker that is root, and hooks that are the repository's owner: who may not write its queue."""
    if not ROOT_USER:
        t.skip("a root worker's socket", "this is an ordinary user")
        return
    uid = int(os.environ.get("AGENT_TEST_UID", "1000"))
    programs = place.path("programs")
    shutil.copytree(BUILD, programs, ignore=lambda top, names: [n for n in names if not n.startswith("agent") and top == BUILD])
    subprocess.run(["chmod", "-R", "a+rX", programs], check=True)
    theirs, run = place.path("theirs"), place.path("run")
    os.mkdir(theirs)
    os.mkdir(run)
    path = os.path.join(run, "socket")
    operator = f"[queue]\n\tsocket = {path}\n\trepository = {theirs}/*.git\n\treconcile = 1h\n"
    configure_operator(place, operator)
    place.write(os.path.join(theirs, ".config/agent/config"), operator)

    def as_user(*args, cwd):
        done = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *args], cwd=cwd, stdin=subprocess.DEVNULL,
                              env={**place.env, "HOME": theirs, "XDG_STATE_HOME": theirs + "/none", "AGENT_STATE_DIR": ""},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout.decode(errors="replace")

    site = TaskSite(place, "theirs/project", install=False)
    place.git("config", "--unset", "agent.state", cwd=site.bare)
    place.write(os.path.join(site.bare, "hooks/pre-receive"), f"#!/bin/sh\nexec {programs}/agent hook pre-receive\n", 0o755)
    place.write(os.path.join(site.bare, "hooks/post-receive"), f"#!/bin/sh\nexec {programs}/agent hook post-receive\n", 0o755)
    site.commit("Translate two")
    subprocess.run(["chown", "-R", f"{uid}:{uid}", theirs], check=True)
    place.env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")  # root looks into it
    status, text = as_user("git", "push", "origin", "HEAD:refs/heads/task/early", cwd=site.repo)
    t.ok(status == 0 and "no job was queued" in text and path in text, "no worker: the push goes in, and this is said", text)
    worker = place.start("work", limits=False)
    wait_for(lambda: os.path.exists(path), 20, "the socket")
    wait_for(lambda: site.states("task/early") == ["done"], 60, "what was lost is found at its start")
    t.ok(True, "a worker that starts finds the branch")
    status, text = as_user("git", "push", "-oissue=Translate two by option", "origin", "base:refs/heads/task/late", cwd=site.repo)
    t.ok(status == 0 and "task/late: job 2 queued: Translate two by option" in text, "the worker takes what the hook hands over", text)
    wait_for(lambda: site.states("task/late") == ["done"], 60, "its run")
    t.equal(place.git("show", "agent/late:a.txt", cwd=site.bare), "one\nzwei", "and does it", place.background_text())
    foreign = [os.path.join(top, name) for top, dirs, files in os.walk(site.bare) for name in dirs + files
               if os.lstat(os.path.join(top, name)).st_uid != uid]
    t.equal(foreign, [], "all in the repository is its owner's")
    t.equal(os.listdir(theirs + "/none") if os.path.exists(theirs + "/none") else [], [], "the hook keeps no queue of its own")
    status, text = as_user("git", "push", "origin", ":refs/heads/task/late", cwd=site.repo)
    t.equal(status, 0, "a deletion is handed over", text)

    # who may not
    other = TaskSite(place, "other", install=False)
    for bare, owner, wanted in ((other.bare, uid, "not among the worker's queue.repository"), (site.bare, uid + 1, "belongs to uid")):
        message = json.dumps({"kind": "asked", "version": 1, "repository": bare,
                              "asks": [{"ref": "refs/heads/task/x", "tip": site.ref("base") or "1" * 40}]})
        code = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.sendall(sys.argv[2].encode())\n"
                "s.shutdown(1)\nprint(s.makefile().read())")
        done = subprocess.run(["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", sys.executable, "-c", code, path, message],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        t.ok(wanted in done.stdout and "taken" not in done.stdout, "refused: " + wanted, done.stdout)
    for message in ("", "{", "[]", '{"kind":"asked","version":1}', '{"kind":"asked","version":1,"repository":7}', "x" * 100000,
                    json.dumps({"kind": "asked", "version": 1, "repository": site.bare, "asks": [{"ref": "HEAD"}]}),
                    json.dumps({"kind": "asked", "version": 1, "repository": site.bare + "/objects", "asks": []})):
        import socket as sockets
        with sockets.socket(sockets.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(path)
            try:
                s.sendall(message.encode())
                s.shutdown(sockets.SHUT_WR)
            except OSError:
                pass
            answer = s.makefile().read()
        t.ok("taken" not in answer and answer, "refused: " + message[:60], answer)
    # who says nothing, or less than all, or comes again and again, keeps nobody else waiting: these are still on the line when
    # the push is served
    stall = ("import socket,sys\nhold=[]\nfor i in range(50):\n s=socket.socket(socket.AF_UNIX)\n s.connect(sys.argv[1])\n"
             " s.sendall(b'x'*[0,1,100000][i%3])\n hold.append(s)\nprint('stalled', flush=True)\nsys.stdin.readline()\n"
             "n=0\nfor s in hold:\n s.setblocking(False)\n try:\n  s.recv(1)\n except BlockingIOError:\n  n+=1\n except OSError:\n  pass\nprint(n)")
    again = ("import socket,sys\nwhile True:\n s=socket.socket(socket.AF_UNIX)\n s.connect(sys.argv[1])\n s.sendall(b'{')\n s.shutdown(1)\n"
             " s.recv(100)\n")
    others = [subprocess.Popen(["setpriv", f"--reuid={uid + 1}", f"--regid={uid + 1}", "--clear-groups", sys.executable, "-c", code, path],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
              for code in (stall, again, again)]
    t.equal(others[0].stdout.readline(), "stalled\n", "fifty connections of another user are open")
    status, text = as_user("git", "push", "-oissue=Translate two after all", "origin", "base:refs/heads/task/last", cwd=site.repo)
    t.contains(text, "task/last: job", "who may is served all the same")
    still, _ = others[0].communicate("\n", timeout=30)
    t.ok(int(still) >= 30, "and did not have to wait for them", still)
    for other in others[1:]:
        other.kill()
        other.communicate()
    worker.send_signal(signal.SIGTERM)
    t.equal(worker.wait(60), 0, "the worker ends well", place.background_text())
    t.ok(not os.path.exists(path), "and its socket is gone")


def hostile_owner(t, place):
    """A root worker, and a repository whose owner wants more than is theirs."""
    if not ROOT_USER:
        t.skip("a root worker and a hostile owner", "this is an ordinary user")
        return
    uid = int(os.environ.get("AGENT_TEST_UID", "1000"))
    place.env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
    theirs, public = place.path("theirs"), place.path("public")
    os.mkdir(theirs)
    os.mkdir(public)
    os.chmod(public, 0o1777)  # root's, as /tmp is
    marker = os.path.join(public, "ran-as")
    for name, text in (("tell", f"#!/bin/sh\nid -u >>{marker}\n"), ("config", f"[agent]\n\tnotify = {public}/tell\n\tnotifyNetwork = yes\n")):
        os.chown(place.write(os.path.join(public, name), text, 0o755), uid, uid)

    # a hook that runs while the result comes puts a link to a directory of root's where the repository was
    site = TaskSite(place, "theirs/swap", install=False)
    site.commit("Translate two")
    site.git("push", "-q", "origin", "HEAD:refs/heads/task/x")
    place.write(site.bare + "/hooks/post-receive", f"#!/bin/sh\nmv {site.bare} {site.bare}.away && ln -s {public} {site.bare}\n", 0o755)
    subprocess.run(["chown", "-R", f"{uid}:{uid}", theirs], check=True)
    place.agent("queue", "reconcile", "--repo", site.bare)
    worked = place.agent("work", "--once")
    t.ok(os.path.islink(site.bare) and "Too many levels of symbolic links" in worked.err, "a link in the repository's place is not followed", worked.text)
    t.ok(not os.path.exists(marker), "and no command of its owner's runs as root", os.path.exists(marker) and open(marker).read())

    # what is nobody's but root's, as if it were a part of it
    secret = place.repository({"a.txt": "one\ntwo\n"}, name="secret", test="true")
    place.git("commit", "-q", "--allow-empty", "-m", "A title that nobody may know", cwd=secret)
    place.git("push", "-q", "origin", "main:task/x", cwd=secret)
    os.chmod(secret + ".git", 0o700)
    for name, file, text in (("alternate", "evil.git/objects/info/alternates", secret + ".git/objects\n"), ("commondir", "evil.git/commondir", secret + ".git\n"),
                             ("gitdir", "evil.git/.git", f"gitdir: {secret}.git\n")):
        evil = os.path.join(theirs, name, "evil.git")
        place.git("init", "-q", "--bare", evil)
        place.write(os.path.join(theirs, name, file), text)
        place.write(evil + "/refs/heads/task/x", place.git("rev-parse", "main", cwd=secret) + "\n")
        subprocess.run(["chown", "-R", f"{uid}:{uid}", theirs], check=True)
        found = place.agent("queue", "reconcile", "--repo", evil)
        t.ok(found.status == 2 and "root does not follow it there" in found.err and "A title" not in found.text, "root is led nowhere: " + name, found.text)
        os.chmod(secret + ".git", 0o755)
        found = place.agent("queue", "reconcile", "--repo", evil)
        t.equal(found.status, 0 if name == "alternate" else 2, "but to objects that everybody may read: " + name, found.text)
        os.chmod(secret + ".git", 0o700)

    # where a credential of the operator's would go
    place.git("remote", "set-url", "origin", "https://evil.example/x.git", cwd=site.repo)
    os.chown(site.repo + "/.git/config", uid, uid)
    ran = place.agent("run", "-m", "Translate two", cwd=site.repo)
    t.ok(ran.status == 2 and "root takes no remote from it" in ran.err, "root takes no remote from another's configuration", ran.text)

    # where root would write
    linked = os.path.join(theirs, "linked.git")
    place.git("init", "-q", "--bare", linked)
    place.git("config", "agent.state", public + "/state", cwd=linked)
    subprocess.run(["chown", "-R", f"{uid}:{uid}", theirs], check=True)
    done = place.agent("hook", "install", linked)
    t.ok(done.status == 0 and "its owner's word, which root does not follow" in done.out and not os.path.exists(public + "/state"),
         "root keeps no queue where another says", done.text)
    place.agent("hook", "uninstall", linked)
    os.rename(linked + "/hooks", linked + "/hooks.away")
    os.symlink(public, linked + "/hooks")
    for verb in ("install", "check", "uninstall"):
        done = place.agent("hook", verb, linked)
        t.ok(done.status == 4 and "root follows no link there" in done.err and not os.path.exists(public + "/pre-receive"),
             f"nor does hook {verb} go through a link", done.text)

    # root's own, but others may write its hooks
    shared = TaskSite(place, "shared", install=False)
    shared.commit("Translate two")
    shared.git("push", "-q", "origin", "HEAD:refs/heads/task/x")
    place.write(shared.bare + "/hooks/update", f"#!/bin/sh\nid -u >>{marker}\n", 0o755)
    os.chown(shared.bare + "/hooks", 0, uid)
    os.chmod(shared.bare + "/hooks", 0o2775)
    place.agent("queue", "reconcile", "--repo", shared.bare)
    worked = place.agent("work", "--once")
    t.ok("others may write" in worked.err and not os.path.exists(marker), "hooks that others may write do not run as root", worked.text)
    t.equal(shared.states(), ["parked"], "the job waits for a person")


def main():
    with Tap() as t:
        for part in (from_end_to_end, sources, stealing, loops, lost, at_once, superseding, telling, names, unwell, starting, socket, hostile_owner):
            if not ROOT_USER and part in (stealing, loops):
                t.skip(part.__name__, "an ordinary user's jobs are parked: no uid of their own for the tests")
                continue
            with Place() as place:
                os.chmod(place.dir, 0o755)
                configure_operator(place)
                part(t, place)
                t.equal(place.leftovers(), [], "nothing is left of " + part.__name__)


if __name__ == "__main__":
    main()
