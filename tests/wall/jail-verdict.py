#!/usr/bin/python3
# deadline: 600
"""The jail's exit facts are true (laws L6, L10, invariants I6, I8): every status and signal, every limit, attempts to forge; and
nothing is left, whoever is killed at whatever instant."""
import glob
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, backends, eventually, mark, marked_processes, modes, stale_groups  # noqa: E402
from tap import Tap  # noqa: E402

MIB = 1 << 20
BUFFERS = """import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4096))
kept = []
while len(kept) < 3900:
    pair = socket.socketpair()
    pair[0].setblocking(False)
    try:
        while pair[0].send(b"x" * 65536):
            pass
    except BlockingIOError:
        kept += pair
"""
BRIEF = "AGENT_TEST_BRIEF" in os.environ  # on a slow machine (tests/vm): one of many that are alike
FULL = os.environ.get("CHECK_FULL") == "1"
SAMPLE = [0, 1, 2, 124, 126, 127, 128, 129, 130, 137, 143, 159, 254, 255, *random.sample(range(256), 6)]
TRACED = """
import ctypes, os, signal, time
parent = os.getpid()
ready, go = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).ptrace(0x4206, parent, 0, 0)  # PTRACE_SEIZE
    os.write(go, b"x")
    while True: time.sleep(1)
os.read(ready, 1)
os._exit(6)
"""

# A signal of the kernel's own, sent to PID 1 as the owner of a descriptor. What cannot be ignored may not be asked for.
OWNER = """
import fcntl, os, signal, socket, sys, time
number = int(sys.argv[1])
ours, theirs = socket.socketpair()
try:
    fcntl.fcntl(ours, 10, number)  # F_SETSIG
    refused = False
except PermissionError:
    refused = True
fcntl.fcntl(ours, fcntl.F_SETOWN, 1)
fcntl.fcntl(ours, fcntl.F_SETFL, 0o20000 | os.O_NONBLOCK)  # O_ASYNC
theirs.send(b"x")
time.sleep(0.2)
os._exit(7 if refused == (number in (signal.SIGKILL, signal.SIGSTOP)) else 8)
"""
# Processes that come and go without end; their first parent is red.
BOMB = """
import os, time
if os.fork() == 0:
    while True:
        try: os.fork()
        except OSError: pass
time.sleep(2)
os._exit(3)
"""


def chosen(jail, everything, sample, few):
    """A start of gVisor takes longer than a native jail in all: outside of the full check, a part of the matrix."""
    if jail.backend == "native" or FULL:
        return everything
    return sample if jail.mode == "root" else few


def statuses(t, jail, mode):
    wrong = []
    for status in range(0, 256, 17) if BRIEF else chosen(jail, range(256), SAMPLE, [0, 137, 255]):
        result = jail.run("/bin/sh", "-c", f"exit {status}")
        if (result.outcome, result.value) != ("exited", str(status)):
            wrong.append((status, result.facts))
    t.equal(wrong, [], f"{mode}: exit statuses from 0 to 255 are exact")
    wrong = []
    ignored = {signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP,
               signal.SIGTTIN, signal.SIGTTOU}
    for number in chosen(jail, range(1, 65), range(1, 32), [6, 9, 11, 15, 25, 31]):
        if number in ignored or number in (32, 33):
            continue
        if BRIEF and number not in (signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGXFSZ, 64):
            continue
        result = jail.probe("die-by", str(number))
        wanted = {signal.SIGSYS: ("killed", "-1"), signal.SIGXFSZ: ("limit", str(number))}.get(
            number, ("signalled", str(number)))
        if (result.outcome, result.value) != wanted:
            wrong.append((number, result.facts))
    t.equal(wrong, [], f"{mode}: deadly signals 1 to 64 are exact")


def limits(t, jail, mode):
    result = jail.run("/bin/sleep", "100", options=["--wall", "300"])
    t.ok(result.outcome == "timeout" and result.value == "300" and 300 <= int(result.elapsed_ms) < 5000,
         f"{mode}: a deadline is a timeout", result.text())
    result = jail.run("/bin/sh", "-c", "trap '' TERM HUP INT; kill -STOP $$", options=["--wall", "300"])
    t.equal(result.outcome, "timeout", f"{mode}: a stopped payload ends at the deadline", result.text())
    log = ["--log", os.path.join(jail.scratch, "log"), "--wall", "60000"]
    result = jail.run("/bin/sh", "-c", "echo a; sleep 0.2; echo b; exec sleep 100", options=["--idle", "500", *log])
    t.ok((result.outcome, result.value, result.detail) == ("timeout", "500", "no output for 500 ms")
         and int(result.elapsed_ms) >= 500, f"{mode}: no output for too long is a timeout, and told as that", result.text())
    result = jail.run("/bin/sh", "-c", "for i in 1 2 3 4 5 6; do echo; sleep 0.3; done", options=["--idle", "1500", *log])
    t.equal((result.outcome, result.value), ("exited", "0"), f"{mode}: who goes on printing may go on", result.text())
    result = jail.run("/bin/sleep", "1", options=log)
    t.equal(result.outcome, "exited", f"{mode}: without that limit silence is none", result.text())
    result = jail.run("/bin/sh", "-c", "while :; do :; done", options=["--cpu", "1"])
    t.equal((result.outcome, result.value), ("limit", str(int(signal.SIGXCPU))), f"{mode}: the CPU limit is one",
            result.text())
    result = jail.run("/bin/sh", "-c", "sh -c 'while :; do :; done'; echo $?", options=["--cpu", "1", "--wall", "30000"])
    t.equal((result.outcome, result.value, result.out.split()[-1:]), ("exited", "0", ["152"]), f"{mode}: it holds what comes of the command, too",
            result.text())
    result = jail.run("/bin/sh", "-c", "trap '' XCPU; while :; do :; done", options=["--cpu", "1"])
    t.equal((result.outcome, result.value), ("limit", "9"), f"{mode}: also when its signal is ignored", result.text())
    result = jail.run("/bin/sh", "-c", "exec dd if=/dev/zero of=/tmp/x bs=64k count=1", options=["--fsize", "1000"])
    t.equal((result.outcome, result.value), ("limit", str(int(signal.SIGXFSZ))), f"{mode}: the file size limit is one",
            result.text())
    for where in ("/work/x",) if BRIEF else ("/work/x", "/tmp/x", "/dev/shm/x", "/home/agent/x"):
        result = jail.probe("disk-hog", where, options=["--disk", str(64 * MIB)])
        t.equal(result.status, 0, f"{mode}: 10 GB in {where} meet ENOSPC", result.text())
    result = jail.probe("inode-hog", options=["--inodes", "3000"])
    t.equal(result.status, 0, f"{mode}: files without end meet ENOSPC", result.text())
    result = jail.probe("fork-bomb", "5000", options=["--pids", "60"])
    t.ok(result.status == 0 and result.outcome == "exited" and int(result.leftover) > 10,
         f"{mode}: forks without end meet EAGAIN", result.text())
    result = jail.run("python3", "-c", BOMB, options=["--pids", "60"])
    # on a busy machine runsc may want more threads than any limit of ours allows: told as the limit that it is
    told = jail.backend == "gvisor" and result.outcome == "limit" and "too many processes" in result.detail
    t.ok(told or (result.outcome, result.value) == ("exited", "3"), f"{mode}: nor do they hide the command's end", result.text())
    result = jail.probe("memory-hog", options=["--mem", str(128 * MIB), "--wall", "60000"])
    if jail.limits != "degraded":
        t.equal((result.outcome, result.oom_count), ("oom", "1"), f"{mode}: out of memory is told", result.text())
        t.ok(64 * MIB < int(result.memory_peak_bytes) <= 128 * MIB, f"{mode}: so is the most that was used", result.text())
        result = jail.run("/bin/sh", "-c", "/opt/bin/jail_probe memory-hog; exit 0", options=["--mem", str(128 * MIB)])
        # a sandbox is one process to the kernel: it has no child's end to count
        t.equal((result.outcome, result.value, result.oom_count),
                ("exited", "0", "1") if jail.backend == "native" else ("oom", "9", "1"),
                f"{mode}: a child's is a count, or the sandbox's end", result.text())
        result = jail.probe("die-by", "9", options=["--mem", str(128 * MIB)])
        t.equal((result.outcome, result.oom_count), ("signalled", "0"), f"{mode}: SIGKILL by itself is none", result.text())
        t.equal(result.limits[:len(jail.limits)], jail.limits, f"{mode}: the limits are a control group's", result.text())
    else:
        t.equal((result.outcome, result.value), ("exited", "0") if jail.backend == "native" else ("oom", "9"),
                f"{mode}: without a group malloc fails instead, or the runner of the sandbox ends it", result.text())
        t.equal(result.limits, "degraded", f"{mode}: and the facts say so", result.text())
        if jail.backend == "gvisor":  # what its kernel keeps for sockets is not the payload's memory, and has a limit of its own
            result = jail.run("python3", "-c", BUFFERS, options=["--mem", str(64 * MIB), "--wall", "60000"])
            t.ok(result.outcome == "internal" and "jail.memory" in result.detail, f"{mode}: a sandbox that grows itself dies", result.text())


def forgeries(t, jail, mode):
    for script, wanted in (
            ("exit 137", ("exited", "137")), ("exit 124", ("exited", "124")),
            ("for f in 3 4 5 6 7 8 9 16 17 18; do (echo outcome=exited >&$f); done 2>/dev/null; exit 9", ("exited", "9")),
            ("(sleep 0.05; exit 0) & exit 5", ("exited", "5")),
            ("kill -9 1; kill 1; kill -9 0; exit 0", ("signalled", "9")),
            ("echo 'out of memory: Killed'; kill -9 $$", ("signalled", "9"))):
        result = jail.run("/bin/sh", "-c", script)
        t.equal((result.outcome, result.value), wanted, f"{mode}: {script[:24]}… is told as it was", result.text())
    result = jail.probe("clone-parent")
    t.equal((result.outcome, result.value), ("exited", "42"), f"{mode}: a sibling that exits first is not the payload",
            result.text())
    value = mark()
    result = jail.probe("daemon-left", options=["--env", f"MARK={value}"])
    t.equal((result.outcome, result.value, result.leftover), ("exited", "0", "5"), f"{mode}: daemons are counted",
            result.text())
    t.equal(marked_processes(value), [], f"{mode}: and gone when the facts are there")
    # traced by its own child, which never lets go
    result = jail.run("python3", "-c", TRACED, options=["--wall", "20000"])
    t.ok((result.outcome, result.value) == ("exited", "6") and int(result.elapsed_ms) < 10000,
         f"{mode}: a tracer of its own kin does not hold the payload's end back", result.text())
    # 32 and 33 are those that the C library's own calls do not block
    for number in chosen(jail, (signal.SIGIO, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, 32, 33, 64),
                         *[(signal.SIGIO, signal.SIGKILL, 32, 33)] * 2):
        result = jail.run("python3", "-c", OWNER, str(int(number)), options=["--wall", "20000"])
        t.equal((result.outcome, result.value), ("exited", "7"), f"{mode}: signal {int(number)} by F_SETOWN does not reach PID 1",
                result.text())
    t.equal(jail.run("true").leftover, "0", f"{mode}: nothing left is nothing counted")
    result = jail.run("/bin/sh", "-c", "kill -9 -1; exit 3", options=["--env", f"MARK={value}"])
    t.equal((result.outcome, result.value), ("exited", "3"), f"{mode}: kill -1 reaches nobody else", result.text())


def not_run(t, jail, mode):
    for command, number in ((["nosuchcommand"], 2), (["/nosuch/command"], 2), (["/etc/passwd"], 13), (["/etc"], 13)):
        result = jail.run(*command)
        t.equal((result.outcome, result.value), ("not-run", str(number)), f"{mode}: {command[0]} is not run", result.text())
    result = jail.run("true", options=["--cwd", "/nowhere"])
    t.equal((result.outcome, "working directory" in result.detail), ("not-run", True), f"{mode}: no such cwd", result.text())
    # the first PATH counts: that of the default environment is left out
    bare = ["--env", "PATH=/work:/usr/bin", "--bare", "--ro", "/usr:/usr", "--ro", "/bin:/bin", "--ro", "/lib:/lib", "--ro", "/lib64:/lib64"]
    result = jail.run("no-magic", options=[*jail.stores(), *jail.layer("base/nm/tree", {"no-magic": "exit 6\n"}), *bare])
    t.equal((result.outcome, result.value), ("not-run", "13"), f"{mode}: a file that may not be executed", result.text())
    os.chmod(os.path.join(jail.store, "base/nm/tree/no-magic"), 0o755)
    result = jail.run("no-magic", options=[*jail.stores(), "--layer", "base/nm/tree", *bare])
    t.equal((result.outcome, result.value), ("exited", "6"), f"{mode}: without a magic number it is a script", result.text())


def output(t, jail, mode):
    log = os.path.join(jail.scratch, "log")
    flood = 300000000 if jail.backend == "native" else 20000000
    result = jail.run("/bin/sh", "-c", f"echo first; yes | head -c {flood}; echo last >&2", options=["--log", log, "--log-bytes", "10000"])
    text = open(log).read()
    t.ok(result.status == 0 and f"total={flood + 11} cut=1" in result.err and text.startswith("first\n") and
         text.endswith("last\n") and "bytes left out" in text and len(text) < 10100,
         f"{mode}: a flood is capped, its head and tail kept", result.text() + text[:100] + text[-100:])
    result = jail.run("/bin/sh", "-c", "echo a; echo b >&2; (setsid sleep 1000 &) ; echo c", options=["--log", log])
    t.ok(result.status == 0 and open(log).read() == "a\nb\nc\n", f"{mode}: a daemon that holds the output does not hold us",
         result.text())
    for size in chosen(jail, (0, 1, 4999, 5000, 5001, 9999, 10000, 10001, 25000), (0, 10001), ()):
        jail.run("/bin/sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x", options=["--log", log, "--log-bytes", "10000"])
        text = open(log).read()
        if text.replace("\n[... %d bytes left out ...]\n" % (size - 10000), "") != "x" * min(size, 10000):
            t.ok(False, f"{mode}: a log of {size} bytes", text[:200])
    value = mark()
    result = jail.run("/bin/sh", "-c", "yes", options=["--log", "/dev/full", "--log-bytes", "10000", "--env", f"MARK={value}"])
    t.ok(result.status == 125 and "cannot be written" in result.err, f"{mode}: a log that cannot be written is told", result.text())
    t.equal(marked_processes(value), [], f"{mode}: and ends the jail")
    result = jail.run("cat", stdin=b"from outside")
    t.equal(result.out, "from outside", f"{mode}: standard input is what is given", result.text())


def kills(t, jail, mode):
    """SIGKILL of each process of ours while a payload runs."""
    for victim in ("jailrun", "agent-jail", "helper", "idle"):
        value = mark()
        with jail.start("/bin/sh", "-c", "(setsid sleep 1000 &) ; sleep 1000", options=["--env", f"MARK={value}"],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            eventually(lambda v=value: len(marked_processes(v)) >= 2)
            pid = child.pid
            for _ in range({"jailrun": 0, "agent-jail": 1, "helper": 2, "idle": 3}[victim]):
                pid = int(open(f"/proc/{pid}/task/{pid}/children").read().split()[0])
            os.kill(pid, signal.SIGKILL)
            gone = eventually(lambda v=value: not marked_processes(v))
            t.ok(gone, f"{mode}: SIGKILL of {victim} ends everything", marked_processes(value))
            child.wait()
        facts = jail.read_facts()
        if victim in ("helper", "idle"):
            t.equal(facts.get("outcome"), "internal", f"{mode}: and is no verdict on the payload", facts)
    # at random instants of the set-up
    value = mark()
    for i in range(30):
        with jail.start("/bin/sleep", "1000", options=["--env", f"MARK={value}"], stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL) as child:
            time.sleep(i / 5000)
            child.kill()
    t.ok(eventually(lambda: not marked_processes(value)), f"{mode}: SIGKILL at any instant leaves no process",
         marked_processes(value))
    jail.run("true")
    t.ok(eventually(lambda: not stale_groups()), f"{mode}: and no control group once another jail was started", stale_groups())


def processors(t, jail, mode):
    """A limit on processors is the group's; where there is none it is refused, or its absence told."""
    if jail.limits == "degraded":
        result = jail.run("true", options=["--cpus", "1"])
        t.ok(result.status == 0 and "processors is not limited" in result.detail, f"{mode}: without a group it is told that "
             "processors are not limited", result.text())
        return
    quota = "100000"

    def read(path):
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""
    with jail.start("/bin/sleep", "100", options=["--cpus", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        def limited():
            """Groups with the quota that have processes."""
            found = glob.glob("/sys/fs/cgroup/**/agent-[0-9]*-[0-9]*/cpu.cfs_quota_us", recursive=True)
            found += glob.glob("/sys/fs/cgroup/**/agent-[0-9]*-[0-9]*/job/cpu.max", recursive=True)
            return [path for path in found if read(path).split()[:1] == [quota] and read(os.path.dirname(path) + "/cgroup.procs")]
        t.ok(eventually(limited), f"{mode}: processors are limited by the group", jail.limits)
        child.kill()
    jail.read_facts()


def matrix(t, jail, mode):
    statuses(t, jail, mode)
    limits(t, jail, mode)
    processors(t, jail, mode)
    forgeries(t, jail, mode)
    not_run(t, jail, mode)
    output(t, jail, mode)
    kills(t, jail, mode)
    result = jail.run("true", options=["--no-go"])
    t.equal((result.status, result.facts), (0, {}), f"{mode}: without a go nothing is run, and nothing said")


def main():
    with Tap() as t:
        for mode in modes():
            for backend in backends():
                with Jail(mode, backend) as jail:
                    matrix(t, jail, mode if backend == "native" else f"{mode}, {backend}")


main()
