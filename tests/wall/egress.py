#!/usr/bin/python3
# deadline: 120
"""agent-egress: every way around its list that a client can try. Servers and clients are on loopback."""
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from stage import FD_EGRESS, Stage  # noqa: E402
from tap import Tap  # noqa: E402

WAIT = 10  # seconds


class TlsServer:
    """Counts what reaches it; answers each request with "hello NAME" or a redirect."""

    def __init__(self, cert, redirect=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert)
        self.redirect = redirect
        self.bytes = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(client,), daemon=True).start()

    def one(self, client):
        client.settimeout(WAIT)
        try:
            first = client.recv(1, socket.MSG_PEEK)
            self.bytes += len(first)
            with self.context.wrap_socket(client, server_side=True) as tls:
                tls.recv(65536)
                if self.redirect:
                    tls.sendall(f"HTTP/1.1 302 Found\r\nLocation: {self.redirect}\r\nContent-Length: 0\r\n"
                                "Connection: close\r\n\r\n".encode())
                else:
                    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        except OSError:
            client.close()


class Proxy:
    """agent-egress with a listener of ours."""

    def __init__(self, allow, listener=None, **job):
        ours, theirs = socket.socketpair()
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.stage = Stage("agent-egress", job={"paths": {}, "allow": allow, **job},
                           fds={FD_EGRESS: theirs.fileno()})
        theirs.close()
        try:
            socket.send_fds(ours, [b"l"], [self.listener.fileno()])
        except OSError as e:
            raise RuntimeError(f"{e}: {self.stage.wait()}") from e
        self.ours = ours
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stage.kill()
        self.ours.close()

    def raw(self, head):
        """Sends bytes; returns the socket and the answer's head."""
        client = socket.create_connection(("127.0.0.1", self.port), WAIT)
        client.settimeout(WAIT)
        client.sendall(head)
        return client, read_head(client)

    def connect(self, authority):
        return self.raw(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())

    def denied(self):
        return self.stage.event("egress", WAIT) or {}


def read_head(client):
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            part = client.recv(65536)
        except OSError:
            break
        if not part:
            break
        data += part
    return data


def tls_over(client, name):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(client, server_hostname=name)


def place(port, **more):
    return {"host": "localhost", "port": port, "private_ok": True, **more}


def certificate(directory):
    path = os.path.join(directory, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path, "-out",
                    path + ".crt", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with open(path, "a") as out, open(path + ".crt") as crt:
        out.write(crt.read())
    return path


def check_allowed(t, server):
    with Proxy([place(server.port)]) as proxy:
        client, head = proxy.connect(f"LocalHost.:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 200 "), "a listed host is connected, however it is spelled", head)
        with tls_over(client, "localhost") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            t.contains(tls.recv(65536).decode(), "hello", "bytes go through")
        event = proxy.stage.event("egress", WAIT) or {}
        t.ok(event.get("allowed") and event.get("why") == "" and event.get("bytes", 0) > 100
             and event.get("host") == "localhost" and event.get("port") == server.port,
             "an allowed connection is logged with its bytes", event)
        proxy.stage.stop()
        result = proxy.stage.event("result", WAIT) or {}
        t.equal((result.get("allowed"), result.get("denied")), (1, 0), "the end is told in numbers", result)
        t.equal(proxy.stage.wait()[0], 0, "it ends when the supervisor says so")


def check_denied(t, server, spare):
    """name of the check, authority, part of the reason."""
    port = server.port
    cases = [
        ("a host that is not listed", "evil.example:443", "not on the list"),
        ("a listed host with another port", f"localhost:{spare}", "not with this port"),
        ("the address instead of the name", f"127.0.0.1:{port}", "not on the list"),
        ("the address in hexadecimal", f"0x7f000001:{port}", "not a.b.c.d"),
        ("the address as one number", f"2130706433:{port}", "not a.b.c.d"),
        ("the address with fewer parts", f"127.1:{port}", "not a.b.c.d"),
        ("the loopback of IPv6", f"[::1]:{port}", "not on the list"),
        ("a mapped address", f"[::ffff:127.0.0.1]:{port}", "not on the list"),
        ("a user name in front", f"localhost@evil.example:{port}", "no host name has"),
        ("a NUL in the name", f"evil.example\0.localhost:{port}", "NUL"),
        ("a CR in the name", f"localhost:{port}\r.evil.example:{port}", "lone CR"),
        ("two authorities", f"localhost:{port} evil.example:{port}", "malformed request line"),
        ("percent-encoding", f"localhos%74:{port}", "no host name has"),
        ("a suffix of the name", f"xlocalhost:{port}", "not on the list"),
        ("a longer name", f"localhost.evil.example:{port}", "not on the list"),
        ("no port", "localhost", "no port"),
        ("port 0", "localhost:0", "malformed port"),
    ]
    with Proxy([place(port)]) as proxy:
        for name, authority, reason in cases:
            client, head = proxy.connect(authority)
            event = proxy.denied()
            t.ok(head.startswith(b"HTTP/1.1 403 ") and reason.encode() in head and not event.get("allowed", True)
                 and reason in event.get("why", ""), f"denied: {name}", f"{head!r}\n{event}")
            client.close()
        for name, head in (("plain HTTP", f"GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("a web server's request", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("a CONNECT with a body", f"CONNECT localhost:{port} HTTP/1.1\r\nContent-Length: 9\r\n\r\n"),
                           ("a head of 100 kB", f"CONNECT localhost:{port} HTTP/1.1\r\nX: {'y' * 100000}\r\n\r\n")):
            client, answer = proxy.raw(head.encode())
            event = proxy.denied()
            t.ok(b" 200 " not in answer[:20] and not event.get("allowed", True), f"denied: {name}", f"{answer!r}\n{event}")
            client.close()
        t.equal(server.bytes, 0, "nothing of all that reached the server")
        t.ok(proxy.stage.running(), "the proxy still lives")


def check_addresses(t, server):
    with Proxy([{"host": "localhost", "port": server.port}]) as proxy:
        _, head = proxy.connect(f"localhost:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 403 ") and b"leads to a loopback" in head,
             "denied: a listed name that leads to this machine", head)
    with Proxy([{"host": "localhost", "port": server.port, "site_ok": True}]) as proxy:
        _, head = proxy.connect(f"localhost:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 403 "), "denied: likewise when private networks are fine", head)
    with Proxy([{"host": "0.0.0.0", "port": server.port, "private_ok": True}]) as proxy:
        _, head = proxy.connect(f"0.0.0.0:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 403 "), "denied: the unspecified address, even listed", head)
    with Proxy([]) as proxy:
        _, head = proxy.connect(f"localhost:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 403 "), "denied: everything, with an empty list", head)
    with Proxy([{"host": "no-such-name.invalid", "port": 443}]) as proxy:
        _, head = proxy.connect("no-such-name.invalid:443")
        event = proxy.denied()
        t.ok(head.startswith(b"HTTP/1.1 502 ") and event.get("allowed") and event.get("why"),
             "a listed name that does not exist is a failure, not a refusal", f"{head!r} {event}")
    t.equal(server.bytes, 0, "nothing of all that reached the server")


def after_200(proxy, server, data):
    """Sends data as the first bytes of a tunnel; what comes back until the end."""
    client, head = proxy.connect(f"localhost:{server.port}")
    if not head.startswith(b"HTTP/1.1 200 "):
        return head
    client.sendall(data)
    answer = b""
    try:
        while True:
            part = client.recv(65536)
            if not part:
                return answer
            answer += part
    except OSError as e:
        return answer + repr(e).encode()


def client_hello(name):
    """The first flight of a real TLS client that asks for name (None: for nobody)."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def check_fronting(t, server):
    alert = b"\x15\x03\x03\x00\x02\x02\x31"
    with Proxy([place(server.port)]) as proxy:
        for name, data, reason in (
                ("a TLS hello for another host", client_hello("evil.example"), "another host"),
                ("a TLS hello for a longer name", client_hello("localhost.evil.example"), "another host"),
                ("a TLS hello for nobody", client_hello(None), "names no host"),
                ("plain HTTP in the tunnel", b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "not TLS"),
                ("SSH in the tunnel", b"SSH-2.0-client\r\n", "not TLS"),
                ("one byte that is not TLS", b"x", "not TLS")):
            answer = after_200(proxy, server, data)
            event = proxy.denied()
            t.ok(answer == alert and reason in event.get("why", "") and not event.get("allowed", True),
                 f"denied: {name}", f"{answer!r}\n{event}")
        t.equal(server.bytes, 0, "not one byte of these reached the server")
        hello = client_hello("localhost")
        client, _ = proxy.connect(f"localhost:{server.port}")
        for byte in hello:
            client.sendall(bytes([byte]))
        t.ok(client.recv(1) == b"\x16", "a good hello that comes byte by byte is let through")


def check_redirect(t, cert, server):
    curl = shutil.which("curl")
    if not curl:
        t.skip("denied: a redirect to a host that is not listed", "no curl")
        return
    first = TlsServer(cert, redirect=f"https://other.example:{server.port}/secret")
    with Proxy([place(first.port)]) as proxy:
        done = subprocess.run([curl, "-q", "-sS", "-k", "-L", "-x", f"http://127.0.0.1:{proxy.port}",
                               f"https://localhost:{first.port}/"], capture_output=True, text=True, timeout=30)
        events = [proxy.denied(), proxy.denied()]
        refused = [e for e in events if e.get("host") == "other.example"]
        t.ok(done.returncode != 0 and refused and not refused[0]["allowed"] and server.bytes == 0,
             "denied: a redirect to a host that is not listed", f"{done}\n{events}")


def check_limits(t, server):
    with Proxy([place(server.port)], limits={"head_ms": 300}) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), WAIT)
        client.settimeout(WAIT)
        client.sendall(b"CONNECT ")
        t.equal(client.recv(10), b"", "a request that never ends is ended")
        client, head = proxy.connect(f"localhost:{server.port}")
        t.equal(client.recv(10), b"", "a tunnel without a hello is ended")
    with Proxy([place(server.port)], limits={"up_bytes": 2000}) as proxy:
        client, _ = proxy.connect(f"localhost:{server.port}")
        tls = tls_over(client, "localhost")
        try:
            for _ in range(100):
                tls.sendall(b"x" * 4096)
            while tls.recv(65536):
                pass
        except OSError:
            pass  # an end without ceremony
        ended = True
        event = proxy.denied()
        t.ok(ended and event.get("sent", 0) < 100000 and "sent more bytes" in event.get("why", ""), "an upload past the cap is cut", event)
        answer = after_200(proxy, server, client_hello("localhost"))
        t.ok("sent more bytes" in proxy.denied().get("why", ""), "and so is what comes after", answer)
    with Proxy([place(server.port)], limits={"requests": 2}) as proxy:
        heads = [proxy.connect(f"localhost:{server.port}")[1] for _ in range(3)]
        t.ok(heads[1].startswith(b"HTTP/1.1 200 ") and b"too many requests" in heads[2],
             "the third request of two is denied", heads)
    with Proxy([place(server.port)], limits={"wall_ms": 400}) as proxy:
        t.equal(proxy.stage.wait(WAIT)[0], 0, "the job's time ends it")
    with Proxy([place(server.port)]) as proxy:
        clients = [socket.create_connection(("127.0.0.1", proxy.port), WAIT) for _ in range(200)]
        for client in clients:
            client.close()
        _, head = proxy.connect(f"localhost:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 200 "), "200 clients that say nothing block nobody", head)


def upstream_proxy(status):
    """A proxy of the operator's: takes one CONNECT, answers with status, pumps when it is 200."""
    server = socket.create_server(("127.0.0.1", 0))
    seen = []

    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def one():
        client, _ = server.accept()
        seen.append(read_head(client))
        client.sendall(f"HTTP/1.1 {status} X\r\n\r\n".encode())
        if status == 200:
            host, port = seen[0].split()[1].decode().rsplit(":", 1)
            remote = socket.create_connection((host, int(port)))
            threading.Thread(target=pump, args=(remote, client), daemon=True).start()
            pump(client, remote)
        else:
            client.close()

    threading.Thread(target=one, daemon=True).start()
    return server.getsockname()[1], seen


def check_upstream(t, server):
    port, seen = upstream_proxy(200)
    with Proxy([{"host": "localhost", "port": server.port}], proxy={"host": "127.0.0.1", "port": port}) as proxy:
        client, head = proxy.connect(f"localhost:{server.port}")
        with tls_over(client, "localhost") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            t.ok(b"hello" in tls.recv(65536) and seen[0].startswith(f"CONNECT localhost:{server.port} ".encode()),
                 "an operator's proxy is gone through", seen)
        _, head = proxy.connect("evil.example:443")
        t.ok(head.startswith(b"HTTP/1.1 403 "), "and the list counts all the same", head)
    port, seen = upstream_proxy(407)
    with Proxy([{"host": "localhost", "port": server.port}], proxy={"host": "127.0.0.1", "port": port}) as proxy:
        _, head = proxy.connect(f"localhost:{server.port}")
        t.ok(head.startswith(b"HTTP/1.1 502 ") and b"407" in head, "its refusal is told", head)


def check_listener(t):
    for name, listener in (("a listener on every address", socket.create_server(("0.0.0.0", 0))),
                           ("a socket that does not listen", None)):
        if listener is None:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
        with Proxy([], listener=listener) as proxy:
            status, words = proxy.stage.wait(WAIT)
            t.equal(status, 125, f"refused: {name} as what it serves on", words)
    ours, theirs = socket.socketpair()
    stage = Stage("agent-egress", job={"paths": {}, "allow": []}, fds={FD_EGRESS: theirs.fileno()})
    theirs.close()
    ours.close()
    t.equal(stage.wait(WAIT)[0], 0, "a jail that was not needed is no failure")
    stage.kill()
    stage = Stage("agent-egress", job={"paths": {}, "allow": [{"host": "*", "port": 443}]},
                  fds={FD_EGRESS: socket.socketpair()[1].fileno()})
    status, words = stage.wait(WAIT)
    t.equal(status, 2, "refused: a job with a wildcard", words)
    stage.kill()


with Tap() as t, tempfile.TemporaryDirectory() as top:
    if not shutil.which("openssl"):
        t.skip("agent-egress", "no openssl")
        sys.exit(0)
    cert = certificate(top)
    spare = TlsServer(cert)
    server = TlsServer(cert)
    check_denied(t, server, spare.port)
    check_addresses(t, server)
    check_fronting(t, TlsServer(cert))
    check_allowed(t, server)
    check_redirect(t, cert, spare)
    check_limits(t, TlsServer(cert))
    check_upstream(t, TlsServer(cert))
    check_listener(t)
