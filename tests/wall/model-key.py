#!/usr/bin/python3
"""The model key stands in the request's header and nowhere else: a server that echoes it, in texts, in the
arguments of tool calls, in errors, in names, gets it into no file, event or message; a file of the repository that
holds it is not sent with it; the process shows it to nobody."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import modelserver  # noqa: E402
import modelstage  # noqa: E402
import scan  # noqa: E402
from modelserver import answer_calls  # noqa: E402
from tap import Tap  # noqa: E402

KEY = "sk-planted-model-key-0123456789abcdef"
FORMS = [KEY.encode(), KEY.encode("utf-16-le"), KEY.encode().hex().encode(), KEY[:20].encode()]


def leaks(run, end):
    """Where the key stands in what the stage wrote."""
    found = []
    for top, _, names in os.walk(run.directory):
        for name in names:
            with open(os.path.join(top, name), "rb") as f:
                data = f.read()
            found += [name for form in FORMS if form in data]
    said = json.dumps(end.events) + end.words
    return found + ["events or last words" for form in FORMS if form.decode("latin-1") in said]


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        repo = modelstage.make_repo(os.path.join(place, "repo"),
                                    {"a.txt": "one\ntwo\n", "config": f"key = {KEY}\n"})
        escaped = "\\u0073" + KEY[1:]
        script = [answer_calls([{"name": "read_file", "input": {"path": "config"}},
                                {"name": "@KEY@", "input": {"@KEY@": "@KEY@"}},
                                {"name": "read_file", "input": {"path": "@KEY@"}}]),
                  answer_calls([{"name": "write_file", "raw": json.dumps({"path": "b.txt", "content": "k @KEY@ k"})},
                                {"name": "write_file",
                                 "raw": '{"path": "c.txt", "content": "k ' + escaped + '"}'},
                                {"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "@KEY@"}},
                                {"name": "submit", "input": {"title": "Title @KEY@", "body": "Body @KEY@"}}])]
        for wire in ("anthropic", "openai"):
            header = "header:x-api-key" if wire == "anthropic" else "header:authorization"
            with modelserver.Server(mode=["echo-key"], key=KEY) as server:
                server.http.steps = script
                run = modelstage.Run(place, repo, wire, port=server.port, key=KEY)
                end = run.round()
                t.equal(end.status, 0, f"{wire}: the round ends with a submit", end.describe())
                t.equal([r["key_in"] for r in server.requests], [[header]] * 2, f"{wire}: it is in the header only")
                t.equal(leaks(run, end), [], f"{wire}: an echoed key is in nothing that was written or said")
                with open(run.talk, encoding="utf-8") as f:
                    text = f.read()
                # the check can fail: the places where it would have been are there
                t.ok(text.count("[key]") >= 10, f"{wire}: the places are marked", text[-2000:])
                contents = [e.get("content") or e.get("new") for e in end.changes["edits"]]
                t.equal(contents, ["k [key] k", "k [key]", "[key]"], f"{wire}: edits carry the mark")
            for mode, status in (("echo-key-error", 4), ("401", 4), ("cut", 4), ("garbage-json", 4)):
                with modelserver.Server(mode=[mode]) as server:
                    server.http.steps = script
                    run = modelstage.Run(place, repo, wire, port=server.port, key=KEY, limits={"backoff_ms": 1})
                    end = run.round()
                    t.ok(end.status == status and not leaks(run, end), f"{wire}: nor after {mode}",
                         [end.describe(), leaks(run, end)])
        with modelserver.Server(mode=["silence"]) as server:
            run = modelstage.Run(place, repo, "anthropic", port=server.port, key=KEY)
            process = run.start()
            process.read_events(run.answer, 30, until=lambda e: e["event"] == "reserve")
            seen = []
            for pid in (process.pid, run.dialer.pid):
                for name in ("environ", "cmdline"):
                    try:
                        with open(f"/proc/{pid}/{name}", "rb") as f:
                            seen += [name] if KEY.encode() in f.read() else []
                    except PermissionError:
                        pass  # not to be seen at all
            t.equal(seen, [], "environment and arguments of the stage do not have it")
            fds = scan.descriptor_links(run.dialer.pid)
            t.ok(not any("secret" in name for name in fds), "agent-dial has no descriptor of it", fds)
            process.kill()
            run.finish(process, 1)


main()
