#!/usr/bin/python3
# deadline: 400
"""git's own patches: the diff of random commits through `agent edit` gives the very tree that git has. Commits of this
project's repository, of those that AGENT_TEST_REPOS names (git directories, colon between), and of one made from the
machine's Python sources. EDIT_GIT_COMMITS (default 60) in all; AGENT_TEST_SEED repeats a choice."""
import json
import os
import random
import subprocess
import sys
import sysconfig
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import ROOT, Place  # noqa: E402
from tap import Tap  # noqa: E402

COMMITS = int(os.environ.get("EDIT_GIT_COMMITS", "60"))
SEED = int(os.environ.get("AGENT_TEST_SEED", str(time.time_ns() % 1000000)))
FORMS = (["-M"], ["-M", "-C"], ["--no-renames"], ["-U1"], ["-U0"], ["--full-index"], ["--no-prefix"],
         ["--src-prefix=i/", "--dst-prefix=w/"], ["--patience", "-U10"], ["-W"], ["--binary"], ["--binary", "-M", "-C"], ["--binary", "--no-renames"])
# what the path policy, a limit or the secret scan refuses is not the engine's to decide
POLICY = ("E_PATH", "E_MODE", "E_LIMIT")


def git(repo, *args, text=True):
    done = subprocess.run(["git", "--git-dir=" + repo, "-c", "core.quotePath=true", "-c", "diff.renameLimit=2000", *args],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                          env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
                               "HOME": "/nonexistent", "GIT_NO_REPLACE_OBJECTS": "1"})
    return done.stdout.decode().strip() if text else done.stdout


def mutate(rng, data):
    """The file after some random edits of lines, its line ends now and then others."""
    if data[:1] == b"\x7f":  # one of bytes: parts of it moved, changed, doubled
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        middle = rng.choice([b"", rng.randbytes(rng.randrange(400)), data[at:to][::-1], data[at:to] * 2])
        return data[:max(at, 1)] + middle + data[to:]
    lines = data.splitlines(keepends=True)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(lines) + 1)
        kind = rng.randrange(5)
        if kind == 0 and lines:
            del lines[at:at + rng.randint(1, 8)]
        elif kind == 1:
            lines[at:at] = [rng.choice(lines) if lines else b"x\n" for _ in range(rng.randint(1, 6))]
        elif kind == 2 and at < len(lines):
            lines[at] = lines[at].rstrip(b"\r\n") + rng.choice([b" \n", b"\r\n", b"  # \xe9\n", b"\tx\n", b"\0\n"])
        elif kind == 3 and at < len(lines):
            lines[at] = b"    " + lines[at]
        elif at < len(lines):
            lines[at:at + 3] = reversed(lines[at:at + 3])
    data = b"".join(lines)
    return data.rstrip(b"\n") if rng.randrange(6) == 0 else data


def made_repository(place, rng, commits):
    """Some sources of Python, changed, renamed, copied, removed, given and taken their executable bit."""
    repo, library = place.path("made"), sysconfig.get_paths()["stdlib"]
    names = sorted(n for n in os.listdir(library) if n.endswith(".py"))
    os.mkdir(repo)
    place.git("init", "-q", cwd=repo)

    def commit():
        place.git("add", "-A", cwd=repo)
        place.git("commit", "-q", "--allow-empty", "-m", "x", cwd=repo)
    for name in rng.sample(names, min(40, len(names))):
        with open(os.path.join(library, name), "rb") as f:
            place.write(os.path.join(repo, "lib", name), f.read())
    commit()
    for _ in range(commits):
        for _ in range(rng.randint(1, 4)):
            files = [os.path.join(top, n) for top, _, found in os.walk(repo) if ".git" not in top.split(os.sep)
                     for n in found]
            path = rng.choice(sorted(files))
            with open(path, "rb") as f:
                data = f.read()
            kind = rng.randrange(9)
            target = os.path.join(repo, rng.choice(["lib", "other/deep", "sp ace"]), f"n{rng.randrange(10**6)}.py")
            if kind == 0 and len(files) > 10:
                os.unlink(path)
            elif kind == 1:
                os.chmod(path, 0o755 ^ (0o111 & os.stat(path).st_mode))
            elif kind in (2, 3):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as f:
                    f.write(mutate(rng, data) if rng.randrange(2) else data)
                if kind == 2:
                    os.unlink(path)
            elif kind == 8:
                place.write(target, b"\x7f\0" + rng.randbytes(rng.choice([0, 1, 50, 51, 52, 53, 5000, 200000])))
            elif kind == 4:
                place.write(target, b"" if rng.randrange(2) else mutate(rng, data))
            else:
                with open(path, "wb") as f:
                    f.write(mutate(rng, data))
        commit()
    return os.path.join(repo, ".git")


def try_commit(place, repo, commit, form):
    """("ok" | "policy" | "wrong", detail)."""
    base = git(repo, "rev-parse", commit + "^")
    patch = git(repo, "diff", *([] if "--binary" in form else ["--text"]), "--no-color", "--no-ext-diff", "--no-textconv", *form, base, commit, text=False)
    if not patch:
        return "same", ""
    with open(place.path("patch"), "wb") as f:
        f.write(patch)
    result = place.agent("edit", "--tree", base, "--format", "udiff", "--json", "-c", "apply.maxFiles=100000", "-c",
                         "apply.maxBytes=200m", place.path("patch"), cwd=os.path.dirname(repo)
                         if os.path.basename(repo) == ".git" else repo)
    answer = json.loads(result.out) if result.out else {}
    if answer.get("outcome") == "ok":
        want = git(repo, "rev-parse", commit + "^{tree}")
        return ("ok", "") if answer["tree"] == want else ("wrong", f"tree {answer['tree']}, git's is {want}")
    codes = [e["code"] for e in answer.get("edits", []) if e["code"] not in ("ok", "E_ALREADY_APPLIED")]
    if (codes and codes[0] in POLICY) or (not answer and result.status == 1):
        return "policy", result.err
    return "wrong", result.text[:2000]


def try_repository(t, place, rng, repo, count):
    name = os.path.basename(os.path.dirname(repo.rstrip("/")))
    commits = git(repo, "rev-list", "--no-merges", "--min-parents=1", "--all").split()
    outcomes, wrong = {}, []
    for number, commit in enumerate(rng.sample(commits, min(count, len(commits)))):
        form = FORMS[number % len(FORMS)]
        outcome, detail = try_commit(place, repo, commit, form)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if outcome == "wrong":
            wrong.append(f"{commit} {form}: {detail}")
    told = ", ".join(f"{outcomes[k]} {k}" for k in sorted(outcomes))
    t.ok(not wrong and outcomes.get("ok"), f"commits of {name}: {told} (seed {SEED})", "\n".join(wrong))


with Tap() as t, Place() as place:
    rng = random.Random(SEED)
    made = made_repository(place, rng, max(COMMITS // 3, 20))
    repos = [r for r in os.environ.get("AGENT_TEST_REPOS", "").split(":") if r]
    own = os.path.join(ROOT, ".git")
    if os.path.isdir(own) and len(git(own, "rev-list", "--max-count=40", "HEAD").split()) == 40:
        repos.append(own)
    try_repository(t, place, rng, made, COMMITS // (len(repos) + 1))
    for repo in repos:
        try_repository(t, place, rng, repo, COMMITS // (len(repos) + 1))
