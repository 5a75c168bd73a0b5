#!/usr/bin/python3
"""The model stage over TLS: the certificate is checked against the given bundle, for the name of the host, by a
stage that can neither resolve nor connect by itself; and over HTTP/2, behind a real web server."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers  # noqa: E402
import modelserver  # noqa: E402
import modelstage  # noqa: E402
from modelserver import answer_calls  # noqa: E402
from tap import Tap  # noqa: E402

SCRIPT = [answer_calls([{"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "zwei"}},
                        {"name": "submit", "input": {"title": "Translate two"}}])]
KEY = "sk-a-key-for-the-tests"
NGINX_CONF = """
%(user)s
daemon off;
worker_processes 1;
error_log %(dir)s/error.log;
pid %(dir)s/nginx.pid;
events { worker_connections 64; }
http {
    log_format protocol "$server_protocol $status";
    access_log %(dir)s/access.log protocol;
    client_body_temp_path %(dir)s/body;
    proxy_temp_path %(dir)s/proxy;
    fastcgi_temp_path %(dir)s/fastcgi;
    uwsgi_temp_path %(dir)s/uwsgi;
    scgi_temp_path %(dir)s/scgi;
    server {
        listen 127.0.0.1:%(port)d ssl http2;
        ssl_certificate %(cert)s;
        ssl_certificate_key %(key)s;
        client_max_body_size 0;
        location / { proxy_pass http://127.0.0.1:%(behind)d; proxy_buffering off; proxy_http_version 1.1; }
    }
}
"""


class Front(gitservers.Server):
    """nginx with TLS and HTTP/2 before a model server."""

    def __init__(self, directory, certificates, behind):
        super().__init__()
        self.dir, self.port = directory, gitservers.free_port()
        os.makedirs(directory)
        cert, key = modelserver.make_certificates(certificates, "localhost")
        conf = os.path.join(directory, "nginx.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(NGINX_CONF % {"user": "user root;" if os.geteuid() == 0 else "", "dir": directory,
                                  "port": self.port, "cert": cert, "key": key, "behind": behind})
        log = os.path.join(directory, "log")
        try:
            self.start(gitservers.NGINX, "-p", directory, "-e", f"{directory}/error.log", "-c", conf,
                       env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, log=log)
            self.wait_port(self.port, log)
        except BaseException:
            self.stop()
            raise

    def protocols(self):
        with open(os.path.join(self.dir, "access.log"), encoding="ascii") as f:
            return f.read().splitlines()


def over_http2(t, place, repo, certificates):
    """What libcurl does over HTTP/2 goes through the socketpair too: streams, faults, silence."""
    if not os.path.exists(gitservers.NGINX):
        t.skip("HTTP/2", f"{gitservers.NGINX} is not there")
        return
    with modelserver.Server() as server:
        front = Front(os.path.join(place, "front"), certificates, server.port)
        try:
            long = "x" * 300000  # more than a window of flow control
            steps = [answer_calls([{"name": "write_file", "input": {"path": "b.txt", "content": long}}]), *SCRIPT]
            for mode, status in (("ok", 0), ("429:1", 0), ("cut", 0), ("silence", 0), ("error-stream", 0), ("huge", 4)):
                server.script([mode, *steps])
                run = modelstage.Run(place, repo, "anthropic", port=front.port, key=KEY, tls=True, host="localhost",
                                     ca=os.path.join(certificates, "ca.pem"),
                                     limits={"backoff_ms": 1, "idle_ms": 800, "response_bytes": 8 << 20})
                end = run.round()
                t.equal(end.status, status, f"HTTP/2, {mode}", end.describe())
            protocols = front.protocols()
            t.ok(protocols and all(line.startswith("HTTP/2.0 ") for line in protocols), "it was HTTP/2 indeed", protocols)
            t.equal({tuple(r["key_in"]) for r in server.requests}, {("header:x-api-key",)}, "with the key in its header")
        finally:
            front.stop()


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        repo = modelstage.make_repo(os.path.join(place, "repo"), {"a.txt": "one\ntwo\n"})
        ours, other = os.path.join(place, "ours"), os.path.join(place, "other")
        modelserver.make_certificates(other, "localhost")
        with modelserver.Server(tls_dir=ours, key=KEY) as server:
            server.script(SCRIPT)

            def ask(**options):
                run = modelstage.Run(place, repo, "anthropic", port=server.port, key=KEY,
                                     **{"tls": True, "ca": os.path.join(ours, "ca.pem"), "host": "localhost",
                                        "limits": {"backoff_ms": 1}, **options})
                return run.round()

            end = ask()
            t.equal(end.status, 0, "by name, with the right bundle", end.describe())
            end = ask(host="127.0.0.1")
            t.equal(end.status, 0, "by address, with the right bundle", end.describe())
            asked = len(server.requests)
            end = ask(ca=os.path.join(other, "ca.pem"))
            t.ok(end.status == 4 and "no trusted connection" in end.error.get("message", "") and
                 "[http] ca" in end.error["next"], "another authority's bundle is not enough", end.describe())
            system = next((p for p in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem")
                           if os.path.exists(p)), None)
            if system:
                end = ask(ca=system)
                t.ok(end.status == 4 and "no trusted connection" in end.error.get("message", ""),
                     "the system's bundle does not have it", end.describe())
            else:
                t.skip("the system's bundle does not have it", "no system bundle")
            end = ask(host="other.example", dial={"host": "127.0.0.1"})
            t.ok(end.status == 4 and "no trusted connection" in end.error.get("message", ""),
                 "a name that the certificate does not have", end.describe())
            end = ask(host="127.0.0.2", dial={"host": "127.0.0.1"})
            t.ok(end.status == 4 and "no trusted connection" in end.error.get("message", ""),
                 "an address that the certificate does not have", end.describe())
            end = ask(ca=os.path.join(place, "none.pem"))
            t.ok(end.status == 2 and "CA bundle" in end.error.get("message", ""), "a bundle that is not there",
                 end.describe())
            end = ask(ca=None)
            t.ok(end.status == 2, "no bundle at all", end.describe())
            with open(os.path.join(place, "empty.pem"), "w", encoding="ascii") as f:
                f.write("nothing\n")
            end = ask(ca=os.path.join(place, "empty.pem"))
            t.ok(end.status == 4, "a bundle without certificates", end.describe())
            end = ask(tls=False)
            t.ok(end.status == 4, "plain HTTP to a TLS port", end.describe())
            t.equal(len(server.requests), asked, "none of these sent the key or a request")
        with modelserver.Server(tls_dir=ours, tls_name="127.0.0.1", key="another-key-altogether") as server:
            server.script(SCRIPT)
            run = modelstage.Run(place, repo, "openai", port=server.port, key=KEY, tls=True,
                                 ca=os.path.join(ours, "ca.pem"))
            end = run.round()
            t.ok(end.status == 4 and "(401)" in end.error.get("message", ""), "a wrong key over TLS", end.describe())
        with modelserver.Server() as server:
            run = modelstage.Run(place, repo, "openai", port=server.port, key=KEY, tls=True,
                                 ca=os.path.join(ours, "ca.pem"), limits={"backoff_ms": 1})
            end = run.round()
            t.ok(end.status == 4 and not server.requests, "TLS to a plain HTTP port", end.describe())
        over_http2(t, place, repo, ours)


main()
