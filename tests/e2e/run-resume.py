#!/usr/bin/python3
# deadline: 200
# sanitizers: yes
"""A push that the server's pre-receive hook refuses: the run ends with 1, the hook's words are shown, nothing is lost,
and agent resume publishes later without the model."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402


def read(path):
    with open(path, "rb") as f:
        return f.read()


with Tap() as t, Place() as place:
    repo = place.repository({"a.txt": "one\ntwo\n"}, test="grep zwei a.txt")
    place.hook(repo, "pre-receive", """#!/bin/sh
echo 'no pushes on a Friday \033[31mred\033]0;title\007' >&2
exit 1
""")
    model = place.recording([[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]])
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    run = place.runs()[-1]
    t.equal(result.status, 1, "a refused push ends the run with 1", result.text)
    t.contains(result.err, "no pushes on a Friday", "the hook's own words are shown")
    t.ok("\033[31m" not in result.err and "\007" not in result.err, "but not its control characters", repr(result.err))
    t.contains(result.err, "resume", "and what to do next")
    t.equal(place.branches(repo), {}, "nothing is on the server")
    talk = read(os.path.join(place.run_dir(), "round-2/conversation.jsonl"))
    shown = place.agent("show", run)
    t.contains(shown.out, "no pushes on a Friday", "agent show tells it too")

    again = place.agent("resume", run)
    t.equal(again.status, 1, "a second try is refused the same way", again.text)

    os.unlink(repo + ".git/hooks/pre-receive")
    os.unlink(place.path("recording.jsonl"))  # who would ask the model now would fail
    count = len(place.events(run))
    resumed = place.agent("resume", run, cwd="/")
    t.equal(resumed.status, 0, "agent resume publishes once the server takes it", resumed.text)
    stages = [e["stage"] for e in place.events(run)[count:] if e["event"] == "stage"]
    t.ok("model" not in stages and "test" not in stages, "without asking the model or testing again", stages)
    t.equal(read(os.path.join(place.run_dir(run), "round-2/conversation.jsonl")), talk, "the conversation is the same")
    branches = place.branches(repo)
    t.equal(len(branches), 1, "the branch is there")
    t.equal(place.git("rev-parse", next(iter(branches.values()), "HEAD") + "^{tree}", cwd=repo + ".git"),
            place.artefact("round-2/tree.json")["tree"], "with the tested tree")
    t.equal(place.runs(), [run], "it is still one run")
    done = place.agent("resume", run)
    t.ok(done.status in (0, 3), "resuming a finished run is harmless", done.text)

    # ---- a real server on loopback: its requests are counted ----
    server = place.model_server([[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]])
    repo = place.repository({"a.txt": "one\ntwo\n"}, name="counted", test="grep zwei a.txt")
    place.hook(repo, "pre-receive", "#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    result = place.agent("run", "-m", "Translate two", "--model", "openai:test", "--base-url", server.url, cwd=repo)
    t.equal(result.status, 1, "with a model server: a refused push ends the run with 1", result.text)
    asked = len(server.requests())
    t.equal(asked, 2, "it was asked once a round")
    os.unlink(repo + ".git/hooks/pre-receive")
    result = place.agent("resume", place.runs()[-1])
    t.equal((result.status, len(place.branches(repo))), (0, 1), "resume publishes", result.text)
    t.equal(len(server.requests()), asked, "and asks it nothing")

    # ---- a server that fails between the rounds: the first round is not paid for again ----
    server.stop()
    server = place.model_server([[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]],
                                {2: ["401", "ok"]})
    repo = place.repository({"a.txt": "one\ntwo\n"}, name="between", test="grep zwei a.txt")
    result = place.agent("run", "-m", "Translate two", "--model", "openai:test", "--base-url", server.url, cwd=repo)
    t.equal(result.status, 4, "a provider that refuses the second call: 4, the run is saved", result.text)
    result = place.agent("resume", place.runs()[-1])
    t.equal((result.status, len(place.branches(repo))), (0, 1), "resume goes on with the second round", result.text)
    t.equal(len(server.requests()), 3, "three requests in all: the first round was asked once")
    server.stop()
