#!/usr/bin/python3
# deadline: 200
"""make install: the programs find each other from where they were installed, through the link in bin/."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import e2e  # noqa: E402
from e2e import BUILD, ROOT, Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t, Place() as place:
    place.limits()
    made = subprocess.run(["make", "-s", "-C", ROOT, f"B={BUILD}", "install", f"DESTDIR={place.path('root')}", "PREFIX=/usr"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    t.equal(made.returncode, 0, "make install DESTDIR=… ends with 0", made.stdout + made.stderr)
    e2e.AGENT = place.path("root/usr/bin/agent")
    repo = place.repository({"a.txt": "one\ntwo\n"}, test="grep zwei a.txt")
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    t.equal((result.status, len(place.branches(repo))), (0, 1), "the installed agent does a whole run", result.text)
    t.ok(os.path.exists(place.path("root/usr/share/man/man1/agent.1")), "the manual page is installed")
    t.ok(os.path.exists(place.path("root/usr/share/bash-completion/completions/agent")), "bash's completion is installed")
    t.ok(all(os.access(place.path("root/usr/share/agent/hooks", name), os.X_OK) for name in ("pre-receive", "post-receive")),
         "the hooks are installed")
    with open(place.path("root/usr/share/agent/agent-worker.service"), encoding="utf-8") as f:
        unit = f.read()
    t.ok("ExecStart=/usr/bin/agent work\n" in unit and "@" not in unit, "so is the worker's unit, with where the program is", unit)
    with open(place.path("root/usr/share/agent/agent-maintain.service"), encoding="utf-8") as f:
        unit = f.read()
    t.ok("ExecStart=/usr/bin/agent maintain --due\n" in unit and os.path.exists(place.path("root/usr/share/agent/agent-maintain.timer")),
         "and those of maintenance", unit)
    os.unlink(place.path("root/usr/libexec/agent/agent-model"))
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    t.ok(result.status in (4, 125) and "agent-model" in result.err, "a missing program is named", result.text)
    t.equal(len(place.branches(repo)), 1, "and nothing was pushed without it")
