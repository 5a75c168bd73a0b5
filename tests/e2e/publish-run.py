#!/usr/bin/python3
"""Whole runs that end at real git servers: HTTPS with a token, SSH with a key, a local bare repository; hooks that refuse, and
resume afterwards without the model."""
# deadline: 240
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from e2e import Place, edit
from tap import Tap

TOKEN = "tok-5c1f8e0a9d3b7246-planted"


def refs(place, bare):
    out = place.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=bare)
    return {k: v for k, v in (line.split() for line in out.splitlines()) if k != "refs/heads/main"}


def project(place, name, url, bare):
    """A project whose origin is at url; bare is where that is on this machine."""
    repo = place.repository({"a.txt": "one\n", "test.sh": "#!/bin/sh\ngrep -q two a.txt\n"}, name=name,
                            test="./test.sh", remote=False)
    place.git("init", "-q", "--bare", "-b", "main", bare)
    place.git("push", "-q", bare, "main", cwd=repo)
    place.git("remote", "add", "origin", url, cwd=repo)
    return repo


def stages(place, run):
    return [e.get("stage") for e in place.events(run) if e.get("event") == "stage"]


def files_with(directory, needle):
    found = []
    for top, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path) and needle in open(path, "rb").read():
                found.append(path)
    return found


def story(t, place, what, repo, bare, options, env, secret):
    """Refused by a hook, resumed, done; then the next run of the same issue."""
    def run(text, *more):
        return place.agent("run", "-m", text, "--model", place.recording([[edit("a.txt", "one", "two")]]), *options, *more,
                           cwd=repo, env=env)

    place.write(os.path.join(bare, "hooks/pre-receive"), '#!/bin/sh\necho "Freeze until Monday."; exit 1\n', 0o755)
    first = run("make it two")
    t.equal(first.status, 1, f"{what}: a hook that refuses ends the run in 1", first.text)
    t.contains(first.err, "Freeze until Monday.", f"{what}: its own words are shown")
    t.equal(refs(place, bare), {}, f"{what}: nothing was pushed")
    number = place.runs()[-1]
    before = stages(place, number)
    os.unlink(os.path.join(bare, "hooks/pre-receive"))
    again = place.agent("resume", number, *options, cwd=repo, env=env)
    t.equal(again.status, 0, f"{what}: agent resume publishes when the hook agrees", again.text)
    t.equal(stages(place, number)[len(before):], ["publish"], f"{what}: and does nothing else again", again.text)
    pushed = refs(place, bare)
    receipt = place.artefact("publish/receipt.json", number)
    t.equal(pushed, {"refs/heads/agent/make-it-two": receipt["commit"]}, f"{what}: exactly one branch is there", again.text)
    t.equal(place.git("show", f"{receipt['commit']}:a.txt", cwd=bare), "two", f"{what}: with the change")
    body = place.git("log", "-1", "--format=%B", receipt["commit"], cwd=bare)
    t.contains(body, f"Agent-Run: {number}", f"{what}: and the trailers")
    second = run("make it two")
    t.equal(second.status, 0, f"{what}: another run of the same issue moves its own branch", second.text)
    warned = [text.count("starts CI for branches") for text in (again.err, second.err)]
    t.equal(warned, [0, 0] if what == "local" else [1, 0], f"{what}: what CI may do with a branch is said once a server")
    t.ok(refs(place, bare) != pushed, f"{what}: to its own commit")
    theirs = place.git("commit-tree", "-m", "mine", "-p", "main", "main^{tree}", cwd=bare)
    place.git("update-ref", "refs/heads/agent/make-it-two", theirs, cwd=bare)
    third = run("make it two")
    t.equal(third.status, 1, f"{what}: a branch that a person has taken over is left alone", third.text)
    t.contains(third.err, "was not made by this program", f"{what}: and it is said")
    t.equal(refs(place, bare), {"refs/heads/agent/make-it-two": theirs}, f"{what}: it is")
    fourth = run("make it two", "--branch", "agent/other")
    t.equal(fourth.status, 0, f"{what}: under another name it goes in", fourth.text)
    t.ok("refs/heads/agent/other" in refs(place, bare), f"{what}: there", refs(place, bare))
    if secret:
        t.equal(files_with(place.state, secret.encode()), [], f"{what}: the credential is in no file of the runs")
        outputs = "".join(r.text for r in (first, again, second, third, fourth))
        t.ok(secret not in outputs, f"{what}: nor in any output")
    left = [line for line in place.leftovers() if not any(f"{place.dir}/{server}/" in line for server in ("nginx", "sshd"))]
    t.equal(left, [], f"{what}: nothing is left behind")


def hostile(place, repo, evil, marker):
    """The repository's own configuration says everything it can say."""
    script = place.write("evil.sh", f'#!/bin/sh\necho "$0 $*" >> {marker}\n', 0o755)
    place.write(os.path.join(repo, ".git/hooks/pre-push"), f"#!/bin/sh\necho hook >> {marker}\n", 0o755)
    for key, value in {"url." + evil + ".pushInsteadOf": "", "url." + evil + "/.insteadOf": "https://", "core.sshCommand": script,
                       "credential.helper": "!" + script, "core.askPass": script, "core.hooksPath": ".git/hooks",
                       "core.fsmonitor": script, "http.proxy": "http://127.0.0.1:1", "remote.origin.pushurl": evil,
                       "http.sslVerify": "false", "core.gitProxy": script}.items():
        place.git("config", key, value, cwd=repo)
    if os.path.exists(marker):
        os.unlink(marker)


def with_https(t, place):
    marker, evil = place.path("marker"), place.path("evil.git")
    os.mkdir(place.path("served"))
    with gitservers.HttpsServer(place.path("nginx"), place.path("served"), "bot", TOKEN) as server:
        bare = place.path("served/web.git")
        repo = project(place, "web", f"https://localhost:{server.port}/git/web.git", bare)
        hostile(place, repo, evil, marker)
        options = ["-c", "publish.token=env:MY_TOKEN", "-c", f"publish.ca={server.authority.ca}"]
        story(t, place, "https", repo, bare, options, {"MY_TOKEN": TOKEN}, TOKEN)
        t.ok(not os.path.exists(marker), "https: nothing of the repository's configuration was run")
        t.equal(refs(place, evil), {}, "https: nor anything pushed elsewhere")


def with_ssh(t, place):
    marker, evil = place.path("marker-ssh"), place.path("evil.git")
    key = place.path("key")
    gitservers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", key)
    text, public = open(key).read(), open(key + ".pub").read()
    with gitservers.SshServer(place.path("sshd"), public) as server:
        bare = place.path("shell.git")
        repo = project(place, "shell", f"ssh://{server.user}@localhost:{server.port}{bare}", bare)
        hostile(place, repo, evil, marker)
        known = place.write("known_hosts", server.known_hosts())
        options = ["-c", f"publish.sshKey=file:{key}", "-c", f"publish.knownHosts={known}"]
        story(t, place, "ssh", repo, bare, options, {}, text.splitlines()[3])
        t.ok(not os.path.exists(marker), "ssh: nothing of the repository's configuration was run")


def with_local(t, place):
    marker, evil = place.path("marker-local"), place.path("evil.git")
    bare = place.path("here.git")
    repo = project(place, "here", bare, bare)
    hostile(place, repo, evil, marker)
    story(t, place, "local", repo, bare, [], {}, None)
    t.ok(not os.path.exists(marker), "local: nothing of the repository's configuration was run")
    place.write(os.path.join(bare, "hooks/pre-receive"), f"#!/bin/sh\nenv > {place.path('hook.env')}\n"
                f"ls -l /proc/$$/fd > {place.path('hook.fds')}\n", 0o755)
    done = place.agent("run", "-m", "look around", "--model", place.recording([[edit("a.txt", "one", "two")]]), cwd=repo,
                       env={"ANTHROPIC_API_KEY": "planted-model-key"})
    t.equal(done.status, 0, "local: a hook that looks around", done.text)
    names = sorted(line.split("=")[0] for line in open(place.path("hook.env")) if "=" in line)
    t.ok("planted-model-key" not in open(place.path("hook.env")).read(), "local: the hook's environment has no key")
    strange = [n for n in names if n.startswith("AGENT_") and n != "AGENT_RUN"]
    t.equal(strange, [], "local: nor a name of ours")
    fds = {line.split()[8]: line.split()[10] for line in open(place.path("hook.fds")) if "->" in line}
    # its three, the script, and what the shell put aside of them
    strange = {n: to for n, to in fds.items() if not to.startswith("pipe:") and not to.startswith(place.dir) or
               to.startswith(place.state) or to.startswith("pipe:") and to not in (fds["0"], fds["2"])}
    t.equal(strange, {}, "local: and none of our descriptors")


with Tap() as t, Place() as place:
    place.git("init", "-q", "--bare", place.path("evil.git"))
    with_local(t, place)
    absent = gitservers.missing()
    if absent:
        t.skip("runs that end at real servers", "not installed: " + ", ".join(absent))
    else:
        with_https(t, place)
        if gitservers.no_login():
            t.skip("runs that end at sshd", gitservers.no_login())
        else:
            with_ssh(t, place)
