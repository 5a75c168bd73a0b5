#!/usr/bin/python3
# deadline: 600
"""Credential walls: a model key, a push token and an SSH key are planted; while a run is under way each process of it is
stopped again and again and searched whole (environment, arguments, descriptors, memory), and afterwards every byte that
it left. Each secret is found in its own row only. The shell that exported it, which is this test, is not looked at."""
import os
import secrets
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import gitservers  # noqa: E402
from e2e import Place, descendants, edit, submit, wait_for  # noqa: E402
from scan import Watch, in_files, program_of  # noqa: E402
from tap import Tap  # noqa: E402

# What may hold which secret. The supervisor passes secrets on as descriptors (law L2); it must not have them in memory.
ROW = {"model key": {"agent-model"},
       "push token": {"agent-publish", "git", "git-remote-http", "git-remote-https", "git-send-pack"},
       "SSH key": {"agent-publish", "ssh-agent", "ssh-add"},
       "signing key": {"agent-publish", "ssh-agent", "ssh-add"}}
FILES = ("SSH key", "signing key")


def forbidden(found):
    wrong = []
    for name, program, where in sorted(found):
        if program == "agent" and where.startswith("descriptor memfd"):
            continue
        if name in FILES and program == "agent" and where.startswith("descriptor "):
            continue  # file: is opened, not read
        if program in ROW[name] and where.split(" (")[0] in ("memory", "descriptor memfd"):
            continue
        if name in FILES and program in ROW[name] and where.startswith("descriptor "):
            continue
        wrong.append((name, program, where))
    return wrong


with Tap() as t, Place() as place:
    if os.geteuid() != 0:
        t.skip("processes of a run hold their own secrets only", "needs root to look into other processes")
        sys.exit(0)
    lacking = gitservers.missing()
    if lacking:
        t.skip("processes of a run hold their own secrets only", "missing: " + " ".join(lacking))
        sys.exit(0)
    place.limits()

    # ---- the search itself finds what there is to find ----
    planted = {"canary": "canary-" + secrets.token_hex(16)}
    child = subprocess.Popen(["python3", "-c", "import base64, os, time; kept = base64.b64encode(b'bot:' + "
                              "os.environb[b'CANARY']); time.sleep(60)"], env={**place.env, "CANARY": planted["canary"]})
    watch = Watch(child.pid, planted)

    def seen_all():
        watch.step()
        places = {where for _, _, where in watch.found}
        return {"environment", "memory"} <= places and any("base64" in w for w in places)
    try:
        wait_for(seen_all, 20, "the canary")
        t.ok(True, "a planted canary is seen in environment and memory, also in base64")
    except TimeoutError:
        t.ok(False, "a planted canary is seen in environment and memory, also in base64", watch.found)
    child.kill()
    child.wait()

    key = "sk-planted-model-" + secrets.token_hex(20)
    token = "planted-token-" + secrets.token_hex(20)
    rounds = [[edit("a.txt", "two", "dos")], [edit("a.txt", "dos", "zwei"), submit("Translate two")]]
    test = "sh -c 'sleep 1; env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr \"\\0\" \"\\n\"; grep zwei a.txt'"

    def watched(name, secret_values, repo, args, env, programs, must_be_in):
        child = place.start("run", "-m", "Translate two", *args, cwd=repo, env=env)
        wait_for(lambda: child.poll() is not None or program_of(child.pid) == "agent", 10, "agent")
        # the environment block is wiped before anything else: wait for the first child, which comes after
        wait_for(lambda: child.poll() is not None or descendants(child.pid), 20, "a first stage")
        watch = Watch(child.pid, secret_values)
        watch.until(lambda: child.poll() is not None, 400)
        text = place.background_text()
        t.equal(child.returncode, 0, f"{name}: the run ends with 0", text)
        missing = sorted(set(programs) - set(watch.seen))
        t.equal(missing, [], f"{name}: all its programs were looked at: "
                + ", ".join(f"{p} {n}" for p, n in sorted(watch.seen.items())))
        t.equal(forbidden(watch.found), [], f"{name}: each secret is in its own row only", sorted(watch.found))
        for secret, program in must_be_in:
            t.ok(any(s == secret and p == program for s, p, _ in watch.found), f"{name}: the {secret} was seen in {program}",
                 sorted(watch.found))
        t.equal([s for s, v in secret_values.items() if v in text], [], f"{name}: nothing was printed")
        return text

    with gitservers.HttpsServer(place.path("https"), root=place.path("served"), user="bot", token=token) as server:
        repo = place.repository({"a.txt": "one\ntwo\n", "need.txt": "1\n"}, test=test.replace('"', '\\"').replace("\\0", "\\\\0")
                                .replace("\\n", "\\\\n"),
                                config="[fetch]\n\twarm = \"sh -c 'sleep 1; env >found; mkdir deps; mv found deps/'\"\n"
                                       "\tinputs = need.txt\n\toutput = deps\n")
        os.makedirs(place.path("served"))
        shutil.move(repo + ".git", place.path("served/repo.git"))
        place.git("config", "http.receivepack", "true", cwd=place.path("served/repo.git"))
        place.write("served/repo.git/hooks/pre-receive", "#!/bin/sh\nsleep 1\n", 0o755)
        place.git("remote", "set-url", "origin", f"https://localhost:{server.port}/git/repo.git", cwd=repo)
        model = place.model_server(rounds, {1: ["slow:800"]}, tls=True, key=key)
        values = {"model key": key, "push token": token}
        watched("HTTPS", values, repo,
                ["--model", "anthropic:test", "--base-url", model.url, "-c", "http.ca=" + model.ca,
                 "-c", "publish.token=env:PUSH_TOKEN", "-c", "publish.user=bot", "-c", "publish.ca=" + server.authority.ca],
                {"ANTHROPIC_API_KEY": key, "PUSH_TOKEN": token},
                ["agent", "agent-apply", "agent-dial", "agent-fetch", "agent-model", "agent-test", "agent-jail", "agent-publish",
                 "git", "sleep"],
                [("model key", "agent-model"), ("push token", "agent-publish")])
        t.equal(len([r for r in model.requests() if r["key_in"] == ["header:x-api-key"]]), 2,
                "HTTPS: the model's server got the key, in its header and nowhere else")
        t.equal(place.git("for-each-ref", "--format=%(refname)", "refs/heads/agent", cwd=place.path("served/repo.git")).count(
            "refs/heads/agent/"), 1, "HTTPS: the branch was pushed with the token")
        model.stop()
        t.equal(in_files(place.state, values), [], "HTTPS: no byte of what the run left has a secret in it")
        with open(os.path.join(place.run_dir(), "round-2/log"), errors="replace") as f:
            log = f.read()
        t.ok("HOME=" in log and "PUSH_TOKEN" not in log and "ANTHROPIC" not in log,
             "HTTPS: what the jail sees of environments has neither secret nor its name", log)

        # ---- a provider that says the key back, in an answer and in an error ----
        for wire, mode, status in (("anthropic", "echo-key", 0), ("openai", "echo-key", 0), ("openai", "echo-key-error", 4)):
            evil = place.model_server([[("write_file", {"path": "b.txt", "content": "@KEY@\n"}),
                                        edit("a.txt", "two", "zwei"), submit("Say @KEY@", "@KEY@")]],
                                      {1: [mode]}, tls=True, key=key)
            other = place.repository({"a.txt": "one\ntwo\n"}, name=f"echo-{wire}-{mode}", test="grep zwei a.txt")
            result = place.agent("run", "-m", "Translate two", "--model", f"{wire}:test", "--base-url", evil.url,
                                 "-c", "http.ca=" + evil.ca, "--key", "env:MODEL_KEY", cwd=other, env={"MODEL_KEY": key})
            evil.stop()
            where = in_files(place.state, values) + in_files(other + ".git", values)
            objects = subprocess.run(["git", "cat-file", "--batch-all-objects", "--batch"], cwd=other + ".git", env=place.env,
                                     stdin=subprocess.DEVNULL, capture_output=True).stdout
            t.equal((where, key.encode() in objects, key in result.text), ([], False, False),
                    f"a provider that says the key back ({wire}, {mode}): it is kept nowhere, pushed nowhere, shown nowhere",
                    result.text.replace(key, "[KEY]"))

    # ---- SSH ----
    identity = place.path("id")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", identity], check=True, stdin=subprocess.DEVNULL)
    with open(identity) as f:
        private = "".join(f.read().splitlines()[2:-2])[:80]
    with open(identity + ".pub") as f:
        public = f.read()
    signing = place.path("signing")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", signing], check=True, stdin=subprocess.DEVNULL)
    with open(signing) as f:
        signs = "".join(f.read().splitlines()[2:-2])[:80]
    values = {"SSH key": private, "signing key": signs}
    with gitservers.SshServer(place.path("sshd"), authorized=public) as server:
        repo = place.repository({"a.txt": "one\ntwo\n"}, name="ssh", test="sh -c 'sleep 0.5; grep zwei a.txt'")
        place.write("ssh.git/hooks/pre-receive", "#!/bin/sh\nsleep 1\n", 0o755)
        place.git("remote", "set-url", "origin", f"ssh://{server.user}@localhost:{server.port}{repo}.git", cwd=repo)
        place.write("known_hosts", server.known_hosts())
        recording = place.recording(rounds)
        watched("SSH", values, repo,
                ["--model", recording, "-c", "publish.sshKey=file:" + identity, "-c", "publish.signingKey=file:" + signing,
                 "-c", "publish.knownHosts=" + place.path("known_hosts")], {},
                ["agent", "agent-apply", "agent-dial", "agent-model", "agent-test", "agent-jail", "agent-publish", "git", "ssh"],
                [])
        t.equal(len(place.branches(repo)), 2, "SSH: the branch was pushed, and its attestation")
        t.equal(in_files(place.state, values), [], "SSH: no byte of what the run left has a key in it")
