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
        t.ok(result.status == (125 if name == "jail" else 2) and "-C /nonexistent/place" in result.err, f"agent {name} takes -C", result.text)

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
    head = place.git("rev-parse", "HEAD", cwd=repo)
    for rev, wanted in (("main", "refs/heads/main"), (head, "the commit"), ("HEAD", "detached HEAD")):
        place.git("checkout", "-q", "--detach", cwd=repo)
        text = place.agent(*asked, "--base", rev, cwd=repo, limits=False).err
        t.contains(text, f"{wanted} {head[:12]}", f"--base {rev} is told as {wanted}")
        t.contains(place.agent("show", place.runs()[-1], limits=False).out, f"{head} ({wanted})", "by agent show, too")
    place.git("checkout", "-q", "main", cwd=repo)

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
    t.equal(complete(place, "show", ""), sorted(place.runs()), "runs")
    t.equal(complete(place, "run", "-c", "queue.per"), ["queue.perRepository="], "keys")
    t.equal(complete(place, "run", "-C", "hom"), ["home"], "directories")
    t.equal(complete(place, "run", "--backend", "g"), ["gvisor"], "one of a few words")
    t.equal(complete(place, "run", "-m", ""), [], "and nothing where anything may stand")
    t.ok("config" in complete(place, "help", "") and "run" in complete(place, "help", ""), "topics")
    t.equal(complete(place, "nosuch", "x"), [], "an unknown command")
    told = place.agent("help", "nosuch", limits=False).err
    t.ok(told.endswith(" completion help\n"), "help on nothing that is there names what is, and no line ends in a blank", repr(told))
    for words in ([], ["zsh"], ["bash", "bash"]):
        result = place.agent("completion", *words, limits=False)
        t.ok(result.status == 2 and result.out == "", f"agent completion {' '.join(words)}: 2", result.text)

    # ---- completion of what a repository names ----
    owned = place.path("owned")
    rich = place.repository({"a.txt": "1\n", ".agent/maintain/tidy-up.md": "---\nenabled: yes\n---\nTidy.\n"}, name="rich")
    for ref in ("heads/topic/one", "heads/packed", "tags/v1", "remotes/origin/far", f"heads/$(touch${{IFS}}{owned.replace('/', chr(47))})",
                "heads/`id`", "heads/a;b", "heads/x&y", "heads/ü"):
        place.git("update-ref", "refs/" + ref, "HEAD", cwd=rich)
        if ref == "heads/packed":
            place.git("pack-refs", "--all", cwd=rich)
    place.git("update-ref", "-d", "refs/heads/topic/one", cwd=rich)
    place.git("update-ref", "refs/heads/topic/two", "HEAD", cwd=rich)
    t.equal(complete(place, "run", "--branch", "", cwd=rich), ["main", "packed", "topic/two"],
            "branches, loose and packed, but none that a shell would take for more than a word")
    t.equal(complete(place, "run", "-C", rich, "--base", "v"), ["v1"], "-C counts, tags are revisions")
    t.equal(complete(place, "verify", "o", cwd=rich), ["origin/far", "origin/main"], "and branches of remotes")
    allow = ["-c", "maintain.fromRepository=yes"]
    place.write("home/.config/agent/config", "[maintain]\n\tfromRepository = yes\n[mirror \"kernel\"]\n\turl = https://localhost/x\n"
                '[maintain "nightly"]\n\tprompt = Mend it.\n')
    t.equal(complete(place, "maintain", "", cwd=rich), ["nightly", "tidy-up"], "tasks, of the operator and of the repository")
    t.equal(complete(place, "maintain", "--repo", rich, "--due", "t"), ["tidy-up"], "--repo counts")
    t.equal(complete(place, "mirror", ""), ["kernel"], "mirrors")
    os.unlink(os.path.join(place.home, ".config/agent/config"))
    os.mkdir(os.path.join(rich, f"$(touch {os.path.basename(owned)})"))
    complete(place, "run", "-C", "$", cwd=rich)
    complete(place, "run", "-C", rich, "--base", f"$(touch {owned})")
    complete(place, "run", "-C", f"$(touch {owned})", "--base", "x")
    t.ok(not os.path.exists(owned) and not os.path.exists(os.path.join(rich, "owned")), "nothing of it is run")
    head = place.git("rev-parse", "HEAD", cwd=rich)
    place.write(os.path.join(rich, ".git/packed-refs"), "".join(f"{head} refs/heads/many{i:05}\n" for i in range(20000)))
    t.equal(len(complete(place, "run", "--base", "many", cwd=rich)), 500, "so many are shown at most")
    t.equal(complete(place, "run", "--base", "many19999", cwd=rich), ["many19999"], "out of all")
    os.unlink(os.path.join(rich, ".git/packed-refs"))
    os.mkfifo(os.path.join(rich, ".git/packed-refs"))
    os.symlink("heads", os.path.join(rich, ".git/refs/heads/loop"))
    os.symlink("/dev/zero", os.path.join(rich, ".git/refs/heads/zero"))
    t.equal(complete(place, "run", "--branch", "", cwd=rich), ["topic/two"], "pipes and links are none")
    for words, wanted in ((["names"], "bash"), (["names", "secrets"], "runs, branches"), (["names", "branches", "-C", "/"], "git")):
        result = place.agent("completion", *words, limits=False)
        t.ok(result.status == 2 and result.out == "" and wanted in result.err, f"agent completion {' '.join(words)}: 2", result.text)

    # ---- long lines ----
    title = "word " * 30 + "end"
    text = on_terminal(place, 60, "run", "-m", title, "--model", model, "--dry-run", *limits, cwd=repo)
    lines = [line for line in text.replace("\r", "\n").split("\n") if "round 1: " not in line]  # a finished one may wrap
    t.ok(max(len(line) for line in lines) <= 60 and "         word word" in text and "end" in text, "notes are folded on a terminal", text)
    result = place.agent("run", "-m", title, "--model", model, "--dry-run", *limits, cwd=repo, limits=False)
    t.contains(result.err, ("word " * 30).strip()[:100], "and whole elsewhere")
