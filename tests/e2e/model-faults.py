#!/usr/bin/python3
"""The model stage against a server that misbehaves: each fault has a clear end, is tried again as told or not at
all, costs what it may have cost, and leaves a conversation that a later process goes on with.

deadline: 240
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import modelserver  # noqa: E402
import modelstage  # noqa: E402
from modelserver import answer_calls  # noqa: E402
from tap import Tap  # noqa: E402

READ = {"name": "read_file", "input": {"path": "a.txt"}}
EDIT = {"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "zwei"}}
SUBMIT = {"name": "submit", "input": {"title": "Translate two"}}
CONVERSATION = [answer_calls([READ], text="I look at the file that the issue is about, first."),
                answer_calls([EDIT, SUBMIT])]
BOTH = ("anthropic", "openai")
KEY = "sk-a-key-for-the-tests"
LIMITS = {"idle_ms": 1500, "call_ms": 20000, "response_bytes": 8 << 20, "backoff_ms": 10, "turns": 6}

# mode, exit status, requests, part of the message, whether it costs, wires, limits
FOREVER = [
    ("429-bare", 75, 8, "too many requests (429), 8 tries: slow down", False, BOTH, {}),
    ("429:3600", 75, 1, "it asks to wait 3600 s", False, BOTH, {}),
    ("429-quota", 4, 1, "the account's quota is exhausted (429)", False, BOTH, {}),
    ("400-credit", 4, 1, "the account's quota is exhausted (400)", False, BOTH, {}),
    ("500", 75, 5, "overloaded or broken (500), 5 tries", False, BOTH, {}),
    ("529", 75, 5, "overloaded or broken (529), 5 tries", False, BOTH, {}),
    ("401", 4, 1, "the model key was refused (401)", False, BOTH, {}),
    ("403", 4, 1, "the model key was refused (403)", False, BOTH, {}),
    ("404-model", 2, 1, "unknown model \"test-model\" (404)", False, BOTH, {}),
    ("404", 2, 1, "nothing there answers to this provider's requests (404)", False, BOTH, {}),
    ("400", 4, 1, "the request was refused (400): something about \\x1b[31m the request", False, BOTH, {}),
    ("400-tools", 2, 2, "no tool calls with model \"test-model\"", False, BOTH, {}),
    ("400-long", 4, 1, "does not fit the model's context window", False, BOTH, {}),
    ("redirect", 4, 1, "redirects are not followed (302): it sends us to elsewhere.example", False, BOTH, {}),
    ("html", 2, 1, "its content type is \"text/html\"", False, BOTH, {}),
    ("cut", 4, 4, "the answer broke off, 4 tries", True, BOTH, {}),
    ("cut-clean", 4, 4, "the answer broke off, 4 tries", True, BOTH, {}),
    ("empty", 4, 4, "the answer was empty", True, BOTH, {}),
    ("garbage", 4, 2, "there is no event in it", True, BOTH, {}),
    ("garbage-json", 4, 2, "malformed event", True, BOTH, {}),
    ("garbage-http", 4, 2, "not what this provider's format says", True, BOTH, {}),
    ("error-stream", 75, 5, "overloaded or broken (529), 5 tries: Overloaded", True, BOTH, {}),
    ("error-stream:authentication_error", 4, 1, "the model key was refused (401)", True, BOTH, {}),
    ("max_tokens", 4, 3, "cut at the output limit of 1000 tokens 3 times in a row", True, BOTH, {}),
    ("max_tokens-call", 4, 3, "cut at the output limit of 1000 tokens 3 times in a row", True, BOTH, {}),
    ("refusal", 1, 1, "the model declined the task: I will not do that.", True, BOTH, {}),
    ("pause", 4, 6, "did not submit within 6 answers", True, ("anthropic",), {}),
    ("huge", 4, 1, "larger than allowed: more than 8388608 bytes", True, BOTH, {}),
    ("huge-line", 4, 1, "larger than allowed", True, BOTH, {}),
    ("huge", 4, 1, "larger than allowed: more text", True, BOTH, {"response_bytes": 200 << 20}),
    ("huge-line", 4, 1, "larger than allowed: more text", True, BOTH, {"response_bytes": 200 << 20}),
    ("huge-error", 75, 5, "overloaded or broken (500)", False, BOTH, {}),
    ("huge-headers", 4, 1, "headers without end", True, ("openai",), {}),
    ("silence", 4, 2, "silent for 1500 ms", True, BOTH, {}),
    ("silence-early", 4, 2, "silent for 1500 ms", True, ("openai",), {}),
    ("drip", 4, 1, "not done within 1500 ms", True, BOTH, {"call_ms": 1500}),
    ("bad-tool-json", 4, 6, "did not submit within 6 answers", True, ("openai",), {}),
    ("want-completion-tokens", 0, 3, "", True, ("openai",), {}),
    ("no-stream-options", 0, 3, "", True, ("openai",), {}),
    ("cut-stop", 0, 2, "", True, BOTH, {}),
    ("no-index", 0, 2, "", True, ("openai",), {}),
    ("same-index", 0, 2, "", True, ("openai",), {}),
    ("no-id", 0, 2, "", True, ("openai",), {}),
    ("whole", 0, 2, "", True, ("openai",), {}),
]

# a fault that passes: the call is made again
PASSING = ["429:1", "429-bare", "500", "502", "503", "529", "cut", "cut-clean", "empty", "garbage", "garbage-json",
           "error-stream", "silence"]


def forever(t, place, repo, mode, status, requests, part, costs, wire, limits):
    name = f"{wire}, {mode}{' (no byte cap)' if limits.get('response_bytes') else ''}"
    with modelserver.Server(mode=[mode]) as server:
        server.http.steps = CONVERSATION
        run = modelstage.Run(place, repo, wire, port=server.port, key=KEY, limits={**LIMITS, **limits})
        end = run.round()
        message = end.error.get("message", "")
        t.ok(end.status == status and part in message, f"{name}: ends as it should", end.describe())
        t.equal(len(server.requests), requests, f"{name}: tried as often as it should be")
        t.ok(len(end.of("reserve")) == len(end.of("usage")) == requests and (run.spent > 0) == costs and
             run.spent < 30000 * requests, f"{name}: every try is settled", [run.spent, end.events])
        t.ok(status == 0 or end.error.get("next") or "declined" in message, f"{name}: a next step is given",
             end.error)
        if status == 0:
            return
        # the run is saved: it goes on with a server that behaves
        server.script(CONVERSATION)
        if mode == "max_tokens-call":
            server.script([answer_calls([SUBMIT])])  # the edit before the cut call was made
        if mode == "refusal":
            return  # the conversation itself holds the end
        if mode in ("pause", "bad-tool-json"):
            t.equal(run.round().status, status, f"{name}: resumed with the same limit, it ends again")
        run.limits.update(response_bytes=8 << 20, turns=20)
        again = run.round()
        t.equal(again.status, 0, f"{name}: resumed, it goes on", again.describe())


def passing(t, place, repo, wire):
    with modelserver.Server() as server:
        server.script([m for mode in PASSING for m in (mode, "ok")] + CONVERSATION)
        bad = []
        for mode in PASSING:
            server.script([mode, *CONVERSATION])
            run = modelstage.Run(place, repo, wire, port=server.port, key=KEY, limits=LIMITS)
            before = len(server.requests)
            end = run.round()
            if end.status != 0 or len(server.requests) - before != 3:
                bad.append(f"{mode}: {len(server.requests) - before} requests, {end.describe()}")
            if not any("trying again in" in e.get("text", "") for e in end.of("progress")):
                bad.append(f"{mode}: no word of it: {end.events}")
        t.ok(not bad, f"{wire}: {len(PASSING)} faults that pass are tried again and told", "\n".join(bad))


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        repo = modelstage.make_repo(os.path.join(place, "repo"), {"a.txt": "one\ntwo\n"})
        for mode, status, requests, part, costs, wires, limits in FOREVER:
            for wire in wires:
                forever(t, place, repo, mode, status, requests, part, costs, wire, limits)
        for wire in BOTH:
            passing(t, place, repo, wire)


main()
