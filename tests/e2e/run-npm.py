#!/usr/bin/python3
# deadline: 400
"""An npm project with a lock file and a real dependency: warmed through the allow-list proxy at the base commit, then
tested without network, red, mended, pushed. The registry is the one that npm itself is configured for here."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

TEST_JS = """const assert = require('assert');
const net = require('net');
const { kind } = require('./kind');

assert.strictEqual(kind('12'), 'number');
assert.strictEqual(kind('twelve'), 'word');
assert.strictEqual(kind(''), 'nothing');

// no network: neither by address nor by name
const socket = net.connect({ host: '192.0.2.1', port: 443 });
socket.on('connect', () => { console.log('connected!'); process.exit(9); });
socket.on('error', (e) => { console.log('no network: ' + e.code); process.exit(0); });
setTimeout(() => { console.log('a connection hangs'); process.exit(8); }, 5000);
"""
KIND_JS = """const isNumber = require('is-number');

function kind(text) {
  return isNumber(text) ? 'number' : 'word';
}

module.exports = { kind };
"""
PACKAGE = {"name": "kind", "version": "1.0.0", "private": True, "scripts": {
    "test": "node test.js", "preinstall": "touch lifecycle-script-ran", "postinstall": "touch lifecycle-script-ran"},
    "dependencies": {"is-number": "7.0.0"}}

with Tap() as t, Place() as place:
    npm = shutil.which("npm")
    if not npm:
        t.skip("an npm project", "no npm")
        sys.exit(0)
    place.limits()
    # npm's configuration of this machine: only its registry is taken over
    registry = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True).stdout.strip()
    if registry.startswith("http"):
        place.write(os.path.join(place.home, ".npmrc"), f"registry={registry}\n")
    lock = place.path("lock")
    place.write(os.path.join(lock, "package.json"), json.dumps(PACKAGE, indent=2) + "\n")
    made = subprocess.run([npm, "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"],
                          cwd=lock, env=place.env, capture_output=True, text=True)
    if made.returncode or not os.path.exists(os.path.join(lock, "package-lock.json")):
        t.skip("an npm project", "npm's registry cannot be reached: " + made.stderr.strip()[-200:].replace("\n", " "))
        sys.exit(0)
    files = {"kind.js": KIND_JS, "test.js": TEST_JS, ".gitignore": "node_modules/\n"}
    for name in ("package.json", "package-lock.json"):
        with open(os.path.join(lock, name), "rb") as f:
            files[name] = f.read()
    repo = place.repository(files, test="npm test")
    before = "  return isNumber(text) ? 'number' : 'word';\n"
    model = place.recording([
        [edit("kind.js", before, "  if (text == null) return 'nothing';\n" + before)],
        [edit("kind.js", "text == null", "text === ''"), submit("Call the empty text nothing")],
    ])
    result = place.agent("run", "-m", "The empty text is no word", "--model", model, cwd=repo, timeout=300)
    if not t.equal(result.status, 0, "a run on an npm project ends with 0", result.text):
        sys.exit(1)
    verdicts = [place.artefact(f"round-{n}/verdict.json")["green"] for n in (1, 2)]
    t.equal(verdicts, [False, True], "the first round is red, the second green")
    with open(os.path.join(place.run_dir(), "round-2/log"), errors="replace") as f:
        t.contains(f.read(), "no network: E", "the tests had no network, and were told so at once")
    branches = place.branches(repo)
    commit = next(iter(branches.values()), "HEAD")
    t.equal(place.git("diff", "--name-only", "main", commit, cwd=repo + ".git"), "kind.js",
            "only the change was pushed: no modules, no lock file")
    ran = [os.path.join(top, f) for top, _, names in os.walk(place.state) for f in names if f == "lifecycle-script-ran"]
    t.equal(ran, [], "no lifecycle script ran")
    fetched = [e for e in place.events() if e.get("event") == "egress"]
    t.ok(fetched and all(e.get("allowed") for e in fetched if e.get("host", "") in registry),
         "the proxy's decisions are in the events", fetched)

    # ---- a second run: the layer is there ----
    result = place.agent("run", "-m", "The empty text is no word, again", "--model", model, cwd=repo, timeout=300)
    t.equal(result.status, 0, "a second run ends with 0", result.text)
    t.equal([e for e in place.events() if e.get("event") == "egress"], [], "and fetches nothing")
    t.equal(place.leftovers(), [], "nothing is left")
