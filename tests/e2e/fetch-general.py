#!/usr/bin/python3
# deadline: 900
"""The general warm ([fetch] warm, inputs, output, host) with pip, go and cargo: each project is fetched through the proxy
from where this machine's own tools fetch, verified, and tested without network. Hosts are granted one by one, as the
refusals name them."""
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import registries  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402

GO = {"go.mod": "module example.com/words\n\ngo 1.20\n\nrequire rsc.io/quote/v3 v3.1.0\n",
      "words.go": 'package words\n\nimport "rsc.io/quote/v3"\n\nfunc Words() string { return quote.GoV3() }\n',
      "words_test.go": 'package words\n\nimport (\n\t"strings"\n\t"testing"\n)\n\nfunc TestWords(t *testing.T) {\n'
                       '\tif !strings.Contains(Words(), "communicate") {\n\t\tt.Fatal(Words())\n\t}\n}\n'}
CARGO = {"Cargo.toml": '[package]\nname = "number"\nversion = "0.1.0"\nedition = "2018"\n\n[dependencies]\nitoa = "1"\n',
         "src/lib.rs": "pub fn text(n: u32) -> String { itoa::Buffer::new().format(n).to_string() }\n\n"
                       "#[test]\nfn works() { assert_eq!(text(7), \"7\"); }\n"}


def quoted(text):
    """A value of git-config syntax."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def run(place, words, cwd, **env):
    """A tool of this machine, run by the test itself to make a lock file."""
    return subprocess.run(words, cwd=cwd, env={**place.env, **env}, capture_output=True, text=True, timeout=200)


def project(place, name, files):
    where = place.path("make-" + name)
    for path, content in files.items():
        place.write(os.path.join(where, path), content)
    return where


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def options(pairs):
    return [x for pair in pairs for x in ("-c", pair)]


def check(t, place, name, files, test, pairs, config=""):
    """Warmed with what the refusals named, tested offline, met again."""
    repo = place.repository(files, name=name, test=test, config=config)
    before = len(registries.deps(place)[0])
    result, granted = registries.learn(place, repo, options(pairs))
    print(f"# {name}: granted {len(granted)} settings")
    if not t.equal(result.status, 0, f"{name}: fetched through the proxy, tested without network", result.text):
        return
    t.ok(any(g.startswith("fetch.host=") for g in granted), f"{name}: its hosts had to be granted by the operator", granted)
    t.equal(len(registries.deps(place)[0]) - before, 1, f"{name}: one layer is sealed")
    result = registries.run(place, repo, *options(pairs + granted))
    t.ok(result.status == 0 and "is warm" in result.err, f"{name}: the second run finds the layer", result.text)


def check_go(t, place):
    go = shutil.which("go")
    if not go:
        return t.skip("go", "no go")
    root = run(place, [go, "env", "GOROOT"], "/").stdout.strip()
    proxies = [p for p in run(place, [go, "env", "GOPROXY"], "/", HOME=os.path.expanduser("~")).stdout.strip().split(",")
               if p.startswith("https://")]
    where = project(place, "go", GO)
    made = run(place, [go, "mod", "tidy"], where, GOFLAGS="-mod=mod")
    if made.returncode or not proxies:
        return t.skip("go", "its module proxy cannot be reached: " + made.stderr.strip()[-200:].replace("\n", " "))
    files = {**GO, "go.mod": read(where, "go.mod"), "go.sum": read(where, "go.sum")}
    check(t, place, "go", files, "go test ./...",
          ["jail.path=" + root, "fetch.env=GOPROXY=" + ",".join(proxies)],
          "[fetch]\n\twarm = go mod download\n\tinputs = go.mod\n\tinputs = go.sum\n\toutput = ~/go/pkg/mod\n"
          "\tverify = go mod verify\n")


def check_cargo(t, place):
    rustc = shutil.which("rustc")
    root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, cwd="/").stdout.strip() if rustc else ""
    cargo = os.path.join(root, "bin/cargo")
    if not root or not os.path.exists(cargo):
        return t.skip("cargo", "no cargo")
    for name in ("config.toml", "config"):
        if os.path.exists(os.path.expanduser("~/.cargo/" + name)):
            return t.skip("cargo", "this machine's cargo has a configuration of its own, which a jail does not see")
    where = project(place, "cargo", CARGO)
    made = run(place, [cargo, "generate-lockfile"], where)
    if made.returncode:
        return t.skip("cargo", "its registry cannot be reached: " + made.stderr.strip()[-200:].replace("\n", " "))
    files = {**CARGO, "Cargo.lock": read(where, "Cargo.lock"), ".gitignore": "target\n"}
    check(t, place, "cargo", files, "cargo test --quiet", ["jail.path=" + root],
          "[fetch]\n\twarm = cargo fetch --locked\n\tinputs = Cargo.toml\n\tinputs = Cargo.lock\n\tinputs = src/*.rs\n"
          "\toutput = ~/.cargo/registry\n\tverify = cargo metadata --offline --locked --format-version 1\n")


def check_pip(t, place):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
        return t.skip("pip", "the system's Python has no pip")
    index = subprocess.run([python, "-m", "pip", "config", "get", "global.index-url"], cwd="/", capture_output=True,
                           text=True).stdout.strip() or os.environ.get("PIP_INDEX_URL", "")
    where = project(place, "pip", {})
    os.makedirs(where)
    extra = {"PIP_INDEX_URL": index} if index else {}
    made = run(place, [python, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "six==1.16.0"], where, **extra)
    wheels = [n for n in os.listdir(where) if n.endswith(".whl")]
    if made.returncode or not wheels:
        return t.skip("pip", "its index cannot be reached: " + made.stderr.strip()[-200:].replace("\n", " "))
    with open(os.path.join(where, wheels[0]), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    files = {"requirements.txt": f"six==1.16.0 --hash=sha256:{digest}\n",
             "test_words.py": "import unittest\nimport six\n\n\nclass Words(unittest.TestCase):\n"
                              "    def test_it(self):\n        self.assertEqual(six.text_type('a'), 'a')\n"
                              "        self.assertIn('/work/vendor', six.__file__)\n"}
    check(t, place, "pip", files, "python3 -m unittest", [f"fetch.env=PIP_INDEX_URL={index}"] if index else [],
          "\tenv = PYTHONPATH=vendor\n"
          "[fetch]\n\twarm = /usr/bin/python3 -m pip install --require-hashes --no-deps --only-binary=:all: --no-cache-dir "
          "--target vendor -r requirements.txt\n\tinputs = requirements*.txt\n\toutput = vendor\n"
          "\tverify = " + quoted("/usr/bin/python3 -c 'import sys; sys.path.insert(0, \"vendor\"); import six'") + "\n")


def check_failures(t, place):
    def repo(name, warm, more=""):
        return place.repository({"input": "x\n"}, name=name, test="true",
                                config=f"[fetch]\n\twarm = {quoted(warm)}\n\tinputs = input\n\toutput = out\n{more}")

    before = registries.deps(place)
    for name, warm, more, status, reason in (
            ("fails", "sh -c 'echo it is broken >&2; exit 3'", "", 4, "it is broken"),
            ("makes-nothing", "true", "", 1, "did not make out"),
            ("verify", "mkdir out", "\tverify = " + quoted("sh -c 'echo unfit >&2; exit 1'") + "\n", 4, "unfit"),
            ("link", "ln -s / out", "", 1, "neither a directory nor a file"),
            ("pipe", "sh -c 'mkdir out; mkfifo out/pipe'", "", 1, "out/pipe"),
            ("missing", "no-such-tool", "", 2, "no no-such-tool"),
            ("input", "true", "\tinputs = none*\n", 1, "none* matches no file"),
            ("endless", "sleep 60", "", 4, "timeout")):
        result = registries.run(place, repo(name, warm, more), "-c", f"fetch.timeout={2 if name == 'endless' else 60}")
        t.ok(result.status == status and reason in result.err, f"a warm that {name}: the run ends with {status} and the reason",
             result.text)
    t.equal(registries.deps(place), before, "nothing of these was sealed or left")
    result = registries.run(place, place.repository({"input": "x\n"}, name="widens", test="true", config=(
        "[fetch]\n\twarm = true\n\tinputs = input\n\toutput = out\n\thost = evil.example:443\n")))
    t.ok(result.status == 2 and "fetch.host" in result.err, "a repository cannot grant hosts to itself", result.text)


with Tap() as t, Place() as place:
    registries.surroundings(place)
    place.limits()
    check_failures(t, place)
    check_go(t, place)
    check_cargo(t, place)
    check_pip(t, place)
    t.equal([x for x in place.leftovers() if not x.startswith("cgroup")], [], "no process and no mount is left")
