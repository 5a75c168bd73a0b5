#!/usr/bin/python3
# deadline: 200
"""A Python project with the standard library's unittest, whose tests start a server on the loopback: a new file, a
deletion, an edit."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, delete, edit, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

FILES = {
    "greet/__init__.py": "",
    "greet/server.py": '''import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hallo " + self.path[1:].encode())

    def log_message(self, *args):
        pass
''',
    "greet/old.py": "raise SystemExit('not used any more')\n",
    "tests/__init__.py": "",
    "tests/test_server.py": '''import http.server
import threading
import unittest
import urllib.request

from greet.server import Handler


class ServerTest(unittest.TestCase):
    def test_greets(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/you") as reply:
            self.assertEqual(reply.read(), b"hello you")
        server.shutdown()
        server.server_close()
''',
    "umlaut-\u00e4 file.txt": "caf\u00e9\r\nno newline at the end",
}

with Tap() as t, Place() as place:
    repo = place.repository(FILES, test="python3 -m unittest -v")
    model = place.recording([[
        ("search", {"text": "hallo"}),
        edit("greet/server.py", 'b"hallo "', 'b"hello "'),
        delete("greet/old.py"),
        write("greet/version.py", 'VERSION = "2"\n'),
        edit("umlaut-\u00e4 file.txt", "caf\u00e9", "th\u00e9"),
        submit("Greet in English", "Also drops a module that nobody uses."),
    ]])
    result = place.agent("run", "-", "--model", model, cwd=repo,
                         stdin="The greeting is in German\n\nIt should be English.\n")
    if not t.equal(result.status, 0, "a run on a Python project ends with 0", result.text):
        sys.exit(1)
    branches = place.branches(repo)
    t.equal(len(branches), 1, "one branch was pushed", branches)
    commit = next(iter(branches.values()))
    t.equal(place.git("-c", "core.quotePath=false", "diff", "--no-renames", "--name-status", "main", commit,
                      cwd=repo + ".git").splitlines(),
            ["D\tgreet/old.py", "M\tgreet/server.py", "A\tgreet/version.py", "M\tumlaut-\u00e4 file.txt"],
            "it holds the edit, the deletion, the new file, and nothing that the tests made")
    t.equal(place.git("show", f"{commit}:umlaut-\u00e4 file.txt", cwd=repo + ".git", text=False),
            "th\u00e9\r\nno newline at the end".encode(), "line ends, encoding and the missing last newline are kept")
    t.equal(place.git("status", "--porcelain", cwd=repo), "", "the work tree is as it was")
    with open(os.path.join(place.run_dir(), "issue.md"), encoding="utf-8") as f:
        t.contains(f.read(), "It should be English.", "the issue came from standard input")
    t.contains(result.err, "test", "a line for each stage is shown")
