"""The attack suite's host side: canaries that a sandbox must not reach, sandboxes to try, and the judge.

    with Host() as host:
        box = Native(host, "root")
        result = host.attempt(box, row)         # rows(): the probe's table
        result.verdict                          # "blocked", "worked", "not tried"

An attack's own word counts when it says that it worked. What it only carried out is judged from here: by canary listeners, files
before and after, processes that go on, the state of processes that it should not reach, the exit facts. Started by root, all this
happens in a network namespace of our own in which every address is local, so that an attack on 1.1.1.1 meets a canary and
nothing leaves the machine.
"""

import array
import ctypes
import glob
import json
import os
import secrets as random
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
USER = int(os.environ.get("AGENT_TEST_UID", "1000"))  # an ordinary user that starts jails
STRANGER = 64991    # one that has nothing at all: attacks without a sandbox, or with another
LIBC = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20

# What each attack is allowed, and what it tries to take. (exhaust.c)
LIMITS = {"memory": 96 * MIB, "processes": 60, "disk": 32 * MIB, "inodes": 1500}
BOUNDS = ["memory=192", "processes=150", "fill=64", "names=3000", "litter=6000", "flood=16", "inotify=600"]
DEADLINE_MS = 400   # of those that never end
LONGEST_S = 40      # of any

# Attacks that end with a status of their own: the host must be told exactly that.
STATUSES = {"E50": 42, "E51": 42, "F2": 42, "F3": 42, "F4": 42, "F5": 42, "F19": 42, "F20": 42, "F21": 42, "F24": 42, "F26": 1,
            "F29": 42, "F31": 42, "F38": 42, "F40": 43, "F41": 7, "R26": 42, "X15": 42}
ENDLESS = {"R13", "R24", "R25", "R27", "R28", "R31"}
TAKES_MEMORY = {"R4", "R30", "X29"}


class Row:
    def __init__(self, line):
        self.id, self.section, self.control, self.mechanism, self.expected, self.how = line.split("\t")


class Verdict:
    def __init__(self, verdict, reason, detail=""):
        self.verdict, self.reason, self.detail = verdict, reason, detail
        self.holes = []  # what was seen outside, whatever the attack says itself


class Run:
    """One start of a sandbox with the probe in it."""

    def __init__(self, status, out, err, facts, seconds, timed_out):
        self.status, self.out, self.err, self.facts = status, out, err, facts
        self.seconds, self.timed_out = seconds, timed_out

    def text(self):
        return (f"status {self.status}, {self.seconds:.2f} s{', ended by the host' if self.timed_out else ''}\n"
                f"facts {self.facts}\nout {self.out[-1500:]}\nerr {self.err[-800:]}")


def probe_path():
    return os.path.join(BUILD, "agent-probe")


def rows():
    text = subprocess.run([probe_path(), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Row(line) for line in text.splitlines()]


def as_user(uid):
    """Arguments for Popen: become that user, if we may."""
    return {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 and uid != 0 else {}


# ---- the network in which every address is ours ---------------------------------------------------------

def new_network():
    """A network namespace whose loopback has every address. False when we may not."""
    if os.geteuid() != 0 or LIBC.unshare(0x40000000) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        import fcntl
        request = struct.pack("16sH14s", b"lo", 0x1 | 0x8 | 0x40, b"")
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS: up
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        for family in (socket.AF_INET, socket.AF_INET6):
            # RTM_NEWROUTE, create: table local, type local, to everything, by interface 1
            body = struct.pack("BBBBBBBBI", family, 0, 0, 0, 255, 3, 254, 2, 0) + struct.pack("HHI", 8, 4, 1)
            sock.send(struct.pack("IHHII", 16 + len(body), 24, 0x5 | 0x400, 1, 0) + body)
            answer = sock.recv(4096)
            error = struct.unpack_from("i", answer, 16)[0]
            if error not in (0, -17):
                raise OSError(-error, f"a local route to everything, family {family}")
    with open("/proc/sys/net/ipv4/ping_group_range", "w") as file:
        file.write("0 2147483647")
    return True


# ---- canaries ------------------------------------------------------------------------------------------------

class Canaries:
    """Listeners of the host. Whatever arrives is noted under the name of its listener."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = os.pipe()
        self.selector.register(self.wake_read, selectors.EVENT_READ, ("wake", None))
        self.seen = []
        self.settled = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def listen(self, name, sock):
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, (name, sock))

    def tcp(self, port):
        sock = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        self.listen(f"tcp port {sock.getsockname()[1]}", sock)
        return sock.getsockname()[1]

    def udp(self, port):
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", port))
        self.listen(f"udp port {sock.getsockname()[1]}", sock)
        return sock.getsockname()[1]

    def unix(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(path)
        sock.listen(50)
        os.chmod(path, 0o777)
        self.listen(path, sock)
        return sock

    def forget(self, sock, path):
        self.drain()
        self.selector.unregister(sock)
        sock.close()
        os.unlink(path)

    def abstract(self, name):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind("\0" + name)
        sock.listen(50)
        self.listen("@" + name, sock)

    def start(self):
        self.thread.start()

    def stop(self):
        os.write(self.wake_write, b"q")
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            if key.data[1]:
                key.data[1].close()
        self.selector.close()
        os.close(self.wake_read)
        os.close(self.wake_write)

    def drain(self):
        """All that has arrived since the last call."""
        self.settled.clear()
        os.write(self.wake_write, b"s")
        self.settled.wait(5)
        seen, self.seen = self.seen, []
        return seen

    def _serve(self):
        while True:
            events = self.selector.select()
            woken = b""
            for key, _ in events:
                name, sock = key.data
                if name == "wake":
                    woken = os.read(self.wake_read, 16)
                else:
                    self._take(name, sock)
            if b"q" in woken:
                return
            if woken:
                for key in list(self.selector.get_map().values()):
                    if key.data[1]:
                        self._take(*key.data)
                self.settled.set()

    def _take(self, name, sock):
        try:
            while True:
                if sock.type == socket.SOCK_DGRAM:
                    data, peer = sock.recvfrom(2048)
                    self.seen.append(f"{name}: {data[:80]!r}")
                    if len(data) > 16 and data[2:4] == b"\1\0":  # a DNS query: 192.0.2.7
                        sock.sendto(data[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + data[12:] +
                                    b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\xc0\0\2\7", peer)
                else:
                    connection, _ = sock.accept()
                    self.seen.append(f"{name}: a connection")
                    connection.close()
        except OSError:
            pass


class Keyring:
    """A session keyring of our own with a secret in it, which everything that we start inherits."""

    def __init__(self, description, secret):
        LIBC.syscall(250, 1, None)
        self.key = LIBC.syscall(248, b"user", description.encode(), secret, len(secret), -3)

    def take_away(self, description):
        """Whether a key of that name had been left."""
        key = LIBC.syscall(250, 10, -3, b"user", description.encode(), 0)
        if key >= 0:
            LIBC.syscall(250, 9, key, -3)
        return key >= 0


# ---- files, processes ------------------------------------------------------------------------------------

def look_at(top):
    """{path: what can be told of it without reading it}, sockets and all."""
    seen = {}
    for folder, dirs, files in os.walk(top):
        for name in [*dirs, *files, "."]:
            path = os.path.normpath(os.path.join(folder, name))
            try:
                st = os.lstat(path)
            except FileNotFoundError:
                continue
            size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
            times = 0 if stat.S_ISDIR(st.st_mode) else st.st_mtime_ns
            seen[path] = (st.st_mode, st.st_uid, st.st_nlink, size, times)
    return seen


def changes(before, after):
    return [path for path in sorted(set(before) | set(after)) if before.get(path) != after.get(path)]


def processes_with(word):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if word not in file.read():
                    continue
            with open(f"/proc/{name}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "ZX":
                    found.append(int(name))
        except OSError:
            pass
    return found


def remove_tree(path):
    """Also what an attack has made hard to remove."""
    if not os.path.islink(path):
        os.chmod(path, 0o700)
    for folder, dirs, _ in os.walk(path):
        for name in dirs:
            if not os.path.islink(os.path.join(folder, name)):
                os.chmod(os.path.join(folder, name), 0o700)
    shutil.rmtree(path)


# ---- sandboxes --------------------------------------------------------------------------------------------

class Box:
    """A sandbox. command(): how words are run in it. inside(): a path of the host's as it is called there."""
    backend = None      # of ours
    longest_s = LONGEST_S
    facts = False       # tells exit facts
    uid = STRANGER      # that it is started as
    prefix = ()

    def command(self, host, words, options):
        return [*self.prefix, host.probe, *words]

    def inside(self, path):
        return path

    def put_away(self):
        """After each start."""


class Bare(Box):
    """None at all."""
    name = "none"

    def __init__(self, uid=STRANGER):
        self.uid = uid


class WeakUserns(Box):
    """Root of a user namespace, everything else new, nothing else done."""
    name = "user namespace"
    prefix = ("unshare", "-U", "-r", "-m", "-p", "-f", "-i", "-u", "-n", "-C", "--mount-proc", "--kill-child", "--",
              "/bin/sh", "-c", '"$@"; exit $?', "sh")

    def __init__(self, uid=STRANGER):
        self.uid = uid


class WeakRoot(Box):
    """Real root, all namespaces but the user's and the processes' new."""
    name = "root"
    uid = 0
    prefix = ("unshare", "-m", "-i", "-u", "-n", "-C", "--")


class Template(Box):
    """Another sandbox's command line; {} stands for the command in it."""

    def __init__(self, name, words, uid=STRANGER):
        self.name, self.words, self.uid = name, words, uid

    def command(self, host, words, options):
        full = []
        for word in self.words:
            full += [host.probe, *words] if word == "{}" else [word]
        return full


class Runc(Box):
    """A default container of runc's: its own example configuration, a small root with the host's programs read-only."""
    name = "runc, default container"
    uid = 0

    def __init__(self, host):
        self.top, self.bin, self.number = os.path.join(host.top, "runc"), host.bin, 0
        self.root = os.path.join(self.top, "root")
        for name in ("usr", "proc", "sys", "dev", "tmp", "etc", "run", "var/tmp", "root", "opt/bin", "work"):
            os.makedirs(os.path.join(self.root, name))
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(self.root, name))
        host.write(os.path.join(self.root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
        subprocess.run(["runc", "spec"], cwd=self.top, check=True)
        with open(os.path.join(self.top, "config.json")) as file:
            self.config = json.load(file)

    def inside(self, path):
        return "/opt/bin" + path[len(self.bin):] if path.startswith(self.bin) else path

    def command(self, host, words, options):
        self.number += 1
        self.id = f"{host.base}-{self.number}"
        config = self.config
        config["process"].update(terminal=False, args=["/opt/bin/attack-probe", *words])
        config["root"] = {"path": self.root, "readonly": True}
        config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in ("/usr", "/opt/bin")]
        config["mounts"] += [{"destination": inner, "source": outer, "type": "bind", "options": ["rbind", "ro", "nosuid", "nodev"]}
                             for inner, outer in (("/usr", "/usr"), ("/opt/bin", host.bin))]
        with open(os.path.join(self.top, "config.json"), "w") as file:
            json.dump(config, file)
        return ["runc", "--root", os.path.join(self.top, "state"), "run", "--bundle", self.top, self.id]

    def put_away(self):
        subprocess.run(["runc", "--root", os.path.join(self.top, "state"), "delete", "--force", self.id], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Native(Box):
    """Our jail, by jailrun."""
    facts = True

    def __init__(self, host, mode, backend="native"):
        self.mode, self.backend = mode, backend
        self.name = "agent-jail" + ("" if backend == "native" else f" with {backend}") + ", started by " + \
            ("root" if mode == "root" else "a user")
        self.uid = 0 if mode == "root" else USER if os.geteuid() == 0 else os.geteuid()
        self.host = host
        self.number = 0
        for folder in (host.store, host.scratch):
            for top, dirs, files in os.walk(folder):
                for path in [top, *[os.path.join(top, name) for name in dirs + files]]:
                    if os.geteuid() == 0:
                        os.lchown(path, self.uid, self.uid)
        self.degraded = ["--degraded-ok"] if mode == "user" else []
        self.longest_s = LONGEST_S * (3 if backend == "gvisor" else 1)  # a walk of all files is slow there

    def inside(self, path):
        host = self.host
        for outer, inner in ((host.bin, "/opt/bin"), (host.toolchain, "/opt/toolchain"), (host.tree, "/work")):
            if path.startswith(outer):
                return inner + path[len(outer):]
        return path

    def command(self, host, words, options):
        self.number += 1
        self.log = os.path.join(host.out, f"log{self.number}")
        self.facts_path = os.path.join(host.out, f"facts{self.number}")
        layers = [] if "--no-layers" in options else ["--layer", "base/1/tree", "--home-layer", "deps/1/home"]
        log = [] if "--no-log" in options else ["--log", self.log]
        options = [word for word in options if word not in ("--no-layers", "--no-log")]
        return [os.path.join(host.bin, "jailrun"), "--backend", self.backend, *self.degraded, "--ro", f"{host.bin}:/opt/bin", "--ro",
                f"{host.toolchain}:/opt/toolchain", "--store", host.store, "--scratch", host.scratch, *layers, *log,
                "--facts", self.facts_path, "--wall", str(self.longest_s * 500), *options, "--", "/opt/bin/attack-probe", *words]

    def collect(self):
        """(output, facts) of the last run."""
        out, facts = "", {}
        try:
            with open(self.facts_path, errors="replace") as file:
                facts = dict(line.split("=", 1) for line in file.read().split("\n") if "=" in line)
            os.unlink(self.facts_path)
        except OSError:
            pass
        try:
            with open(self.log, errors="replace") as file:
                out = file.read(4 * MIB)
            os.unlink(self.log)
        except OSError:
            pass
        return out, facts


# ---- the host ------------------------------------------------------------------------------------------------

class Host:
    """Everything that is there to be attacked, below one folder, and how an attempt is judged."""

    def __init__(self):
        self.base = "atk" + random.token_hex(5)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all is put away
        self.alone = new_network()
        self.top = tempfile.mkdtemp(prefix="agent-attack-", dir="/var/tmp")  # seen where / is bound, but for /tmp
        os.chmod(self.top, 0o777)
        self.planted = {}
        self.hostname = os.uname().nodename
        self.children = []
        self.modified = self.leftover = 0
        for name in ("bin", "toolchain", "run", "out", "secrets", "store", "scratch"):
            setattr(self, name, os.path.join(self.top, name))
            os.mkdir(os.path.join(self.top, name), 0o755)
        self.tree, self.home = os.path.join(self.top, "tree"), os.path.join(self.top, "home")
        os.chmod(self.out, 0o777)
        self.probe = os.path.join(self.bin, "attack-probe")
        shutil.copy(probe_path(), self.probe)
        for program in ("agent-jail", "jailrun"):
            if os.path.exists(os.path.join(BUILD, program)):
                shutil.copy(os.path.join(BUILD, program), self.bin)
        self._make_files()
        self._make_canaries()
        self._make_objects()
        self.victims = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for victim in list(self.victims.values()):
            for child in victim:
                child.kill()
                child.wait()
        for pid in processes_with(self.base.encode()):
            os.kill(pid, signal.SIGKILL)
        self.canaries.stop()
        for fd in (self.deleted, self.folder, self.rights[0].fileno(), self.pts_master, self.pts_slave):
            try:
                os.close(fd)
            except OSError:
                pass
        self.rights[0].detach()
        LIBC.shmctl(self.shm, 0, None)
        LIBC.syscall(241, self.base.encode())  # mq_unlink
        for path in [self.shm_file, *self.left]:
            os.unlink(path)
        remove_tree(self.top)

    # ---- what is there ----

    def secret(self, name):
        """A secret of that name; whoever prints it has it."""
        return self.planted.setdefault(name, f"planted-{random.token_hex(8)}")

    def write(self, path, content, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    def _make_files(self):
        self.file = self.write(os.path.join(self.secrets, "file"), self.secret("file") + "\n", 0o666)
        self.victim_file = self.write(os.path.join(self.secrets, "victim"), "as it was\n", 0o666)
        self.write(os.path.join(self.top, "credentials/token"), self.secret("unit") + "\n")
        self.rofile = self.write(os.path.join(self.bin, "rofile"), "read-only\n" * 10, 0o666)
        self.write(os.path.join(self.toolchain, "tool"), "#!/bin/sh\n", 0o777)
        os.chmod(self.toolchain, 0o777)
        for name in ("suid", "fcap", "shared"):
            shutil.copy(self.probe, os.path.join(self.bin, name))
        if os.geteuid() == 0:
            os.chmod(os.path.join(self.bin, "suid"), 0o6755)
            # every capability, effective: VFS_CAP_REVISION_2
            os.setxattr(os.path.join(self.bin, "fcap"), "security.capability",
                        struct.pack("<IIIII", 0x02000001, 0xffffffff, 0, 0x1ff, 0))
        # a user's tree, with what is in it, and the layers that are made of the commit
        files = {"src/main.c": "int main(void) { return 1; }\n", "tests/check.sh": "exit 1\n", "README": "x\n",
                 ".agent/config": "[test]\n\tcommand = make check\n"}
        own = {".git/config": f"[http]\n\textraheader = {self.secret('git')}\n", ".git/HEAD": "ref: refs/heads/main\n",
               ".git/hooks/x": "", ".git/info/x": "", "sub/.env": f"KEY={self.secret('dotenv')}\n", "bin/x": "", "out/x": "x\n"}
        for base, content in ((self.tree, {**files, **own}), (os.path.join(self.store, "base/1/tree"), files)):
            for name, text in content.items():
                self.write(os.path.join(base, name), text)
        self.write(os.path.join(self.store, "deps/1/home/.cache/warm"), "warm\n")
        self.write(os.path.join(self.store, "deps/1/home/cache-of-deps"), "good\n")
        for name in (".netrc", ".git-credentials", ".ssh/id_ed25519", ".aws/credentials", ".npmrc"):
            self.write(os.path.join(self.home, name), self.secret("home") + "\n")
        self.template = os.path.join(self.top, "template")
        os.mkdir(self.template)
        for name in ("tree", "home"):
            shutil.copytree(os.path.join(self.top, name), os.path.join(self.template, name))
        self.left = [self.write(os.path.join(folder, self.base + "-left"), self.secret("left") + "\n")
                     for folder in ("/tmp", "/var/tmp")]

    def _make_canaries(self):
        self.canaries = canaries = Canaries()
        ports = (443, 80, 8080, 3128, 22, 53) if self.alone else (0,)
        self.tcp_ports = [canaries.tcp(port) for port in ports]
        self.udp_port = canaries.udp(53 if self.alone else 0)
        for name in ("attack.sock", "nscd/socket", "dbus/system_bus_socket", "docker.sock", "systemd/private", "bus"):
            canaries.unix(os.path.join(self.run, name))
        canaries.unix(os.path.join(self.top, "ssh-x/agent.1"))
        canaries.abstract(self.base)
        canaries.start()

    def _make_objects(self):
        """Keys, shared memory, queues, descriptors, a terminal."""
        self.keyring = Keyring(self.base, self.secret("key").encode())
        self.shm_key = random.randbits(30)
        self.shm = LIBC.shmget(self.shm_key, 4096, 0o1666)
        self.shm_file = self.write(f"/dev/shm/{self.base}", self.secret("shm") + "\n")
        queue = LIBC.syscall(240, self.base.encode(), os.O_RDWR | os.O_CREAT, 0o666, None)
        if queue >= 0:
            os.close(queue)
        path = self.write(os.path.join(self.top, "gone"), self.secret("deleted") + "\n")
        self.deleted = os.open(path, os.O_RDWR)
        os.unlink(path)
        self.folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        self.rights = socket.socketpair()
        self.pts_master, self.pts_slave = os.openpty()
        self.pts = os.ttyname(self.pts_slave)
        os.chmod(self.pts, 0o666)

    def victims_of(self, uid):
        """Two processes of that user: one with secrets in all its parts, one that leads the group from which sandboxes start."""
        alive = [child for child in self.victims.get(uid, []) if child.poll() is None]
        if len(alive) == 2:
            return alive
        for child in self.victims.get(uid, []):
            child.kill()
            child.wait()
        program = os.path.join(self.top, f"victim-{uid}")
        if not os.path.exists(program):
            shutil.copy(self.probe, program)
            if os.geteuid() == 0:
                os.chown(program, uid, uid)
        secret_file = os.open(self.file, os.O_RDONLY)
        self.victims[uid] = [
            subprocess.Popen([program, "--sleep", self.secret("arguments"), self.base + "-victim"],
                             env={"TOKEN": self.secret("environment")}, pass_fds=[secret_file], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, process_group=0, **as_user(uid)) for _ in range(2)]
        os.close(secret_file)
        return self.victims[uid]

    def environment(self, row):
        env = {"PATH": f"{self.tree}/bin:/usr/bin:/bin", "HOME": self.home, "ATTACK_TOKEN": self.secret("token"),
               "SSH_AUTH_SOCK": f"{self.top}/ssh-x/agent.1", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.run}/bus",
               "CREDENTIALS_DIRECTORY": f"{self.top}/credentials", "HTTPS_PROXY": "http://127.0.0.1:3128",
               "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}
        if row.id == "E16":
            env["LD_PRELOAD"] = f"{self.tree}/{self.base}.so"
        return env

    def words(self, box, row, more):
        """The probe's arguments: where everything is."""
        victim, group = self.victims_of(box.uid)
        inside = box.inside
        words = [row.id, f"mark={self.mark(row)}", f"unix={self.run}/attack.sock", f"rundir={self.run}",
                 f"abstract={self.base}", f"shmkey={self.shm_key}", f"shm={self.base}", f"mq={self.base}", f"key={self.base}",
                 f"pid={victim.pid}", f"group={group.pid}", f"file={self.file}", f"victim={self.victim_file}",
                 f"home={self.home}", f"repo={self.tree}", f"agent={self.top}/ssh-x/agent.1",
                 f"credentials={self.top}/credentials", f"suid={inside(self.bin + '/suid')}",
                 f"fcap={inside(self.bin + '/fcap')}", f"toolchain={inside(self.toolchain)}", f"store={self.store}",
                 f"scratch={self.scratch}", f"left={self.base}-left", f"earlier={self.base}-earlier",
                 f"rofile={inside(self.rofile)}", f"lock={inside(self.bin + '/shared')}",
                 f"watch={inside(self.bin + '/shared')}", f"pts={self.pts}", f"hostname={self.hostname}", f"uid={box.uid}",
                 "user=daemon", f"meet={self.base}-meet", *BOUNDS, *more]
        outside = not box.facts and box.name != "other"
        if not self.alone:
            words += [f"dns={self.udp_port}", f"lo={self.tcp_ports[0]}"]
            if outside:  # nothing may leave the machine; from within our jail it would have to get there first
                words += ["host4=127.0.0.1", "host6=::1", f"port={self.tcp_ports[0]}"]
        if outside:
            words.append(f"walk={self.top}")  # without a sandbox there is all of the machine to walk
        if isinstance(box, WeakRoot):
            words.append("asroot=1")
        if not box.facts and os.geteuid() != 0:
            words.append("safe=1")
        return words

    def mark(self, row):
        return f"{self.base}-{row.id.lower()}"

    # ---- running ----

    def run_in(self, box, row, more=(), options=(), stdin=subprocess.DEVNULL, stdout=None, deadline=None, wrap=(),
               wait=True, stderr=None):
        command = [*wrap, *box.command(self, self.words(box, row, more), list(options))]
        out, err = tempfile.TemporaryFile(dir=self.out), tempfile.TemporaryFile(dir=self.out)
        begun = time.monotonic()
        group = {} if wrap else {"process_group": self.victims_of(box.uid)[1].pid}
        child = subprocess.Popen(command, cwd=self.tree, env=self.environment(row), stdin=stdin, stdout=stdout or out, stderr=stderr or err,
                                 pass_fds=[self.deleted, self.folder, self.rights[0].fileno()], **group, **as_user(box.uid))
        child.files, child.begun, child.mark = (out, err), begun, self.mark(row).encode() + b"\0"
        return self.finish(box, child, deadline) if wait else child

    def finish(self, box, child, deadline=None):
        timed_out = False
        try:
            child.wait(deadline or box.longest_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            child.kill()  # as a supervisor would: the process that it has started
            try:
                child.wait(1)
            except subprocess.TimeoutExpired:
                for pid in processes_with(child.mark):  # a tracer keeps it
                    os.kill(pid, signal.SIGKILL)
                child.wait()
        seconds = time.monotonic() - child.begun
        text = []
        for file in child.files:
            file.seek(0)
            text.append(file.read(4 * MIB).decode(errors="replace"))
            file.close()
        facts = {}
        if box.facts:
            log, facts = box.collect()
            text[0] += log
        else:
            self.leftover += self.left_processes(child.mark)  # before anything is put away
            box.put_away()
        return Run(child.returncode, text[0], text[1], facts, seconds, timed_out)

    # ---- judging ----

    def attempt(self, box, row):
        """Prepares, runs, judges, cleans up."""
        self.offer_descriptor()
        victims = self.victims_of(box.uid)
        if os.geteuid() == 0 and self.modified != box.uid:
            self.restore(box.uid)
        niceness = [os.getpriority(os.PRIO_PROCESS, child.pid) for child in victims]
        before = self.look()
        self.canaries.drain()
        from attack_rows import SPECIAL, usual
        verdict = SPECIAL.get(row.id, usual)(self, box, row)
        null = os.stat("/dev/null")
        if not stat.S_ISCHR(null.st_mode) or null.st_rdev != os.makedev(1, 3):
            raise RuntimeError("the host's /dev/null is gone")
        holes = self.oracles(box, row, before, victims, niceness, verdict)
        if holes:
            reason = [verdict.reason] if verdict.verdict == "worked" else []
            verdict = Verdict("worked", "; ".join(reason + holes), verdict.detail)
            verdict.holes = holes
        elif verdict.verdict == "carried out":
            verdict = Verdict("blocked", verdict.reason + ": nothing of it outside", verdict.detail)
        return verdict

    def offer_descriptor(self):
        """Something to take from the inherited socket, and no more of it than one attempt leaves."""
        try:
            while True:
                for _, _, data in self.rights[0].recvmsg(9, 256, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)[1]:
                    for fd in array.array("i", data):
                        os.close(fd)
        except BlockingIOError:
            socket.send_fds(self.rights[1], [b"x"], [self.deleted])

    def look(self):
        seen = {}
        for name in ("tree", "home", "bin", "toolchain", "run", "secrets", "store", "scratch", "credentials"):
            seen.update(look_at(os.path.join(self.top, name)))
        for name in os.listdir(self.top):
            seen["top/" + name] = ()
        return seen

    def oracles(self, box, row, before, victims, niceness, verdict):
        """What was seen outside that should not have been."""
        holes = []
        for name, secret in self.planted.items():
            if secret in verdict.detail:
                holes.append(f"the secret \"{name}\" came out")
        left = self.leftover + self.left_processes(self.mark(row).encode() + b"\0")
        self.leftover = 0
        if left:
            holes.append(f"{left} processes go on")
        seen = self.canaries.drain()
        if seen:
            holes.append(f"reached {seen[0]}" + (f" and {len(seen) - 1} more" if len(seen) > 1 else ""))
        after = self.look()
        changed = changes(before, after)
        if changed:
            holes.append(f"{len(changed)} changes on the host: {changed[0].replace(self.top, '')}")
            self.restore(box.uid)
        if self.keyring.take_away(self.mark(row)):
            holes.append("a key was left in the session keyring")
        for child, nice in zip(victims, niceness):
            if child.poll() is not None:
                holes.append("a process outside was killed")
            elif os.getpriority(os.PRIO_PROCESS, child.pid) != nice:
                holes.append("a process outside was slowed down")
                child.kill()
        for folder in ("/", "/tmp", "/var/tmp", "/etc", "/usr", "/opt", "/run", "/var", "/mnt", "/home", "/dev/shm", "/dev/mqueue"):
            for path in glob.glob(f"{folder}/{self.mark(row)}*"):
                if not path.endswith(".dir"):  # the attack's own
                    holes.append(f"{path} was made")
                remove_tree(path) if os.path.isdir(path) else os.unlink(path)
        with open("/proc/self/mountinfo") as file:
            if self.mark(row) in file.read():
                holes.append("a mount outside")
        return holes

    def left_processes(self, word):
        """How many there are a moment later; none behind that."""
        left = processes_with(word)
        end = time.monotonic() + 0.5
        while left and time.monotonic() < end:
            time.sleep(0.01)
            left = processes_with(word)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(left)

    def restore(self, uid):
        """Tree and HOME as they were, belonging to that user."""
        self.modified = uid
        for name in os.listdir(self.top):
            path = os.path.join(self.top, name)
            if name in ("tree", "home") or self.base in name or name.endswith("-out"):
                if not name.startswith("victim"):
                    remove_tree(path) if os.path.isdir(path) else os.unlink(path)
        for name in ("tree", "home"):
            shutil.copytree(os.path.join(self.template, name), os.path.join(self.top, name))
        for path in (self.toolchain, self.bin):
            for name in os.listdir(path):
                if name in ("attack.pth", "sitecustomize.py"):
                    os.unlink(os.path.join(path, name))
        self.write(self.rofile, "read-only\n" * 10, 0o666)
        self.write(self.victim_file, "as it was\n", 0o666)
        if os.geteuid() == 0:
            os.chown(self.rofile, uid, uid)
            for name in ("tree", "home"):
                for top, dirs, files in os.walk(os.path.join(self.top, name)):
                    for path in [top, *[os.path.join(top, entry) for entry in dirs + files]]:
                        os.lchown(path, uid, uid)


def summary(results):
    """{section: {verdict: count}}"""
    table = {}
    for row, verdict in results:
        section = table.setdefault(row.section, {"worked": 0, "blocked": 0, "not tried": 0, "broken": 0})
        section[verdict.verdict] += 1
    return table


if __name__ == "__main__":
    sys.exit("a module of the tests")
