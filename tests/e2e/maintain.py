#!/usr/bin/python3
# deadline: 240
"""agent maintain: tasks of the operator's and of a repository's, by the clock and by name; one proposal a task, what is merged, what a
person closed; paths, limits; two at once; killed; pull requests with labels. Being due is arranged in the database: an hour is not waited for."""
import json
import os
import signal
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit, wait_for, write  # noqa: E402
from forgeserver import Forge  # noqa: E402
from tap import Tap  # noqa: E402

TASK = """---
schedule: "30 4 * * *"
timezone: Europe/Berlin
paths: [a.txt]
---
# Translate two

Into German.
"""

with Tap() as t, Place() as place:
    limits = ["--limits", "degraded-ok"] if place.limits() else []
    model = ["--model", place.recording([[write("a.txt", "one\nzwei\n"), submit("Translate two")]])]
    idle = ["--model", "replay:" + place.write("idle.jsonl", json.dumps({
        "role": "assistant", "round": 1, "stop": "end", "content": [{"type": "text", "text": "There is nothing to do."}],
        "usage": {"input": 100, "output": 10, "cache_read": 0, "cache_write": 0}}) + "\n")]
    count = 0

    def fresh(files=None, test="true"):
        global count
        count += 1
        return place.repository({"a.txt": "one\ntwo\n", "b.txt": "b\n", ".agent/maintain/translate.md": TASK, **(files or {})},
                                name=f"repo{count}", test=test)

    def maintain(repo, *words, allow=True, **kw):
        allowed = ["-c", "maintain.fromRepository=yes"] if allow else []
        return place.agent("maintain", *limits, *allowed, *model, *words, cwd=repo, **kw)

    def listed(repo, *words):
        result = maintain(repo, "--list", "--json", *words)
        return {task["task"]: task for task in json.loads(result.out)}

    def database(sql, *values):
        with sqlite3.connect(os.path.join(place.state, "agent.db"), timeout=20) as db:
            return db.execute(sql, values).fetchall()

    def days_ago(repo, days=2):
        database("UPDATE maintenance SET handled = handled - ? WHERE repository = ?", days * 86400, repo)

    def commit(repo, name, text, push=True):
        place.write(os.path.join(repo, name), text)
        place.git("add", "-A", cwd=repo)
        place.git("commit", "-q", "-m", "By hand", cwd=repo)
        if push:
            place.git("push", "-q", "origin", "main", cwd=repo)

    branch = "refs/heads/agent/maintain-translate"

    # ---- who may ----
    repo = fresh()
    result = maintain(repo, "--list", allow=False)
    missed = "; those in a repository's .agent/maintain/ count with maintain.fromRepository = yes\n"
    t.equal((result.status, result.out), (0, "no tasks" + missed), "a repository's tasks are nobody's until the operator allows them", result.text)
    result = maintain(repo, "translate", allow=False)
    t.ok(result.status == 2 and "agent maintain --list tells them" + missed in result.err, "who names one is told so", result.text)
    result = maintain(repo, allow=False)
    t.equal((result.status, result.out), (3, "no tasks" + missed), "and who asks for all", result.text)
    result = maintain(repo, "--due", allow=False)
    t.equal((result.status, result.out + result.err), (0, ""), "but not the clock", result.text)
    shown = listed(repo)["translate"]
    t.equal((shown["kind"], shown["outcome"], shown["from"]), ("prompt", None, ".agent/maintain/translate.md"), "then they are listed", shown)
    place.write(os.path.join(repo, ".agent/maintain/other.md"), TASK)
    t.equal(list(listed(repo)), ["translate"], "what is not committed is no task")
    t.contains(maintain(repo, "other").err, "count once they are committed", "which is said to who names it")
    os.unlink(os.path.join(repo, ".agent/maintain/other.md"))

    # ---- by the clock ----
    result = maintain(repo, "--due")
    t.equal((result.status, result.out, result.err), (0, "", ""), "what is seen for the first time waits for its time, quietly", result.text)
    days_ago(repo)
    result = maintain(repo, "--due", "--dry-run")
    t.equal((result.status, result.out, place.runs()), (0, "translate: would run\n", []), "--dry-run says what would be run", result.text)
    due = ["--due"]
    result = maintain(repo, "--due")
    if os.geteuid() and result.status == 125:
        t.contains(result.out, "would have the uid of whoever starts them",
                   "what the clock begins has tests with a uid of their own, or is not begun")
        database("UPDATE maintenance SET outcome = NULL, run = NULL")
        due = []
        result = maintain(repo)
    t.equal((result.status, list(place.branches(repo))), (0, [branch]), "a due task is run", result.text)
    t.contains(result.out, "translate: pushed agent/maintain-translate at ", "and one line says so")
    if due:
        t.equal(result.err, "", "no more than that")
    request = place.artefact("request.json")
    t.equal((request["issue"]["identity"], bool(request.get("separate_uid"))), ("maintain:translate", bool(due)), "it is an ordinary run")
    with open(os.path.join(place.run_dir(), "issue.md")) as f:
        t.contains(f.read(), "Only files that match", "the model is told which paths it may change")
    days_ago(repo)
    result = maintain(repo, "--due")
    t.equal((result.status, result.out, result.err), (0, "", ""), "nothing new while that is open, quietly", result.text)
    t.contains(listed(repo)["translate"]["why"], "agent/maintain-translate is open and not merged yet", "the list says why")
    result = maintain(repo, "translate")
    t.equal((result.status, result.out), (3, "translate: skipped: agent/maintain-translate is open and not merged yet\n"),
            "by name it is said at once, with 3", result.text)
    t.equal(len(place.runs()), 1 if due else 2, "the model was asked once")

    # ---- merged, squashed; nothing to do ----
    place.git("fetch", "-q", "origin", cwd=repo)
    place.git("merge", "-q", "--ff-only", "origin/agent/maintain-translate", cwd=repo)
    place.git("push", "-q", "origin", "main", cwd=repo)
    result = maintain(repo, *idle, "translate")
    t.contains(result.out, "the model made no change", "what is merged makes room; nothing to do is no proposal")
    t.equal((listed(repo)["translate"]["state"], result.status), ("merged", 3), "nor a failure, but 3", result.text)
    days_ago(repo)
    before = len(place.runs())
    result = maintain(repo, "translate")
    t.equal((result.status, len(place.runs())), (3, before), "nor is the model asked again until what it sees changes", result.text)
    commit(repo, "b.txt", "other\n")
    t.equal((maintain(repo, "translate").status, len(place.runs())), (3, before), "a change elsewhere is none of it")
    commit(repo, "a.txt", "one\ntwo\n")
    result = maintain(repo, "translate")
    t.equal((result.status, len(place.runs())), (0, before + 1), "a change of its paths is", result.text)
    t.contains(result.out, "pushed", "the branch of before, which is ours, is moved")
    commit(repo, "a.txt", "one\nzwei\n")
    maintain(repo, "translate")
    t.equal(listed(repo)["translate"]["state"], "merged", "what was squashed is known by what it did")

    # ---- closed by a person ----
    repo = fresh()
    maintain(repo, "translate")
    place.git("branch", "-q", "-D", "agent/maintain-translate", cwd=repo + ".git")
    result = maintain(repo, "translate")
    t.equal((result.status, list(place.branches(repo))), (3, []), "what a person closed is not proposed again", result.text)
    t.contains(result.out, "a person closed agent/maintain-translate", "and why is said")
    result = maintain(repo, "--again", "translate")
    t.equal((result.status, list(place.branches(repo))), (0, [branch]), "but with --again", result.text)
    place.git("branch", "-q", "-D", "agent/maintain-translate", cwd=repo + ".git")
    maintain(repo, "translate")
    commit(repo, "a.txt", "three\ntwo\n")
    result = maintain(repo, "translate")
    t.equal((result.status, list(place.branches(repo))), (0, [branch]), "or when what it sees has changed", result.text)

    # ---- paths, limits, malformed tasks ----
    repo = fresh({".agent/maintain/narrow.md": "---\nschedule: daily\npaths: [b.txt]\nrounds: 1\n---\nTranslate\n",
                  ".agent/maintain/bad.md": "---\nschedule: daily\nshedule: weekly\n---\nx\n",
                  ".agent/maintain/net.md": "---\ncommand: make\nnetwork: registries\n---\n"})
    result = maintain(repo, "narrow")
    t.equal((result.status, place.branches(repo)), (1, {}), "a change outside of a task's paths is refused", result.text)
    t.contains(result.out, "'a.txt' is outside of the paths that this task may change", "with the path")
    t.ok("bad.md" not in result.err and "net.md" not in result.err, "other tasks, which nobody asked for, are no matter", result.text)
    t.equal([e.get("outcome") for e in place.events() if e.get("event") == "end"], ["refused"], "its one round was its limit")
    result = maintain(repo, "-c", "maintain.perHour=1", "translate")
    t.equal((place.branches(repo), result.out), ({}, "translate: skipped: 1 runs were begun within an hour (maintain.perHour = 1)\n"),
            "a limit holds, and is named", result.text)
    t.contains(listed(repo)["translate"]["why"], "maintain.perHour", "in the list, too")
    wrong = "agent: .agent/maintain/bad.md:3: shedule is no key of a task\n"
    denied = "agent: .agent/maintain/net.md:3: network: registries is not allowed to tasks of repositories\n"
    result = maintain(repo, "bad")
    t.ok(result.status == 2 and result.err.startswith(wrong) and "net.md" not in result.err and "there is no task" not in result.err,
         "of a malformed one that is named it is said what is wrong, with file and line", result.text)
    result = maintain(repo, "net")
    t.ok(result.status == 2 and result.err.startswith(denied) and "there is no task" not in result.err,
         "so it is of one that is not allowed what it asks for", result.text)
    told = [maintain(repo, "--due", "--dry-run"), maintain(repo, "--due"), maintain(repo, "--due"), maintain(repo, "--list")]
    t.equal([(r.status, wrong in r.err, denied in r.err) for r in told], [(2, True, True), (2, True, True), (0, False, False), (2, True, True)],
            "the clock says it of all, once", told)
    commit(repo, ".agent/maintain/bad.md", "---\nschedule: daily\nshedule: weekly\n---\ny\n")
    told = [maintain(repo, "--due"), maintain(repo, "--due")]
    t.equal([(r.status, wrong in r.err, denied in r.err) for r in told], [(2, True, False), (0, False, False)], "again when its file changes", told)
    maintain(repo, "--due", "-c", "maintain.network=registries")
    told = [maintain(repo, "--due"), maintain(repo, "--due")]
    t.equal([(r.status, wrong in r.err, denied in r.err) for r in told], [(2, False, True), (0, False, False)],
            "or when what was allowed meanwhile is so no more", told)
    result = maintain(repo, "translate", "nonsense")
    t.ok(list(place.branches(repo)) == [branch] and "there is no task nonsense" in result.err, "the others go on", result.text)

    repo = fresh({".agent/maintain/second.md": TASK})
    maintain(repo, "translate")
    result = maintain(repo, "-c", "maintain.maxOpen=1", "second")
    t.contains(result.out, "1 proposals of this repository are open (maintain.maxOpen = 1)", "so does that of open proposals")
    place.git("branch", "-q", "-D", "agent/maintain-translate", cwd=repo + ".git")
    result = maintain(repo, "-c", "maintain.maxOpen=1", "second")
    t.equal((result.status, list(place.branches(repo))), (0, ["refs/heads/agent/maintain-second"]),
            "and one that was closed meanwhile does not count", result.text)

    repo = fresh()
    result = maintain(place.dir, "--repo", repo + ".git", "translate")
    t.equal((result.status, list(place.branches(repo))), (0, [branch]), "a bare repository without a remote gets the result itself", result.text)
    t.equal(maintain(place.dir, "--repo", repo + ".git", "translate").status, 3, "and is asked what became of it")

    mirror = os.path.join(place.state, "mirrors/m.git")
    place.git("clone", "-q", "--mirror", repo + ".git", mirror)
    place.git("config", "--remove-section", "remote.origin", cwd=mirror)
    result = maintain(place.dir, "--repo", mirror, "-c", "mirror.m.url=https://127.0.0.1:1/x.git", "translate")
    t.contains(result.out, "no credential for https://127.0.0.1:1/x.git", "what a mirror's tasks make goes to where it comes from")

    # ---- the operator's own ----
    place.write(os.path.join(place.home, ".config/agent/config"),
                '[maintain "own"]\n\tschedule = daily\n\tprompt = Translate it\n[maintain "elsewhere"]\n\tprompt = x\n'
                f'\trepository = /nonexistent\n[maintain "off"]\n\tprompt = y\n\tenabled = no\n[maintain]\n\trepo = {place.path("repo1")}\n')
    repo = fresh()
    result = maintain(repo, "--repo", repo, "own", allow=False)
    t.equal((result.status, list(place.branches(repo))), (0, ["refs/heads/agent/maintain-own"]), "a task of the operator's is run", result.text)
    rows = maintain(repo, "--list", allow=False).out
    t.ok(place.path("repo1") in rows and "own" in rows and "elsewhere" not in rows and "off" in rows, "in the configured repositories", rows)
    t.equal(maintain(repo, "--repo", repo, "off", allow=False).status, 3, "one that is switched off is not")
    elsewhere = maintain(repo, "--repo", repo, "elsewhere", allow=False)
    t.ok(elsewhere.status == 2 and "task elsewhere is for other repositories" in elsewhere.err, "one that is for others is told apart from none",
         elsewhere.text)
    shedule = ["-c", "maintain.own.shedule=daily"]
    bad = [maintain(repo, *words, *shedule, "--repo", repo, "--repo", place.path("repo2"), allow=False)
           for words in (["--list"], ["own"], ["--due"], ["--due"], ["off"])]
    t.equal([(b.status, b.err.count("shedule is no key of a task")) for b in bad], [(2, 1), (2, 1), (2, 1), (0, 0), (3, 0)],
            "its malformed keys are refused by name, once", bad)
    os.unlink(os.path.join(place.home, ".config/agent/config"))

    # ---- a command makes the change ----
    repo = fresh({".agent/maintain/fmt.md": "---\ncommand: sed -i s/two/deux/ a.txt\npaths: [a.txt]\n---\n# Put it into French\n",
                  ".agent/maintain/stray.md": "---\ncommand: echo x > c.txt\npaths: [a.txt]\n---\n",
                  ".agent/maintain/net.md": "---\ncommand: 'true'\nnetwork: registries\n---\n"})
    result = maintain(repo, "fmt")
    t.equal((result.status, list(place.branches(repo))), (0, ["refs/heads/agent/maintain-fmt"]), "a command makes the change", result.text)
    t.ok(not any(e.get("stage") == "model" for e in place.events()), "and no model")
    t.equal(place.git("log", "-1", "--format=%s", "agent/maintain-fmt", cwd=repo + ".git"), "Put it into French", "its description is the subject")
    place.git("fetch", "-q", "origin", cwd=repo)
    place.git("merge", "-q", "--ff-only", "origin/agent/maintain-fmt", cwd=repo)
    place.git("push", "-q", "origin", "main", cwd=repo)
    result = maintain(repo, "fmt", "-c", "maintain.network=registries")
    t.equal((result.status, listed(repo)["fmt"]["outcome"]), (3, "nothing"), "one that changes nothing proposes nothing", result.text)
    result = maintain(repo, "fmt", "translate")
    t.equal(result.status, 0, "one of two that has something to do is enough", result.text)
    t.equal([maintain(repo, "--dry-run", *words).status for words in (["fmt"], ["fmt", "translate"], ["stray"])], [3, 3, 0],
            "--dry-run ends as it would")
    result = maintain(repo, "stray")
    t.contains(result.out, "'c.txt' is outside of the paths that this task may change", "a command is held to its task's paths")
    result = maintain(repo, "net")
    t.contains(result.err, "network: registries is not allowed", "its network is the operator's to allow")
    result = maintain(repo, "-c", "maintain.network=registries", "-c", "fetch.host=registry.example:443", "net")
    t.equal((result.status, listed(repo, "-c", "maintain.network=registries")["net"]["outcome"]), (3, "nothing"), "who may", result.text)
    t.equal(place.artefact("request.json")["change"]["network"], "registries", "and then the command has it")

    # ---- bad input: what was mended counts at once ----
    repo = place.repository({"a.txt": "one\n", ".agent/maintain/fmt.md": "---\ncommand: nonsense\n---\nDo it\n"}, name="wrong")
    result = maintain(repo, "fmt")
    t.ok(result.status == 2 and "no test command" in result.out, "a task of a repository that does not say how to test", result.text)
    commit(repo, ".agent/config", "[test]\n\tcommand = true\n")
    result = maintain(repo, "fmt")
    t.ok(result.status == 2 and "nonsense cannot be run" in result.out, "which was mended: its command", result.text)
    commit(repo, ".agent/maintain/fmt.md", "---\ncommand: cp a.txt c.txt\n---\nDo it\n")
    result = maintain(repo, "fmt")
    t.equal((result.status, list(place.branches(repo))), (0, ["refs/heads/agent/maintain-fmt"]), "which was mended, too", result.text)

    # ---- two at once, killed ----
    repo = fresh(test="sleep 2")
    children = [place.start("maintain", *limits, "-c", "maintain.fromRepository=yes", *model, "translate", cwd=repo, limits=False) for _ in range(2)]
    statuses = sorted(child.wait(60) for child in children)
    runs = [r for r in place.runs() if place.artefact("request.json", r)["repository"] == repo]
    t.equal((statuses, len(runs), list(place.branches(repo))), ([0, 3], 1, [branch]), "of two at once one works, the other says so",
            place.background_text())
    repo = fresh(test="sleep 2")
    child = place.start("maintain", *limits, "-c", "maintain.fromRepository=yes", *model, "translate", cwd=repo, limits=False)
    place.wait_stage(child, "test")
    child.send_signal(signal.SIGKILL)
    child.wait()
    t.equal(listed(repo)["translate"]["outcome"], "running", "a killed one has left word")
    killed = place.runs()[-1]
    commit(repo, "a.txt", "eins\ntwo\n")
    result = maintain(repo, "--due" if due else "translate")
    t.equal((result.status, place.runs()[-1], list(place.branches(repo))), (0, killed, [branch]), "the next goes on with its run", result.text)
    asked = [e for e in place.events(killed) if e.get("event") == "stage" and e.get("stage") == "model"]
    t.equal((len(asked), listed(repo)["translate"]["outcome"]), (1, "published"), "and the model was asked once")
    place.git("branch", "-q", "-D", "agent/maintain-translate", cwd=repo + ".git")
    result = maintain(repo, "translate")
    t.equal((result.status, list(place.branches(repo))), (0, [branch]), "what it had not seen is a reason to propose again", result.text)

    # ---- a forge ----
    for kind in ("github", "gitlab", "gitea"):
        repo = fresh({".agent/maintain/translate.md": TASK.replace("---\n#", "labels: [maintenance, rare]\n---\n#")})
        with Forge(kind) as forge:
            options = [*forge.options, "-c", "forge.writeToken=env:WRITE"]
            env = {"WRITE": "ghp_writewritewritewrite"}
            result = maintain(repo, *options, "translate", env=env)
            t.equal((result.status, len(forge.pulls)), (0, 1), f"{kind}: a pull request is made", result.text)
            pull = forge.pulls[0]
            t.equal(pull.get("labels"), ["maintenance"] if kind == "gitea" else ["maintenance", "rare"], f"{kind}: with the task's labels", pull)
            t.contains(result.out, f"/{pull['number']}", f"{kind}: its address is in the summary")
            t.equal(maintain(repo, *options, "translate", env=env).status, 3, f"{kind}: while it is open there is no other")
            pull["state"] = "closed"
            result = maintain(repo, *options, "translate", env=env)
            t.equal((result.status, len(forge.pulls)), (3, 1), f"{kind}: what a person closed there is not proposed again", result.text)
            t.contains(result.out, "a person closed", f"{kind}: which is said")
            database("UPDATE maintenance SET state = 'open' WHERE repository = ?", repo)
            pull["state"] = "merged"
            commit(repo, "a.txt", "eins\ntwo\n")
            result = maintain(repo, *options, "translate", env=env)
            t.equal((result.status, len(forge.pulls)), (0, 2), f"{kind}: what was merged there makes room for a new one", result.text)
            forge.next = [(502, {}, b"")]
            result = maintain(repo, *options, "translate", env=env)
            t.equal((result.status, len(forge.pulls)), (75, 2), f"{kind}: a forge in trouble means later, and no second one", result.text)

    t.equal(place.leftovers(), [], "nothing is left")
