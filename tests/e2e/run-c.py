#!/usr/bin/python3
# deadline: 300
# sanitizers: yes
"""A C project with `make check`: two rounds, then a push through the remote's hook; all that a run promises
about what it pushes and what it leaves."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import ROOT, Place, differences, digest_tree, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(ROOT, "tests/fixtures/demo")
BODY = """The loop added a line only when it met a newline.

Signed-off-by: Somebody Else <else@example.com>
Co-authored-by: Nobody <nobody@example.com>
[skip ci]
"""


def project_files():
    files = {}
    for top, _, names in os.walk(os.path.join(FIXTURE, "project")):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as f:
                files[os.path.relpath(path, os.path.join(FIXTURE, "project"))] = f.read()
    return files


with Tap() as t, Place() as place:
    repo = place.repository(project_files(), name="tally")
    shutil.copy(os.path.join(FIXTURE, "pre-receive"), repo + ".git/hooks/pre-receive")
    loop_end = "\t\t\tstart = i + 1;\n\t\t}\n\t}\n"
    wrong = "\ttally_line(tally, text + start, len - start);\n"
    model = place.recording([
        [("list_files", {}), ("read_file", {"path": "src/tally.c"}), edit("src/tally.c", loop_end, loop_end + wrong),
         submit("Count a last line without a newline", BODY)],
        [edit("src/tally.c", wrong, "\tif (start < len)\n\t" + wrong),
         submit("Count a last line without a newline", BODY)],
    ])
    place.limits()
    before = digest_tree(repo)
    base = place.git("rev-parse", "HEAD", cwd=repo)
    issue = os.path.join(FIXTURE, "42.md")
    result = place.agent("run", issue, "--model", model, "--json", cwd=repo)
    if not t.equal(result.status, 0, "a run with one red and one green round ends with 0", result.text):
        sys.exit(1)
    events = result.events
    t.ok(events and all({"time", "ms", "event"} <= set(e) for e in events), "--json prints events, each with its time",
         result.out)
    t.equal(len(events), len([line for line in result.out.splitlines() if line]), "and nothing else")
    stages = [e["stage"] for e in events if e["event"] == "stage"]
    order = [s for s in stages if s in ("model", "test", "publish")]
    t.equal(order, ["model", "test", "model", "test", "publish"], "model and test alternate, publish comes last")

    # ---- what is on the server ----
    branches = place.branches(repo)
    t.equal(len(branches), 1, "the server has one new branch", branches)
    branch, commit = next(iter(branches.items()))
    t.ok(branch.startswith("refs/heads/agent/"), "it is below agent/", branch)
    server = repo + ".git"
    tree = place.artefact("round-2/tree.json")
    t.equal(place.git("rev-parse", commit + "^{tree}", cwd=server), tree["tree"], "pushed tree = applied tree")
    verdicts = [place.artefact(f"round-{n}/verdict.json") for n in (1, 2)]
    t.equal([v["green"] for v in verdicts], [False, True], "the first verdict is red, the second green")
    t.equal(verdicts[1]["tree"], tree["tree"], "applied tree = tested tree")
    t.equal(place.git("rev-list", "--parents", "-1", commit, cwd=server).split(), [commit, base],
            "its only parent is the base commit")
    t.equal(place.git("diff", "--name-only", base, commit, cwd=server), "src/tally.c", "it changes the one file")
    t.equal(place.git("fsck", "--strict", cwd=server), "", "the server's objects are sound")
    message = place.git("show", "-s", "--format=%B", commit, cwd=server)
    trailers = dict(line.split(": ", 1) for line in
                    place.git("show", "-s", "--format=%(trailers)", commit, cwd=server).splitlines() if ": " in line)
    t.equal(sorted(trailers), ["Agent-Issue", "Agent-Model", "Agent-Run", "Agent-Test", "Issue"], "its trailers are ours", message)
    t.equal(trailers.get("Agent-Run"), place.runs()[-1], "Agent-Run names the run")
    t.ok("skip ci" not in message and "Somebody" not in message and "Co-authored" not in message,
         "what the model wrote in the shape of a trailer or a CI directive is not in it", message)
    t.equal(message.splitlines()[0], "Count a last line without a newline", "its subject is the model's title")
    t.equal(place.git("show", "-s", "--format=%an <%ae>", commit, cwd=server), "agent <agent@localhost>",
            "its author is configured, not the person")

    # ---- the difference that was kept is the one that was pushed ----
    check = place.path("check")
    place.git("clone", "-q", server, check)
    place.git("checkout", "-q", "--detach", base, cwd=check)
    place.git("apply", "--index", os.path.join(place.run_dir(), "round-2/patch.diff"), cwd=check)
    t.equal(place.git("write-tree", cwd=check), tree["tree"], "patch.diff, applied to the base by git, gives that tree")

    # ---- here nothing changed ----
    t.equal(differences(before, digest_tree(repo)), [], "no byte of the repository or its work tree changed")
    t.equal(place.leftovers(), [], "no process, mount or control group is left")
    with open(os.path.join(place.run_dir(), "round-2/conversation.jsonl"), encoding="utf-8") as f:
        talk = f.read()
    t.ok("3 lines" in talk and "not ok" in talk, "the second round was told what failed in the first", talk[-3000:])

    # ---- show ----
    shown = place.agent("show", place.runs()[-1])
    t.equal(shown.status, 0, "agent show", shown.text)
    for part in ("The last number is lost", branch.replace("refs/heads/", ""), commit[:10], "tally_line", "exit status 2"):
        t.contains(shown.out, part, f"agent show tells {part!r}")
    t.equal(place.agent("show").status, 0, "agent show lists runs")
    t.contains(place.agent("show").out, place.runs()[-1], "and names this one")

    # ---- again: nothing twice ----
    again = place.agent("publish", place.runs()[-1])
    t.ok(again.status in (0, 3), "publishing it again is harmless", again.text)
    t.equal(place.branches(repo), branches, "and changes nothing on the server")
