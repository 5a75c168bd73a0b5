"""What fetch tests share. No host of a package registry is written down anywhere: npm's comes from npm's own
configuration, others are learnt as an operator would learn them, from what `agent run` says when a warm is denied."""

import json
import os
import re
import shutil
import subprocess

REMEDY = re.compile(r"`\[fetch\] (host|private) = ([^`]+)`")


def surroundings(place):
    """The operator's CA bundle and proxy are the machine's, not the test's."""
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        if name in os.environ:
            place.env[name] = os.environ[name]


def npm_home(place):
    """Takes over the registry of this machine's npm. False when there is no npm."""
    npm = shutil.which("npm")
    if not npm:
        return False
    surroundings(place)
    said = subprocess.run([npm, "config", "get", "registry"], cwd="/", capture_output=True, text=True).stdout.strip()
    if said.startswith("https://"):
        place.write(os.path.join(place.home, ".npmrc"), f"registry={said}\n")
    return True


def npm_lock(place, manifests):
    """{path: bytes} of the manifests and the lock file that npm makes of them, or the reason why not."""
    where = place.path("lock-" + str(len(os.listdir(place.dir))))
    for path, manifest in manifests.items():
        place.write(os.path.join(where, path), json.dumps(manifest, indent=2) + "\n")
    made = subprocess.run(["npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"],
                          cwd=where, env=place.env, capture_output=True, text=True)
    if made.returncode:
        return "npm's registry cannot be reached: " + made.stderr.strip()[-200:].replace("\n", " ")
    files = {}
    for path in list(manifests) + ["package-lock.json"]:
        with open(os.path.join(where, path), "rb") as f:
            files[path] = f.read()
    return files


def run(place, repo, *options, timeout=300):
    """A run up to the push, with a model that adds a file."""
    model = place.recording([[("write_file", {"path": "added.txt", "content": "x\n"})]])
    return place.agent("run", "-m", "Add a file", "--model", model, "--dry-run", "--rounds", "1", *options, cwd=repo, timeout=timeout)


def learn(place, repo, options, most=8):
    """Runs, and grants what each refusal names, until a run needs nothing more. (result, what was granted)"""
    granted = []
    for _ in range(most):
        result = run(place, repo, *options, *[x for pair in granted for x in ("-c", pair)])
        news = [f"fetch.{kind}={where}" for kind, where in REMEDY.findall(result.err)]
        news = [n for n in news if n not in granted]
        if result.status == 0 or not news:
            break
        granted += news
    return result, granted


def deps(place):
    """Sealed layers, and what else lies in the store of dependencies."""
    top = os.path.join(place.state, "store", "deps")
    names = os.listdir(top) if os.path.isdir(top) else []
    layers = [n for n in names if re.fullmatch("[0-9a-f]{64}", n)]
    return layers, [n for n in names if n not in layers and n != "by-tree"]
