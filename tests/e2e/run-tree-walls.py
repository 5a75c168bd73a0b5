#!/usr/bin/python3
# deadline: 600
"""Test commands that attack the tree, the machine or the clock: the pushed tree is byte for byte the applied one, and
nothing of the command is left anywhere."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, differences, digest_tree, edit, processes, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

ATTACKS = {
    "edits tracked files": "echo evil >a.txt; echo evil >>sub/b.txt; echo evil >new.txt; chmod 777 a.txt",
    "deletes the tree": "rm -rf /work/* /work/.[a-z]* 2>/dev/null; cd /; rm -rf /work 2>/dev/null; rm -rf / 2>/dev/null",
    "replaces files by links": "ln -sf /etc/passwd a.txt; rm -r sub; ln -s / sub",
    "plants hooks and a repository": "mkdir -p .git/hooks; printf '#!/bin/sh\\necho evil' >.git/hooks/pre-push; "
                                     "chmod +x .git/hooks/*; git init -q . 2>/dev/null; "
                                     "git config core.hooksPath /work 2>/dev/null",
    "plants configuration": "mkdir -p .agent $HOME/.config/git; echo '[test]' >.agent/config; echo '[core]' >$HOME/.gitconfig",
    "leaves daemons": "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 97; done' </dev/null "
                      ">/dev/null 2>&1 &); done; (sleep 98 &)",
    "fills the disk": "dd if=/dev/zero of=/work/big bs=1M count=10240 2>/dev/null; "
                      "dd if=/dev/zero of=/tmp/big bs=1M count=10240 2>/dev/null; "
                      "dd if=/dev/zero of=/dev/shm/big bs=1M count=10240 2>/dev/null",
    "makes files without end": "mkdir x; i=0; while [ $i -lt 30000 ] && : >x/$i; do i=$((i + 1)); done 2>/dev/null",
    "forks without end": "f() { f | f & }; f 2>/dev/null; sleep 0.5",
    "prints without end": "yes 'spam spam spam' | head -c 300000000; printf '\\033]0;evil\\007\\033[2J'",
    "kills what it sees": "kill -9 -1 2>/dev/null; for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p; "
                          "done 2>/dev/null",
}

with Tap() as t, Place() as place:
    place.limits()
    model = place.recording([[edit("a.txt", "two", "zwei"), write("c/d.txt", "new\n"), submit("Translate two")]])
    for name, attack in ATTACKS.items():
        files = {"a.txt": "one\ntwo\n", "sub/b.txt": "b\n", "run.sh": "#!/bin/sh\n", "attack.sh": attack + "\nexit 0\n"}
        repo = place.repository(files, name=name.replace(" ", "-"), test="sh attack.sh")
        before = digest_tree(repo)
        result = place.agent("run", "-m", "Translate two", "--model", model, "-c", "jail.disk=64m", "-c",
                             "jail.memory=512m", "-c", "jail.processes=200", "-c", "jail.inodes=20000", "-c",
                             "test.timeout=60", "--rounds", "1", cwd=repo)
        verdict = place.artefact("round-1/verdict.json")
        t.ok(result.status in (0, 1), f"{name}: ends as a test does ({verdict['outcome']})", result.text)
        tree = place.artefact("round-1/tree.json")["tree"]
        branches = place.branches(repo)
        if result.status == 0:
            commit = next(iter(branches.values()), "HEAD")
            t.equal(place.git("rev-parse", commit + "^{tree}", cwd=repo + ".git"), tree, f"{name}: the pushed tree is the applied one")
            t.equal(place.git("diff", "--no-renames", "--name-status", "main", commit, cwd=repo + ".git"),
                    "M\ta.txt\nA\tc/d.txt", f"{name}: with the model's two changes and no other")
        else:
            t.equal(branches, {}, f"{name}: red, so nothing was pushed")
        t.equal(differences(before, digest_tree(repo)), [], f"{name}: the repository is untouched")
        stray = [words for _, words, _ in processes() if "sleep 97" in words or "sleep 98" in words or "attack.sh" in words]
        t.equal(stray, [], f"{name}: no process is left")
        t.equal(place.leftovers(), [], f"{name}: no mount or control group is left")
        log = os.path.join(place.run_dir(), "round-1/log")
        t.ok(os.path.getsize(log) <= 2 << 20, f"{name}: its log is capped", os.path.getsize(log))
        t.ok("\033]0;evil" not in result.err and "\033[2J" not in result.err, f"{name}: its output does not reach the terminal raw")
        # the layers that runs share are as the model and the repository made them
        for top, _, names in os.walk(os.path.join(place.state, "store")):
            for file in names:
                if file in ("big", "new.txt") or top.endswith("/.git/hooks"):
                    t.ok(False, f"{name}: the store is untouched", os.path.join(top, file))

    # ---- the store, after all of them: a run on an attacked base still sees the base ----
    repo = place.repository({"a.txt": "one\ntwo\n", "sub/b.txt": "b\n"}, name="after", test="sh -c 'test ! -e new.txt && grep zwei a.txt && grep -x b sub/b.txt'")
    result = place.agent("run", "-m", "Translate two", "--model", model, cwd=repo)
    t.equal(result.status, 0, "afterwards a plain run sees a clean tree", result.text)
