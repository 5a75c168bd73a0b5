#!/usr/bin/python3
# deadline: 200
"""A model without tools: it asks and edits in text, gets its outcomes back, and what it submits is the same
changes.json as with tools. The stage runs as the supervisor starts it (tests/lib/modelstage.py)."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import modelserver  # noqa: E402
import modelstage  # noqa: E402
from modelserver import answer_text  # noqa: E402
from tap import Tap  # noqa: E402

FILES = {"src/sum.c": "int sum(int n)\n{\n\treturn n;\n}\n", "old.txt": "x\n", "README": "A sum.\n",
         "crlf.txt": "one\r\ntwo\r\n"}
LOOK = "I look first.\nLIST src\nREAD src/sum.c\nREAD README 1-1\nFIND return\n"
BLOCK = ("src/sum.c\n```c\n<<<<<<< SEARCH\n    return n;\n=======\n    int one = 1;\n    return n + one;\n>>>>>>> "
         "REPLACE\n```\n")
MORE = "crlf.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\nthree\n>>>>>>> REPLACE\n\nDELETE old.txt\nRENAME README TO README.md\n"
DONE = "DONE: Mend the sum\nIt was one too small.\n"


def said(request):
    content = request["body"]["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(b.get("text") or "" for b in content)


def system(request):
    body = request["body"]
    return json.dumps(body.get("system", "")) + json.dumps([m for m in body["messages"] if m["role"] == "system"])


def whole(t, place, repo, wire):
    with modelserver.Server() as server:
        server.script([answer_text(LOOK), answer_text(BLOCK.replace("return n;", "return m;") + MORE),
                       answer_text(BLOCK + MORE + DONE)])
        run = modelstage.Run(place, repo, wire, port=server.port, edits="text")
        end = run.round(1)
        t.equal(end.status, 0, f"{wire}: a round in text ends with DONE", end.describe())
        first, second, third = server.requests[:3]
        t.ok("tools" not in first["body"] and "SEARCH" in system(first) and "only through the tools" not in
             system(first), f"{wire}: no tools are offered, one format is asked for", system(first))
        t.ok("src/sum.c" in said(second) and "return n;" in said(second) and "A sum." in said(second),
             f"{wire}: what it asked for is answered", said(second))
        t.ok("None of the edits was made" in said(third) and "E_NO_MATCH" in said(third) and "return n;" in said(third),
             f"{wire}: a refused edit is told with what comes nearest", said(third))
        changes = end.changes or {}
        t.equal([(e["op"], e["path"]) for e in changes.get("edits", [])],
                [("delete", "old.txt"), ("rename", "README"), ("patch", "src/sum.c"), ("patch", "crlf.txt")],
                f"{wire}: nothing of the refused answer, all of the last", changes)
        t.equal((changes.get("title"), changes.get("body")), ("Mend the sum", "It was one too small.\n"),
                f"{wire}: title and body")
        return run, server


def learnt(t, place, repo):
    with modelserver.Server() as server:
        server.script(["400-tools", answer_text(BLOCK + DONE)])
        run = modelstage.Run(place, repo, "openai", port=server.port)
        end = run.round(1)
        t.equal(end.status, 0, "a server that takes no tools: text by itself", end.describe())
        t.ok("tools" in server.requests[0]["body"] and "tools" not in server.requests[1]["body"] and
             "You have no tools here" in said(server.requests[1]), "it is told how to work without")
        again = run.round(1)
        t.equal((again.status, (again.changes or {}).get("edits")), (0, (end.changes or {}).get("edits")),
                "taken up by a new process: the same change, nothing asked", again.describe())
        t.equal(len(server.requests), 2, "the model was not asked again")
    with modelserver.Server() as server:
        server.script(["400-tools"])
        end = modelstage.Run(place, repo, "openai", port=server.port, edits="tools").round(1)
        t.ok(end.status != 0 and "tool" in json.dumps(end.error), "edits = tools: that ends it", end.describe())


def bad_answers(t, place, repo):
    for what, answer, words in (
            ("a block that was cut", BLOCK[:-20], "E_TRUNCATED"),
            ("a path outside", BLOCK.replace("src/sum.c", "../x"), "E_PATH"),
            ("the git directory", "DELETE .git/config\n", "E_PATH"),
            ("RENAME without TO", "RENAME README\n", "E_"),
            ("two formats", BLOCK + "--- a/README\n+++ b/README\n@@ -1 +1 @@\n-A sum.\n+B\n", "E_MALFORMED"),
            ("READ of what is not there", "READ nope\n", "nope"),
            ("READ with a line out of range", "READ README 99999999999999-1\n", "README"),
            ("DONE without a change", DONE, "nothing differs"),
            ("words alone", "I think it is fine.\n", "no request")):
        with modelserver.Server() as server:
            server.script([answer_text(answer), answer_text(BLOCK + DONE)])
            end = modelstage.Run(place, repo, "anthropic", port=server.port, edits="text").round(1)
            t.ok(end.status == 0 and words in said(server.requests[-1]) and len(end.changes["edits"]) == 1,
                 f"{what}: told, and mended", end.describe() + said(server.requests[-1]))
    with modelserver.Server() as server:
        server.script([answer_text("It is fine."), answer_text("It really is.")])
        end = modelstage.Run(place, repo, "anthropic", port=server.port, edits="text").round(1)
        t.ok(end.status == 1 and "no change" in json.dumps(end.error), "words twice: no change", end.describe())
    with modelserver.Server() as server:
        server.script(["max_tokens", answer_text(BLOCK + DONE)])
        end = modelstage.Run(place, repo, "anthropic", port=server.port, edits="text").round(1)
        t.equal((end.status, len((end.changes or {}).get("edits", []))), (0, 1), "an answer cut at the limit is not applied",
                end.describe())


def rounds(t, place, repo):
    with modelserver.Server() as server:
        server.script([answer_text(BLOCK + DONE), answer_text(
            "src/sum.c\n<<<<<<< SEARCH\n\treturn n + one;\n=======\n\treturn n + 2 * one;\n>>>>>>> REPLACE\n" + DONE)])
        run = modelstage.Run(place, repo, "anthropic", port=server.port, edits="text")
        run.round(1)
        end = run.round(2, feedback="exit status 1\n3 != 4\n")
        t.equal((end.status, len((end.changes or {}).get("edits", []))), (0, 2), "a second round edits what the first made",
                end.describe())


with Tap() as t, tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o755)
    repo = modelstage.make_repo(os.path.join(place, "repo"), FILES)
    whole(t, place, repo, "anthropic")
    whole(t, place, repo, "openai")
    learnt(t, place, repo)
    bad_answers(t, place, repo)
    rounds(t, place, repo)
