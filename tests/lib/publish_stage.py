"""agent-publish by itself: a repository, a change in a quarantine, and the stage started exactly as its row says,
with agent-dial or git receive-pack at its other ends.

    with Scene(as_user=False) as scene:
        outcome = scene.publish(scene.local(bare))

As root the stage takes a uid of its own, as in a service. as_user starts it as an ordinary user (uid 1000, which need
have no entry in /etc/passwd).
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time

from e2e import BUILD, ROOT, Place

USER = int(os.environ.get("AGENT_TEST_UID", "1000"))
ROW_ENV = {
    "agent-publish": {"LANG": "C.UTF-8", "TZ": "UTC", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    "agent-dial": {"LANG": "C.UTF-8", "TZ": "UTC"},
}
FD = {name: int(number) for name, number in
      re.findall(r"\b(FD_[A-Z0-9]+) =\s+(\d+)", open(os.path.join(ROOT, "pipeline/fds.h")).read())}
TIME = 1700000000


def row_uid():
    text = open(os.path.join(ROOT, "pipeline/stages.h")).read()
    names = re.findall(r"\b(STAGE_[A-Z]+),", text)
    return int(re.search(r"STAGE_UID_BASE[\s\\]+(\d+)u", text).group(1)) + names.index("STAGE_PUBLISH")


def memfd(data):
    fd = os.memfd_create("test")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Process:
    """A program with exactly these descriptors at these numbers and exactly this environment."""

    def __init__(self, path, argv, env, fds, user=None):
        null = os.open("/dev/null", os.O_RDWR)
        self.stderr, write_end = os.pipe()
        places = {0: null, 1: null, 2: write_end, **fds}
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                high = {n: os.dup(fd) for n, fd in places.items()}
                while min(high.values()) <= max(places):
                    high = {n: os.dup(fd) for n, fd in high.items()}
                for n, fd in high.items():
                    os.dup2(fd, n)
                    os.set_inheritable(n, True)
                for name in os.listdir("/proc/self/fd"):
                    if int(name) not in places:
                        try:
                            os.close(int(name))
                        except OSError:
                            pass
                os.umask(0o022)
                os.chdir("/")
                if user is not None:
                    os.setgroups([])
                    os.setresgid(user, user, user)
                    os.setresuid(user, user, user)
                os.execve(path, argv, env)
            finally:
                os._exit(99)
        os.close(write_end)
        os.close(null)
        self.status = None

    def kill(self):
        if self.status is None:
            try:
                os.killpg(self.pid, 9)
            except ProcessLookupError:
                pass
            self.wait()

    def poll(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self):
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def words(self):
        data = b""
        while chunk := os.read(self.stderr, 65536):
            data += chunk
        os.close(self.stderr)
        return data.decode(errors="replace")


class Outcome:
    def __init__(self, status, events, words, out, log, receive=""):
        self.status, self.events, self.words, self.log, self.receive = status, events, words, log, receive
        self.receipt = json.loads(out) if out else None
        errors = [e for e in events if e.get("event") == "error"]
        self.message = errors[-1]["message"] if errors else ""
        self.next = errors[-1].get("next", "") if errors else ""
        commits = [e["oid"] for e in events if e.get("event") == "commit"]
        self.commit = commits[-1] if commits else None

    @property
    def text(self):
        return (f"status {self.status}\nmessage: {self.message}\nnext: {self.next}\nwords: {self.words}\n"
                f"receipt: {self.receipt}\nlog: {self.log!r}\nreceive-pack: {self.receive}")


class Running:
    """agent-publish under way."""

    def __init__(self, scene, process, control, helpers, out, log, receive_log):
        self.scene, self.process, self.control, self.helpers = scene, process, control, helpers
        self.out, self.log, self.receive_log = out, log, receive_log

    def finish(self, timeout=90):
        self.control.settimeout(timeout)
        data = b""
        try:
            while chunk := self.control.recv(65536):
                data += chunk
        except (TimeoutError, socket.timeout):
            self.process.kill()
            data += b'{"event":"error","kind":-4,"message":"(the test waited too long)"}\n'
        except ConnectionResetError:
            pass
        limit = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        self.process.kill()
        words = self.process.words()
        for helper in self.helpers:
            helper()
        read = lambda path: open(path, "rb").read()
        receive = read(self.receive_log).decode(errors="replace") if self.receive_log else ""
        self.scene.running.remove(self)
        return Outcome(self.process.status, [json.loads(line) for line in data.splitlines() if line],
                       words, read(self.out), read(self.log), receive)


class Scene(Place):
    """A repository with a base commit, and a change of it in a quarantine object directory."""

    def __init__(self, as_user=False):
        super().__init__()
        os.chmod(self.dir, 0o711)
        self.user = USER if as_user and os.geteuid() == 0 else None
        self.owner = self.user if self.user is not None else row_uid() if os.geteuid() == 0 else os.geteuid()
        self.running, self.number = [], 0
        self.bin = self.path("bin")
        os.mkdir(self.bin, 0o755)
        for name in ("agent-publish", "agent-dial"):
            shutil.copy2(os.path.join(BUILD, name), self.bin)
        self.repo = self.repository({"a.txt": "one\n", "src/main.c": "int main(void) { return 1; }\n"}, remote=False)
        self.base = self.git("rev-parse", "HEAD", cwd=self.repo)
        self.base_tree = self.git("rev-parse", "HEAD^{tree}", cwd=self.repo)
        self.change("src/main.c", "int main(void) { return 0; }\n")

    def __exit__(self, *exc):
        for running in list(self.running):
            running.process.kill()
            for helper in running.helpers:
                helper()
        super().__exit__(*exc)

    def change(self, path, content, name="objects"):
        """Makes tree.json for the base with path changed; the new objects are in the quarantine."""
        self.objects = self.path(name)
        os.makedirs(self.objects, exist_ok=True)
        env = {**self.env, "GIT_OBJECT_DIRECTORY": self.objects, "GIT_INDEX_FILE": self.path("index.tmp"),
               "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(self.repo, ".git/objects")}
        git = lambda *args, data=None: subprocess.run(("git",) + args, cwd=self.repo, env=env, input=data, check=True,
                                                      stdout=subprocess.PIPE).stdout.decode().strip()
        old = git("rev-parse", f"{self.base}:{path}")
        new = git("hash-object", "-w", "--stdin", data=content.encode())
        git("read-tree", self.base)
        git("update-index", "--cacheinfo", f"100644,{new},{path}")
        self.tree = git("write-tree")
        self.tree_json = {"kind": "tree", "version": 1, "base_commit": self.base, "base_tree": self.base_tree,
                          "tree": self.tree, "message": "Return zero\n\nAgent-Run: test\n",
                          "changes": [{"path": path, "old_oid": old, "new_oid": new, "old_mode": "100644",
                                       "new_mode": "100644"}],
                          "patch_sha256": "0" * 64, "stat": {"files": 1, "added": 1, "removed": 1}}
        self.verdict = {"kind": "verdict", "version": 1, "tree": self.tree, "outcome": "exited", "value": 0,
                        "green": True}
        self.give(self.objects)

    def give(self, path):
        """To whoever the stage runs as."""
        if os.geteuid() != 0:
            return
        for top, _, files in os.walk(path):
            os.chown(top, self.owner, self.owner)
            for name in files:
                os.chown(os.path.join(top, name), self.owner, self.owner)

    def bare(self, name="remote.git", seeded=True):
        """A bare repository; seeded: with the base commit as main."""
        path = self.path(name)
        self.git("init", "-q", "--bare", "-b", "main", path)
        if seeded:
            self.git("push", "-q", path, "HEAD:refs/heads/main", cwd=self.repo)
        return path

    def large_base(self):
        """Makes the base commit one with 24 MB in it that do not compress. A push to an empty remote sends all of it."""
        with open(os.path.join(self.repo, "large.bin"), "wb") as f:
            f.write(os.urandom(24 << 20))
        self.git("add", "-A", cwd=self.repo)
        self.git("commit", "-q", "-m", "Add much", cwd=self.repo)
        self.base = self.git("rev-parse", "HEAD", cwd=self.repo)
        self.base_tree = self.git("rev-parse", "HEAD^{tree}", cwd=self.repo)
        self.change("src/main.c", "int main(void) { return 0; }\n", f"objects-{self.number}")

    def refs(self, bare):
        out = self.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=bare)
        return dict(line.split() for line in out.splitlines())

    # ---- remotes, as the supervisor describes them ---------------------------------------------------------

    def local(self, path):
        return {"kind": "local", "url": path, "host": None, "port": 0, "user": None, "path": path}

    def https(self, port, path, ca=None, host="localhost", user=None):
        return {"kind": "https", "url": f"https://{host}:{port}{path}", "host": host, "port": port, "user": user,
                "path": path, "ca": ca}

    def ssh(self, port, path, user, known_hosts, host="localhost"):
        return {"kind": "ssh", "url": f"ssh://{user}@{host}:{port}{path}", "host": host, "port": port, "user": user,
                "path": path, "known_hosts": known_hosts}

    # ---- the stage -------------------------------------------------------------------------------------------

    def job(self, remote, **more):
        paths = {"repo": os.path.join(self.repo, ".git"), "objects": self.objects, "scratch": self.scratch,
                 "libexec": self.bin}
        if remote.get("ca"):
            paths["ca"] = remote["ca"]
        return {"paths": paths, "remote": remote, "ref": "refs/heads/agent/return-zero", "expect": None,
                "base_commit": self.base, "base_tree": self.base_tree, "tree": self.tree,
                "author": {"name": "Agent", "email": "agent@example.com"}, "time": TIME, "receipts": [],
                "deadline_s": 60, "sign": False, **more}

    def _receive_pack(self, path):
        ours, theirs = socket.socketpair()
        log = self.path(f"receive-{self.number}.log")
        with open(log, "wb") as f:
            child = subprocess.Popen(["git", "receive-pack", path], stdin=theirs, stdout=theirs, stderr=f,
                                     start_new_session=True,
                                     env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8"})
        theirs.close()

        def end():
            ours.close()
            try:
                child.wait(2)  # a hook without end outlives its pusher; the supervisor ends it like this
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(child.pid, 9)
            except ProcessLookupError:
                pass
            child.wait()
        return ours.detach(), end, log

    def _dial(self, remote, private_ok):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, control_end = socket.socketpair()
        job = memfd(json.dumps({"host": remote["host"], "port": remote["port"], "private_ok": private_ok,
                                "connect_ms": 5000}).encode())
        process = Process(os.path.join(self.bin, "agent-dial"), ["agent-dial"], ROW_ENV["agent-dial"],
                          {FD["FD_CONTROL"]: control_end.fileno(), FD["FD_JOB"]: job,
                           FD["FD_NET"]: theirs.fileno()}, self.user)
        control_end.close()
        theirs.close()
        os.close(job)

        def end():
            process.kill()
            words = process.words()
            if words and os.environ.get("KEEP"):
                print("# agent-dial:", words)
            control.close()
        return ours.detach(), end

    def start(self, remote, secret=None, tree=None, verdict=None, private_ok=True, fds=None, env=None, **more):
        self.number += 1
        self.scratch = self.path(f"scratch-{self.number}")
        os.mkdir(self.scratch, 0o700)
        self.give(self.scratch)
        out, log = self.path(f"out-{self.number}"), self.path(f"log-{self.number}")
        control, control_end = socket.socketpair()
        data = lambda value: memfd(value if isinstance(value, bytes) else json.dumps(value).encode())
        given = {FD["FD_CONTROL"]: control_end.detach(), FD["FD_JOB"]: data(self.job(remote, **more)),
                 FD["FD_OUT"]: os.open(out, os.O_CREAT | os.O_RDWR, 0o600),
                 FD["FD_LOG"]: os.open(log, os.O_CREAT | os.O_RDWR, 0o600),
                 FD["FD_TREE"]: data(tree or self.tree_json), FD["FD_VERDICT"]: data(verdict or self.verdict)}
        if secret is not None:
            given[FD["FD_SECRET"]] = data(secret if isinstance(secret, bytes) else secret.encode())
        helpers, receive_log = [], None
        if fds and FD["FD_REMOTE"] in fds:
            end = lambda: None
        elif remote["kind"] == "local":
            given[FD["FD_REMOTE"]], end, receive_log = self._receive_pack(remote["path"])
        else:
            given[FD["FD_NET"]], end = self._dial(remote, private_ok)
        helpers.append(end)
        given.update(fds or {})
        process = Process(os.path.join(self.bin, "agent-publish"), ["agent-publish"],
                          {**ROW_ENV["agent-publish"], **(env or {})}, given, self.user)
        for fd in given.values():
            os.close(fd)
        running = Running(self, process, control, helpers, out, log, receive_log)
        self.running.append(running)
        return running

    def publish(self, remote, **more):
        return self.start(remote, **more).finish()
