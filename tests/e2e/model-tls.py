#!/usr/bin/python3
"""The model stage over TLS: the certificate is checked against the given bundle, for the name of the host, by a
stage that can neither resolve nor connect by itself."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import modelserver  # noqa: E402
import modelstage  # noqa: E402
from modelserver import answer_calls  # noqa: E402
from tap import Tap  # noqa: E402

SCRIPT = [answer_calls([{"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "zwei"}},
                        {"name": "submit", "input": {"title": "Translate two"}}])]
KEY = "sk-a-key-for-the-tests"


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
            end = ask(host="other.localhost")
            t.ok(end.status == 4 and ("no trusted connection" in end.error.get("message", "") or
                                      "no connection" in end.error.get("message", "")),
                 "a name that the certificate does not have", end.describe())
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


main()
