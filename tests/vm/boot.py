#!/usr/bin/python3
# deadline: 1000
"""The wall on a distribution's kernel: boots what is in /boot in QEMU, without network, with the programs just built, and prints
what the tests in there say (tests/vm/guest: which, and in which circumstances).

The machine is emulated (TCG): stock guests do not boot everywhere under KVM, and this needs no device. It must report every
test that it was asked for and its own end; a timer of ours ends it. What it says is capped.
"""
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.insert(0, HERE)
import image  # noqa: E402
from tap import Tap  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
DEADLINE_S = 900
REPORT_MAX = 4 << 20    # bytes of the guest's report
CONSOLE_MAX = 16 << 20  # bytes of its console
QEMU = "qemu-system-x86_64"
RESULT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)\s*(?:#\s*SKIP\S*\s*(.*))?$", re.I)


def command(kernel, disk, console):
    return [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048", "-nodefaults", "-no-user-config",
            "-nic", "none", "-display", "none", "-no-reboot", "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
            "-kernel", kernel,
            "-append", "root=/dev/nvme0n1 rw init=/lib/systemd/systemd console=ttyS0 quiet panic=-1 mitigations=off systemd.unit=vm.target systemd.show_status=0",
            "-drive", f"file={disk},if=none,id=disk,format=raw,cache=unsafe", "-device", "nvme,drive=disk,serial=root",
            "-serial", f"file:{console}", "-serial", "stdio"]


class Report:
    """The guest's lines: "@begin NAME", TAP, "@end NAME STATUS SECONDS", and "@done" last."""

    def __init__(self, t):
        self.t = t
        self.name, self.plan, self.seen = None, None, 0
        self.bytes, self.tests, self.done = 0, 0, False
        self.failed = None  # details of a failure under way
        self.other = []  # the last lines of a test that are none of these: what it said when it broke

    def flush(self):
        if self.failed:
            name, lines = self.failed
            self.failed = None
            self.t.ok(False, name, "\n".join(lines))

    def line(self, line):
        if self.failed and line.startswith("#") and len(self.failed[1]) < 60:
            self.failed[1].append(line[2:])
            return
        self.flush()
        if line.startswith("@begin "):
            self.name, self.plan, self.seen, self.other = line[7:], None, 0, []
        elif line.startswith("@end ") and self.name:
            _, status, seconds = line.rsplit(" ", 2)
            self.tests += 1
            self.t.ok(status == "0" and self.plan == self.seen and self.seen, f"{self.name}: ran to its end",
                      f"status {status}, {self.seen} checks, planned {self.plan}\n" + "\n".join(self.other))
            print(f"# {self.name}: {seconds} s", flush=True)
            self.name = None
        elif line == "@done":
            self.done = True
        elif self.name:
            self.tap(line)

    def tap(self, line):
        plan, match = re.match(r"^1\.\.(\d+)", line), RESULT.match(line)
        if plan:
            self.plan = int(plan.group(1))
        elif match:
            self.seen += 1
            failed, _, name, reason = match.groups()
            name = f"{self.name}: {name}"
            if failed:
                self.failed = (name, [])
            elif reason is not None:
                self.t.skip(name, reason)
            else:
                self.t.ok(True, name)
        elif not line.startswith("#"):
            self.other = self.other[-19:] + [line]


def watch(machine, console, report):
    """Until the machine is off. Returns why it had to be ended, or None."""
    limit, rest = time.monotonic() + DEADLINE_S, b""
    with selectors.DefaultSelector() as selector:
        selector.register(machine.stdout, selectors.EVENT_READ)
        while True:
            if time.monotonic() >= limit:
                return f"it did not end within {DEADLINE_S} s"
            if os.path.exists(console) and os.path.getsize(console) > CONSOLE_MAX:
                return f"its console has more than {CONSOLE_MAX} bytes"
            if not selector.select(1):
                continue
            chunk = os.read(machine.stdout.fileno(), 65536)
            if not chunk:
                return None
            report.bytes += len(chunk)
            if report.bytes > REPORT_MAX:
                return f"its report has more than {REPORT_MAX} bytes"
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                report.line(line.decode("ascii", "backslashreplace").rstrip("\r"))


def boot(t, scratch):
    disk, console = os.path.join(scratch, "disk"), os.path.join(scratch, "console")
    kernel = image.make(disk, BUILD, os.path.join(ROOT, "tests"), scratch)
    if not shutil.which(QEMU):
        raise image.Missing(f"{QEMU} is not installed: tests/setup check installs it (qemu-system-x86)")
    report = Report(t)
    with subprocess.Popen(command(kernel, disk, console), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as machine:
        why = "we were ended"
        try:
            why = watch(machine, console, report)
        finally:
            if why:
                machine.kill()
    report.flush()
    last = ""
    if os.path.exists(console):
        with open(console, "rb") as file:
            last = file.read()[-6000:].decode("ascii", "backslashreplace")
    t.ok(report.done and not why, f"the machine ({os.path.basename(kernel)}) reported {report.tests} tests and went off",
         f"{why or f'status {machine.returncode}'}; last test: {report.name}; the console's end:\n{last}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if os.geteuid() != 0:
        print("1..0 # SKIP only root can make the machine's image, whose files keep their owners")
        return
    with Tap() as t, tempfile.TemporaryDirectory(prefix="agent-vm-", dir="/var/tmp") as scratch:
        try:
            boot(t, scratch)
        except image.Missing as missing:
            if os.environ.get("CI") == "true":
                t.ok(False, "a machine can be made", missing)
            else:
                t.skip("a machine can be made", missing)


main()
