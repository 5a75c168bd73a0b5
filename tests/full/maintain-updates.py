#!/usr/bin/python3
# deadline: 900
"""The updates of hooks/maintain with the machine's own npm, pip, cargo and go, and the registries that these are configured for: the hosts
are learnt as an operator would, from what a run says when it was denied one."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import examples  # noqa: E402
import registries  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402

NPM = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {
    "": {"name": "x", "version": "1.0.0", "dependencies": {"is-number": "^7.0.0", "is-odd": "^3.0.0"}}}}


def learn(place, repo, name, options, most=8):
    """Runs the task, and grants what each refusal names."""
    granted = []
    for _ in range(most):
        done = examples.maintain(place, repo, name, "-c", "maintain.network=registries", *options,
                                 *[word for pair in granted for word in ("-c", pair)])
        report = os.path.join(place.run_dir(), "report.json")
        told = done.text + (open(report).read() if os.path.exists(report) else "")
        news = {f"fetch.{kind}={where}" for kind, where in registries.REMEDY.findall(told)} - set(granted)
        if not news:
            return done
        granted += sorted(news)
    return done


def try_one(t, place, name, files, path, check, options=()):
    repo = examples.repository(place, name, files)
    done = learn(place, repo, name, list(options))
    text = examples.result_of(place, repo, name, path)
    t.ok(done.status == 0 and text is not None and check(text), f"{name} brings {path} up to date, within the ranges",
         done.text + "\n" + str(text))
    changed = place.git("diff", "--name-only", "main", f"agent/maintain-{name}", cwd=repo + ".git").split() if text else []
    t.ok(all(name in ("go.mod", "go.sum") or name == path for name in changed), f"{name} changes nothing else", str(changed))


with Tap() as t, Place() as place:
    registries.surroundings(place)
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if name in os.environ:
            place.env[name] = os.environ[name]
    if registries.npm_home(place):
        try_one(t, place, "update-npm", {
            "package.json": json.dumps({"name": "x", "version": "1.0.0", "dependencies": {"is-number": "^7.0.0", "is-odd": "^3.0.0"}}),
            "package-lock.json": json.dumps(NPM, indent=2) + "\n"}, "package-lock.json",
            lambda text: '"node_modules/is-odd"' in text and '"version": "3.' in text and "sha512-" in text,
            ("-c", "fetch.recipe=none"))
    else:
        t.skip("update-npm", "npm is not installed")
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode == 0:
        index = subprocess.run(["/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
        options = ["-c", f"fetch.env=PIP_INDEX_URL={index.stdout.strip()}"] if index.returncode == 0 else []
        try_one(t, place, "update-pip", {"requirements.in": "six>=1.10,<1.17\n", "requirements.txt": "six==1.10.0\n"}, "requirements.txt",
                lambda text: text.startswith("six==1.16"), options)
    else:
        t.skip("update-pip", "pip is not installed")
    options = examples.toolchain("cargo")
    if options is not None:
        old = '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "1"\n'
        try_one(t, place, "update-cargo", {"Cargo.toml": old, "src/lib.rs": ""}, "Cargo.lock",
                lambda text: 'name = "itoa"\nversion = "1.' in text, options)
    else:
        t.skip("update-cargo", "cargo is not installed")
    options = examples.toolchain("go")
    if options is not None:
        for name in ("GOPROXY", "GOSUMDB"):
            value = subprocess.run([shutil.which("go"), "env", name], capture_output=True, text=True, cwd="/").stdout.strip()
            options += ["-c", f"fetch.env={name}={value}"] if value else []
        try_one(t, place, "update-go", {
            "go.mod": "module example.com/x\n\ngo 1.18\n\nrequire github.com/pkg/errors v0.8.0\n",
            "x.go": 'package x\n\nimport "github.com/pkg/errors"\n\nvar X = errors.New("x")\n'}, "go.mod",
            lambda text: "github.com/pkg/errors v0.9" in text, options)
    else:
        t.skip("update-go", "go is not installed")
