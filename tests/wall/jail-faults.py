#!/usr/bin/python3
# deadline: 300
"""Every step of the jail's set-up, failing once (law L4, invariant I9): no payload, a set-up error that names the step, nothing
left. And agent-jail itself given what it must refuse."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, backends, eventually, mark, marked_processes, modes, stale_groups  # noqa: E402
from tap import Tap  # noqa: E402

# steps that a backend does not have
# (subuid: for a user with a range; tests/wall/jail-range.py. image, disk: for a scratch on disk; tests/wall/jail-scratch.py)
ASKED = {"subuid", "image", "disk"}
ELSEWHERE = {"native": {"runtime", "gvisor"} | ASKED, "gvisor": {"nesting", "landlock", "observe"} | ASKED}


def faults(t, jail, mode):
    layers = [*jail.stores(), *jail.layer("base/1/tree", {"f": "f\n"}), *jail.layer("deps/1/home", {"h": "h\n"}, home=True)]
    steps = subprocess.run([os.path.join(jail.bin, "agent-jail-faults"), "--list"], capture_output=True, text=True,
                           check=True).stdout.split()
    t.ok(len(steps) > 30, f"{mode}: the steps are listed", steps)
    for backend in backends():
        faults_of(t, jail, f"{mode}, {backend}", ["--backend", backend, *layers],
                  [step for step in steps if step not in ELSEWHERE[backend]])
    t.ok(eventually(lambda: not stale_groups()), f"{mode}: no control group is left", stale_groups())


def faults_of(t, jail, mode, layers, steps):
    for step in steps:
        value = mark()
        canary = os.path.join(jail.scratch, "canary-" + value)
        os.mkdir(canary)
        os.chown(canary, jail.owner, jail.owner)
        result = jail.run("/bin/sh", "-c", "echo ran; echo x >/mnt/canary/x", options=[
            *layers, "--env", f"MARK={value}", "--rw", f"{canary}:/mnt/canary", "--fault", step])
        good = result.outcome == "setup" and result.status == 125 and "ran" not in result.out and not os.listdir(canary)
        t.ok(good and result.detail.startswith(step + ":"), f"{mode}: {step} fails: the payload is not run, and told why",
             result.text())
        t.ok(not marked_processes(value), f"{mode}: {step} fails: nothing is left", marked_processes(value))
    result = jail.run("/bin/sh", "-c", "exit 7", options=[*layers, "--fault", "none"])
    t.equal((result.outcome, result.value), ("exited", "7"), f"{mode}: the same program without a fault runs", result.text())


def refusals(t, jail):
    program = os.path.join(jail.bin, "agent-jail")
    for argv, env, why in (([program, "--fault=seccomp"], {}, "an argument"), ([program, "seccomp"], {}, "the test build's argument"),
                           ([program], {"LD_PRELOAD": "x"}, "an environment"), ([program], {"LANG": "C"}, "another LANG")):
        done = subprocess.run(argv, env=env, capture_output=True, check=False)
        t.equal(done.returncode, 125, f"agent-jail refuses {why}", done.stderr)
    done = subprocess.run([program], env={}, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    t.ok(done.returncode != 0 and not done.stdout, "agent-jail without descriptors does nothing", done)
    with tempfile.NamedTemporaryFile() as file:
        good = b"jail_spec=1\0arg=/bin/true\0cwd=/\0"
        for raw in (b"", b"\0", b"jail_spec=1\0", b"jail_spec=2\0arg=x\0", good, good + b"x=1\0", good + b"wall_ms=0\0",
                    b"A" * 2000000):
            file.seek(0)
            file.truncate()
            file.write(raw)
            file.flush()
            os.chmod(file.name, 0o644)
            result = jail.run("/bin/true", options=["--raw-spec", file.name])
            t.ok(result.outcome == "setup" and result.detail.startswith("spec:"),
                 f"a malformed spec is refused: {raw[-12:]!r}", result.text())


def remedies(t, jail):
    result = jail.run("true", options=[])
    groups = {"cgroup1", "cgroup2", "degraded"}
    t.ok(result.limits in groups, "the facts name the limits", result.text())
    if os.geteuid() != 0:
        return
    with Jail("user") as user:
        words = [word for word in user.command("true") if word != "--degraded-ok"]
        facts = os.path.join(user.scratch, "facts")
        words[words.index("--"):words.index("--")] = ["--facts", facts]
        done = subprocess.run(words, capture_output=True, check=False)
        text = open(facts).read()
        helps = "Delegate=yes" if result.limits == "cgroup2" else "cgcreate"
        t.ok(done.returncode == 125 and "outcome=setup" in text and helps in text and "degraded-ok" in text,
             "without a control group the remedy is told", text)
        for knob, name in (("max_user_namespaces", "user namespaces"),):
            script = f"echo 0 >/proc/sys/user/{knob}; exec \"$@\""
            words = ["unshare", "-U", "-r", "sh", "-c", script, "sh", *[w for w in user.command("true") if w not in user.drop]]
            words[words.index("--")] = "--facts"
            at = words.index("--facts")
            words[at + 1:at + 1] = [facts, "--"]
            os.unlink(facts) if os.path.exists(facts) else None
            done = subprocess.run([*user.drop, *words], capture_output=True, check=False)
            text = open(facts).read() if os.path.exists(facts) else ""
            t.ok(done.returncode == 125 and "outcome=setup" in text and "max_user_namespaces" in text,
                 f"without {name} the knob is named", text + done.stderr.decode())


    # root of a container: no right to make mounts
    done = subprocess.run(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *jail.command("true", options=["--facts", "/dev/stderr"])],
                          capture_output=True, text=True, check=False)
    t.ok(done.returncode == 125 and "outcome=setup" in done.stderr and "container" in done.stderr,
         "root without the right to mount is told about containers", done.stderr)


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                faults(t, jail, mode)
        with Jail(modes()[0]) as jail:
            refusals(t, jail)
            remedies(t, jail)


main()
