#!/usr/bin/python3
"""What agent-publish and its children can reach while a push is under way: looked at from outside, and tried from inside the
row's network namespace."""
# deadline: 120
import ctypes
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from e2e import descendants
from publish_stage import FD, Scene
from tap import Tap

TOKEN = "tok-0a1b2c3d4e5f"
CAP_DAC_READ_SEARCH = 1 << 2


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def open_files(pid):
    """{number: identity of what is open there}"""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            info = os.stat(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        found[int(name)] = (info.st_dev, info.st_ino)
    return found


def inside(pid, action):
    """Runs action in the network namespace of pid; its result as text."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
                raise OSError("setns")
            os.write(write_end, action().encode())
        except BaseException as e:
            os.write(write_end, f"{type(e).__name__}: {e}".encode())
        os._exit(0)
    os.close(write_end)
    data = b""
    while chunk := os.read(read_end, 65536):
        data += chunk
    os.close(read_end)
    os.waitpid(child, 0)
    return data.decode(errors="replace")


def listeners(pid):
    with open(f"/proc/{pid}/net/tcp") as f:
        return [int(line.split()[1].split(":")[1], 16) for line in f if re.search(r"^\s*\d+: \S+ \S+ 0A ", line)]


def ask(port, request):
    def action():
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(request)
            s.settimeout(10)
            return s.recv(200).decode(errors="replace") or "(closed)"
    return action


def connect(address, port):
    def action():
        with socket.create_connection((address, port), 5):
            return "connected"
    return action


def from_outside(t, mode, publish, family):
    for pid in [publish] + family:
        seen = status(pid)
        name = seen["Name"]
        t.equal((seen["NoNewPrivs"], seen["Seccomp"]), ("1", "2"), f"{mode}: {name} has no_new_privs and a filter")
        capabilities = int(seen["CapEff"], 16) | int(seen["CapPrm"], 16) | int(seen["CapInh"], 16)
        allowed = CAP_DAC_READ_SEARCH if mode == "root" else 0
        t.equal(capabilities & ~allowed, 0, f"{mode}: {name} has no capability but to read", seen["CapEff"])
        t.ok(seen["Uid"].split()[0] != "0" or mode == "own", f"{mode}: {name} is not root")
    if os.geteuid() != 0:
        return
    ours = open_files(publish)
    given = [FD[name] for name in ("FD_CONTROL", "FD_JOB", "FD_OUT", "FD_NET", "FD_TREE", "FD_LOG", "FD_VERDICT")]
    t.ok(all(number in ours for number in given + [FD["FD_SECRET"]]), f"{mode}: the row's descriptors are open", ours)
    theirs = {ours[number]: number for number in given}
    with_secret = []
    for pid in family:
        files = open_files(pid)
        held = sorted(theirs[what] for what in files.values() if what in theirs)
        t.equal(held, [], f"{mode}: {status(pid)['Name']} holds none of the row's descriptors but the secret")
        with_secret += [pid for what in files.values() if what == ours[FD["FD_SECRET"]]]
    t.ok(with_secret, f"{mode}: (the secret is there for askpass, so the comparison sees something)")


def from_inside(t, mode, publish, server, outsider):
    """Sees what a compromised git could try."""
    interfaces = inside(publish, lambda: ",".join(name for _, name in socket.if_nameindex()))
    t.equal(interfaces, "lo", f"{mode}: the namespace has a loopback and nothing else")
    ports = listeners(publish)
    t.equal(len(ports), 1, f"{mode}: one listener there", ports)
    t.contains(inside(publish, connect("127.0.0.1", outsider.port)), "refused", f"{mode}: the machine's loopback is another")
    t.contains(inside(publish, connect("192.0.2.1", 443)), "unreachable", f"{mode}: there is no way out")
    proxy = ports[0]
    own = f"CONNECT localhost:{server.port} HTTP/1.1\r\n\r\n".encode()
    t.contains(inside(publish, ask(proxy, own)), "200", f"{mode}: the proxy connects to the one host (so the next ones mean something)")
    for what, request in {
            "another port": f"CONNECT localhost:{outsider.port} HTTP/1.1\r\n\r\n",
            "another host": f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n",
            "a plain request": f"GET http://localhost:{server.port}/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "an endless header": "CONNECT " + "a" * 9000,
    }.items():
        answer = inside(publish, ask(proxy, request.encode()))
        t.ok("200" not in answer, f"{mode}: the proxy refuses {what}", answer)
    t.ok(not outsider.accepted.is_set(), f"{mode}: nobody was reached")


with Tap() as t:
    absent = gitservers.missing()
    modes = [(False, "root"), (True, "user")] if os.geteuid() == 0 else [(False, "user")]
    if absent:
        t.skip("what a push can reach", "not installed: " + ", ".join(absent))
        modes = []
    for as_user, mode in modes:
        with Scene(as_user) as scene, gitservers.silent_server() as outsider:
            scene.bare("served/x.git")
            with gitservers.HttpsServer(scene.path("nginx"), scene.path("served"), "bot", TOKEN) as server, \
                    gitservers.Passage(server.port, stop_after=1500) as slow:
                ca = scene.write("ca.pem", open(server.authority.ca).read(), 0o644)
                running = scene.start(scene.https(slow.port, "/git/x.git", ca), secret=TOKEN)
                t.ok(slow.reached.wait(60), f"{mode}: a push is held half-way")
                publish = running.process.pid
                family = descendants(publish)
                t.ok(len(family) >= 2, f"{mode}: git is at work", family)
                from_outside(t, mode, publish, family)
                if os.geteuid() == 0:
                    slow.port_of_server, server.port = server.port, slow.port
                    from_inside(t, mode, publish, server, outsider)
                    server.port = slow.port_of_server
                else:
                    t.skip(f"{mode}: tried from inside the namespace", "only root can enter it")
                slow.release()
                outcome = running.finish()
                t.equal(outcome.status, 0, f"{mode}: the push ends well", outcome.text)
