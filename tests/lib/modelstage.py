"""Runs agent-model (and agent-dial beside it) as the supervisor does, for tests: descriptors at the numbers of
pipeline/fds.h, the row's environment, a control socket whose events are collected and whose reservations
are answered. Standard library only.

    repo = modelstage.make_repo(directory, {"src/a.c": "…"})
    run = modelstage.Run(build, repo, "anthropic", port=…, key="…", script…)
    end = run.round()       one process; end.status, end.events, end.changes, end.error
"""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time

FD_CONTROL, FD_JOB, FD_OUT, FD_SECRET, FD_NET, FD_ISSUE, FD_CHANGES, FD_TALK, FD_REPLAY = (
    3, 4, 5, 6, 8, 9, 10, 11, 24)
ENVIRONMENT = {"LANG": "C.UTF-8", "TZ": "UTC"}
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def build_dir():
    return os.environ.get("BUILD") or os.path.join(ROOT, "build")


def memfd(name, data):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    import fcntl
    fcntl.fcntl(fd, 1033, 0x000F)  # F_ADD_SEALS: all
    return fd


def spawn(program, fds):
    """Starts a program with exactly 0, 1, 2 and fds {number: descriptor}. 2 is a pipe whose read end is
    returned beside the process id."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    wanted = {0: null, 1: null, 2: write_end, **fds}
    pid = os.fork()
    if pid == 0:
        try:
            import fcntl
            # first out of the way of the numbers that are wanted
            high = {n: fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for n, fd in wanted.items()}
            for n, fd in high.items():
                os.dup2(fd, n, inheritable=True)
            keep = set(wanted)
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd not in keep:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            os.execve(program, [os.path.basename(program)], ENVIRONMENT)
        finally:
            os._exit(127)
    os.close(null)
    os.close(write_end)
    return pid, read_end


class Process:
    """A stage under way: its control socket and its end."""

    def __init__(self, program, job, fds):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        job_fd = memfd("job", json.dumps(job).encode())
        self.pid, self.words = spawn(program, {FD_CONTROL: theirs.fileno(), FD_JOB: job_fd, **fds})
        theirs.close()
        os.close(job_fd)
        self.events = []
        self.status = None
        self.buffer = b""

    def read_events(self, answer, deadline_s, until=None):
        """Collects events until the process has closed its end (or until(event) is true)."""
        end = time.monotonic() + deadline_s
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no end of the stage")
            if not select.select([self.control], [], [], left)[0]:
                continue
            data = self.control.recv(65536)
            if not data:
                return
            self.buffer += data
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                event = json.loads(line)
                self.events.append(event)
                reply = answer(event)
                if reply is not None:
                    self.control.sendall(json.dumps(reply).encode() + b"\n")
                if until and until(event):
                    return

    def wait(self):
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
            self.last_words = b""
            while True:
                data = os.read(self.words, 65536)
                if not data:
                    break
                self.last_words += data
            os.close(self.words)
            self.control.close()
        return self.status

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()


class End:
    """What a round ended with."""

    def __init__(self, process, changes):
        self.status = process.status
        self.events = process.events
        self.words = process.last_words.decode(errors="replace")
        self.changes = changes
        self.error = next((e for e in reversed(process.events) if e["event"] == "error"), {})

    def of(self, kind):
        return [e for e in self.events if e["event"] == kind]

    def describe(self):
        return f"status {self.status}, error {self.error}, words {self.words!r}, events {self.events[-6:]}"


def make_repo(directory, files):
    """A repository with one commit. Returns (git directory, commit, tree)."""
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="T",
               GIT_AUTHOR_EMAIL="t@example.com", GIT_COMMITTER_NAME="T", GIT_COMMITTER_EMAIL="t@example.com",
               GIT_AUTHOR_DATE="1700000000 +0000", GIT_COMMITTER_DATE="1700000000 +0000")

    def git(*words):
        return subprocess.run(["git", "-C", directory, *words], env=env, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    os.makedirs(directory, exist_ok=True)
    git("init", "-q", "-b", "main")
    for name, content in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "base")
    return os.path.join(directory, ".git"), git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}")


class Run:
    """The state of a run as far as the model stage sees it: conversation and changes of each round."""

    def __init__(self, directory, repo, kind, model="test-model", port=0, host="127.0.0.1", tls=False, ca=None,
                 key=None, issue="Mend the sum.", limits=None, recording=None, title="Mend the sum", budget=None,
                 rounds=3, dial=None, path="/v1", test_command="make check", edits="auto"):
        self.directory = tempfile.mkdtemp(dir=directory)
        os.chmod(self.directory, 0o755)
        self.repo, self.commit, self.tree = repo
        self.kind, self.model, self.port, self.host, self.tls, self.ca = kind, model, port, host, tls, ca
        self.key, self.issue, self.recording, self.title = key, issue, recording, title
        self.limits = {"max_output_tokens": 1000, "idle_ms": 5000, "call_ms": 30000, "backoff_ms": 50,
                       "turns": 20, **(limits or {})}
        self.budget, self.rounds, self.dial, self.path = budget, rounds, dial, path
        self.test_command, self.edits = test_command, edits
        self.talk = os.path.join(self.directory, "conversation.jsonl")
        open(self.talk, "ab").close()
        self.spent = 0
        self.reserved = []

    def lines(self):
        with open(self.talk, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def changes_path(self, number):
        return os.path.join(self.directory, f"changes-{number}.json")

    def job(self, number, feedback):
        paths = {"repo": self.repo}
        if self.ca:
            paths["ca"] = self.ca
        provider = {"kind": self.kind, "model": self.model}
        if self.kind != "replay":
            provider |= {"host": self.host, "port": self.port, "tls": self.tls, "path": self.path}
        return {"paths": paths, "provider": provider, "base_commit": self.commit, "base_tree": self.tree,
                "round": number, "rounds": self.rounds, "title": self.title, "feedback": feedback,
                "limits": self.limits, "test_command": self.test_command, "edits": self.edits}

    def answer(self, event):
        if event["event"] == "usage":
            self.spent += sum(event[k] for k in ("input", "output", "cache_read", "cache_write"))
            return None
        if event["event"] != "reserve":
            return None
        self.reserved.append(event["tokens"])
        if self.budget is not None and self.spent + event["tokens"] > self.budget:
            return {"granted": False, "why": f"the run may take {self.budget} tokens"}
        return {"granted": True}

    def start(self, number=1, feedback=None):
        """Starts agent-dial and agent-model; returns the latter's Process."""
        fds = {}
        opened = []

        def put(n, fd):
            fds[n] = fd
            opened.append(fd)

        put(FD_OUT, os.open(self.changes_path(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        put(FD_TALK, os.open(self.talk, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC))
        put(FD_ISSUE, memfd("issue", self.issue if isinstance(self.issue, bytes) else self.issue.encode()))
        if number > 1:
            put(FD_CHANGES, os.open(self.changes_path(number - 1), os.O_RDONLY | os.O_CLOEXEC))
        if self.recording is not None:
            put(FD_REPLAY, memfd("replay", "".join(json.dumps(s) + "\n" for s in self.recording).encode()))
        if self.key is not None:
            put(FD_SECRET, memfd("secret", self.key.encode()))
        self.dialer = None
        if self.kind != "replay":
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            job = {"host": self.host, "port": self.port, "private_ok": True, "connect_ms": 5000, **(self.dial or {})}
            job["paths"] = {}
            self.dialer = Process(os.path.join(build_dir(), "agent-dial"), job, {FD_NET: theirs.fileno()})
            theirs.close()
            put(FD_NET, ours.detach())
        process = Process(os.path.join(build_dir(), "agent-model"), self.job(number, feedback), fds)
        for fd in opened:
            os.close(fd)
        return process

    def finish(self, process, number):
        process.wait()
        if self.dialer:
            self.dialer.kill()
        data = b""
        if os.path.isfile(self.changes_path(number)):  # a test may have put a device there
            with open(self.changes_path(number), "rb") as f:
                data = f.read()
        return End(process, json.loads(data) if data else None)

    def round(self, number=1, feedback=None, deadline_s=60):
        process = self.start(number, feedback)
        try:
            process.read_events(self.answer, deadline_s)
        except BaseException:
            process.kill()
            raise
        return self.finish(process, number)
