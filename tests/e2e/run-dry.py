#!/usr/bin/python3
# deadline: 200
# sanitizers: yes
"""--dry-run prints the difference and pushes nothing; agent publish then pushes that very run."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t, Place() as place:
    repo = place.repository({"a.txt": "one\ntwo\n", "check.sh": "#!/bin/sh\ngrep -q zwei a.txt\n"}, test="sh check.sh")
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    result = place.agent("run", "-m", "Translate two", "--model", model, "--dry-run", cwd=repo)
    if not t.equal(result.status, 0, "a dry run ends with 0", result.text):
        sys.exit(1)
    t.contains(result.out, "-two\n+zwei\n", "it prints the difference")
    t.equal(place.branches(repo), {}, "nothing was pushed")
    tree = place.artefact("round-1/tree.json")["tree"]
    run = place.runs()[-1]

    # the repository goes on meanwhile: the run is about its own base commit
    base = place.git("rev-parse", "HEAD", cwd=repo)
    place.write(os.path.join(repo, "later.txt"), "later\n")
    place.git("add", "-A", cwd=repo)
    place.git("commit", "-q", "-m", "Later", cwd=repo)
    published = place.agent("publish", run, cwd="/")
    t.equal(published.status, 0, "agent publish RUN, from anywhere, ends with 0", published.text)
    branches = place.branches(repo)
    t.equal(len(branches), 1, "now one branch is there")
    commit = next(iter(branches.values()), "HEAD")
    t.equal(place.git("rev-parse", commit + "^{tree}", cwd=repo + ".git"), tree, "with the tree of the dry run")
    t.equal(place.git("rev-parse", commit + "^", cwd=repo + ".git"), base, "on its base commit")
    again = place.agent("publish", run)
    t.ok(again.status in (0, 3), "publishing twice is harmless", again.text)
    t.equal(place.branches(repo), branches, "and changes nothing")

    # ---- a person's branch of the same name is theirs ----
    name = next(iter(branches)).replace("refs/heads/", "")
    other = place.repository({"a.txt": "one\ntwo\n"}, name="other", test="true")
    place.git("push", "-q", "origin", f"HEAD:refs/heads/{name}", cwd=other)
    before = place.branches(other)
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=other)
    after = place.branches(other)
    t.equal({k: after.get(k) for k in before}, before, "a branch that a person made is not overwritten", result.text)
    if result.status == 0:
        t.equal(len(after), 2, "the run found another name")
    else:
        t.equal(result.status, 1, "or the run says no, with 1", result.text)
        t.contains(result.err, name, "and names the branch")

    # ---- an operator's own branch name; a run without a change ----
    third = place.repository({"a.txt": "one\ntwo\n"}, name="third", test="true")
    result = place.agent("run", "-m", "Translate two", "--model", model, "--branch", "robot/two", cwd=third)
    t.equal((result.status, sorted(place.branches(third))), (0, ["refs/heads/robot/two"]), "--branch names the branch",
            result.text)
    nothing = place.recording([[submit("Nothing to do")]] * 3, name="nothing.jsonl")
    result = place.agent("run", "-m", "Do nothing", "--model", nothing, cwd=third)
    t.ok(result.status in (1, 3, 4), "a model that changes nothing ends without a push", result.text)
    t.equal(len(place.branches(third)), 1, "and without a branch")

    # ---- red to the end ----
    red = place.recording([[write("b.txt", "1\n")], [write("b.txt", "2\n")]], name="red.jsonl")
    fourth = place.repository({"a.txt": "one\n"}, name="fourth", test="false")
    result = place.agent("run", "-m", "Fail", "--model", red, "--rounds", "2", cwd=fourth)
    t.equal((result.status, place.branches(fourth)), (1, {}), "tests that stay red: 1, and no push", result.text)
    t.ok(os.path.exists(os.path.join(place.run_dir(), "round-2/verdict.json"))
         and not os.path.exists(os.path.join(place.run_dir(), "round-3")), "after just as many rounds as were allowed")
    result = place.agent("publish", place.runs()[-1])
    t.ok(result.status in (1, 2), "a red run cannot be published", result.text)
    t.equal(place.branches(fourth), {}, "and is not")
