#!/usr/bin/python3
# deadline: 200
"""What the tests reached for in vain is told: while the run goes on, by agent show, in the verdict, and by agent jail --json;
and with jail.observe = off it is not, and nothing else changes."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

# Three distinct things, one of them twice, by a program whose name is an attack on the terminal.
TEST = r'''
import ctypes, socket
def attempt(what, *args):
    try: what(*args)
    except OSError as e: print(e)
attempt(socket.getaddrinfo, 'packages.example', 443, 0, socket.SOCK_STREAM)
attempt(socket.create_connection, ('192.0.2.7', 5432))
attempt(socket.create_connection, ('192.0.2.7', 5432))
ctypes.CDLL(None).prctl(15, b'\x1b]0;x\x07\n', 0, 0, 0)
attempt(socket.create_connection, ('2001:db8::7', 443))
raise SystemExit('hello' not in open('greeting').read())
'''


def told(lines, mark):
    return [line.split(mark, 1)[1].strip() for line in lines.splitlines() if mark in line]


def check_lines(t, lines, where):
    t.ok(len(lines) == 3 and lines[0].startswith("packages.example (name), ") and
         lines[1].startswith("192.0.2.7:5432 (tcp), 2 times, by ") and "python3" in lines[1] and
         lines[2].startswith("[2001:db8::7]:443 (tcp), 1 time, by \\x1b]0;x\\x07\\n ("), f"{where} tells them", lines)


with Tap() as t, Place() as place:
    repo = place.repository({"greeting": "hallo\n", "check.py": TEST}, test="python3 check.py")
    rounds = [[edit("greeting", "hallo", "hello"), submit("Greet in English")]]
    model = place.recording(rounds)
    result = place.agent("run", "-m", "Greet in English", "--model", model, "--dry-run", cwd=repo)
    t.equal(result.status, 0, "a run whose tests pass without what they reached for is green", result.text)
    t.ok("\x1b]0" not in result.text, "no escape sequence reaches the terminal", result.text)
    check_lines(t, told(result.err, "denied: "), "the run")
    verdict = place.artefact("round-1/verdict.json")
    t.equal((verdict.get("observe"), verdict.get("egress_more"), verdict.get("listeners")), ("on", 0, 0),
            "the verdict says that it was observed", verdict)
    t.equal([(one["protocol"], one["host"], one["port"]) for one in verdict.get("egress", [])],
            [("dns", "packages.example", 0), ("tcp", "192.0.2.7", 5432), ("tcp", "2001:db8::7", 443)],
            "the verdict lists them", verdict)
    shown = place.agent("show", os.path.basename(place.run_dir()), cwd=repo, limits=False)
    check_lines(t, told(shown.out, "denied "), "agent show")

    jail = place.agent("jail", "--json", "--", "python3", "check.py", cwd=repo)
    t.equal(json.loads(jail.out.splitlines()[-1]).get("egress"), verdict.get("egress"), "agent jail --json lists the same",
            jail.text)
    off = place.agent("jail", "--json", "-c", "jail.observe=off", "--", "python3", "check.py", cwd=repo)
    seen = json.loads(off.out.splitlines()[-1])
    t.equal((seen.get("observe"), seen.get("egress"), off.status), ("off", [], jail.status), "not observed, nothing is told",
            off.text)
    t.equal(off.err, jail.err, "and the command says the same")
    narrow = place.repository({"x": "x\n"}, name="narrow", config="[jail]\n\tobserve = off\n", test="true")
    refused = place.agent("run", "-m", "x", "--model", model, "--dry-run", cwd=narrow)
    t.ok(refused.status == 2 and "jail.observe" in refused.err, "a repository may not switch it off", refused.text)
