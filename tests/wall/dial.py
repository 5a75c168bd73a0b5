#!/usr/bin/python3
"""agent-dial (law L3): one host:port, refused addresses, half-close, many connections, its end. Runs in a
network and mount namespace of its own, with a name server of the test's on 127.0.0.1:53.
deadline: 120
"""
import array
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
from tap import Tap  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
ZONE = {
    "public.test": ["198.51.100.7"],  # documentation: reserved
    "inside.test": ["10.1.2.3"],
    "loop.test": ["127.0.0.1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "metadata.test": ["169.254.169.254"],
    "second.test": ["127.0.0.2", "127.0.0.1"],  # nobody listens on the first
    "both.test": ["::1", "127.0.0.1"],
    "zero.test": ["0.0.0.0"],
    "many.test": ["127.0.0.%d" % i for i in range(10, 40)],
}


def enter_namespaces():
    """Runs this file again in its own namespaces, as root or as a user's root."""
    flags = "-mn" if os.geteuid() == 0 else "-Urmn"
    env = {**os.environ, "DIAL_INSIDE": "1"}
    if subprocess.run(["unshare", flags, "true"], capture_output=True).returncode != 0:
        with Tap() as t:
            t.skip("agent-dial", "no namespaces here")
    os.execvpe("unshare", ["unshare", flags, sys.executable, os.path.realpath(__file__)], env)


def name_server(sock):
    while True:
        query, peer = sock.recvfrom(2048)
        name, at = [], 12
        while query[at]:
            name.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind = struct.unpack(">H", query[at + 1:at + 3])[0]
        question = query[12:at + 5]
        found = ZONE.get(".".join(name).lower())
        records = b""
        count = 0
        for address in found or []:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if (kind == 28) != (family == socket.AF_INET6) or kind not in (1, 28):
                continue
            data = socket.inet_pton(family, address)
            records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(data)) + data
            count += 1
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if found else 3), 1, count, 0, 0)
        sock.sendto(head + question + records, peer)


def settle(directory):
    """Loopback, resolver files and a name server of our own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, text in (("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
                       ("hosts", "127.0.0.1 localhost\n"), ("nsswitch.conf", "hosts: files dns\n")):
        path = os.path.join(directory, name)
        with open(path, "w") as f:
            f.write(text)
        real = os.path.realpath("/etc/" + name)
        subprocess.run(["mount", "--bind", path, real], check=True)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 53))
    threading.Thread(target=name_server, args=(sock,), daemon=True).start()


class Server:
    """A TCP server on 127.0.0.1: answers what it got, reversed, after the end of it; or as told."""

    def __init__(self, handler, family=socket.AF_INET, host="127.0.0.1"):
        self.sock = socket.create_server((host, 0), family=family, backlog=128)
        self.port = self.sock.getsockname()[1]
        self.peers = 0
        self.handler = handler
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            peer, _ = self.sock.accept()
            self.peers += 1
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            self.handler(peer)
        except OSError:
            pass
        peer.close()


def read_all(sock):
    parts = []
    while True:
        part = sock.recv(65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


def reverse(peer):
    peer.sendall(read_all(peer)[::-1])


def echo(peer):
    while True:
        part = peer.recv(65536)
        if not part:
            return
        peer.sendall(part)


class Dial:
    """One agent-dial under the driver."""

    def __init__(self, directory, host, port, **job):
        self.net, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.net.settimeout(30)
        self.driver = subprocess.Popen([os.path.join(directory, "bin", "driver")], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, pass_fds=[theirs.fileno()], text=True, cwd="/")
        order = {"row": "agent-dial", "job": {"host": host, "port": port, **job}, "fds": {"8": theirs.fileno()}}
        self.driver.stdin.write(json.dumps(order) + "\n")
        self.driver.stdin.flush()
        self.started = theirs

    def connect(self):
        self.net.send(b"c")
        text, ancillary, flags, _ = self.net.recvmsg(1024, socket.CMSG_SPACE(16))
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
        if text == b"ok":
            assert len(fds) == 1
            sock = socket.socket(fileno=fds[0])
            sock.settimeout(30)
            return sock
        return text.decode()

    def end(self):
        """Closes FD_NET; the driver's line."""
        self.net.close()
        self.started.close()  # a child would keep it open for us
        return self.result()

    def result(self):
        self.driver.stdin.close()
        line = self.driver.stdout.readline()
        self.driver.wait(timeout=60)
        return json.loads(line)


def facts_of(answer):
    return [e for e in answer["events"] if e["event"] == "result"][-1] if answer.get("status") == 0 else answer


def check_refusals(t, directory):
    server = Server(echo)
    for host, words in (("inside.test", "private address"), ("loop.test", "loopback address"),
                        ("mapped.test", "loopback address"), ("nat64.test", "loopback address"),
                        ("metadata.test", "link-local address"), ("public.test", "reserved address"),
                        ("127.0.0.1", "loopback address"), ("127.1", "loopback address"),
                        ("2130706433", "loopback address"), ("0x7f.1", "loopback address"), ("::1", "loopback"),
                        ("localhost", "loopback address"), ("zero.test", "unspecified address"),
                        ("nowhere.test", "cannot be resolved")):
        dial = Dial(directory, host, server.port)
        said = dial.connect()
        dial.end()
        t.ok(isinstance(said, str) and said.startswith("no ") and words in said, f"refused: {host}: {words}", said)
    t.equal(server.peers, 0, "refused: the server behind it has seen nobody")
    dial = Dial(directory, "zero.test", server.port, private_ok=True)
    said = dial.connect()
    dial.end()
    t.ok("unspecified" in str(said), "an unspecified address is refused even where private ones are allowed", said)


def check_pump(t, directory):
    server = Server(reverse)
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    sock = dial.connect()
    data = os.urandom(5 << 20)
    writer = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
    writer.start()
    got = read_all(sock)
    writer.join()
    t.ok(got == data[::-1], "5 MiB each way, with half-close, byte for byte", f"{len(got)} bytes")
    sock.close()
    facts = facts_of(dial.end())
    t.equal((facts.get("connections"), facts.get("sent"), facts.get("received")), (1, len(data), len(data)),
            "its closing facts count connections and bytes", facts)


def check_many(t, directory):
    server = Server(echo)
    dial = Dial(directory, "second.test", server.port, private_ok=True)
    socks = [dial.connect() for _ in range(32)]
    t.ok(all(not isinstance(s, str) for s in socks), "32 connections at once, to the second address of a name",
         [s for s in socks if isinstance(s, str)])
    t.ok("more than" in str(dial.connect()), "a 33rd is refused")
    for i, sock in enumerate(socks):
        sock.sendall(b"%d\n" % i * 1000)
    whole = all(len(recv_exactly(sock, len(b"%d\n" % i) * 1000)) for i, sock in enumerate(socks))
    t.ok(whole, "all of them carry bytes")
    socks[0].close()
    deadline, again = time.monotonic() + 10, "no"
    while isinstance(again, str) and time.monotonic() < deadline:
        again = dial.connect()
    t.ok(not isinstance(again, str), "the place of a closed one is free again", again)
    for sock in socks[1:]:
        sock.close()
    again.close()
    t.equal(facts_of(dial.end()).get("connections"), 33, "it ends when its stage has")


def recv_exactly(sock, count):
    parts = b""
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            break
        parts += part
    return parts


def check_slow_reader(t, directory):
    """A stage that does not read must not make agent-dial grow or turn; a server that does not, neither."""
    def flood(peer):
        sent = 0
        peer.settimeout(1.0)
        try:
            while sent < 64 << 20:
                sent += peer.send(b"x" * 65536)
        except TimeoutError:
            pass
        stalled.append(sent)
        peer.settimeout(30)
        peer.sendall(b"y")
    stalled = []
    server = Server(flood)
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    sock = dial.connect()
    deadline = time.monotonic() + 20
    while not stalled and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = child_of(dial.driver.pid)
    before = cpu_ticks(pid)
    time.sleep(0.5)
    t.ok(stalled and stalled[0] < 32 << 20, "a reader that rests stops the sender", stalled)
    t.ok(cpu_ticks(pid) - before <= 5, "and agent-dial rests too")
    total = 0
    while total <= (stalled or [0])[0]:
        part = sock.recv(1 << 20)
        if not part:
            break
        total += len(part)
    t.equal(total, stalled[0] + 1, "nothing is lost when it reads on")
    sock.close()
    dial.end()


def check_half_closed_rests(t, directory):
    """One direction at its end, the other open: no turning."""
    gate = threading.Event()

    def late(peer):
        read_all(peer)
        gate.wait(20)
        peer.sendall(b"late answer")
    server = Server(late)
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    sock = dial.connect()
    sock.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    pid = child_of(dial.driver.pid)
    before = cpu_ticks(pid)
    time.sleep(0.5)
    t.ok(cpu_ticks(pid) - before <= 5, "half-closed, it rests")
    gate.set()
    t.equal(read_all(sock), b"late answer", "and the answer still comes")
    dial.end()


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return int(f.read().split()[0])


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def check_ends(t, directory):
    server = Server(lambda peer: peer.close())
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    sock = dial.connect()
    t.equal(read_all(sock), b"", "a peer that closes at once is an end of file")
    sock.close()
    t.equal(dial.end().get("status"), 0, "and agent-dial goes on to its own end")

    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    dial = Dial(directory, "loop.test", port, private_ok=True)
    said = dial.connect()
    t.ok("Connection refused" in str(said), "a closed port is said", said)
    again = dial.connect()
    t.ok("Connection refused" in str(again), "and asking again is answered", again)
    dial.end()

    dial = Dial(directory, "many.test", port, private_ok=True)
    said = dial.connect()
    t.ok("Connection refused" in str(said), "thirty addresses that refuse come to an end", said)
    dial.end()

    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = []
    for _ in range(4):  # a full backlog drops what comes: connecting takes for ever
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(full.getsockname())
        fillers.append(s)
    time.sleep(0.1)
    dial = Dial(directory, "loop.test", full.getsockname()[1], private_ok=True, connect_ms=300)
    start = time.monotonic()
    said = dial.connect()
    t.ok("no answer in time" in str(said) and time.monotonic() - start < 10, "silence has a time limit", said)
    dial.end()

    server = Server(echo)
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    dial.net.send(b"please")
    dial.started.close()
    answer = dial.result()
    t.equal(answer.get("status"), 0, "a word that our code does not say ends it", answer)

    # the stage is gone, its peer reads nothing: bytes in between do not keep it for ever
    stop = threading.Event()
    server = Server(lambda peer: stop.wait(40))
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    sock = dial.connect()
    sock.setblocking(False)
    try:
        while True:
            sock.send(b"x" * 65536)
    except BlockingIOError:
        pass
    sock.close()
    start = time.monotonic()
    answer = dial.end()
    t.ok(answer.get("status") == 0 and time.monotonic() - start < 30, "a peer that reads nothing does not hold it",
         answer)
    stop.set()


IN_FLIGHT = """
import array, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
kept = []
for _ in range(2):
    kept.append(socket.socketpair())
    kept[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))])
print("holding", flush=True)
sys.stdin.read()
"""


class InFlight:
    """Another program of agent-dial's user has more descriptors on their way than agent-dial may have open."""

    def __init__(self, dial):
        dialer = child_of(dial.driver.pid)
        with open(f"/proc/{dialer}/status") as file:
            uid = [line.split()[1] for line in file if line.startswith("Uid:")][0]
        drop = [] if int(uid) == os.geteuid() else ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        self.holder = subprocess.Popen([*drop, sys.executable, "-I", "-c", IN_FLIGHT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        self.holder.stdout.readline()

    def end(self):
        self.holder.stdin.close()
        self.holder.wait()


def check_too_many_on_their_way(t, directory):
    server = Server(echo)
    dial = Dial(directory, "loop.test", server.port, private_ok=True)
    first = dial.connect()  # it has changed its user by now
    other = InFlight(dial)
    said = dial.connect()
    t.ok(isinstance(said, str) and said.startswith("no ") and "ETOOMANYREFS" in said,
         "a connection that cannot be handed on: told, with the errno", said)
    first.sendall(b"x")
    t.equal(first.recv(1), b"x", "and the one before goes on")
    ender = threading.Timer(0.3, other.end)
    ender.start()
    again = dial.connect()
    ender.join()
    t.ok(not isinstance(again, str), "it is tried again for a while", again)
    for sock in (first, again):
        if not isinstance(sock, str):
            sock.close()
    t.equal(facts_of(dial.end()).get("connections"), 2, "and agent-dial ends as usual")


def check_jobs(t, directory):
    for name, host, port, more, words in (
            ("a host with a blank", "a b", 1, {}, "no host name"), ("an empty host", "", 1, {}, "no host name"),
            ("port 0", "a", 0, {}, "port"), ("port 65536", "a", 65536, {}, "port"),
            ("a time limit of nothing", "a", 1, {"connect_ms": 0}, "connect_ms"),
            ("an option", "-x", 1, {}, "no host name")):
        dial = Dial(directory, host, port, **more)
        answer = dial.result()
        dial.net.close()
        errors = [e for e in answer["events"] if e["event"] == "error"]
        t.ok(answer.get("status") == 2 and words in errors[0]["message"], f"job with {name}: 2", answer)


def check_ipv6(t, directory):
    server = Server(echo, family=socket.AF_INET6, host="::1")
    dial = Dial(directory, "both.test", server.port, private_ok=True)
    sock = dial.connect()
    if isinstance(sock, str):
        t.ok(False, "an IPv6 address is connected", sock)
    else:
        sock.sendall(b"six")
        t.equal(recv_exactly(sock, 3), b"six", "an IPv6 address is connected")
        sock.close()
    dial.end()


def main():
    if "DIAL_INSIDE" not in os.environ:
        enter_namespaces()
    directory = tempfile.mkdtemp(prefix="dial-")
    os.chmod(directory, 0o755)
    try:
        os.mkdir(os.path.join(directory, "bin"))
        for name in ("agent-dial", "wall/driver"):
            shutil.copy(os.path.join(BUILD, name), os.path.join(directory, "bin"))
        shutil.copy("/bin/true", os.path.join(directory, "bin", "agent-jail"))
        settle(directory)
        with Tap() as t:
            check_refusals(t, directory)
            check_pump(t, directory)
            check_many(t, directory)
            check_slow_reader(t, directory)
            check_half_closed_rests(t, directory)
            check_too_many_on_their_way(t, directory)
            check_ends(t, directory)
            check_jobs(t, directory)
            check_ipv6(t, directory)
    finally:
        shutil.rmtree(directory)


main()
