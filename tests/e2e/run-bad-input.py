#!/usr/bin/python3
# deadline: 400
"""Bad input: each ends with the documented status and says in a line what, why, and what to do."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import AGENT, Place, digest_tree, differences, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402


def lines(result):
    return [line for line in result.err.splitlines() if line.startswith("agent:")]


with Tap() as t, Place() as place:
    place.limits()
    good = place.repository({"a.txt": "one\ntwo\n"}, test="grep zwei a.txt")
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    plain = ["run", "-m", "Translate two", "--model", model, "--dry-run"]

    def refused(name, args, *words, status=2, cwd=good, env=None, next_step=True):
        result = place.agent(*args, cwd=cwd, env=env)
        said = lines(result)
        text = "\n".join(said).lower()
        fine = (result.status == status and said and all(word.lower() in text for word in words)
                and len([s for s in said if not s.startswith("agent: next:")]) == 1
                and (not next_step or any(s.startswith("agent: next:") for s in said))
                and "sanitizer" not in result.err.lower())
        t.ok(fine, f"{name}: {status}, one line of what and why" + (", one of what next" if next_step else ""), result.text)

    # ---- the repository ----
    os.mkdir(place.path("nothing"))
    refused("not a repository", plain, "git repository", cwd=place.path("nothing"))
    place.git("init", "-q", place.path("empty"))
    refused("an empty repository", plain, "no commit", cwd=place.path("empty"))
    place.git("init", "-q", "--object-format=sha256", place.path("sha256"))
    place.git("commit", "-q", "--allow-empty", "-m", "x", cwd=place.path("sha256"))
    refused("a SHA-256 repository", plain, "sha256", cwd=place.path("sha256"))
    broken = place.repository({"a.txt": "one\n"}, name="broken", test="true", remote=False)
    place.write(os.path.join(broken, ".git/HEAD"), "garbage\n")
    refused("a broken HEAD", plain, cwd=broken, next_step=False)
    refused("a base that does not exist", plain + ["--base", "no-such"], "no-such", next_step=False)
    refused("a directory that does not exist", plain + ["-C", "/nonexistent"], "/nonexistent", next_step=False)

    detached = place.repository({"a.txt": "one\ntwo\n"}, name="detached", test="grep zwei a.txt")
    place.git("checkout", "-q", "--detach", cwd=detached)
    result = place.agent(*plain[:-1], cwd=detached)
    t.equal((result.status, len(place.branches(detached))), (0, 1), "a detached HEAD is fine", result.text)

    dirty = place.repository({"a.txt": "one\ntwo\n"}, name="dirty", test="grep zwei a.txt")
    place.write(os.path.join(dirty, "a.txt"), "one\ntwo\nthree\n")
    place.write(os.path.join(dirty, "untracked.txt"), "new\n")
    before = digest_tree(dirty)
    result = place.agent(*plain, cwd=dirty)
    t.equal(result.status, 0, "a dirty work tree is fine", result.text)
    t.ok("uncommitted" in result.err, "the person is told", result.err)
    t.ok("three" not in result.out and "untracked" not in result.out, "its changes are not used", result.out)
    t.equal(differences(before, digest_tree(dirty)), [], "nor touched")

    # ---- the test command ----
    untested = place.repository({"a.txt": "one\ntwo\n"}, name="untested")
    refused("no test command", plain, "test command", cwd=untested)
    result = place.agent(*plain, "--test", "no-such-command-anywhere", cwd=good)
    t.ok(result.status != 0 and "no-such-command-anywhere" in result.err, "a test command that does not exist is named",
         result.text)

    # ---- the issue ----
    refused("no issue", ["run", "--model", model], "issue")
    refused("an issue that does not exist", ["run", "nowhere.md", "--model", model], "nowhere.md")
    refused("an issue by number", ["run", "7", "--model", model], "7", "forge")
    refused("a directory as an issue", ["run", "/etc", "--model", model], "/etc", next_step=False)
    refused("an empty issue", ["run", place.write("empty.md", " \n\n"), "--model", model], "empty", next_step=False)
    refused("an issue that is no text", ["run", place.write("binary.md", b"\x7fELF\0\0\xff\xfe"), "--model", model],
            next_step=False)
    refused("an issue without end", ["run", place.write("large.md", "x" * (8 << 20)), "--model", model], next_step=False)
    refused("an issue whose name is a variable that is not set", ["run", "", "--model", model], "empty", "-m")
    refused("two issues", ["run", "a.md", "b.md", "--model", model], next_step=False)
    refused("an issue twice", ["run", "-m", "text", "a.md", "--model", model], next_step=False)

    # ---- the model ----
    base = ["run", "-m", "x", "--dry-run", "--model"]
    refused("no key", base + ["anthropic:some-model"], "ANTHROPIC_API_KEY")
    refused("no key for a far server", base + ["openai:some-model"], "OPENAI_API_KEY")
    refused("an unknown provider", base + ["clippy:1"], "clippy", next_step=False)
    refused("a model without a name", base + ["anthropic:"], next_step=False)
    refused("a recording that does not exist", base + ["replay:/nonexistent.jsonl"], "/nonexistent.jsonl", next_step=False)
    refused("a recording that is none", base + ["replay:" + place.write("bad.jsonl", "{not json\n")], next_step=False,
            status=2)
    refused("plain HTTP to a far host", base + ["openai:x", "--base-url", "http://example.com/v1"], "http",
            env={"OPENAI_API_KEY": "k"}, next_step=False)
    refused("a base URL that is none", base + ["openai:x", "--base-url", "gopher://x"], env={"OPENAI_API_KEY": "k"},
            next_step=False)
    refused("a key file that others may read", base + ["openai:x", "--key", "file:" + place.write("key", "k\n", 0o644)],
            "key", next_step=False)
    refused("a key command that fails", base + ["openai:x", "--key", "command:false"], "false", status=4)
    refused("a key source that names nothing", base + ["openai:x", "--key", "env:"], "model.key", "names nothing")
    refused("a key file that is not there", base + ["openai:x", "--key", "file:/nonexistent"], "model.key", "/nonexistent")
    refused("a key source that is none", base + ["openai:x", "--key", "sk-pasted-here"], next_step=False)
    result = place.agent(*base, "openai:x", "--key", "sk-pasted-here", cwd=good)
    t.ok("sk-pasted-here" not in result.err + result.out, "and what may have been the key itself is not repeated", result.text)

    # ---- configuration ----
    refused("an unknown option", ["run", "--frobnicate"], "--frobnicate")
    refused("an unknown command", ["frobnicate"], "frobnicate")
    refused("an option without its value", ["run", "-m"], "-m", next_step=False)
    refused("a number that is none", plain + ["--rounds", "many"], "rounds", "many", next_step=False)
    refused("no round at all", plain + ["--rounds", "0"], "rounds", next_step=False)
    refused("an unknown key", plain + ["-c", "jail.colour=red"], "jail.colour", next_step=False)
    refused("a key without a value", plain + ["-c", "jail.memory"], "jail.memory", next_step=False)
    for name, text in {"an unclosed section": "[test\n\tcommand = true\n", "an unclosed quote": '[test]\n\tcommand = "true\n',
                       "an unknown key": "[test]\n\tcommand = true\n\tcolour = red\n",
                       "a bad number": "[test]\n\tcommand = true\n\ttimeout = soon\n",
                       "a NUL": "[test]\n\tcommand = tr\0ue\n"}.items():
        bad = place.repository({"a.txt": "one\n"}, name="conf-" + name.replace(" ", "-"), config=text, remote=False)
        refused(f"{name} in .agent/config", plain, ".agent/config", cwd=bad, next_step=False)
    place.write(os.path.join(place.home, ".config/agent/config"), "[jail]\n\tmemory = lots\n")
    refused("a bad value in the operator's file", plain, "agent/config", "2", "jail.memory", next_step=False)
    place.write(os.path.join(place.home, ".config/agent/config"), "[jail]\n\tmemory = 1g\n", 0o666)
    refused("an operator's file that others may write", plain, "agent/config", next_step=False)
    os.unlink(os.path.join(place.home, ".config/agent/config"))
    os.symlink("nowhere", os.path.join(place.home, ".config/agent/config"))
    refused("an operator's file that is a link to nothing", plain, "agent/config", "not there")
    os.unlink(os.path.join(place.home, ".config/agent/config"))
    place.write(os.path.join(place.home, ".config/agent/config"), "#" * 70000)
    refused("an operator's file that is too large", plain, "agent/config", "larger than 64 KiB", next_step=False)
    os.unlink(os.path.join(place.home, ".config/agent/config"))
    result = place.agent("mirror", "-c", "mirror.far.tokn=planted-secret", cwd=good)
    t.ok(result.status == 2 and "mirror.far.tokn" in result.err and "planted-secret" not in result.err,
         "a mirror's key that is none: told, without its value", result.text)
    refused("a mirror's URL with a password", ["mirror", "-c", "mirror.far.url=https://me:pw@127.0.0.1/x"], "mirror.far.token")
    refused("a proxy's credential of a job in a variable",
            ["queue", "add", "-m", "x", "--model", model, "-c", "http.proxyCredential=env:P"], "http.proxyCredential = env:P")
    refused("edits in what is no file", ["edit", "/dev/null"], "/dev/null is not a regular file", next_step=False)
    refused("allowed signers in what is no file", ["verify", "--allowed-signers", "/tmp"], "/tmp is not a regular file")

    # ---- the remote ----
    lonely = place.repository({"a.txt": "one\ntwo\n"}, name="lonely", test="grep zwei a.txt", remote=False)
    refused("no remote", plain[:-1], "origin", cwd=lonely)
    result = place.agent(*plain, cwd=lonely)
    t.equal(result.status, 0, "a dry run needs no remote", result.text)
    result = place.agent("publish", cwd=lonely)
    t.ok(result.status == 2 and "next: name one with -c publish.remote=NAME|URL" in result.err, "to publish it needs one, and says how", result.text)
    place.git("init", "-q", "--bare", lonely + ".git")
    result = place.agent("publish", "-c", "publish.remote=" + lonely + ".git", cwd=lonely)
    t.equal((result.status, len(place.branches(lonely))), (0, 1), "and so it is published", result.text)
    refused("a remote that is not there", plain[:-1] + ["--remote", place.path("gone.git")], "gone.git", next_step=False)

    # ---- runs ----
    refused("a run that does not exist", ["show", "zzzz"], "zzzz", next_step=False)
    refused("resuming one that does not exist", ["resume", "zzzz"], "zzzz", next_step=False)
    refused("a run's name with a path", ["show", "../../etc"], next_step=False)
    refused("two runs", ["show", "1", "2"], "one run", next_step=False)
    refused("a run that agent gc is to remove", ["gc", "1"], "no words, such as 1")
    refused("two topics", ["help", "exit", "config"], "one topic", next_step=False)
    refused("a round of a configuration", ["audit", "--config", "--round", "1"], "--round", next_step=False)
    result = place.agent("run", "-m", "no key", "--model", "openai:x", "--key", "command:false", cwd=good)
    refused("the tree of a run that has none", ["jail", "--run", place.runs()[-1], "--", "true"], "no tree", "agent resume",
            status=125)

    # ---- a full disk ----
    if os.geteuid() == 0:
        full = place.path("full")
        os.mkdir(full)
        script = (f'mount -t tmpfs -o size=192k tmpfs "{full}" && exec "$@"')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh"] + place.command(plain),
                              env={**place.env, "AGENT_STATE_DIR": full}, cwd=good, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100)
        t.ok(done.returncode == 4 and "no space left" in done.stderr.lower(), "a full disk in the run directory: 4, and said",
             f"{done.returncode}\n{done.stdout}\n{done.stderr}")
    else:
        t.skip("a full disk in the run directory: 4, and said", "needs root for a small file system")
    locked = place.path("locked")
    os.mkdir(locked, 0o500)
    if os.geteuid() != 0:
        refused("a state directory that cannot be written", plain, "locked", env={"AGENT_STATE_DIR": locked}, status=4,
                next_step=False)
    refused("a state directory that is a file", plain, "a.txt", env={"AGENT_STATE_DIR": os.path.join(good, "a.txt")},
            status=4, next_step=False)
    t.ok(not [f for f in os.listdir(place.dir) if f == "core"], "nothing crashed")
    t.equal(place.branches(good), {}, "and nothing was pushed")
