#!/usr/bin/python3
# deadline: 600
"""The npm recipe with real packages: workspaces, a repository that tries to steer npm, the layer met again, lock
files that are refused, a lock file that lies, two warms of one key."""
import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import registries  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402

TEST_JS = """const assert = require('assert');
const { execFileSync } = require('child_process');
assert.strictEqual(require('is-odd')(3), true);
assert.strictEqual(require('member').tool, 'member');
assert.strictEqual(execFileSync('node_modules/.bin/member-tool').toString().trim(), 'member runs');
const offline = execFileSync('npm', ['config', 'get', 'offline']).toString().trim();
assert.strictEqual(offline, 'true');
require('fs').mkdirSync('node_modules/.cache');
require('fs').writeFileSync('node_modules/.cache/x', 'x');
require('fs').appendFileSync('node_modules/is-odd/index.js', '// poison');
console.log('all is well');
"""
MARK = "touch /work/ran ~/ran; exit 0"
ROOT = {"name": "root", "version": "1.0.0", "private": True, "workspaces": ["packages/*"],
        "dependencies": {"is-odd": "3.0.1"},
        "scripts": {"test": "node test.js", "preinstall": MARK, "install": MARK, "postinstall": MARK, "prepare": MARK}}
MEMBER = {"name": "member", "version": "1.0.0", "main": "main.js", "bin": {"member-tool": "./tool.js"},
          "dependencies": {"is-number": "7.0.0"}, "scripts": {"postinstall": MARK}}


def listener():
    """Counts who calls: nobody should."""
    server = socket.create_server(("127.0.0.1", 0))
    calls = []

    def serve():
        while True:
            client, _ = server.accept()
            calls.append(client.recv(200))
            client.close()
    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1], calls


def egress(place, name="egress"):
    return [e for e in place.events() if e.get("event") == name]


def check_warm(t, place, files):
    port, calls = listener()
    repo = place.repository({
        **files, "test.js": TEST_JS, "packages/member/main.js": "exports.tool = 'member';\n",
        "packages/member/tool.js": "#!/usr/bin/env node\nconsole.log('member runs');\n",
        ".gitignore": "node_modules/\n",
        "steer.sh": "#!/bin/sh\ntouch /work/ran /tmp/ran ~/ran\nexit 1\n",
        ".npmrc": f"registry=http://127.0.0.1:{port}/\n@x:registry=http://127.0.0.1:{port}/${{SECRET_TOKEN}}\n"
                  f"//127.0.0.1:{port}/:_authToken=${{SECRET_TOKEN}}\ngit=./steer.sh\nscript-shell=./steer.sh\n"
                  "ignore-scripts=false\nlegacy-peer-deps=true\n",
    }, test="node test.js")
    os.chmod(os.path.join(repo, "packages/member/tool.js"), 0o755)
    place.git("commit", "-qam", "Make the tool executable", cwd=repo)
    os.environ.pop("SECRET_TOKEN", None)
    result = place.agent("run", "-m", "Add", "--dry-run", "--rounds", "1", "--model",
                         place.recording([[("write_file", {"path": "added.txt", "content": "x\n"})]]),
                         cwd=repo, env={"SECRET_TOKEN": "sekrit"}, timeout=300)
    if not t.equal(result.status, 0, "packages of the registry and of the workspace are there in the test", result.text):
        return None
    made = place.artefact("fetch/fetch.json")
    t.ok(made["warmed"] and made["recipe"] == "npm" and made["files"] > 10, "a layer was warmed", made)
    t.equal([i["path"] for i in made["inputs"]], [".npmrc", "package-lock.json", "package.json",
                                                   "packages/member/package.json", "packages/member/tool.js"],
            "it is keyed by manifests, lock file and harmless settings, nothing else")
    allowed = [e for e in egress(place) if e.get("allowed")]
    t.ok(allowed and len({(e["host"], e["port"]) for e in egress(place)}) == 1,
         "the warm asked one host alone", egress(place))
    t.equal(calls, [], "what the repository's .npmrc names was never called")
    layers, rest = registries.deps(place)
    t.equal((len(layers), rest), (1, []), "one layer is sealed, nothing is left beside it")
    ran = [os.path.join(top, n) for top, dirs, names in os.walk(place.state) for n in names + dirs if n == "ran"]
    t.equal(ran + [p for p in ("/tmp/ran",) if os.path.exists(p)], [], "no lifecycle script and no program of the repository ran")
    with open(os.path.join(place.state, "store/deps", layers[0], "work/node_modules/is-odd/index.js")) as f:
        t.ok("poison" not in f.read(), "what a test writes into its dependencies does not reach the layer")
    return repo


def check_again(t, place, repo):
    result = registries.run(place, repo)
    t.equal((result.status, egress(place)), (0, []), "the second run finds the layer: no process, no network", result.text)
    t.ok("is warm" in result.err, "and says so", result.err)
    place.write(os.path.join(repo, "unrelated.txt"), "x\n")
    place.git("add", "-A", cwd=repo)
    place.git("commit", "-qm", "Change something else", cwd=repo)
    result = registries.run(place, repo)
    made = place.artefact("fetch/fetch.json")
    t.equal((result.status, made["warmed"], egress(place)), (0, False, []),
            "another base with the same inputs has the same layer", result.text)
    t.equal(len(registries.deps(place)[0]), 1, "there is still one layer")


def check_refused(t, place, files):
    """Lock files that the lint refuses: a run ends with a clean no, and what to do."""
    cases = [
        ("a git dependency", "node_modules/is-odd", {"resolved": "git+ssh://git@localhost/x.git#0"}, "does not come from a registry"),
        ("a host that is not listed", "node_modules/is-odd", {"resolved": "https://evil.example/x.tgz"}, "[fetch] host = evil.example:443"),
        ("plain http", "node_modules/is-odd", {"resolved": "http://evil.example/x.tgz"}, "plain http"),
        ("no integrity", "node_modules/is-odd", {"integrity": None}, "no integrity"),
        ("a link out of the tree", "node_modules/member", {"resolved": "../../etc"}, "not a package of this tree"),
    ]
    before = registries.deps(place)
    for number, (name, key, change, reason) in enumerate(cases):
        lock = json.loads(files["package-lock.json"])
        entry = lock["packages"][key]
        entry.update(change)
        for member in [m for m, v in change.items() if v is None]:
            entry.pop(member)
        repo = place.repository({**files, "package-lock.json": json.dumps(lock)}, name=f"refused{number}", test="true")
        result = registries.run(place, repo)
        t.ok(result.status == 1 and reason in result.err and key in result.err, f"refused: {name}", result.text)
    lock = json.loads(files["package-lock.json"])
    lock["packages"]["node_modules/is-odd"]["integrity"] = "sha512-" + "A" * 86 + "=="
    repo = place.repository({**files, "package-lock.json": json.dumps(lock)}, name="liar", test="true")
    result = registries.run(place, repo)
    t.ok(result.status == 4 and "EINTEGRITY" in result.err, "a lock file that lies about bytes fails in npm's words", result.text)
    t.equal(registries.deps(place), before, "nothing of all that was sealed or left")


def check_race(t, place, files):
    """Two runs of one key at the same time."""
    repo = place.repository({**files, "package.json": files["package.json"].replace(b"1.0.0", b"1.0.1")}, name="race",
                            test="true")
    before = len(registries.deps(place)[0])
    model = place.recording([[("write_file", {"path": "added.txt", "content": "x\n"})]], name="race.jsonl")
    children = []
    for i in range(2):
        children.append(place.start("run", "-m", f"Add {i}", "--dry-run", "--rounds", "1", "--model", model, cwd=repo))
        os.rename(place.path("background.err"), place.path(f"race{i}.err"))
    for child in children:
        child.wait(300)
    said = "".join(open(place.path(f"race{i}.err"), errors="replace").read() for i in range(2))
    layers, rest = registries.deps(place)
    t.equal(([c.returncode for c in children], len(layers) - before, rest), ([0, 0], 1, []),
            "two warms of one key end in one layer", said)


with Tap() as t, Place() as place:
    if not registries.npm_home(place):
        t.skip("the npm recipe", "no npm")
        sys.exit(0)
    place.limits()
    files = registries.npm_lock(place, {"package.json": ROOT, "packages/member/package.json": MEMBER})
    if isinstance(files, str):
        t.skip("the npm recipe", files)
        sys.exit(0)
    repo = check_warm(t, place, files)
    if repo:
        check_again(t, place, repo)
        check_refused(t, place, files)
        check_race(t, place, files)
    t.equal([x for x in place.leftovers() if not x.startswith("cgroup")], [], "no process and no mount is left")
