"""Starting agent-jail from tests, as root and as an ordinary user, and looking for what it leaves.

Copies the programs to a place that every user can reach. `modes()` is what can be tried here: started by root both, else only
the user that we are.
"""

import glob
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
USER = int(os.environ.get("AGENT_TEST_UID", "1000"))  # an ordinary user: any id that is not ours
STAGE = 0x70000007  # a row of the stage table
TIMEOUT_S = 60


def modes():
    wanted = os.environ.get("AGENT_TEST_MODES", "root user").split()
    return [mode for mode in (["root", "user"] if os.geteuid() == 0 else ["user"]) if mode in wanted]


def backends():
    """Those that can be had on this machine; tests/setup installs what the others need."""
    return ["native"] + (["gvisor"] if shutil.which("runsc") else [])


class Result:
    def __init__(self, status, out, err, facts):
        self.status, self.out, self.err, self.facts = status, out, err, facts

    def __getattr__(self, name):
        """A fact, as text."""
        return self.__dict__["facts"].get(name, "")

    def text(self):
        return f"status {self.status}\nfacts {self.facts}\nout {self.out[-2000:]}\nerr {self.err[-2000:]}"


class Jail:
    """A directory with programs, a store and a run directory, for one mode and backend."""

    def __init__(self, mode, backend="native"):
        self.mode = mode
        self.backend = backend
        self.top = tempfile.mkdtemp(prefix="jail-test-")
        os.chmod(self.top, 0o755)
        self.bin = os.path.join(self.top, "bin")
        os.makedirs(self.bin, 0o755)
        for program in ("agent-jail", "agent-jail-faults", "jailrun", "wall/jail_probe", "wall/observe_probe"):
            shutil.copy(os.path.join(BUILD, program), self.bin)
        # a user has no control group, unless the test's own circumstances say otherwise (tests/vm)
        self.limits = os.environ.get("AGENT_TEST_LIMITS", "degraded") if mode == "user" else "cgroup"
        self.drop = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"] \
            if mode == "user" and os.geteuid() == 0 else []
        # started by root, what a jail gets belongs to a stage, which is neither root nor the payload
        self.owner = USER if mode == "user" and os.geteuid() == 0 else os.geteuid() or STAGE
        self.store = os.path.join(self.top, "store")
        self.scratch = os.path.join(self.top, "run")
        for path in (self.store, self.scratch):
            os.mkdir(path, 0o755)
            os.chown(path, self.owner, self.owner)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)

    def command(self, *command, options=(), program="jailrun"):
        degraded = ["--degraded-ok"] if self.limits == "degraded" else []
        if "AGENT_TEST_SUBUID" in os.environ:  # we are a user with a range (tests/vm)
            degraded += ["--subuid"]
        return [*self.drop, os.path.join(self.bin, program), "--backend", self.backend, *degraded,
                "--ro", f"{self.bin}:/opt/bin",
                *options, "--", *command]

    def start(self, *command, options=(), **more):
        """A Popen; its facts come into the file self.facts."""
        self.facts = os.path.join(self.scratch, "facts-" + mark())
        return subprocess.Popen(self.command(*command, options=["--facts", self.facts, *options]),
                                stdin=subprocess.DEVNULL, **more)

    def read_facts(self):
        try:
            with open(self.facts, encoding="utf-8", errors="replace") as file:
                text = file.read()
            os.unlink(self.facts)
        except FileNotFoundError:
            text = ""
        facts = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        if facts:
            facts["egress"] = [line[7:] for line in text.split("\n") if line.startswith("egress=")]
        return facts

    def run(self, *command, options=(), stdin=b"", timeout=TIMEOUT_S, env=None, program="jailrun"):
        self.facts = os.path.join(self.scratch, "facts-" + mark())
        done = subprocess.run(self.command(*command, options=["--facts", self.facts, *options], program=program),
                              input=stdin, capture_output=True, timeout=timeout, env=env, check=False)
        return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"),
                      self.read_facts())

    def probe(self, *words, options=(), **more):
        return self.run("/opt/bin/jail_probe", *words, options=options, **more)

    def layer(self, name, files, home=False):
        """Makes a layer from {path: text, None (whiteout), ("link", target) or ("dir", opaque)}, owned by the stage. Returns its
        options."""
        base = os.path.join(self.scratch, name[4:]) if name.startswith("run/") else os.path.join(self.store, name)
        os.makedirs(base, 0o755, exist_ok=True)
        for path, content in files.items():
            full = os.path.join(base, path)
            os.makedirs(os.path.dirname(full), 0o755, exist_ok=True)
            if content is None:
                os.mknod(full, 0o020000, 0)
            elif isinstance(content, tuple) and content[0] == "link":
                os.symlink(content[1], full)
            elif isinstance(content, tuple):
                os.makedirs(full, exist_ok=True)
                if content[1]:
                    os.setxattr(full, "user.overlay.opaque", b"y")
            else:
                with open(full, "w") as file:
                    file.write(content)
                if content.startswith("#!"):
                    os.chmod(full, 0o755)
        top = self.store if not name.startswith("run/") else self.scratch
        for folder, dirs, names in os.walk(top):
            for entry in [folder, *[os.path.join(folder, n) for n in dirs + names]]:
                os.lchown(entry, self.owner, self.owner)
        return ["--home-layer" if home else "--layer", name]

    def stores(self):
        return ["--store", self.store, "--scratch", self.scratch]


def in_sessions(sessions):
    """Processes whose session is one of these: all of a jail but its payload, which has a session of its own."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) in sessions:
            found.add(int(path.split("/")[2]))
    return found


def many(jail, count, seconds=1):
    """So many jails at once, each with a base layer. What failed, what they left, how many processes there were at once."""
    value = mark()
    layers = [*jail.stores(), *jail.layer("base/many/tree", {"f": "f\n"}), "--env", f"MARK={value}"]
    words = jail.command("/bin/sh", "-c", f"test -f f && echo x >g && sleep {seconds} && exit 7", options=layers)
    with open("/proc/self/mountinfo") as file:
        mounts = set(file)
    # a pipe each: the jail takes no file; a session each: to be known by
    started = [subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True) for _ in range(count)]
    sessions = {child.pid for child in started}
    ours = in_sessions(sessions)
    failed = []
    for child in started:
        out = child.communicate(timeout=300)[0]
        if child.returncode != 7:
            failed.append((child.returncode, out[-200:]))

    def left():
        with open("/proc/self/mountinfo") as file:
            more = [line for line in file if line not in mounts]
        groups = [path for path in stale_groups() if int(re.search(r"agent-(\d+)-", path).group(1)) in ours]
        return [*in_sessions(sessions), *marked_processes(value), *more, *groups, *os.listdir(jail.scratch)]
    eventually(lambda: not left())
    return failed, left(), len(ours)


def overlay():
    """What the work tree is where it can be: "copy" on a kernel whose tmpfs has no user attributes (before Linux 6.6)."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        try:
            os.setxattr(file.name, "user.probe", b"y")
            return "overlay"
        except OSError:
            return "copy"


def mark():
    """A value that only one jail has in its environment."""
    return secrets.token_hex(12)


def marked_processes(value):
    """Processes with the mark in their environment. Only root sees them all."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if value.encode() in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


def stale_groups():
    """Control groups of jails whose agent-jail is gone."""
    found = []
    for path in glob.glob("/sys/fs/cgroup/**/agent-[0-9]*-[0-9]*", recursive=True):
        try:
            with open(f"/proc/{os.path.basename(path).split('-')[1]}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            state = "X"
        if state in "ZX" and os.path.exists(path):
            found.append(path)
    return found


def sweepers(jail):
    """Processes that free what ended jails of this one's programs wrote (sandbox/jail/sweep.h)."""
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        pid = int(path.split("/")[2])
        try:
            with open(path) as file:
                if file.read() == "agent-sweeper\n" and os.readlink(f"/proc/{pid}/exe").startswith(jail.top):
                    found.append(pid)
        except OSError:
            pass
    return found


def eventually(condition, seconds=10):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())
