"""Starts one row of the stage table by hand, as the supervisor does: descriptors at their numbers, the
row's environment, a control socket. For wall tests of a single stage.

    stage = Stage("agent-egress", job={...}, fds={23: socket.fileno()})
    stage.event("egress"); stage.stop(); stage.wait()
"""

import json
import os
import select
import signal
import socket
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD") or os.path.join(ROOT, "build")

FD_CONTROL, FD_JOB, FD_OUT, FD_LOG = 3, 4, 5, 14
FD_FACTS, FD_SPEC, FD_EGRESS, FD_FACTS2, FD_SPEC2 = 16, 17, 23, 25, 26


def row_uid(name):
    """The uid of a row when everything is started by root: STAGE_UID_BASE and its place in enum stage_id."""
    with open(os.path.join(ROOT, "pipeline/stages.h")) as file:
        lines = [line.strip().rstrip(",") for line in file]
    order = [line[6:] for line in lines if line.startswith("STAGE_") and line[6:].isalpha()]
    return 0x70000000 + order.index(name)


def memory_file(data):
    fd = os.memfd_create("test")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Stage:
    def __init__(self, program, mode=None, job=None, fds=None, env=None):
        self.control, theirs = socket.socketpair()
        placed = {FD_CONTROL: theirs.fileno(), FD_JOB: memory_file(json.dumps(job or {}).encode())}
        placed.update(fds or {})
        # first above every target, so that no move overwrites one that is still to come
        moved = {number: os.dup2(fd, 100 + number, inheritable=False) for number, fd in placed.items()}

        null = os.open("/dev/null", os.O_RDWR)
        self.words, words = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, words, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in moved.items()]
        # everything else is close-on-exec: ours by itself, what our caller left open by this
        for name in os.listdir("/proc/self/fd"):
            try:
                if int(name) > 2:
                    os.set_inheritable(int(name), False)
            except OSError:
                pass
        self.pid = os.posix_spawn(os.path.join(BUILD, program), [program] + ([mode] if mode else []),
                                  env or {"LANG": "C.UTF-8", "TZ": "UTC"}, file_actions=actions, setsid=True)
        self.pidfd = os.pidfd_open(self.pid)
        self.status = None
        os.close(null)
        os.close(words)
        for fd in moved.values():
            os.close(fd)
        os.close(placed[FD_JOB])
        theirs.close()
        self.buffer = b""
        self.events = []

    def _read(self, seconds):
        ready, _, _ = select.select([self.control], [], [], max(0, seconds))
        if not ready:
            return False
        data = self.control.recv(65536)
        if not data:
            return None
        self.buffer += data
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            self.events.append(json.loads(line))
        return True

    def event(self, name, seconds=20):
        """The next event of that name that was not taken yet, or None at the end."""
        limit = time.monotonic() + seconds
        while True:
            for i, event in enumerate(self.events):
                if event.get("event") == name:
                    return self.events.pop(i)
            left = limit - time.monotonic()
            if left <= 0 or self._read(left) is None:
                return None

    def answer(self, **fields):
        self.control.sendall(json.dumps(fields).encode() + b"\n")

    def stop(self):
        """As the supervisor tells a serving stage to finish."""
        self.control.shutdown(socket.SHUT_WR)

    def running(self):
        return not select.select([self.pidfd], [], [], 0)[0]

    def wait(self, seconds=20):
        """Exit status (negative: signal; None: it did not end) and last words."""
        if not select.select([self.pidfd], [], [], seconds)[0]:
            return None, ""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.set_blocking(self.words, False)
        try:
            return self.status, os.read(self.words, 65536).decode(errors="replace")
        except BlockingIOError:
            return self.status, ""

    def kill(self):
        if self.status is None:
            if self.running():
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.pidfd)
        os.close(self.words)
        self.control.close()
