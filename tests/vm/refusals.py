#!/usr/bin/python3
"""In the test machine, as root: what a machine denies is told, by its layer and with the remedy, and no payload starts (law L4)."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail  # noqa: E402
from tap import Tap  # noqa: E402


class Knob:
    """A setting of the machine's, for a while."""

    def __init__(self, name, value):
        self.path = "/proc/sys/" + name.replace(".", "/")
        self.value = value

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)

    def __enter__(self):
        with open(self.path) as file:
            self.before = file.read()
        self.write(self.value)

    def __exit__(self, *_):
        self.write(self.before)


def refused(t, jail, name, words):
    result = jail.run("/bin/sh", "-c", "echo ran")
    t.ok(result.status == 125 and result.outcome == "setup" and "ran" not in result.out, f"{name}: 125, and nothing was run", result.text())
    for word in words:
        t.ok(word in result.detail or word in result.next, f"{name}: it says {word}", result.text())


def no_delegation(t):
    with Jail("user") as jail:
        command = [word for word in jail.command("/bin/sh", "-c", "echo ran") if word != "--degraded-ok"]
        facts = os.path.join(jail.scratch, "facts")
        command[command.index("--"):command.index("--")] = ["--facts", facts]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        with open(facts) as file:
            text = file.read()
        t.ok(done.returncode == 125 and "ran" not in done.stdout and "outcome=setup" in text, "no delegation: 125, and nothing was run", text)
        t.ok("systemd-run --user --scope -p Delegate=yes" in text and "degraded-ok" in text, "no delegation: it says what helps", text)
        result = jail.run("/bin/sh", "-c", "echo ran")
        t.equal((result.out, result.limits, "cgroup" in result.layers.split()), ("ran\n", "degraded", False),
                "no delegation, degraded-ok: it runs, and the facts say how", result.text())


def namespaces(t):
    clone = "kernel.unprivileged_userns_clone"
    with Jail("root") as root, Jail("user") as user:
        with Knob("user.max_user_namespaces", "0"):
            for jail in (user, root):
                refused(t, jail, f"no user namespaces, {jail.mode}", ["userns", "max_user_namespaces"])
        if os.path.exists("/proc/sys/" + clone.replace(".", "/")):  # Debian's and Ubuntu's kernels
            with Knob(clone, "0"):
                for jail in (user, root):  # root's payload is not root when it makes the second one
                    refused(t, jail, f"no user namespaces but for root, {jail.mode}", ["unshare(CLONE_NEWUSER)", clone])
        for name in ("net", "pid", "mnt", "ipc", "uts", "cgroup"):
            with Knob(f"user.max_{name}_namespaces", "0"):
                layer = {"mnt": "mountns"}.get(name, name + "ns")
                refused(t, user, f"no {name} namespaces", [layer, f"max_{name}_namespaces"])
        for jail in (root, user):
            t.equal(jail.run("true").status, 0, f"afterwards, {jail.mode}: all is well")


def main():
    with Tap() as t:
        no_delegation(t)
        namespaces(t)


main()
