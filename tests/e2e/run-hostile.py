#!/usr/bin/python3
# deadline: 300
"""A repository whose own configuration, hooks and attributes name programs and other servers; a caller's environment
that does; a repository configuration that asks for more than it may. None has an effect."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t, Place() as place:
    place.limits()
    canary = place.path("canary")
    touch = place.write("touch.sh", f'#!/bin/sh\necho "$0 $*" >>{canary}\nexit 0\n', 0o755)
    files = {"a.txt": "one\ntwo\n", ".gitattributes": "*.txt diff=evil merge=evil text=auto\n"
             "*.dat filter=evil diff=evil merge=evil\n", "b.dat": "data\n",
             ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch\n'}
    repo = place.repository(files, test="grep zwei a.txt")
    place.git("init", "-q", "--bare", place.path("elsewhere.git"))
    settings = {
        "core.fsmonitor": touch, "core.hooksPath": place.path("hooks"), "core.sshCommand": touch,
        "core.gitProxy": touch, "core.editor": touch, "core.pager": touch, "core.askPass": touch,
        "core.alternateRefsCommand": touch, "core.autocrlf": "true", "core.attributesFile": place.path("attributes"),
        "credential.helper": "!" + touch, "diff.external": touch, "diff.evil.command": touch,
        "diff.evil.textconv": touch, "filter.evil.clean": touch, "filter.evil.smudge": touch,
        "filter.evil.process": touch, "filter.evil.required": "true", "merge.evil.driver": touch,
        "gpg.program": touch, "gpg.ssh.program": touch, "commit.gpgSign": "true", "push.gpgSign": "true",
        "remote.origin.receivepack": touch, "remote.origin.uploadpack": touch,
        "remote.origin.pushurl": place.path("elsewhere.git"), "remote.origin.push": "+refs/heads/*:refs/heads/stolen/*",
        f"url.{place.path('elsewhere.git')}.pushInsteadOf": repo + ".git",
        f"url.{place.path('elsewhere.git')}.insteadOf": repo + ".git",
        "protocol.ext.allow": "always", "push.followTags": "true", "push.default": "matching",
        "user.name": "Mallory", "user.email": "mallory@example.com", "author.name": "Mallory",
        "commit.template": place.path("touch.sh"), "receive.denyNonFastForwards": "true",
        "include.path": place.write("more", f"[core]\n\tfsmonitor = {touch}\n"),
        "trace2.eventTarget": place.path("trace"), "http.proxy": "http://127.0.0.1:1", "alias.push": "!" + touch,
    }
    for key, value in settings.items():
        place.git("config", "--add", key, value, cwd=repo)
    hooks = ["pre-push", "reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-commit",
             "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "sendemail-validate", "push-to-checkout"]
    for folder in (place.path("hooks"), os.path.join(repo, ".git/hooks")):
        for name in hooks:
            place.write(os.path.join(folder, name), f"#!/bin/sh\necho {name} >>{canary}\n", 0o755)
    # an uncommitted configuration is not configuration
    place.write(os.path.join(repo, ".agent/config"), f'[test]\n\tcommand = "{touch}"\n[publish]\n\tremote = elsewhere\n')
    environment = {name: touch for name in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS",
                                            "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_PAGER", "PAGER")}
    environment.update({"GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": "/nonexistent/index",
                        "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_CONFIG_COUNT": "1",
                        "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": touch, "LD_PRELOAD": "",
                        "GIT_TRACE": place.path("trace"), "GIT_NAMESPACE": "stolen", "BASH_ENV": touch, "ENV": touch,
                        "GIT_EXEC_PATH": place.path("hooks"), "GIT_TEMPLATE_DIR": place.path("hooks")})
    if os.path.exists(canary):
        os.unlink(canary)  # what the set-up itself ran
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo, env=environment)
    t.equal(result.status, 0, "the run ends with 0", result.text)
    seen = ""
    if os.path.exists(canary):
        with open(canary, errors="replace") as f:
            seen = f.read()
    t.equal(seen, "", "no program that the repository or the environment names was started")
    t.ok(not os.path.exists(place.path("trace")), "no trace file was written")
    t.equal(place.git("for-each-ref", cwd=place.path("elsewhere.git")), "", "nothing went to the other server")
    branches = place.branches(repo)
    t.equal(len(branches), 1, "one branch went to the server, and nothing else", branches)
    if branches:
        commit = next(iter(branches.values()))
        t.equal(place.git("show", "-s", "--format=%an %cn", commit, cwd=repo + ".git"), "agent agent",
                "the author is the operator's choice")
        t.equal(place.git("rev-parse", commit + "^{tree}", cwd=repo + ".git"), place.artefact("round-1/tree.json")["tree"],
                "the pushed tree is the tested one: no filter, no line-end conversion")

    # ---- the server's hooks: a listed environment, no descriptors of ours ----
    other = place.repository({"a.txt": "one\ntwo\n"}, name="other", test="true")
    place.hook(other, "pre-receive", f"#!/bin/sh\nenv >{place.path('hook-env')}\nls -l /proc/self/fd >{place.path('hook-fds')}\n"
               f"cat /proc/$PPID/cmdline | tr '\\0' ' ' >{place.path('hook-parent')}\nexit 0\n")
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=other,
                         env={"ANTHROPIC_API_KEY": "planted-key-0123456789", "SECRET_OF_CALLER": "planted-word-987"})
    t.equal(result.status, 0, "a run with a pre-receive hook that looks around ends with 0", result.text)
    with open(place.path("hook-env"), errors="replace") as f:
        hook_env = f.read()
    t.ok("planted" not in hook_env, "the hook's environment has nothing of the caller's secrets", hook_env)
    with open(place.path("hook-fds"), errors="replace") as f:
        fds = [line for line in f if "->" in line]
    foreign = [line for line in fds if any(word in line for word in ("memfd", place.state, "socket:"))]
    t.equal(foreign, [], "nor has it a descriptor of ours")

    # ---- a repository may not widen ----
    wide = {"publish.remote": "elsewhere", "jail.path": "/root", "fetch.host": "example.com:443", "model.baseUrl":
            "http://127.0.0.1:1/", "model.key": "file:/etc/shadow", "jail.limits": "degraded-ok", "author.name": "M",
            "budget.runTokens": "1g", "http.ca": "/tmp/ca", "publish.sshKey": "command:id"}
    for key, value in wide.items():
        section, name = key.split(".")
        bad = place.repository({"a.txt": "one\n"}, name=f"wide-{section}-{name}".lower(), remote=False, test="true",
                               config=f"[{section}]\n\t{name} = {value}\n")
        result = place.agent("run", "-m", "x", "--model", model, "--dry-run", cwd=bad)
        t.ok(result.status == 2 and ".agent/config" in result.err and key.lower() in result.err.lower()
             and "operator" in result.err and any(f":{line}" in result.err or f"line {line}" in result.err for line in (4,)),
             f"{key} in the repository: 2, with file, line, key and who may set it", result.text)
    low = place.repository({"a.txt": "one\ntwo\n"}, name="narrow", remote=False, test="grep zwei a.txt",
                           config="[jail]\n\tmemory = 256g\n\tprocesses = 100000\n[run]\n\trounds = 50\n")
    result = place.agent("run", "-m", "x", "--model", model, "--dry-run", "-c", "jail.memory=300m", cwd=low)
    t.equal(result.status, 0, "a limit that the repository raises is simply not raised", result.text)
