#!/usr/bin/python3
"""Whole runs against a model server that misbehaves: a clear end, exit status as documented, a saved run that
`agent resume` goes on with, budgets that hold, and no key in what is left.

deadline: 240
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import modelserver  # noqa: E402
from e2e import Place  # noqa: E402
from modelserver import answer_calls, answer_text  # noqa: E402
from tap import Tap  # noqa: E402

KEY = "sk-planted-model-key-for-runs-0123456789"
READ = {"name": "read_file", "input": {"path": "a.txt"}}
WRONG = {"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "drei"}}
RIGHT = {"name": "edit_file", "input": {"path": "a.txt", "old": "drei", "new": "zwei"}}
WHOLE = {"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "zwei"}}
SUBMIT = {"name": "submit", "input": {"title": "Translate two", "body": "It was English."}}
CONVERSATION = [answer_calls([READ], text="I look."), answer_calls([WRONG, SUBMIT]), answer_calls([RIGHT, SUBMIT])]
NAMES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def holds_key(top):
    found = []
    for where, _, names in os.walk(top):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if KEY.encode() in f.read():
                        found.append(path)
    return found


def main():
    with Tap() as t, Place() as place:
        repo = place.repository({"a.txt": "one\ntwo\n"}, test="grep zwei a.txt")

        def run(server, wire, *more, **options):
            base = server.url + ("/v1" if wire == "openai" else "")
            return place.agent("run", "-m", "Translate two.", "--model", f"{wire}:some-model", "--base-url", base,
                               "--dry-run", *more, cwd=repo, env={NAMES[wire]: KEY}, **options)

        for wire in NAMES:
            with modelserver.Server(key=KEY) as server:
                server.script(["429:1", *CONVERSATION])
                result = run(server, wire)
                t.equal(result.status, 0, f"{wire}: two rounds and a wait that was asked for", result.text)
                t.contains(result.out, "+zwei", f"{wire}: the change is shown")
                t.equal(len(server.requests), 4, f"{wire}: no call too many", result.text)
                t.equal({tuple(r["key_in"]) for r in server.requests},
                        {("header:x-api-key" if wire == "anthropic" else "header:authorization",)},
                        f"{wire}: the key is in its header only")

        faults = [("401", 4, "the model key was refused"), ("404-model", 2, "unknown model \"some-model\""),
                  ("429:3600", 75, "it asks to wait 3600 s"), ("redirect", 4, "it sends us to elsewhere.example"),
                  ("400-credit", 4, "quota is exhausted"), ("huge", 4, "larger than allowed"),
                  ("garbage-json", 4, "not what this provider's format says"), ("html", 2, "content type"),
                  ("max_tokens", 4, "were cut at the output limit")]
        with modelserver.Server() as server:
            for mode, status, part in faults:
                server.script(CONVERSATION)
                server.http.modes = [[mode, 0]]
                result = run(server, "anthropic")
                last = [line for line in result.err.splitlines() if line][-3:]
                t.equal(result.status, status, f"{mode}: the exit status", result.text)
                t.ok(any(part in line for line in last), f"{mode}: one line says why", result.text)
                server.script(CONVERSATION if mode != "max_tokens" else [answer_calls([WHOLE, SUBMIT])])
                before = len(server.requests)
                again = place.agent("resume", cwd=repo, env={NAMES["anthropic"]: KEY})
                t.equal((again.status, len(server.requests) - before), (0, 1 if mode == "max_tokens" else 3),
                        f"{mode}: resumed, it goes on", again.text)

            server.script([answer_text("I cannot do that: it is German already.")])
            result = run(server, "openai")
            t.equal(result.status, 1, "a model that changes nothing is a no", result.text)
            t.contains(result.err, "it is German already", "with its words")

            server.script(CONVERSATION)
            before = len(server.requests)
            result = run(server, "openai", "-c", "budget.runTokens=18000")
            t.ok(result.status == 4 and len(server.requests) == before, "a call that could pass the budget is not made",
                 result.text)
            t.contains(result.err, "budget", "and the budget is named")
            again = place.agent("resume", "-c", "budget.runTokens=100k", cwd=repo, env={NAMES["openai"]: KEY})
            t.equal(again.status, 0, "with more of it the run goes on", again.text)
        t.equal(holds_key(place.state), [], "nothing in the state directory has the key")


main()
