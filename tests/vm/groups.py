#!/usr/bin/python3
"""In the test machine: the jail's control group where cgroup v2 is delegated, seen from outside while the payload runs."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, eventually, modes, stale_groups  # noqa: E402
from tap import Tap  # noqa: E402

MIB = 1 << 20


def read(*path):
    try:
        with open(os.path.join(*path)) as file:
            return file.read().strip()
    except OSError as e:
        return f"({e.strerror})"


def group_of(pid):
    return "/sys/fs/cgroup" + read(f"/proc/{pid}/cgroup").rpartition("::")[2]


def payloads(word):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if read(f"/proc/{pid}/cmdline").split("\0")[:2] == ["/bin/sleep", word]:
            found.append(int(pid))
    return found


def start(jail, word, options=()):
    child = jail.start("/bin/sleep", word, options=options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: payloads(word), 30)
    return child, group_of(payloads(word)[0])


def limits(t, jail, mode):
    child, job = start(jail, "1001", ["--mem", str(96 * MIB), "--pids", "77", "--cpus", "1"])
    top, ctl = os.path.dirname(job), os.path.join(os.path.dirname(job), "ctl")
    wanted = {"memory.max": str(96 * MIB), "memory.swap.max": "0", "pids.max": "77", "cpu.max": "100000 100000",
              "cgroup.max.descendants": "0", "memory.oom.group": "0"}
    seen = {name: read(job, name) for name in wanted}
    if seen["memory.swap.max"].startswith("("):
        del seen["memory.swap.max"], wanted["memory.swap.max"]  # a kernel without swap accounting
    t.equal(seen, wanted, f"{mode}: the limits are the group's")
    t.ok(os.path.basename(top).startswith("agent-") and os.path.basename(job) == "job", f"{mode}: the payload is in it", job)
    uid = int(read(f"/proc/{read(job, 'cgroup.procs').split()[0]}/status").split("\nUid:")[1].split()[0])
    t.ok(7000000 <= uid < 7065536 if "AGENT_TEST_SUBUID" in os.environ else (uid == os.geteuid()) == (mode == "user"),
         f"{mode}: as whom it should be", uid)
    helper = read(ctl, "cgroup.procs").split()
    t.ok(len(helper) >= 1 and not set(helper) & set(read(job, "cgroup.procs").split()), f"{mode}: the helper beside it, not in it", helper)
    with open(os.path.join(job, "cgroup.kill"), "w") as file:
        file.write("1")
    child.wait(30)
    facts = jail.read_facts()
    t.equal((facts.get("outcome"), facts.get("value")), ("signalled", "9"), f"{mode}: killed from outside is told as that", facts)
    t.ok(eventually(lambda: not os.path.exists(top)), f"{mode}: the group is gone", top)


def killed(t, jail, mode):
    """agent-jail itself is killed: nothing goes on, and the next jail takes the group away."""
    child, job = start(jail, "1002")
    outer = int(os.path.basename(os.path.dirname(job)).split("-")[1])
    os.kill(outer, signal.SIGKILL)
    child.wait(30)
    t.ok(eventually(lambda: not payloads("1002"), 30), f"{mode}: agent-jail is killed: so is the payload", payloads("1002"))
    jail.run("true")
    t.ok(eventually(lambda: not stale_groups()), f"{mode}: and the next jail sweeps its group", stale_groups())


def throttled(t, jail, mode):
    child = jail.start("/bin/sh", "-c", "for i in 1 2 3 4; do (while :; do :; done) & done; exec sleep 1003", options=["--cpus", "1"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: any(read(f"/proc/{p}/cmdline") == "sleep\x001003\x00".strip() or "1003" in read(f"/proc/{p}/cmdline").split("\0")
                           and "sleep" in read(f"/proc/{p}/cmdline") for p in filter(str.isdigit, os.listdir("/proc"))), 30)

    def count():
        total = 0
        for folder, _, _ in os.walk("/sys/fs/cgroup"):
            if folder.endswith("/job") and "/agent-" in folder:
                total += sum(int(line.split()[1]) for line in read(folder, "cpu.stat").splitlines() if line.startswith("nr_throttled"))
        return total
    t.ok(eventually(lambda: count() > 0, 60), f"{mode}: more than its processors it does not get", count())
    child.kill()
    child.wait(30)


def out_of_memory(t, jail, mode):
    result = jail.probe("memory-hog", options=["--mem", str(64 * MIB), "--wall", "120000"])
    t.equal((result.outcome, result.oom_count), ("oom", "1"), f"{mode}: out of memory is told, as under v1", result.text())
    t.ok(32 * MIB < int(result.memory_peak_bytes) <= 64 * MIB, f"{mode}: and the most that was used", result.text())
    result = jail.run("/bin/sh", "-c", "/opt/bin/jail_probe memory-hog; exit 0", options=["--mem", str(64 * MIB), "--wall", "120000"])
    t.equal((result.outcome, result.value, result.oom_count), ("exited", "0", "1"), f"{mode}: a child's is a count", result.text())
    result = jail.probe("fork-bomb", "200", options=["--pids", "30"])
    t.ok(result.status == 0 and result.outcome == "exited", f"{mode}: forks beyond the limit meet EAGAIN", result.text())
    t.equal(result.limits[:len(jail.limits)], jail.limits, f"{mode}: the facts say where the limits come from", result.text())


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                limits(t, jail, mode)
                killed(t, jail, mode)
                throttled(t, jail, mode)
                out_of_memory(t, jail, mode)
        t.ok(eventually(lambda: not stale_groups()), "no group is left", stale_groups())


main()
