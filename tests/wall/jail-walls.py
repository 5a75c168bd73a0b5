#!/usr/bin/python3
# deadline: 300
"""The jail from inside (laws L1, L3, L5): each attack is blocked, as root and as a user; the same probe outside shows that the
attack is real. After each nothing is left."""
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, mark, marked_processes, modes, stale_groups  # noqa: E402
from tap import Tap  # noqa: E402

WORKED = 10
UID = os.environ.get("AGENT_TEST_UID", "1000")
USER = ["setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"]


class Targets:
    """Listeners of the host that a jail must not reach."""

    def __init__(self):
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.name = "jail-test-" + mark()
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.name)
        self.abstract.listen()
        self.dir = tempfile.TemporaryDirectory()
        os.chmod(self.dir.name, 0o777)
        self.path = os.path.join(self.dir.name, "socket")
        self.file = socket.socket(socket.AF_UNIX)
        self.file.bind(self.path)
        self.file.listen()
        os.chmod(self.path, 0o777)
        self.key = "jail-test-" + mark()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall(250, 1, None)  # a session keyring of our own, which children inherit
        self.has_key = libc.syscall(248, b"user", self.key.encode(), b"secret", 6, -3) >= 0

    def reached(self):
        for sock in (self.tcp, self.udp, self.abstract, self.file):
            sock.setblocking(False)
        found = []
        for sock, call in ((self.tcp, "accept"), (self.abstract, "accept"), (self.file, "accept")):
            try:
                getattr(sock, call)()
                found.append(sock.getsockname())
            except BlockingIOError:
                pass
        try:
            self.udp.recv(9)
            found.append("udp")
        except BlockingIOError:
            pass
        return found


def probes(targets):
    """(probe and arguments, whether it works outside for whoever runs this)"""
    return [
        (["tcp", "127.0.0.1", str(targets.port)], True),
        (["tcp", "192.0.2.1", "443"], False),
        (["tcp6"], False),
        (["udp", "192.0.2.1", "53"], False),
        (["dns"], False),
        (["unix-path", targets.path], True),
        (["unix-abstract", targets.name], True),
        (["families"], False),
        (["raw"], False),
        (["netlink"], True),
        (["io-uring"], False),
        (["interfaces"], False),
        (["i386"], False),
        (["x32"], False),
        (["descriptors"], False),
        (["init-files"], False),
        (["init-attack"], False),
        (["keyring", targets.key], targets.has_key),
        (["namespaces"], True),
        (["mounts"], False),
        (["devices"], False),
        (["calls"], False),
        (["tiocsti"], False),
        (["host-files"], False),
        (["sockets-in-tree"], False),
        (["capabilities"], False),
        (["kill-all"], False),
        (["clean-start"], False),
    ]


def check_mode(t, mode, targets):
    with Jail(mode) as jail:
        for words, _ in probes(targets):
            value = mark()
            result = jail.probe(*words, options=["--env", f"MARK={value}"])
            t.ok(result.status == 0 and result.outcome == "exited", f"{mode}: {' '.join(words[:1])} is blocked",
                 result.text())
            left = marked_processes(value)
            if left:
                t.ok(False, f"{mode}: nothing is left after {words[0]}", left)
        t.equal(targets.reached(), [], f"{mode}: no listener of the host was reached")

        result = jail.run("/usr/bin/env", options=["--bare", "--ro", "/usr:/usr", "--ro", "/lib64:/lib64",
                                                   "--ro", "/lib:/lib", "--env", "A=1", "--env", "B=x y"],
                          env={**os.environ, "SECRET": "s"})
        t.equal(result.out, "A=1\nB=x y\n", f"{mode}: the environment is the list", result.text())

        result = jail.run("/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo /proc/[0-9]*; "
                          "ls /proc/1/task/*/fd 2>&1 | head -1; hostname; cat /proc/self/cgroup")
        t.ok("SECRET" not in result.out and "/proc/1" in result.out and "jail" in result.out and
             "agent-" not in result.out.split("jail")[-1], f"{mode}: only the jail's processes are to be seen",
             result.text())

        t.equal(result.uid, {"root": "separate", "user": "shared"}[mode], f"{mode}: the facts say whose uid it is", result.text())
        for layer in ("userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "keyring", "nesting",
                      "caps", "nnp", "landlock", "seccomp", "selftest", "pivot"):
            if layer not in result.layers.split():
                t.ok(False, f"{mode}: layer {layer} is active", result.text())

        result = jail.run("true", options=["--tested"])
        t.ok(result.status == 0 and "selftest" in result.layers.split() and result.egress == [],
             f"{mode}: where the whole self-test held before, its vital probes are made", result.text())
        words = next(words for words, _ in probes(targets))
        result = jail.probe(*words, options=["--tested"])
        t.ok(result.status == 0, f"{mode}: and the walls are the same: {words[0]} is blocked", result.text())
        result = jail.run("true", options=["--tested", "--fault", "selftest"])
        t.ok(result.outcome == "setup" and "self" in result.detail, f"{mode}: and it stops the start where it does not hold",
             result.text())

        if mode == "root":
            tool = os.path.join(jail.bin, "as-root")
            shutil.copy("/usr/bin/id", tool)
            os.chmod(tool, 0o6755)
            t.equal(subprocess.run([*USER, tool, "-u"], capture_output=True, text=True, check=False).stdout, "0\n",
                    "outside, a set-id program of root's works: the probe is sound")
            result = jail.run("/opt/bin/as-root", "-u")
            t.equal(result.out, "1000\n", "root: a set-id program of root's has no effect", result.text())

        # what the host would see
        before = open("/proc/self/mountinfo").read()
        result = jail.run("/bin/sh", "-c", "echo x > /tmp/y; echo x > /dev/shm/y; echo x > ~/y; id -u; touch /work/z")
        t.ok(result.status == 0 and result.out == "1000\n", f"{mode}: a payload can write where it should", result.text())
        t.equal(open("/proc/self/mountinfo").read(), before, f"{mode}: the host's mounts are as before")
        t.ok(not os.path.exists("/tmp/y") and not os.path.exists("/dev/shm/y"), f"{mode}: nothing of it is on the host")
        if mode == "root":
            pids = []
            with jail.start("/bin/sleep", "100", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                def sleeping():
                    for pid in os.listdir("/proc"):
                        try:
                            if open(f"/proc/{pid}/cmdline").read() == "/bin/sleep\000100\000":
                                pids.append(int(pid))
                        except OSError:
                            pass
                    return pids
                while not sleeping():
                    pass
                uids = [os.stat(f"/proc/{pid}").st_uid for pid in pids]
                child.kill()
            t.ok(all(uid >= 0x70001000 for uid in uids), "root: the payload's uid outside is one that nothing else uses",
                 uids)
    t.equal(stale_groups(), [], f"{mode}: no control group is left")


def check_outside(t, targets, probe):
    """The controls: what works without a jail."""
    for words, works in probes(targets):
        if works:
            status = subprocess.run([probe, *words], capture_output=True, check=False).returncode
            t.equal(status, WORKED, f"outside, {words[0]} works: the probe is sound")
    targets.reached()


def relocated(path):
    """(first, end) of the pages that are to be read-only once the program is relocated, from where it lies."""
    with open(path, "rb") as file:
        elf = file.read(8192)
    at, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, _, begin, _, _, length = struct.unpack_from("<IIQQQQQ", elf, at + i * size)
        if kind == 0x6474E552:  # PT_GNU_RELRO
            return begin & ~4095, begin + length & ~4095
    return None


def check_relocated(t):
    """Of a live jail's own processes: musl does not do it by itself."""
    with Jail("root") as jail:
        program = os.path.join(jail.bin, "agent-jail")
        first, end = relocated(program)
        child = jail.start("sh", "-c", "echo up; exec sleep 60", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        child.stdout.readline()
        seen = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if not os.path.samefile(f"/proc/{pid}/exe", program):
                    continue
                with open(f"/proc/{pid}/maps", encoding="ascii") as file:
                    lines = [line.split() for line in file]
            except OSError:
                continue
            ranges = [(*[int(word, 16) for word in line[0].split("-")], line[1]) for line in lines]
            base = min(low for (low, _, _), line in zip(ranges, lines) if line[-1] == program)
            seen.append([rights for low, high, rights in ranges if low < base + end and high > base + first])
        child.kill()
        child.wait()
        t.ok(len(seen) == 3 and all(rights == ["r--p"] for rights in seen),
             "what was relocated is read-only in each of agent-jail's processes", seen)


def main():
    targets = Targets()
    with Tap() as t:
        with Jail("user") as jail:
            check_outside(t, targets, os.path.join(jail.bin, "jail_probe"))
        for mode in modes():
            check_mode(t, mode, targets)
        if "root" in modes():
            check_relocated(t)


main()
