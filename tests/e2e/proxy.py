#!/usr/bin/python3
# deadline: 200
"""Servers behind the operator's HTTP proxy: agent-dial asks it for a tunnel to the one host:port, with a credential that is in no file,
output, argument list or environment; the repository has no say; no_proxy; proxies that say no, something else, or nothing."""
import base64
import os
import re
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers
from e2e import Place, edit, processes
from tap import Tap

TOKEN = "tok-5c1f8e0a9d3b7246-planted"
PASSWORD = "pr0xy p@ss/w:rd-planted"
ENCODED = "pr0xy%20p%40ss%2fw:rd-planted"


class Proxy(gitservers.TcpServer):
    """A CONNECT proxy that lets one user through, and knows names that nobody else does: {authority: port here}."""

    def __init__(self, names, answer=None, open_to_all=False):
        self.names, self.answer, self.open, self.asked, self.seen = names, answer, open_to_all, [], []
        super().__init__(self._talk)

    def _talk(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = client.recv(65536)
            if not chunk:
                return
            head += chunk
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        self.look()
        if self.answer is not None:
            client.sendall(self.answer)
            if b"200" not in self.answer:
                client.close()
            return
        sent = [line.split(" ", 2)[2] for line in lines if line.lower().startswith("proxy-authorization: basic ")]
        if not self.open and sent != [base64.b64encode(f"user:{PASSWORD}".encode()).decode()]:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n")
            client.close()
            return
        port = self.names.get(lines[0].split()[1])
        if port is None:
            client.sendall(b"HTTP/1.1 502 No such host\r\n\r\n")
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", port))
        self.connections.append(server)
        client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        threading.Thread(target=pump, args=(server, client), daemon=True).start()
        pump(client, server)

    def look(self):
        """Who has the password where everybody who may look can see it."""
        for pid, words, _ in processes():
            try:
                text = words + open(f"/proc/{pid}/environ", "rb").read().decode(errors="replace")
            except OSError:
                continue
            if pid != os.getpid() and ("ss/w:rd-planted" in text or "ss%2fw:rd-planted" in text):
                self.seen.append(words)


def pump(source, sink):
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def everything(place):
    data = b""
    for top, _, names in os.walk(place.state):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                data += open(path, "rb").read()
    return data


with Tap() as t, Place() as place:
    absent = gitservers.missing()
    if absent:
        t.skip("servers behind a proxy", "not installed: " + ", ".join(absent))
        sys.exit(0)
    place.limits()
    os.mkdir(place.path("served"))
    server = gitservers.HttpsServer(place.path("nginx"), place.path("served"), "bot", TOKEN)
    bare = place.path("served/web.git")
    repo = place.repository({"a.txt": "one\n"}, test="true", remote=False)
    place.git("init", "-q", "--bare", "-b", "main", bare)
    place.git("push", "-q", bare, "main", cwd=repo)
    dead = gitservers.free_port()  # nobody is there: only the proxy knows better
    place.git("remote", "add", "origin", f"https://localhost:{dead}/git/web.git", cwd=repo)
    model = place.recording([[edit("a.txt", "one", "two")]])
    credential = place.write("credential", f"user:{PASSWORD}\n", 0o600)
    wrong = place.write("wrong", "user:wrong\n", 0o600)
    number = 0
    outputs = []

    def run(*options, env=None, url=None):
        global number
        number += 1
        more = ["-c", f"publish.remote={url}"] if url else []
        result = place.agent("run", "-m", f"Two {number}", "--model", model, "-c", "publish.token=env:T", "-c", "publish.timeout=10",
                             "-c", f"publish.ca={server.authority.ca}", *more, *options, cwd=repo, env={"T": TOKEN, **(env or {})})
        outputs.append(result.text)
        return result

    def branches():
        return len(place.git("for-each-ref", "refs/heads/agent", cwd=bare).splitlines())

    try:
        with Proxy({f"localhost:{dead}": server.port}) as proxy:
            address = f"http://127.0.0.1:{proxy.port}"
            with_credential = ["-c", f"http.proxy={address}", "-c", f"http.proxyCredential=file:{credential}"]

            result = run()
            t.equal((result.status, branches()), (4, 0), "without a proxy nobody is there", result.text)
            result = run(*with_credential)
            t.equal((result.status, branches()), (0, 1), "through the proxy it is pushed", result.text)
            t.ok(set(proxy.asked) == {f"CONNECT localhost:{dead} HTTP/1.1"}, "which is asked for that host and port alone", proxy.asked)
            result = run(env={"https_proxy": f"http://user:{ENCODED}@127.0.0.1:{proxy.port}/"})
            t.equal((result.status, branches()), (0, 2), "https_proxy of the environment, with user and password", result.text)
            result = run(env={"HTTPS_PROXY": f"http://user:{ENCODED}@127.0.0.1:{proxy.port}"})
            t.equal((result.status, branches()), (0, 3), "so is HTTPS_PROXY", result.text)
            t.equal(proxy.seen, [], "the password was in no process's arguments or environment meanwhile")

            asked = len(proxy.asked)
            for what, options, env in (
                    ("no_proxy of the environment", (), {"https_proxy": address, "no_proxy": "example.org,localhost"}),
                    ("http.noProxy", (*with_credential, "-c", "http.noProxy=localhost"), None),
                    ("http.proxy = none", ("-c", "http.proxy=none"), {"https_proxy": address})):
                result = run(*options, env=env, url=f"https://localhost:{server.port}/git/web.git")
                t.equal((result.status, len(proxy.asked)), (0, asked), f"{what}: straight to the server", result.text)
            result = run(*with_credential, "-c", "http.noProxy=example.org", env={"no_proxy": "*"})
            t.equal(result.status, 0, "http.noProxy is instead of no_proxy", result.text)

            # ---- it says no ----
            for what, options, word in (
                    ("no credential", ("-c", f"http.proxy={address}"), "http.proxyCredential = file:PATH"),
                    ("a wrong one", ("-c", f"http.proxy={address}", "-c", f"http.proxyCredential=file:{wrong}"), "does not take")):
                result = run(*options)
                t.equal(result.status, 4, f"{what}: the push fails", result.text)
                t.contains(result.err, word, f"{what}: and says why")
            result = run(*with_credential, url="https://elsewhere.test/x.git")
            t.equal(result.status, 4, "a host that the proxy does not know", result.text)
            t.contains(result.err, "elsewhere.test: the proxy 127.0.0.1", "is named with the proxy")
            t.contains(result.err, "502 No such host", "and what that said")
            asked = len(proxy.asked)
            result = run(*with_credential, url="https://10.1.2.3/x.git")
            t.equal((result.status, len(proxy.asked)), (4, asked), "a private address is not asked for", result.text)
            t.contains(result.err, "not allowed", "without publish.private")

            # ---- who has no say ----
            place.git("config", "http.proxy", "http://127.0.0.1:1", cwd=repo)
            place.git("config", f"http.https://localhost:{dead}.proxy", "http://127.0.0.1:1", cwd=repo)
            place.git("config", "remote.origin.proxy", "http://127.0.0.1:1", cwd=repo)
            result = run(*with_credential, env={"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1",
                                                "GIT_PROXY_COMMAND": "/bin/false"})
            t.equal(result.status, 0, "the repository's git configuration is not looked at", result.text)
            other = place.repository({"a.txt": "one\n"}, name="other", test="true", config=f"[http]\n\tproxy = {address}\n")
            result = place.agent("run", "-m", "x", "--model", model, "--dry-run", cwd=other)
            t.ok(result.status == 2 and "operator" in result.err, "and in .agent/config it is refused", result.text)

            # ---- addresses ----
            for value, word in ((f"socks5://127.0.0.1:{proxy.port}", "http://"), (f"https://127.0.0.1:{proxy.port}", "http://"),
                                ("http://", "address"), (f"http://user:{ENCODED}@127.0.0.1:{proxy.port}", "http.proxyCredential"),
                                (f"user:{ENCODED}@127.0.0.1:{proxy.port}", "http.proxyCredential")):
                result = run("-c", f"http.proxy={value}")
                t.ok(result.status == 2 and word in result.err, f"http.proxy = {value.replace(ENCODED, '…')} is refused", result.text)
                t.ok(ENCODED not in result.err, "without showing it")
            result = run(env={"https_proxy": "socks5://user:" + ENCODED + "@127.0.0.1:1"})
            t.ok(result.status == 2 and "https_proxy" in result.err, "so is one of the environment", result.text)

            # ---- the model's provider ----
            served = place.model_server([[edit("a.txt", "one", "two")]], tls=True, key="sk-x")
            proxy.names[f"localhost:{gitservers.free_port()}"] = served.port
            name = [key for key, value in proxy.names.items() if value == served.port][0]
            result = place.agent("run", "-m", "Model", "--model", "openai:test", "-c", f"model.baseUrl=https://{name}/v1", "-c", "model.key=env:K",
                                 "-c", f"http.ca={served.ca}", *with_credential, "--dry-run", cwd=repo, env={"K": "sk-x"})
            t.equal(result.status, 0, "the model is reached through it too", result.text)
            t.ok(f"CONNECT {name} HTTP/1.1" in proxy.asked, "by the same way", proxy.asked)

        # ---- proxies that are none ----
        for what, answer, word in (
                ("one that says no", b"HTTP/1.1 403 Not\x1b[2J today\r\n\r\n", r"403 Not\x1b[2J today"), ("one of TLS", b"\x15\x03\x01\x00\x02\x02\x50", "does not speak"),
                ("one that hangs up", b"", "closed the connection"), ("one without an end", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 4000, "has no end"),
                ("one of HTTP/0.9", b"<html>200</html>", "does not speak")):
            with Proxy({}, answer=answer) as proxy:
                result = run("-c", f"http.proxy=http://127.0.0.1:{proxy.port}")
                t.ok(result.status == 4 and word in result.err, f"{what}: told", result.text)
        result = run("-c", f"http.proxy=http://127.0.0.1:{gitservers.free_port()}")
        t.ok(result.status == 4 and "refused" in result.err.lower(), "one that is not there", result.text)
    finally:
        server.stop()
    shown = [word for word in (PASSWORD, TOKEN) if any(word in re.sub(r"^\$ agent .*$", "", output, flags=re.M) for output in outputs)]
    t.equal(shown, [], "neither password nor token was printed")
    kept = everything(place)
    t.equal([word for word in (PASSWORD, base64.b64encode(f"user:{PASSWORD}".encode()).decode(), ENCODED, TOKEN) if word.encode() in kept], [],
            "neither is in a file of the runs")
    t.equal([line for line in place.leftovers() if "nginx" not in line], [], "nothing is left behind")
