#!/usr/bin/python3
"""Each row of the stage table tries what it must not be able to do (laws L3, L5): poke.c is installed under
every program's name and started by driver.c as the supervisor does, as root and as an ordinary user. Each
attempt is first made without restriction: what fails there proves nothing here, and is said.
deadline: 300
"""
import ctypes
import errno
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
from tap import Tap  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
ROWS = {
    "agent-dial": "pump",
    "agent-apply base": "quiet",
    "agent-apply status": "quiet",
    "agent-layer": "quiet",
    "agent-fetch warm": "quiet",
    "agent-egress": "pump",
    "agent-model": "quiet",
    "agent-apply edit": "quiet",
    "agent-apply try": "quiet",
    "agent-test": "quiet",
    "agent-publish": "launcher",
    "agent-verify": "launcher",
    "agent-forge issue": "quiet",
    "agent-apply words": "quiet",
    "agent-forge pull": "quiet",
    "agent-apply pushed": "quiet",
    "agent-apply tasks": "quiet",
    "agent-change": "quiet",
    "agent-fetch mirror": "launcher",
}
BRIEF = {"agent-dial", "agent-model", "agent-test", "agent-publish"}  # a network, a secret, a jail, programs to run
LAUNCHERS = [row for row in ROWS if ROWS[row] == "launcher"]
PATHLESS = {"agent-forge issue", "agent-apply words", "agent-forge pull", "agent-fetch mirror"}  # no repository of a user's
WRITERS = {"agent-layer", "agent-fetch warm", "agent-apply edit", "agent-apply try", "agent-test", "agent-change",
           *LAUNCHERS}
PROGRAMS = sorted({row.split()[0] for row in ROWS} | {"agent-jail"})
ENV = {"LANG": "C.UTF-8", "TZ": "UTC"}
SIGSYS = 31
USER = int(os.environ.get("AGENT_TEST_UID", "1000"))
UID_BASE = 0x70000000

K, E, O = "killed", "refused", "works"
# attempt: outcome under (quiet, pump, launcher), argument
ATTEMPTS = {
    "nothing": (O, O, O, None),
    "raise": (O, O, O, None),
    "pair": (O, O, O, None),
    # files outside
    "read": (E, E, E, "canary"),
    "list": (E, E, E, "out"),
    "write": (E, E, E, "canary"),
    "create": (E, E, E, "canary"),
    "mkdir": (E, E, E, "canary"),
    "symlink": (E, E, E, "canary"),
    "fifo": (E, E, E, "canary"),
    "link": (E, E, E, "canary"),
    "rename": (E, E, E, "canary"),
    "unlink": (E, E, E, "canary"),
    "truncate": (E, E, E, "canary"),
    "chmod": (E, E, E, "canary"),
    "chown": (E, E, E, "canary"),
    "utimes": (E, E, E, "canary"),
    "setxattr": (E, E, E, "canary"),
    "device": (E, E, E, "canary"),
    "by-handle": (K, K, E, "canary"),
    "chroot": (K, K, E, None),
    # processes
    "fork": (K, K, O, None),
    "clone": (K, K, O, None),
    "exec": (K, K, E, "tool"),
    "exec-memory": (K, K, E, None),
    "leak": (K, K, E, None),
    "kill": (E, E, E, None),
    "kill-all": (E, E, O, None),  # reaches nobody: see kill
    "tgkill": (E, E, E, None),
    "sigqueue": (E, E, E, None),
    "ptrace": (K, K, E, None),
    "read-memory": (K, K, E, None),
    "steal-fd": (K, K, E, None),
    "proc-environ": (E, E, E, None),
    "proc-memory": (E, E, E, None),
    "proc-self": (E, E, E, None),
    "prlimit": (E, E, E, None),
    "owner-signal": (E, E, E, None),
    # power
    "root": (E, E, E, None),
    "capability": (E, E, E, None),
    "dumpable": (E, E, E, None),
    "core-limit": (E, E, E, None),
    "many-files": (E, E, E, None),
    "map-executable": (E, O, O, None),
    "type-terminal": (E, E, E, None),
    "type-terminal-high": (E, E, E, None),
    "unshare-user": (K, K, E, None),
    "unshare-mount": (K, K, E, None),
    "setns": (K, K, E, None),
    "mount": (K, K, E, None),
    "bpf": (K, K, E, None),
    "io-uring": (K, K, E, None),
    "userfaultfd": (K, K, E, None),
    "perf": (K, K, E, None),
    "keyctl": (K, K, E, None),
    "add-key": (K, K, E, None),
    "seccomp": (E, E, E, None),
    "fanotify": (K, K, E, None),
    "x32": (K, K, K, None),
    "i386": (K, K, K, None),
    # network
    "inet": (E, O, O, None),
    "inet6": (E, O, O, None),
    "unix": (E, E, O, None),
    "netlink": (E, E, E, None),
    "packet": (E, E, E, None),
    "raw": (E, E, E, None),
    "vsock": (E, E, E, None),
    "alg": (E, E, E, None),
    "connect": (E, O, E, None),
    "listen": (E, E, O, None),
    "own-loopback": (E, E, O, None),
    "connect-abstract": (E, E, E, "abstract"),
    "connect-path": (E, E, E, "socket"),
    "pair-datagram": (E, E, E, "datagram"),
    "pair-connect": (E, E, E, "socket"),
}
FILTERS = ["quiet", "pump", "launcher"]
# needs a privilege, a kernel option or hardware that the caller of the test may lack: said, not required
MAY_FAIL_FREE = {"leak", "by-handle", "chroot", "ptrace", "read-memory", "steal-fd", "proc-memory", "root", "capability",
                 "unshare-user", "unshare-mount", "setns", "mount", "bpf", "io-uring", "userfaultfd", "perf",
                 "fanotify", "x32", "i386", "packet", "raw", "vsock", "alg", "device", "core-limit", "many-files",
                 "kill", "kill-all", "tgkill", "sigqueue", "setxattr", "keyctl", "add-key", "pair-connect"}


def landlock_abi():
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(444, None, 0, 1)


def demote(uid):
    def change():
        if uid and os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    return change


class Place:
    """The directory that a driver's stages live in: bin, in (readable), rw (writable), out (forbidden)."""

    def __init__(self, uid):
        self.uid = uid
        self.dir = tempfile.mkdtemp(prefix="wall-")
        os.chmod(self.dir, 0o755)
        for name in ("bin", "in", "rw", "out"):
            os.mkdir(self.path(name))
        for name in PROGRAMS + ["poke"]:
            shutil.copy(os.path.join(BUILD, "wall", "poke"), self.path("bin", name))
        shutil.copy(os.path.join(BUILD, "wall", "driver"), self.path("bin", "driver"))
        shutil.copy("/bin/true", self.path("out", "tool"))
        for name in ("in/file", "rw/file", "out/canary"):
            with open(self.path(name), "w") as f:
                f.write("canary\n")
        for name in ("in/file", "rw/file", "out/canary", "rw", "out"):
            os.chmod(self.path(name), 0o777)
        for base, dirs, files in os.walk(self.dir):
            for name in dirs + files:
                os.chown(os.path.join(base, name), uid, uid)
        self.listen()

    def listen(self):
        self.tcp = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.abstract = "wall-%d-%d" % (os.getpid(), self.uid)
        self.sockets = [self.tcp]
        for kind, name in ((socket.SOCK_STREAM, "\0" + self.abstract),
                           (socket.SOCK_STREAM, self.path("out", "socket")),
                           (socket.SOCK_DGRAM, self.path("out", "datagram"))):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind(name)
            if kind == socket.SOCK_STREAM:
                s.listen(64)
            s.setblocking(False)
            self.sockets.append(s)
        for name in ("socket", "datagram"):
            os.chmod(self.path("out", name), 0o777)
        self.tcp.setblocking(False)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def argument(self, what):
        return {"canary": self.path("out", "canary"), "out": self.path("out"), "tool": self.path("out", "tool"),
                "abstract": self.abstract, "socket": self.path("out", "socket"),
                "datagram": self.path("out", "datagram"), None: "/"}.get(what, what)

    def arrivals(self):
        """How many connections and messages have come in from somewhere."""
        count = 0
        for s in self.sockets:
            while True:
                try:
                    if s.type == socket.SOCK_DGRAM:
                        s.recv(16)
                    else:
                        s.accept()[0].close()
                    count += 1
                except OSError:
                    break
        return count

    def free(self, name):
        """The attempt without restriction: its result."""
        port = self.tcp.getsockname()[1]
        # below a shell of the same user, whom it may attack
        run = subprocess.run(["/bin/sh", "-c", '"$@"; exit $?', "sh", self.path("bin", "poke"), "free", name, self.argument(ATTEMPTS[name][3]), str(port)],
                             capture_output=True, preexec_fn=demote(self.uid), cwd="/", timeout=20)
        try:
            return json.loads(run.stdout)["value"] >= 0 or None
        except (ValueError, KeyError):
            # exec has replaced it: a program that says nothing and ends well
            return run.returncode == 0 or None

    def mend(self):
        """Puts back what a free attempt has changed."""
        canary = self.path("out", "canary")
        for name in os.listdir(self.path("out")):
            if name.startswith("canary."):
                full = self.path("out", name)
                os.rmdir(full) if os.path.isdir(full) else os.unlink(full)
        with open(canary, "w") as f:
            f.write("canary\n")
        os.chmod(canary, 0o777)
        os.chown(canary, self.uid, self.uid)

    def close(self):
        for s in self.sockets:
            s.close()
        shutil.rmtree(self.dir)


class Driver:
    def __init__(self, place, extra=(), without=(), prefix=()):
        self.place = place
        command = [*prefix, place.path("bin", "driver")]
        if without:
            command = [place.path("bin", "poke"), "without", *map(str, without)] + command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, preexec_fn=demote(place.uid), cwd="/",
                                        pass_fds=extra, text=True)

    def order(self, row, job, **more):
        job = {"paths": {"repo": self.place.path("in"), "objects": self.place.path("rw"),
                         "scratch": self.place.path("rw"), "store": self.place.path("rw"), "layer": self.place.path("rw")}, **job}
        self.process.stdin.write(json.dumps({"row": row, "job": job, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line)

    def attempt(self, row, name, argument=None):
        return self.order(row, {"try": name, "arg": argument or self.place.argument(ATTEMPTS[name][3]),
                                "port": self.place.tcp.getsockname()[1]})

    def release(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=20)


def outcome(answer):
    """killed, refused, works; or what else happened, as text."""
    if answer.get("signal") == SIGSYS:
        return K
    results = [e for e in answer.get("events", []) if isinstance(e, dict) and e.get("event") == "result"]
    if answer.get("status") == 0 and len(results) == 1:
        return O if results[0]["value"] >= 0 else E
    return json.dumps(answer)


def expected(row, name, uid, abi):
    wanted = ATTEMPTS[name][FILTERS.index(ROWS[row])]
    if name == "own-loopback" and row == "agent-verify":
        wanted = E  # its namespace has not even that
    if ROWS[row] == "launcher" and uid and abi < 6 and name in ("kill", "tgkill", "sigqueue"):
        return None  # only Landlock's scopes stop a signal between processes of one user
    return wanted


def check_attempts(t, place, driver, row, controls, abi):
    """All attempts of one row; wrong outcomes are listed together."""
    wrong, proven = [], 0
    place.arrivals()
    for name in ATTEMPTS:
        wanted = expected(row, name, place.uid, abi)
        if wanted is None:
            continue
        got = outcome(driver.attempt(row, name))
        if got != wanted:
            wrong.append(f"{name}: wanted {wanted}, got {got}")
        proven += controls[name]
    t.ok(not wrong, f"{who(place.uid)}: {row}: {len(ATTEMPTS)} attempts end as they must "
                    f"({proven} of them work without restriction)", "\n".join(wrong))
    wanted_arrivals = 1 if ROWS[row] == "pump" else 0
    t.equal(place.arrivals(), wanted_arrivals, f"{who(place.uid)}: {row}: listeners of the host heard "
            + ("only the TCP connection that it may make" if wanted_arrivals else "nothing"))
    with open(place.path("out", "canary")) as f:
        t.equal(f.read(), "canary\n", f"{who(place.uid)}: {row}: the canary is untouched")


def check_own_paths(t, place, driver, row):
    """What the row's own paths allow, and no more."""
    inside, scratch = place.path("in", "file"), place.path("rw", "file")
    reads = ROWS[row] != "pump" and row not in PATHLESS
    writes = row in WRITERS
    checks = [("read", inside, O if reads else E), ("write", inside, E), ("unlink", inside, E),
              ("create", inside, E), ("rename", inside, E), ("chmod", inside, E), ("truncate", inside, E),
              ("setxattr", inside, E),
              ("read", scratch, O if writes else E), ("write", scratch, O if writes else E),
              ("create", scratch, O if writes else E), ("whiteout", scratch, O if writes else E),
              ("device", scratch, E), ("fifo", scratch, E)]
    wrong = []
    for name, path, wanted in checks:
        answer = driver.attempt(row, name, path)
        if outcome(answer) != wanted:
            wrong.append(f"{name} {os.path.relpath(path, place.dir)}: wanted {wanted}, got {outcome(answer)} {answer}")
    t.ok(not wrong, f"{who(place.uid)}: {row}: its own paths, and only so far", "\n".join(wrong))


def check_launcher_children(t, place, driver):
    tool = "/usr/bin/true"
    for row in LAUNCHERS:
        answer = driver.order(row, {"try": "exec", "arg": tool, "port": 1})
        t.equal(outcome(answer), O, f"{who(place.uid)}: {row} may run what it lists")
        answer = driver.order(row, {"try": "exec", "arg": place.path("out", "tool"), "port": 1})
        t.equal(outcome(answer), E, f"{who(place.uid)}: {row} may not run what it does not list")
        shutil.copy("/bin/true", place.path("rw", "tool"))
        os.chmod(place.path("rw", "tool"), 0o755)
        answer = driver.order(row, {"try": "exec", "arg": place.path("rw", "tool"), "port": 1})
        t.equal(outcome(answer), E, f"{who(place.uid)}: {row} may not run what it has written")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def check_from_outside(t, place, driver, row):
    """The kernel's own word on what the process has left."""
    answer = driver.order(row, {"try": "hold"}, hold=True)
    pid, wrong = answer["pid"], []
    try:
        status = status_of(pid)
        uids = set(status["Uid"].split()) | set(status["Gid"].split())
        uid = str(place.uid or UID_BASE + ROW_NUMBERS[row])
        keep = "0000000000000004" if not place.uid and row not in PATHLESS | {"agent-dial", "agent-egress"} else "0" * 16
        for key, wanted in (("NoNewPrivs", "1"), ("Seccomp", "2"), ("Seccomp_filters", "1"), ("CapEff", keep),
                            ("CapPrm", keep), ("CapInh", keep), ("CapAmb", keep)):
            if status.get(key, wanted).strip() != wanted:
                wrong.append(f"{key}: {status[key]}, wanted {wanted}")
        if uids != {uid}:
            wrong.append(f"uid {uids}, wanted {uid}")
        if place.uid == 0 and status["CapBnd"].strip() != keep:
            wrong.append(f"CapBnd {status['CapBnd']}")
        if place.uid == 0 and status["Groups"].strip():
            wrong.append(f"groups {status['Groups']}")
        same_net = os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
        if same_net != (ROWS[row] == "pump"):
            wrong.append("network namespace")
        if os.stat(f"/proc/{pid}/environ").st_uid != 0:
            wrong.append("dumpable: /proc belongs to it")
        with open(f"/proc/{pid}/environ", "rb") as f:
            names = sorted(item.split(b"=")[0].decode() for item in f.read().split(b"\0") if item)
        wanted_names = sorted(list(ENV) + (["PATH", "HOME"] if row in LAUNCHERS else []))
        if names != wanted_names:
            wrong.append(f"environment {names}")
        fds = sorted(int(n) for n in os.listdir(f"/proc/{pid}/fd"))
        if fds != [0, 1, 2, 3, 4]:
            wrong.append(f"descriptors {fds}")
        if os.getsid(pid) != pid:
            wrong.append("not a session of its own")
    finally:
        driver.release()
    t.ok(not wrong, f"{who(place.uid)}: {row}: seen from outside, nothing is left that it should not have",
         "\n".join(wrong))


ROW_NUMBERS = {}


def read_row_numbers():
    """The order of enum stage_id."""
    names = {"DIAL": "agent-dial", "BASE": "agent-apply base", "STATUS": "agent-apply status",
             "LAYER": "agent-layer", "FETCH": "agent-fetch warm", "EGRESS": "agent-egress", "MODEL": "agent-model",
             "EDIT": "agent-apply edit", "TRY": "agent-apply try", "TEST": "agent-test", "PUBLISH": "agent-publish",
             "VERIFY": "agent-verify", "FORGE_ISSUE": "agent-forge issue", "WORDS": "agent-apply words",
             "FORGE_PULL": "agent-forge pull", "PUSHED": "agent-apply pushed", "TASKS": "agent-apply tasks",
             "CHANGE": "agent-change", "MIRROR": "agent-fetch mirror"}
    with open(os.path.join(ROOT, "pipeline", "stages.h")) as f:
        lines = [line.strip().rstrip(",") for line in f]
    order = [line[6:] for line in lines if line.startswith("STAGE_") and line[6:].replace("_", "").isalpha()]
    for number, name in enumerate(order):
        if name in names:
            ROW_NUMBERS[names[name]] = number


def who(uid):
    return "user" if uid else "root"


# ---- what was inherited ------------------------------------------------------------------------------


def start_by_hand(place, argv, env, fds, drop=()):
    """Starts a program with an environment and descriptors of our own making; its status and words."""
    control = socket.socketpair()
    job = os.memfd_create("job")
    os.write(job, b'{"try":"nothing","paths":{}}')
    parked = [os.dup2(fd, 100 + i) for i, fd in enumerate([control[1].fileno(), job])]

    def arrange():
        demote(place.uid)()
        for target, fd in {3: parked[0], 4: parked[1], **fds}.items():
            if target not in drop:
                os.dup2(fd, target, inheritable=True)
            else:
                os.close(target)
        for fd in range(max(5, 3), 256):
            if fd not in fds:
                try:
                    os.close(fd)
                except OSError:
                    pass
    try:
        run = subprocess.run(argv, executable=place.path("bin", argv[0]), env=env, preexec_fn=arrange,
                             close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=20)
        return run.returncode, run.stderr.decode()
    finally:
        for fd in parked + [job]:
            os.close(fd)
        control[0].close()
        control[1].close()


def check_inherited(t, place):
    null = os.open("/dev/null", os.O_RDONLY)
    base = ["agent-apply", "base"]
    cases = [
        ("exactly the row's", base, ENV, {}, (), 0, ""),
        ("an optional descriptor of the row's", base, ENV, {5: null}, (), 0, ""),
        ("one more name", base, {**ENV, "LD_PRELOAD": ""}, {}, (), 125, "LD_PRELOAD"),
        ("a secret's name", base, {**ENV, "OPENAI_API_KEY": "sk-planted"}, {}, (), 125, "OPENAI_API_KEY"),
        ("another value", base, {**ENV, "LANG": "de_DE.UTF-8"}, {}, (), 125, "LANG"),
        ("a name missing", base, {"TZ": "UTC"}, {}, (), 125, "LANG"),
        ("no environment", base, {}, {}, (), 125, "LANG"),
        ("one more descriptor", base, ENV, {5: null, 6: null}, (), 125, "descriptor 6"),
        ("a descriptor far above", base, ENV, {200: null}, (), 125, "descriptor 200"),
        ("no job", base, ENV, {}, (4,), 125, "descriptor 4"),
        ("no control socket", base, ENV, {}, (3,), 125, "descriptor 3"),
        ("another mode", ["agent-apply", "push"], ENV, {}, (), 125, "row"),
        ("no mode", ["agent-apply"], ENV, {}, (), 125, "row"),
        ("one word too many", base + ["x"], ENV, {}, (), 125, "row"),
        ("a mode where the row has none", ["agent-model", "x"], ENV, {}, (), 125, "row"),
        ("the jail's row", ["agent-jail"], ENV, {}, (), 125, ""),
    ]
    for name, argv, env, fds, drop, status, word in cases:
        got, words = start_by_hand(place, argv, env, fds, drop)
        t.ok(got == status and word in words and "sk-planted" not in words,
             f"{who(place.uid)}: inherited: {name}: {status}", f"status {got}: {words}")
    os.close(null)


def check_jobs(t, place, driver):
    bad = [
        ("the root directory as a path", {"paths": {"repo": "/"}}),
        ("a relative path", {"paths": {"repo": "in"}}),
        ("a number as a path", {"paths": {"repo": 5}}),
        ("a list with a number in it", {"paths": {"alternates": ["/x", 5]}}),
        ("more paths than can be", {"paths": {"alternates": ["/x"] * 300}}),
    ]
    for name, job in bad:
        answer = driver.order("agent-apply base", {"try": "nothing", **job})
        errors = [e for e in answer["events"] if e["event"] == "error"]
        t.ok(answer.get("status") == 125 and len(errors) == 1 and errors[0]["kind"] == -6,
             f"{who(place.uid)}: job with {name}: 125", answer)
    answer = driver.order("agent-apply base", {"try": "nothing", "paths": {"repo": "/does/not/exist",
                                                                           "alternates": []}})
    t.equal(outcome(answer), O, f"{who(place.uid)}: a path that is missing is skipped")
    answer = driver.attempt("agent-model", "pair-connect")
    t.equal(answer["events"][-1].get("errno"), errno.EINPROGRESS,
            f"{who(place.uid)}: connect says what libcurl needs to hear")
    answer = driver.order("agent-apply base", {})
    t.ok(answer.get("status") == 2, f"{who(place.uid)}: an error of the row's own has its own status", answer)
    answer = driver.order("agent-dial", {"try": "nothing"}, fds={"5": 2})
    t.ok("not in the row" in answer.get("error", ""), f"{who(place.uid)}: spawn refuses a descriptor that the row "
         "does not list", answer)


# ---- a layer that cannot be had ------------------------------------------------------------------------

LIMITS = "limits cannot be lowered"
X86 = os.uname().machine == "x86_64"
LAYERS = [
    # what, system call (x86-64, others), errno, rows, word of the message, word of the remedy, users
    ("no Landlock in this kernel", (444, 444), errno.ENOSYS, ROWS, "Landlock", "CONFIG_SECURITY_LANDLOCK"),
    ("Landlock switched off", (444, 444), errno.EOPNOTSUPP, ROWS, "Landlock", "lsm="),
    ("no Landlock rules", (445, 445), errno.ENOMEM, [r for r in ROWS if r not in PATHLESS], "Landlock", None),
    ("Landlock refuses", (446, 446), errno.E2BIG, ROWS, "Landlock", None),
    ("no namespaces", (272, 97), errno.EPERM, [r for r in ROWS if ROWS[r] != "pump"], "namespace", None),
    ("no seccomp", (317, 277), errno.EINVAL, ROWS, "seccomp", "CONFIG_SECCOMP"),
    (LIMITS, (302, 261), errno.EPERM, ROWS, "limit", None),
    ("capabilities stay", (126, 91), errno.EPERM, ROWS, "capset", None),
    ("no mounts", (165, 40), errno.EPERM, LAUNCHERS, "mount", None),
    ("no new root", (155, 41), errno.EINVAL, LAUNCHERS, "pivot_root", None),
    ("no copies of mounts", (428, 428), errno.ENOSYS, LAUNCHERS, "own root", None),
]
ROOT_LAYERS = [
    ("the uid stays", (117, 147), errno.EPERM, ROWS, "uid", None),
    ("groups stay", (116, 159), errno.EPERM, ROWS, "setgroups", None),
]


def sanitized():
    with open(os.path.join(BUILD, "wall", "driver"), "rb") as f:
        return b"__asan_init" in f.read()


def check_missing_layers(t, place):
    for what, numbers, code, rows, word, remedy in LAYERS + ([] if place.uid else ROOT_LAYERS):
        if what == LIMITS and sanitized():
            print(f"# {what}: a sanitizer does not start so, not tried")
            continue
        driver = Driver(place, without=(numbers[not X86], code))
        wrong = []
        for row in rows:
            answer = driver.order(row, {"try": "nothing"})
            errors = [e for e in answer.get("events", []) if e["event"] == "error"]
            if (answer.get("status") != 125 or len(errors) != 1 or word not in errors[0]["message"]
                    or (remedy and remedy not in errors[0]["next"]) or "result" in str(answer["events"])):
                wrong.append(f"{row}: {answer}")
        driver.close()
        t.ok(not wrong, f"{who(place.uid)}: {what}: 125, said, nothing run", "\n".join(wrong))


def check_odd_roots(t, place):
    """Root that is none: of a user namespace's small map, and without its capabilities."""
    prefix = ["unshare", "-Ur"]
    if subprocess.run(prefix + ["true"], preexec_fn=demote(place.uid), capture_output=True).returncode == 0:
        driver = Driver(place, prefix=prefix)
        wrong = []
        for row in ROWS:
            for name, wanted in (("nothing", O), ("read", E), ("mount", ATTEMPTS["mount"]),
                                 ("capability", E), ("connect", ATTEMPTS["connect"])):
                if isinstance(wanted, tuple):
                    wanted = wanted[FILTERS.index(ROWS[row])]
                got = outcome(driver.attempt(row, name))
                if got != wanted:
                    wrong.append(f"{row}: {name}: wanted {wanted}, got {got}")
        driver.close()
        t.ok(not wrong, f"{who(place.uid)}: below a user namespace's root the walls stand too", "\n".join(wrong))
    if place.uid == 0:
        driver = Driver(place, prefix=["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"])
        answers = {row: driver.order(row, {"try": "nothing"}) for row in ROWS}
        wrong = [f"{row}: {a}" for row, a in answers.items()
                 if a.get("status") != 125 or "without the capabilities" not in a["stderr"]]
        driver.close()
        t.ok(not wrong, "root: root that cannot become the row's uid: 125", "\n".join(wrong))


def check_dies_with_its_parent(t, place):
    for row in ROWS:
        driver = Driver(place)
        pid = driver.order(row, {"try": "hold"}, hold=True)["pid"]
        fd = os.pidfd_open(pid)
        driver.process.kill()
        driver.process.wait()
        ended = select.select([fd], [], [], 20)[0]
        os.close(fd)
        driver.process.stdin.close()
        driver.process.stdout.close()
        t.ok(ended, f"{who(place.uid)}: {row} ends when its supervisor is killed")


def check_user(t, uid, abi):
    place = Place(uid)
    driver = Driver(place)
    try:
        controls = {}
        for name in ATTEMPTS:
            controls[name] = bool(place.free(name))
            place.mend()
        useless = [name for name, works in controls.items() if not works and name not in MAY_FAIL_FREE]
        t.equal(useless, [], f"{who(uid)}: each attempt works without restriction")
        for row in ROWS:
            check_attempts(t, place, driver, row, controls, abi)
            check_own_paths(t, place, driver, row)
            if os.geteuid() == 0:
                check_from_outside(t, place, driver, row)
        check_launcher_children(t, place, driver)
        check_missing_layers(t, place)
        check_odd_roots(t, place)
        check_dies_with_its_parent(t, place)
        check_jobs(t, place, driver)
        check_inherited(t, place)
    finally:
        driver.close()
        place.close()


def main():
    abi = landlock_abi()
    read_row_numbers()
    with Tap() as t:
        t.equal(sorted(ROW_NUMBERS), sorted(ROWS), "the test knows every row of the table that is a stage")
        if "AGENT_TEST_BRIEF" in os.environ:  # another kernel on a slow machine (tests/vm): one row of each kind
            for row in [row for row in ROWS if row not in BRIEF]:
                del ROWS[row]
        if os.geteuid() == 0:
            check_user(t, 0, abi)
            if "AGENT_TEST_BRIEF" not in os.environ:
                check_user(t, USER, abi)
        else:
            check_user(t, os.geteuid(), abi)
            t.skip("root: every row", "needs root")


main()
