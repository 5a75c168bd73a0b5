#!/usr/bin/python3
"""Measures the parts of a run that work on git objects, each as the supervisor starts it: `agent-apply
base`, `agent-apply edit` of five files (as edits, and as a diff in text), and the base layers of agent-layer, on
repositories of 1,000 and of 80,000 files (5 KB on average). Prints tables; judges nothing. Layers are measured on tmpfs, next to `git worktree add` with
the number of checkout workers that is best for it, the two in turn: on a disk both wait for the same writes.

usage: tests/bench/git-parts.py [BUILD] [--runs N] [--small] [--edits]
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))


def make_repository(path, count):
    random.seed(1)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
    feed = subprocess.Popen(["git", "--git-dir", path, "fast-import", "--quiet"], stdin=subprocess.PIPE)
    write = feed.stdin.write
    write(b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 2\nx\n")
    pool = [(" ".join(f"word{random.randrange(2000)}" for _ in range(9))).encode() for _ in range(5000)]
    for i in range(count):
        lines, size, k = [b"int f%d(void) { return %d; }" % (i, i)], 0, random.randrange(4000)
        want = 50 + int(random.expovariate(1 / 9000))
        while size < want and k < 5000:
            lines.append(b"/* " + pool[k] + b" */")
            size += len(lines[-1]) + 1
            k += 1
        data = b"\n".join(lines) + b"\n"
        write(b"M 100644 inline src/d%02d/e%03d/f%d.c\ndata %d\n%s\n" % (i % 50, i // 50 % 260, i, len(data), data))
    feed.stdin.close()
    if feed.wait() != 0:
        sys.exit("git fast-import failed")


def timed_git(repo, index, patch):
    """The same tree by git itself, in a fresh index."""
    env = {"PATH": "/usr/bin:/bin", "GIT_DIR": repo, "GIT_INDEX_FILE": index, "GIT_CONFIG_NOSYSTEM": "1"}
    begun = time.perf_counter()
    for args, data in ((["read-tree", "HEAD"], None), (["apply", "--cached", "-"], patch), (["write-tree"], None)):
        subprocess.run(["git", *args], env=env, input=data, stdout=subprocess.DEVNULL, check=True)
    took = (time.perf_counter() - begun) * 1000
    os.unlink(index)
    return took


def change(repo, count):
    """A commit upon the last one that changes that many files. Its tree."""
    feed = ["commit refs/heads/main\ncommitter A <a@example.org> 1700000001 +0000\ndata 2\ny\nfrom refs/heads/main^0\n"]
    for i in range(0, count * 7, 7):
        feed.append(f"M 100644 inline src/d{i % 50:02}/e{i // 50 % 260:03}/f{i}.c\ndata 8\nchanged\n\n")
    subprocess.run(["git", "--git-dir", repo, "fast-import", "--quiet"], input="".join(feed).encode(), check=True)
    return tree_of(repo)


def tree_of(repo):
    return subprocess.run(["git", "--git-dir", repo, "rev-parse", "HEAD^{tree}"], capture_output=True, text=True,
                          check=True).stdout.strip()


def make_layer(repo, tree, place, candidates=(), workers=1):
    """As cmd/agent/step_layer.c: the first begins, the others join when it has told its plan. Milliseconds."""
    from stage import Stage, row_uid

    layer = tempfile.mkdtemp(dir=place, prefix="layer-")
    os.mkdir(os.path.join(layer, "tree"))
    for path in (layer, os.path.join(layer, "tree")):
        os.chmod(path, 0o755)
        os.chown(path, *[row_uid("LAYER") if os.geteuid() == 0 else -1] * 2)
    board = os.memfd_create("board")
    os.ftruncate(board, 4096)
    job = {"paths": {"repo": repo, "layer": layer}, "tree": tree}
    begun = time.perf_counter()
    stages = [Stage("agent-layer", None, {**job, "worker": 0, "candidates": list(candidates)}, {27: board})]
    base = (stages[0].event("plan", 60) or {}).get("base")
    for worker in range(1, workers):
        stages.append(Stage("agent-layer", None, {**job, "worker": worker, "base": base}, {27: board}))
    for stage in stages:
        status, words = stage.wait(300)
        if status != 0:
            sys.exit(f"agent-layer: {status} {words} {stage.events}")
    took = (time.perf_counter() - begun) * 1000
    for stage in stages:
        stage.kill()
    os.close(board)
    shutil.rmtree(layer)
    return took


def add_worktree(repo, place, workers):
    tree = os.path.join(place, "worktree")
    begun = time.perf_counter()
    subprocess.run(["git", "--git-dir", repo, "-c", f"checkout.workers={workers}", "worktree", "add", "-q", "--detach", tree],
                   check=True)
    took = (time.perf_counter() - begun) * 1000
    shutil.rmtree(tree)
    subprocess.run(["git", "--git-dir", repo, "worktree", "prune"], check=True)
    return took


def bench_layers(repo, count, place, runs):
    tree, cpus = tree_of(repo), len(os.sched_getaffinity(0))
    trials = {n: add_worktree(repo, place, n) for n in (1, 2, 4, 8)}
    best = min(trials, key=trials.get)
    ours, git, following = [], [], []
    for _ in range(runs):
        git.append(add_worktree(repo, place, best))
        ours.append(make_layer(repo, tree, place, workers=cpus))
    after = change(repo, min(100, count // 10))
    for _ in range(runs):
        following.append(make_layer(repo, after, place, candidates=[tree]))
    cells = [f"{statistics.median(v):,.0f} ({max(v):,.0f})" for v in (ours, git, following)]
    print(f"| {count:,} files | {' | '.join(cells)} | {best} |", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("build", nargs="?", default=os.path.join(HERE, "../../build"))
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--edits", action="store_true", help="without the base layers")
    parser.add_argument("--small", action="store_true", help="1,000 files only")
    args = parser.parse_args()
    os.environ["BUILD"] = os.path.abspath(args.build)
    from stage import FD_OUT, Stage, row_uid

    def run(mode, job, files):
        handles = {number: tempfile.TemporaryFile() for number in files}
        for number, data in files.items():
            handles[number].write(data)
            handles[number].flush()
            handles[number].seek(0)
        begun = time.perf_counter()
        stage = Stage("agent-apply", mode, job, {number: f.fileno() for number, f in handles.items()})
        status, words = stage.wait(60)
        took = (time.perf_counter() - begun) * 1000
        if status != 0:
            sys.exit(f"agent-apply {mode}: {status} {words} {stage.events}")
        stage.kill()
        for f in handles.values():
            f.seek(0)
        return took, json.loads(handles[FD_OUT].read()), handles[13].read() if 13 in handles else b""

    place = tempfile.mkdtemp(prefix="agent-bench-")
    os.chmod(place, 0o755)
    try:
        print("| median, ms (worst) | base | edit of 5 files | the same as a diff in text (agent edit) | "
              "git read-tree, apply --cached, write-tree |\n|---|---|---|---|---|")
        for count in (1000,) if args.small else (1000, 80000):
            repo = os.path.join(place, f"r{count}.git")
            make_repository(repo, count)
            paths = {"repo": repo, "common": repo}
            base = run("base", {"paths": paths, "rev": "HEAD"}, {FD_OUT: b""})[1]
            edits = [{"op": "edit", "path": f"src/d{i % 50:02}/e{i // 50 % 260:03}/f{i}.c",
                      "old": f"return {i};", "new": "return 1;"} for i in range(3, count, count // 5)][:5]
            changes = json.dumps({"kind": "changes", "version": 1, "base_tree": base["tree"], "model": "x",
                                  "title": "t", "body": "", "edits": edits}).encode()
            times = {"base": [], "edit": [], "try": []}
            for i in range(args.runs):
                times["base"].append(run("base", {"paths": paths, "rev": "HEAD"}, {FD_OUT: b""})[0])
                objects = tempfile.mkdtemp(dir=place)
                os.chown(objects, *[row_uid("EDIT") if os.geteuid() == 0 else -1] * 2)
                job = {"paths": {**paths, "objects": objects}, "base_commit": base["commit"],
                       "base_tree": base["tree"], "limits": {"files": 200, "bytes": 8 << 20},
                       "trailers": ["Agent-Run: x"], "title": "t"}
                took, _, patch = run("edit", job, {FD_OUT: b"", 10: changes, 13: b""})
                times["edit"].append(took)
                objects = tempfile.mkdtemp(dir=place)
                os.chown(objects, *[row_uid("TRY") if os.geteuid() == 0 else -1] * 2)
                job = {"paths": {**paths, "objects": objects}, "tree": base["tree"], "format": "auto",
                       "limits": {"files": 200, "bytes": 8 << 20}}
                took, trial, again = run("try", job, {FD_OUT: b"", 10: patch, 13: b""})
                if trial["outcome"] != "ok" or again != patch:
                    sys.exit(f"agent-apply try: {trial}")
                times["try"].append(took)
            by_git = [timed_git(repo, os.path.join(place, "index"), patch) for _ in range(min(args.runs, 5))]
            cells = [f"{statistics.median(v):.1f} ({max(v):.1f})" for v in (*times.values(), by_git)]
            print(f"| {count:,} files | {' | '.join(cells)} |", flush=True)
        if args.edits:
            return
        print("\n| median, ms (worst) | base layer | git worktree add | next commit's layer, 100 files | git's workers |\n"
              "|---|---|---|---|---|")
        fast = tempfile.mkdtemp(prefix="agent-bench-", dir="/dev/shm")
        os.chmod(fast, 0o755)
        try:
            for count in (1000,) if args.small else (1000, 80000):
                bench_layers(os.path.join(place, f"r{count}.git"), count, fast, min(args.runs, 5))
        finally:
            shutil.rmtree(fast)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
