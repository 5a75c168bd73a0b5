"""Looks for planted secrets in everything that a process has: environment, arguments, what its descriptors hold, and every
readable byte of its memory; and in every byte that a run leaves. Needs root for the processes.

The processes of a run are stopped while they are looked at and go on for a moment in between, so that short-lived ones are
seen as well.
"""

import base64
import os
import signal
import stat
import time

from e2e import descendants

CHUNK = 1 << 22
FD_MAX = 1 << 20  # bytes of a descriptor's file that are looked at


def forms(secret):
    """A secret as it is, and in base64 at each of the three alignments."""
    found = {"plain": secret}
    for shift in range(3):
        # what is around it decides the first and last characters; the middle is fixed
        encoded = base64.b64encode(b"\0" * shift + secret)
        found[f"base64+{shift}"] = encoded[4 if shift else 0:len(encoded) - 4]
    return found


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe").replace(" (deleted)", ""))
    except OSError:
        return None


def descriptor_links(pid):
    """What the descriptors of a live process are. Those that it closes meanwhile are left out; of one that may not be seen there are none."""
    found = set()
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
            except FileNotFoundError:
                pass
    except PermissionError:
        pass
    return found


def read_file(path, limit=FD_MAX):
    try:
        with open(path, "rb") as f:
            return f.read(limit)
    except OSError:
        return b""


def memory(pid):
    """Chunks of readable memory, each with the name of its mapping; program text of the system left out."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            maps = f.read().splitlines()
        mem = open(f"/proc/{pid}/mem", "rb", buffering=0)
    except OSError:
        return
    with mem:
        for line in maps:
            fields = line.split(None, 5)
            span, rights = fields[0], fields[1]
            name = fields[5] if len(fields) > 5 else ""
            if rights[0] != "r" or name in ("[vvar]", "[vsyscall]", "[vdso]", "[vvar_vclock]"):
                continue
            if rights[1] != "w" and name.startswith(("/usr/", "/lib")):
                continue
            start, end = (int(x, 16) for x in span.split("-"))
            tail = b""
            while start < end:
                try:
                    mem.seek(start)
                    data = mem.read(min(CHUNK, end - start))
                except (OSError, ValueError, OverflowError):
                    break
                if not data:
                    break
                yield name, tail + data
                tail = data[-256:]
                start += len(data)


def descriptors(pid):
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for number in numbers:
        path = f"/proc/{pid}/fd/{number}"
        try:
            target = os.readlink(path)
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            yield number, target, read_file(path)


class Watch:
    """step() looks at every process of the run once. seen: programs that were looked at; found: set of (secret's name,
    program, where)."""

    def __init__(self, pid, secrets):
        self.pid = pid
        self.needles = [(name, form, needle) for name, secret in secrets.items()
                        for form, needle in forms(secret.encode()).items()]
        self.seen, self.found = {}, set()

    def _look(self, data, program, where):
        for name, form, needle in self.needles:
            if needle in data:
                self.found.add((name, program, where if form == "plain" else f"{where} ({form})"))

    def _scan(self, pid):
        program = program_of(pid)
        if program is None:
            return
        self.seen[program] = self.seen.get(program, 0) + 1
        self._look(read_file(f"/proc/{pid}/environ"), program, "environment")
        self._look(read_file(f"/proc/{pid}/cmdline"), program, "arguments")
        for number, target, data in descriptors(pid):
            kind = "memfd" if target.startswith("/memfd:") else target
            self._look(data, program, f"descriptor {kind}")
        for name, data in memory(pid):
            self._look(data, program, "memory")

    def step(self):
        stopped = []

        def stop(pid):
            try:
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            except OSError:
                pass
        try:
            stop(self.pid)
            known = set()
            while True:  # until no new ones appear
                new = [pid for pid in descendants(self.pid) if pid not in known]
                if not new:
                    break
                for pid in new:
                    stop(pid)
                    known.add(pid)
            for pid in [self.pid] + sorted(known):
                self._scan(pid)
        finally:
            for pid in reversed(stopped):
                try:
                    os.kill(pid, signal.SIGCONT)
                except OSError:
                    pass

    def until(self, ended, seconds=120, pause=0.001):
        limit = time.monotonic() + seconds
        while not ended():
            if time.monotonic() > limit:
                raise TimeoutError(f"still running after {seconds} s; seen {self.seen}")
            self.step()
            time.sleep(pause)


def in_files(top, secrets, skip=()):
    """[(secret's name, form, file)] of every file below top that holds one, names included."""
    found = []
    needles = [(name, form, needle) for name, secret in secrets.items() for form, needle in forms(secret.encode()).items()]
    for folder, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if os.path.join(folder, d) not in skip]
        for file in files:
            path = os.path.join(folder, file)
            if path in skip:
                continue
            data = os.fsencode(path) + b"\0"
            if os.path.islink(path):
                data += os.fsencode(os.readlink(path))
            elif os.path.isfile(path):
                data += read_file(path, 1 << 30)
            for name, form, needle in needles:
                if needle in data:
                    found.append((name, form, path))
    return found
