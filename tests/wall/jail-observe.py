#!/usr/bin/python3
# deadline: 240
"""Denied egress is told: what the payload tried to reach or to resolve comes back in the facts, nothing it does is changed by
that, and the observer stands whatever the payload does to it (sandbox/jail/observe.h)."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, eventually, mark, marked_processes, modes  # noqa: E402
from tap import Tap  # noqa: E402

OFF = ["--observe-off"]
PROBE = "/opt/bin/observe_probe"


class Tried:
    """A record "PROTO COUNT PORT HOST PROGRAM"."""

    def __init__(self, text):
        self.proto, count, port, self.host, self.program = text.split(" ", 4)
        self.count, self.port = int(count), int(port)

    def __eq__(self, other):
        return (self.proto, self.host, self.port) == other


def tried(result):
    return [Tried(text) for text in result.facts.get("egress", [])]


def find(result, proto, host, port=0):
    return next((one for one in tried(result) if one == (proto, host, port)), None)


def good(result):
    return result.outcome == "exited" and result.value == "0"


# Each prints what an application sees of the failure, and for how long it waited.
LOOKUPS = {
    "getent": ("getent", ["/bin/sh", "-c", "getent ahosts a.getent.example; echo $?"]),
    "python": ("python3", ["python3", "-c", "import socket\ntry: socket.getaddrinfo('a.python.example', 443)\n"
                           "except socket.gaierror as e: print(e)"]),
    "curl": ("curl", ["/bin/sh", "-c", "curl -sS https://a.curl.example/ 2>&1; echo $?"]),
    "node": ("node", ["node", "-e", "require('dns').lookup('a.node.example', e => console.log(e.code, e.syscall))"]),
}
RESOLVE = ("node", ["node", "-e", "require('dns').resolve4('a.resolve.example', e => console.log(e.code))"])

GO = """package main
import ("context"; "fmt"; "net"; "time")
func main() {
    r := net.Resolver{PreferGo: true}
    begun := time.Now()
    _, err := r.LookupHost(context.Background(), "a.go.example")
    fmt.Println(err != nil, time.Since(begun) < time.Second)
}
"""


def node_options():
    path = shutil.which("node")
    real = os.path.dirname(os.path.dirname(os.path.realpath(path))) if path else ""
    if not path:
        return None
    return [] if real.startswith("/usr") and not real.startswith("/usr/local/") else \
        ["--ro", f"{real}:/opt/node", "--env", "PATH=/opt/node/bin:/usr/bin:/bin"]


def look_up(t, jail, mode, name, tool, command, host):
    """A look-up fails at once, and in the same words with and without an observer."""
    options = node_options() if tool == "node" else []
    if not shutil.which(tool):
        t.skip(f"{mode}: {name}", f"{tool} is not installed")
        return
    on, off = jail.run(*command, options=options), jail.run(*command, options=[*OFF, *options])
    t.ok(good(on) and on.out == off.out and on.out, f"{mode}: {name}: the same answer observed or not",
         on.text() + "\n" + off.text())
    # An answer that does not come costs the resolver of any of these at least a second.
    slowest = max(int(on.elapsed_ms or 99999), int(off.elapsed_ms or 99999))
    t.ok(slowest < 5000, f"{mode}: {name}: no time-out", f"{on.elapsed_ms} ms, not observed {off.elapsed_ms} ms")
    seen = find(on, "dns", host)
    t.ok(seen and tool in seen.program, f"{mode}: {name}: the name and the program are told", on.text())
    t.ok(not tried(off) and off.observe == "off", f"{mode}: {name}: not observed, nothing is told", off.text())


def names(t, jail, mode):
    for name, (tool, command) in LOOKUPS.items():
        look_up(t, jail, mode, name, tool, command, f"a.{name}.example")
    if shutil.which("node"):
        result = jail.run(*RESOLVE[1], options=node_options())
        t.ok(result.out == "ENOTFOUND\n" and find(result, "dns", "a.resolve.example"),
             f"{mode}: a resolver of its own (c-ares) is answered", result.text())
    go = shutil.which("go") or (os.path.exists("/usr/local/go/bin/go") and "/usr/local/go/bin/go")
    if not go or mode != modes()[0]:
        if not go:
            t.skip(f"{mode}: a static resolver (go)", "go is not installed")
        return
    with open(os.path.join(jail.top, "main.go"), "w") as file:
        file.write(GO)
    built = subprocess.run([go, "build", "-o", os.path.join(jail.bin, "lookup"), "main.go"], cwd=jail.top, text=True,
                           env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": jail.top + "/cache", "GOFLAGS": "-mod=mod",
                                "GOPROXY": "off"}, capture_output=True, check=False)
    if not t.ok(built.returncode == 0, f"{mode}: a static resolver (go) is built", built.stderr):
        return
    for options in ([], OFF):
        result = jail.run("/opt/bin/lookup", options=options)
        t.ok(result.out == "true true\n", f"{mode}: a static resolver fails at once {options}", result.text())
        t.ok(options or find(result, "dns", "a.go.example"), f"{mode}: its name is told {options}", result.text())


HOSTILE_DNS = r"""
import os, random, socket, struct, subprocess
random.seed(1)
at = ('127.0.0.53', 53)
def query(name=b'\1a\3bad\7example\0', flags=b'\1\0', count=1, tail=b'\0\1\0\1'):
    return b'\0\7' + flags + struct.pack('>HHHH', count, 0, 0, 0) + name + tail
udp = socket.socket(2, 2); udp.settimeout(5)
def ask(data):
    udp.sendto(data, at)
    udp.settimeout(0.05 if len(data) < 12 or data[2:3] >= b'\x80' else 5)
    try: return udp.recv(2000)
    except socket.timeout: return None
assert ask(query())[3] & 15 == 3
assert ask(query(count=2))[3] & 15 == 1
assert ask(query(name=b'\xc0\x0c'))[3] & 15 == 1
assert ask(query(name=b'\x3fa\0'))[3] & 15 == 1
assert ask(query(name=b'\x40' + b'a' * 64 + b'\0'))[3] & 15 == 1
assert ask(query(name=(b'\x3f' + b'a' * 63) * 4 + b'\0'))[3] & 15 == 1
assert ask(query(tail=b'\0'))[3] & 15 == 1
assert ask(query(flags=b'\x28\0'))[3] & 15 == 4
assert ask(query(flags=b'\x81\0')) is None
assert ask(b'') is None and ask(b'x' * 11) is None
assert ask(query(name=b'\5\x1b[3=\n\4\x00\xff .\0'))[3] & 15 == 3
for i in range(3000):
    udp.sendto(bytes(random.randrange(256) for _ in range(random.randrange(600))), at)
# more connections than are served, silent, half and false ones
held = []
for i in range(40):
    c = socket.create_connection(at, 5); held.append(c)
    try: c.send([b'', b'\0', b'\0\x1f\0', b'\xff\xff' + b'x' * 600, b'\0\0'][i % 5])
    except OSError: pass
c = socket.create_connection(at, 5); c.settimeout(5)
data = query(name=b'\1t\3bad\7example\0')
for part in (b'\0', bytes([len(data)]), data[:7], data[7:]):
    c.send(part)
reply = c.recv(2000)
assert struct.unpack('>H', reply[:2])[0] == len(reply) - 2 and reply[5] & 15 == 3, reply
# one that asks and never reads, until nothing more can be sent
c = socket.create_connection(at, 5); c.setblocking(False)
try:
    while True: c.send(struct.pack('>H', len(data)) + data)
except OSError: pass
assert subprocess.run(['getent', 'hosts', 'last.bad.example'], timeout=30).returncode == 2
# a name server of the tests' own has the usual address for itself
own = socket.socket(2, 2); own.bind(('127.0.0.1', 53))
own = socket.socket(); own.bind(('127.0.0.1', 53)); own.listen()
print('done')
"""


def hostile_names(t, jail, mode):
    result = jail.run("python3", "-c", HOSTILE_DNS)
    t.ok(good(result) and result.out == "done\n", f"{mode}: malformed questions are refused, and good ones answered after",
         result.text())
    told = tried(result)
    t.ok(all(re.fullmatch(r"[!-~]+", one.host) for one in told), f"{mode}: names are told as printable text", result.text())
    for name in ("a.bad.example", "t.bad.example", "last.bad.example", "\\027\\091" + "3\\061\\010.\\000\\255\\032\\046"):
        t.ok(find(result, "dns", name), f"{mode}: {name} is told", result.text())


def attempts(t, jail, mode):
    result = jail.run(PROBE, "lengths")
    t.ok(good(result), f"{mode}: odd addresses fail as they do", result.text())
    for proto, host, port in (("tcp", "198.51.100.1", 1), ("tcp", "2001:db8::1", 2), ("tcp", "198.51.100.3", 3),
                              ("udp", "198.51.100.1", 4)):
        t.ok(find(result, proto, host, port), f"{mode}: {proto} {host} {port} is told", result.text())
    t.ok(find(result, "tcp", "?", 0), f"{mode}: what cannot be read is told too", result.text())
    result = jail.run(PROBE, "kin")
    t.ok(good(result) and find(result, "tcp", "198.51.100.11", 11) and find(result, "tcp", "198.51.100.12", 12),
         f"{mode}: threads and children of vfork are told", result.text())
    seen = find(result, "tcp", "198.51.100.13", 13)
    t.ok(seen and seen.program == "\\x1b[31m\\nx\\xff = (/opt/bin/observe_probe)", f"{mode}: a program's name stays text",
         result.text())
    result = jail.run("/bin/sh", "-c", "for i in 1 2 3; do curl -s http://198.51.100.7:81/; done; exit 3")
    seen = find(result, "tcp", "198.51.100.7", 81)
    t.ok(result.value == "3" and seen and seen.count == 3 and seen.program == "/usr/bin/curl",
         f"{mode}: attempts are counted, and the status is the command's", result.text())
    count = 5000
    result = jail.run(PROBE, "flood", str(count))
    told = tried(result)
    t.ok(good(result) and len(told) == 100, f"{mode}: of a flood a hundred are told", result.text())
    t.equal(sum(one.count for one in told) + int(result.egress_more or 0), count, f"{mode}: and the rest is counted")
    result = jail.run(PROBE, "flood", "1000", options=OFF)
    t.ok(good(result) and not tried(result) and result.egress_more == "0", f"{mode}: not observed, they fail in the same way",
         result.text())


LOOPBACK = r"""
import socket, subprocess
for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET, '127.9.9.9'), (socket.AF_INET6, '::1'),
                     (socket.AF_INET6, '::ffff:127.0.0.1'), (socket.AF_INET, '0.0.0.0')):
    s = socket.socket(family); s.bind((host, 0)); s.listen()
    c = socket.socket(family); c.connect(s.getsockname()[:2]); s.accept()[0].sendall(b'x'); assert c.recv(1) == b'x'
    u = socket.socket(family, socket.SOCK_DGRAM); u.bind((host, 0))
    v = socket.socket(family, socket.SOCK_DGRAM); v.sendto(b'y', u.getsockname()[:2]); assert u.recv(1) == b'y'
    c = socket.socket(family); c.settimeout(9)
    try: c.connect((host, 1)); raise SystemExit('connected')
    except ConnectionRefusedError: pass
subprocess.run(['true'], check=True)
print('done')
"""


def unaltered(t, jail, mode):
    result = jail.run("python3", "-c", LOOPBACK)
    t.ok(good(result) and result.out == "done\n", f"{mode}: loopback works", result.text())
    t.ok(not tried(result) and result.observe == "on", f"{mode}: and is not told", result.text())
    for probe in ("signals", "unix"):
        result = jail.run(PROBE, probe)
        t.ok(good(result) and not tried(result), f"{mode}: {probe}: as without an observer", result.text())
    result = jail.run(PROBE, "listener", "busy")
    t.ok(good(result) and result.listeners == "1", f"{mode}: a listener of the payload's own is refused, and that is told",
         result.text())
    result = jail.run(PROBE, "listener", "works", options=OFF)
    t.ok(good(result) and result.listeners == "0", f"{mode}: not observed, it may have one", result.text())


def attacks(t, jail, mode):
    for probe in ("init", "race", "crowd"):
        result = jail.run(PROBE, probe)
        t.ok(good(result) and find(result, "tcp", "198.51.100.99", 99), f"{mode}: {probe}: the observer stands", result.text())
    begun = time.monotonic()
    result = jail.run(PROBE, "forever", options=["--wall", "1500"])
    took = time.monotonic() - begun
    t.ok(result.outcome == "timeout" and took < 15, f"{mode}: a payload that never stops trying meets its deadline",
         f"{took} s\n" + result.text())
    seen = find(result, "udp", "198.51.100.60", 60)
    t.ok(seen and seen.count > 100, f"{mode}: and what it tried is told", result.text())


def pid_1_of(value):
    """The observer of the jail whose payload has the mark: the only one called init beside the payload's tree."""
    for pid in marked_processes(value):
        try:
            space = os.readlink(f"/proc/{pid}/ns/pid")
        except OSError:
            continue
        for other in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{other}/comm") as file:
                    if file.read() == "init\n" and os.readlink(f"/proc/{other}/ns/pid") == space:
                        return int(other)
            except OSError:
                pass
    return None


def death(t, jail, mode):
    """A dead observer: an internal error, never a verdict on the payload, whatever that would have done."""
    if os.geteuid() != 0:
        t.skip(f"{mode}: the observer is killed", "only root sees it")
        return
    for options in ([], OFF):
        for command in ("while true; do curl -s http://127.0.0.1:9/; done", "sleep 60 & wait"):
            value = mark()
            process = jail.start("/bin/sh", "-c", command, options=[*options, "--env", f"MARK={value}"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found = eventually(lambda: pid_1_of(value))
            if t.ok(found, f"{mode}: the observer is found {options}"):
                os.kill(pid_1_of(value), signal.SIGKILL)
            status = process.wait(30)
            facts = jail.read_facts()
            t.ok(facts.get("outcome") == "internal" and "PID 1" in facts.get("detail", "") and status == 125,
                 f"{mode}: its death is an internal error {options} ({command})", f"{status} {facts}")
            t.ok(not marked_processes(value), f"{mode}: and nothing is left", marked_processes(value))


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                names(t, jail, mode)
                hostile_names(t, jail, mode)
                attempts(t, jail, mode)
                unaltered(t, jail, mode)
                attacks(t, jail, mode)
                death(t, jail, mode)


main()
