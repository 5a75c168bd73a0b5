#!/usr/bin/python3
# deadline: 200
"""Mistakes that cost something once: each is told before the model is paid, or does not happen."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, write  # noqa: E402
from tap import Tap  # noqa: E402


def told(t, place, what, words, *args, status=2, cwd=None):
    """The run ends with this status, says these words, and no model was asked."""
    result = place.agent("run", *args, cwd=cwd)
    asked = os.path.exists(os.path.join(place.run_dir(), "round-1")) if place.runs() else False
    t.ok(result.status == status and words in result.err and not asked, what, result.text)


with Tap() as t, Place() as place:
    repo = place.repository({"a.txt": "one\ntwo\n"}, test="true")
    model = place.recording([[edit("a.txt", "two", "zwei")]])
    other = place.recording([[write("b.txt", "b\n")]], name="other.jsonl")
    common = ["-m", "x", "--model", model]

    # ---- told in time ----
    for test in ("", "   "):
        told(t, place, f"an empty test command ({test!r})", "test command is empty", *common, "--test", test, cwd=repo)
    for branch in ("a/-b", "HEAD", "a./b", "-x", "a..b", "x.lock"):
        told(t, place, f"--branch {branch}", "not a usable branch name", *common, "--branch", branch, cwd=repo)
    for path in ("/", "/etc", "/home", place.home, place.dir):
        told(t, place, f"jail.path = {path if path[1:4] != 'tmp' else 'a home'}", "jail.path", *common, "-c",
             f"jail.path={path}", cwd=repo)
    told(t, place, "no credential for an HTTPS remote", "no credential", *common, "--remote",
         "https://127.0.0.1:9/x.git", cwd=repo)
    key = ["-c", "publish.sshKey=file:" + place.write("push-key", "k\n", 0o600)]
    token = ["-c", "publish.token=file:" + place.path("push-key")]
    for what, words, more in (
            ("an author that no commit can have", "author.name = a<b", ["-c", "author.name=a<b"]),
            ("a hook's variable without a value", "publish.env = NOTHING", ["-c", "publish.env=NOTHING"]),
            ("a remote that is no repository", "no git repository", ["--remote", place.home]),
            ("an SSH remote without known_hosts", "known_hosts", ["--remote", "ssh://127.0.0.1:9/x.git", *key]),
            ("a bundle for the git server that is not there", "publish.ca = /nonexistent",
             ["--remote", "https://127.0.0.1:9/x.git", *token, "-c", "publish.ca=/nonexistent"]),
            ("a token for pull requests where there is no forge", "forge.repository", ["-c", "forge.writeToken=file:" + place.path("push-key")])):
        told(t, place, what, words, *common, *more, cwd=repo)
    fifo = place.path("fifo")
    os.mkfifo(fifo)
    told(t, place, "a FIFO as a recording", "not a regular file", "-m", "x", "--model", f"replay:{fifo}", cwd=repo)
    told(t, place, "-m with bytes that are no text", "no text in UTF-8", "-m", "\udcff\udcfe", "--model", model, cwd=repo)
    t.equal(place.branches(repo), {}, "none of these pushed anything")
    planted = "planted-in-a-url"
    for pair in (f"publish.remote=https://me:{planted}@127.0.0.1/x.git", f"publish.remote=https://{planted}@127.0.0.1/x",
                 f"model.baseUrl=https://me:{planted}@127.0.0.1:9"):
        result = place.agent("run", *common, "-c", pair, cwd=repo)
        t.ok(result.status == 2 and planted not in result.text.split("\n", 1)[1], "a credential in a URL is not repeated",
             result.err)
    kept = [name for top, _, names in os.walk(place.state) for name in names
            if planted.encode() in open(os.path.join(top, name), "rb").read()]
    t.equal(kept, [], "nor kept in any file")


    # ---- slips of the pen ----
    for args, words in ((["rum"], "did you mean agent run?"), (["run", "--dryrun", "-m", "x"], "did you mean --dry-run?"),
                        (["run", "-m", "x", "-c", "test.comand=x"], "did you mean test.command?"),
                        (["run", "-m", "x", "--rounds", "0"], "agent: --rounds: run.rounds = 0:"),
                        (["run", "-m", "x", "-C", fifo], "fifo: Not a directory")):
        result = place.agent(*args, cwd=repo)
        t.ok(result.status == 2 and words in result.err, f"agent {args[0]} {args[-1]}: {words}", result.text)
    for line in place.agent("help").out.split("commands:")[1].splitlines():
        command = line[2:].split(" ", 1)[0]
        if line.startswith("  ") and command:
            wide = [one for one in place.agent(command, "--help").out.splitlines() if len(one) > 80]
            t.equal(wide, [], f"agent {command} --help has 80 columns")

    result = place.agent("jail", "--", "make check", cwd=repo)
    t.ok(result.status == 127 and "the command is words" in result.err, "a command as one text", result.text)
    result = place.agent("edit", "--format", "diff", "-", cwd=repo, stdin="x")
    t.ok(result.status == 2 and "apply-patch" in result.err, "an unknown format of edits: the known ones are told", result.text)
    if os.getuid():
        os.mkdir(place.path("closed"), 0o500)
        result = place.agent("show", env={"AGENT_STATE_DIR": place.path("closed", "below")})
        t.ok(result.status == 4 and "Permission denied" in result.err, "a state directory that cannot be made: why", result.text)

    # ---- a dry run, published, resumed ----
    dryrun = place.repository({"a.txt": "one\ntwo\n"}, name="dryrun", test="true")
    dry = place.agent("run", *common, "--dry-run", cwd=dryrun)
    pushed = place.agent("publish", "-C", dryrun, *place.limits())
    resumed = place.agent("resume", "-C", dryrun)
    t.ok((dry.status, pushed.status, resumed.status) == (0, 0, 0) and "dry run" not in resumed.text and
         "was there already" in resumed.text, "what is published is no dry run any more", resumed.text)
    t.equal(place.artefact("report.json")["outcome"], "published", "nor in the list of runs")

    # ---- taken ----
    for command in ("f() { true; }; f", "X=1 sh -c 'test $X'", "! false", "exit 0", "exec true"):
        result = place.agent("run", *common, "--dry-run", "--test", command, cwd=repo)
        t.equal(result.status, 0, f"a test command in the shell's own terms: {command}", result.text)
    result = place.agent("run", *common, "--dry-run", "-c", "jail.processes=1", "-c", "jail.inodes=96", cwd=repo)
    t.ok("shell" not in result.err and "namespaces" not in result.err, "narrow limits do not confuse the preflight",
         result.text)

    result = place.agent("run", *common, "--dry-run", "--test", "echo begun; sleep 60", "-c", "jail.idle=1", "-c", "run.rounds=1", cwd=repo)
    t.ok(result.status == 1 and "no output for 1 s (jail.idle)" in result.text, "a test that falls silent is ended, and told as that",
         result.text)
    result = place.agent("run", *common, "--dry-run", "--test", "while :; do :; done", "-c", "jail.cpuTime=1", "-c", "run.rounds=1", cwd=repo)
    t.ok(result.status == 1 and "limit reached" in result.text, "as is one that takes too much processor time", result.text)

    # ---- issues are told apart ----
    for title in ("修复解析器", "修复打印机", "x" * 60 + "a", "x" * 60 + "b"):
        result = place.agent("run", "-m", title, "--model", model, cwd=repo)
        t.equal(result.status, 0, f"an issue {title[:8]}…", result.text)
    t.equal(len(place.branches(repo)), 4, "issues with titles that look alike have branches of their own")
    first = place.agent("run", "-m", "same", "--model", model, cwd=repo)
    before = place.branches(repo)
    second = place.agent("run", "-m", "same\n\nbut another issue", "--model", other, cwd=repo)
    t.equal((first.status, second.status), (0, 1), "another issue does not take over a branch", second.text)
    t.equal(place.branches(repo), before, "which stays as it was")
    result = place.agent("publish", "-C", repo, *place.limits())
    t.ok(result.status == 1 and "agent publish --branch NAME" in result.err, "nor when it is published again: told how to go on", result.text)
    result = place.agent("publish", "-C", repo, *place.limits(), "-c", "publish.ref=refs/agent/*")
    t.ok(result.status == 2 and "--branch NAME" in result.err, "a ref that would not count is refused", result.text)
    refs = [place.artefact("request.json")["ref"]]
    for more in (("-c", "publish.remote=nowhere"), ("-c", "publish.remote=/nowhere.git"), ()):
        result = place.agent("publish", "-C", repo, *place.limits(), "--branch", "main", *more)
        t.ok(result.status in (1, 2, 4), "a branch that cannot be had is not taken", result.text)
        refs.append(place.artefact("request.json")["ref"])
    t.equal(refs, [refs[0]] * 4, "nor is it what a later publish without one means")
    result = place.agent("publish", "-C", repo, *place.limits(), "--branch", "agent/same-2")
    t.ok(result.status == 0 and "refs/heads/agent/same-2" in place.branches(repo), "but under another name, without the model",
         result.text)
    result = place.agent("publish", "-C", repo, *place.limits(), "--branch", "agent/same-3")
    t.ok(result.status == 2 and "pushed already, to refs/heads/agent/same-2" in result.err, "and only once", result.text)
    before = place.branches(repo)
    again = place.agent("run", "-m", "same", "--model", other, cwd=repo)
    t.equal(again.status, 0, "the same issue again does", again.text)
    t.equal(len(place.branches(repo)), len(before), "on its one branch")

    elsewhere = place.repository({"a.txt": "one\ntwo\n"}, name="elsewhere", test="true")
    result = place.agent("run", "-m", "x", "--command", "nosuchcommand", cwd=elsewhere)
    t.ok(result.status == 2 and "agent: command nosuchcommand cannot be run" in result.err, "a command that is not there is no test command",
         result.text)
    result = place.agent("run", *common, "--branch", "later", "-c", "forge.api=http://127.0.0.1:9", "-c", "forge.kind=gitea", "-c",
                         "forge.repository=https://127.0.0.1:9/o/r", "-c", "forge.writeToken=file:" + place.path("push-key"), cwd=elsewhere)
    t.ok(result.status == 75 and f"agent resume {place.runs()[-1]}" in result.err, "a forge that does not answer: later, and how",
         result.text)

    # ---- the newest run is that of this repository ----
    apart = place.repository({"a.txt": "one\ntwo\n"}, name="apart", test="true")
    dried = place.repository({"a.txt": "one\ntwo\n"}, name="dried", test="true")
    dry = place.agent("run", *common, "--dry-run", cwd=dried)
    result = place.agent("publish", cwd=apart)
    t.ok(result.status == 2 and "no run yet" in result.err, "agent publish elsewhere does not push it", result.text)
    place.agent("run", *common, "--base", "nowhere", cwd=repo)
    result = place.agent("publish", cwd=repo)
    t.equal((dry.status, result.status), (0, 0), "a mistyped run in between does not hide it", result.text)

    # ---- the trailer names the command that gave the verdict ----
    result = place.agent("run", "-m", "trailer", "--model", model, "--dry-run", "--test", "false", "--rounds", "1", cwd=repo)
    run = place.runs()[-1]
    os.unlink(os.path.join(place.run_dir(), "round-1/verdict.json"))
    result = place.agent("resume", run, "-c", "test.command=true", cwd=repo)
    result = place.agent("publish", run, "-c", "test.command=true", cwd=repo)
    message = place.git("log", "-1", "--format=%B", "agent/trailer", cwd=repo + ".git", check=False)
    t.contains(message, "Agent-Test: true\n", "Agent-Test is what the verdict is about")

    # ---- an output that cannot be written ----
    with open("/dev/full", "w") as full:
        done = subprocess.run([os.path.join(os.environ.get("BUILD", "build"), "agent"), "show"], env=place.env,
                              stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True)
    t.ok(done.returncode == 4 and "standard output" in done.stderr, "a full output is an error", done.stderr)
