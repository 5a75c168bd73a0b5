#!/usr/bin/python3
"""The command line as a whole: what every command takes, what is listed, what a shell completes, what is folded."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import AGENT, Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402


def complete(place, *words, cwd=None):
    """What bash offers for the last word."""
    script = ('source <(agent completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _agent 2>/dev/null; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "-", "agent", *words], cwd=cwd or place.dir, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**place.env, "PATH": os.path.dirname(AGENT) + ":" + place.env["PATH"]}, timeout=20)
    return done.stdout.decode().split()


def on_terminal(place, columns, *args, cwd):
    """Standard error of the agent on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen([AGENT, *args], cwd=cwd, env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    data = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(ours)
    child.wait(60)
    return re.sub("\x1b\\[K", "", data.decode(errors="replace"))


with Tap() as t, Place() as place:
    result = place.agent(limits=False)
    t.ok(result.status == 2 and result.out == "" and "commands:" in result.err, "agent alone: the commands, and 2", result.text)
    overview = place.agent("--help", limits=False)
    t.ok(overview.status == 0 and overview.err == "" and overview.out == result.err, "asked for, they are on standard output, and 0", overview.text)
    commands = re.findall(r"^  ([a-z]+) ", overview.out, re.M)
    t.ok(len(commands) >= 15, "all are there", overview.out)
    for name in commands:
        if name in ("help", "completion"):
            continue
        result = place.agent(name, "-C", "/nonexistent/place", limits=False)
        t.ok(result.status == 2 and "-C /nonexistent/place" in result.err, f"agent {name} takes -C", result.text)

    # ---- what is refused is no run ----
    limits = ["-c", "jail.limits=degraded-ok"] if place.limits() else []
    repo = place.repository({"a.txt": "one\ntwo\n"}, test="grep zwei a.txt")
    bare = place.repository({"a.txt": "1\n"}, name="silent")
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    asked = ["run", "-m", "Translate two", "--model", model, "--dry-run", *limits]
    for what, args, cwd in (("no test command", asked, bare), ("a recording that is not there", [*asked, "--model", "replay:/nonexistent"], repo),
                            ("a base that is not there", [*asked, "--base", "nowhere"], repo),
                            ("a command that is not there", [*asked, "--test", "nosuchcommand"], repo),
                            ("a remote that is not there", ["run", "-m", "x", "--model", model, "--remote", "/nonexistent", *limits], repo)):
        result = place.agent(*args, cwd=cwd, limits=False)
        t.equal(result.status, 2, f"{what}: refused", result.text)
    result = place.agent("show", limits=False)
    t.equal((result.out, os.listdir(os.path.join(place.state, "runs"))), ("no runs yet\n", []), "none of them is a run", result.text)
    result = place.agent(*asked, cwd=repo, limits=False)
    listed = place.agent("show", limits=False).out.split()
    t.ok(result.status == 0 and len(place.runs()) == 1 and listed[0] == place.runs()[0], "what was done is", result.text)

    result = place.agent("verify", cwd=repo, limits=False)
    t.ok(result.status == 1 and "of 2 checks 0 hold, 2 do not, 0 cannot be known" in result.err, "agent verify counts in plain order", result.text)

    # ---- completion ----
    t.equal(complete(place, "re"), ["resume", "replay"], "commands are completed")
    t.equal(sorted(complete(place, "")), sorted([*commands, "--help", "--version"]), "all of them")
    for name in commands:
        helped = place.agent(name, "--help", limits=False).out
        options = re.findall(r"^  (--?[A-Za-z-]+)", helped, re.M)
        t.equal(sorted(complete(place, name, "-")), sorted([*options, "--help"]), f"options of agent {name}, as it says itself")
    t.equal(complete(place, "hook", ""), ["install", "uninstall", "check"], "words")
    t.equal(complete(place, "show", ""), place.runs(), "runs")
    t.equal(complete(place, "run", "-c", "queue.per"), ["queue.perRepository="], "keys")
    t.equal(complete(place, "run", "-C", "hom"), ["home"], "directories")
    t.equal(complete(place, "run", "-m", ""), [], "and nothing where anything may stand")
    t.ok("config" in complete(place, "help", "") and "run" in complete(place, "help", ""), "topics")
    t.equal(complete(place, "nosuch", "x"), [], "an unknown command")
    for words in ([], ["zsh"], ["bash", "bash"]):
        result = place.agent("completion", *words, limits=False)
        t.ok(result.status == 2 and result.out == "", f"agent completion {' '.join(words)}: 2", result.text)

    # ---- long lines ----
    title = "word " * 30 + "end"
    text = on_terminal(place, 60, "run", "-m", title, "--model", model, "--dry-run", *limits, cwd=repo)
    lines = [line for line in text.replace("\r", "\n").split("\n") if "round 1: " not in line]  # a finished one may wrap
    t.ok(max(len(line) for line in lines) <= 60 and "         word word" in text and "end" in text, "notes are folded on a terminal", text)
    result = place.agent("run", "-m", title, "--model", model, "--dry-run", *limits, cwd=repo, limits=False)
    t.contains(result.err, ("word " * 30).strip()[:100], "and whole elsewhere")
