#!/usr/bin/python3
# deadline: 300
"""agent jail as people use it, and what is said when a program is missing inside that this machine has."""
import json
import os
import pty
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, submit, write  # noqa: E402
from tap import Tap  # noqa: E402


def on_terminal(place, command, cwd):
    """Runs it with a pseudo-terminal as all three descriptors: (status, output)."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, cwd=cwd, env=place.env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 4096):
            text += chunk
    except OSError:
        pass
    os.close(ours)
    return child.wait(60), text.decode(errors="replace")


with Tap() as t, Place() as place:
    place.write("tools/bin/mytool", "#!/bin/sh\necho mytool ran\n", 0o755)
    place.write("sdk/bin/sdktool", "#!/bin/sh\nexec cat \"$(dirname \"$0\")/../lib/text\"\n", 0o755)
    place.write("sdk/lib/text", "sdktool ran\n")
    os.chmod(place.dir, 0o755)
    place.env["PATH"] += f":{place.path('tools/bin')}:{place.path('sdk/bin')}"
    repo = place.repository({"a.txt": "one\n", "Makefile": "all:\n\tmytool\n", "sub/f": "x\n"})

    def jail(*words, **more):
        return place.agent("jail", *words, cwd=more.pop("cwd", repo), **more)

    for words, status, named in (
            (("--", "mytool"), 127, "tools/bin/mytool"), (("--", "sh", "-c", "mytool; exit 3"), 3, "tools/bin/mytool"),
            (("--", "make"), 2, "tools/bin/mytool"), (("--", "bash", "-c", "sdktool"), 127, "sdk"),
            (("--", place.path("sdk/bin/sdktool")), 127, "sdk")):
        result = jail(*words)
        line = f"[jail] path = {place.path(named)}\n"
        t.ok(result.status == status and result.err.endswith(line), f"a missing program is found: {words[1:]}", result.text)
        result = jail("-c", f"jail.path={place.path(named)}", *words)
        t.ok(" ran" in result.out and "jail.path" not in result.err and "[jail]" not in result.err,
             f"and admitted by that very line: {words[1:]}", result.text)
    remembered = os.path.join(place.state, "selftest")
    kept = os.stat(remembered)
    t.ok(kept.st_mode & 0o777 == 0o600 and kept.st_size > 0 and kept.st_size % 65 == 0, "that the self-test held is remembered", kept)
    result = jail("--", "true")
    t.ok(result.status == 0 and os.stat(remembered).st_ino == kept.st_ino, "once a kind of jail", result.text)
    with open(remembered, "w") as file:
        file.write("x" * 64 + "\n")
    result = jail("--", "true")
    t.ok(result.status == 0 and os.stat(remembered).st_size == 130, "what is not known is tested whole, and remembered", result.text)
    result = jail("--", "sh", "-c", "printf '\\033[31mevil\\033[0m: not found\\n'; nosuchprogram; exit 1")
    t.ok(result.status == 1 and "next:" not in result.err, "what is nowhere, or no name, gives no advice", result.text)
    result = jail("--", "sh", "-c", "echo 'sh: 1: mytool: not found'")
    t.ok(result.status == 0 and "next:" not in result.err, "nor does a command that ends well", result.text)

    result = jail("-c", "test.env=TZ=Asia/Tokyo", "-c", "test.env=LANG=C", "--", "sh", "-c", "date +%z; env | grep -c ^TZ=; echo $LANG")
    t.equal(result.out, "+0900\n1\nC\n", "test.env replaces a default", result.text)
    result = jail("--", "sh", "-c", "cat; test ! -t 0; echo $TERM; pwd")
    t.equal(result.out, "dumb\n/work\n", "standard input is empty, the terminal dumb, the place the top of the tree", result.text)
    result = jail("--input", "--", "cat", stdin="given\n")
    t.equal(result.out, "given\n", "standard input is given when asked")
    result = jail("--json", "--", "sh", "-c", "echo out; exit 5")
    verdict = json.loads(result.out) if result.out else {}
    t.ok(result.status == 5 and verdict.get("value") == 5 and verdict.get("outcome") == "exited" and "out" in result.err,
         "--json prints the verdict alone, the output goes to standard error", result.text)
    status, text = on_terminal(place, place.command(["jail", "--", "sh", "-c", "test -t 1 && stty size && echo $TERM-$COLUMNS-; mytool"]), repo)
    t.ok(status == 127 and "xterm--" in text and "[jail] path = " in text, "on a terminal: a terminal inside, and the advice", text)

    place.write(os.path.join(repo, "a.txt"), "two\n")
    place.write(os.path.join(repo, "untracked"), "new\n")
    result = jail("--dirty", "--", "sh", "-c", "cat a.txt untracked; test ! -e .git; echo three >a.txt")
    with open(os.path.join(repo, "a.txt")) as f:
        t.ok(result.out == "two\nnew\n" and f.read() == "two\n", "--dirty: the working directory as it is, and stays", result.text)
    result = jail("--", "cat", "a.txt", cwd=os.path.join(repo, "sub"))
    t.equal(result.out, "one\n", "else the committed tree, from any directory of it")
    for words, cwd, message in ((("--dirty", "--tree", "HEAD", "--", "true"), repo, "only one of them"),
                                (("--round", "1", "--", "true"), repo, "--round needs --run"),
                                (("--dirty", "--", "true"), repo + ".git", "has no work tree")):
        result = jail(*words, cwd=cwd)
        t.ok(result.status == 125 and message in result.err, f"refused, as env(1) would: {' '.join(words)}", result.text)

    place.git("checkout", "-q", "-f", cwd=repo)
    model = place.recording([[write("b.txt", "x\n"), submit("Add", "x")]])
    result = place.agent("run", "-m", "x", "--model", model, "--rounds", "1", "--test", "true && mytool", cwd=repo)
    advice = f"mytool lies in {place.path('tools/bin/mytool')}, which the jail does not see"
    t.ok(result.status == 1 and advice in result.err, "a red run says what was missing", result.text)
    t.contains(place.agent("show", cwd=repo).out + place.agent("show", os.path.basename(place.run_dir()), cwd=repo).out, advice,
               "and so does its story")
