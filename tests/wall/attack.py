#!/usr/bin/python3
# deadline: 600
"""Everything that an attacker in a jail may try (laws L1, L3, L5, L6; the table is sandbox/probe/table.h): none works.

First the controls: without a sandbox, or in a weak one, the attacks do work, so that one sees that the probe can succeed. Then each
attack in a jail of its own, started by root and by a user, judged from outside, with the backend gvisor too where it is installed
(CHECK_FULL=1: all of them, else a sample); then many of them as the test command of a whole run. Last, that nothing is left.
"""
import glob
import os
import re
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from attack import Bare, Host, Native, WeakRoot, WeakUserns, processes_with, rows  # noqa: E402
from jail import backends, modes  # noqa: E402
from e2e import Place, differences, digest_tree, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

# What works and is let be: said in the documentation of the jail, and here.
ACCEPTED = {
    "N33": "locks on a file that is shared read-only are one lock: two jobs that are both hostile can talk so",
    "N34": "who reads a file that is shared read-only can be watched, as long as toolchains are not copied",
    "X24": "a folder that the operator admits is admitted with the sockets in it",
}

# What works in gVisor by the attack's own word, and on its own kernel alone, which is the payload's and ends with it. Accepted only
# while nothing is seen of it outside.
ACCEPTED_GVISOR = {
    "N2": "its loopback has an address of the link; there is nobody behind it",
    "C7": "the numbers of PID 1's descriptors can be listed; none can be opened",
    "C32": "the runner's program can be read: everybody has it",
    "E20": "a tracer gets round the filter inside: it stands before a kernel that is the payload's alone",
    "R35": "it has no killer for memory that would look at the value",
    "X12": "the address of PID 1's list can be read, its memory cannot",
    "X19": "who may trace whom of the payload is for the payload to say",
    "X28": "its own order of its own processes",
}
# Without CHECK_FULL: those, what was broken there once, and some of each kind.
SAMPLE_GVISOR = {*ACCEPTED_GVISOR, "N1", "N14", "N15", "N21", "C1", "C16", "E1", "E30", "E31", "E44", "E57", "E59", "F2", "F5", "F41", "R1",
                 "R4", "R13", "R26", "P1", "X1", "X15"}


def controls(t, host, table):
    """Each attack that has a control works there."""
    boxes = {"plain": Bare, "kernel": Bare, "userns": WeakUserns, "root": WeakRoot}
    root = os.geteuid() == 0
    with open("/proc/self/status") as file:
        bounding = re.search(r"CapBnd:\t(\w+)", file.read()).group(1)
    full = int(bounding, 16) & (1 << 41) - 1 == (1 << 41) - 1
    shown = 0
    for row in table:
        if row.control == "nowhere" or (row.control == "root" and not root):
            continue
        box = boxes[row.control](*([] if root or row.control == "root" else [os.geteuid()]))
        verdict = host.attempt(box, row)
        shown += verdict.verdict == "worked"
        name = f"control: {row.id} works in {box.name}"
        if verdict.verdict == "worked":
            t.ok(True, name)
        elif verdict.verdict == "not tried" or row.control == "kernel" or not root or (row.control == "root" and not full):
            t.ok(True, f"{name}: not on this machine: {verdict.reason[:100]}")
        else:
            t.ok(False, name, f"{verdict.verdict}: {verdict.reason}\n{verdict.detail}")
    t.ok(shown > len(table) / 2, f"control: {shown} of {len(table)} attacks are seen to work somewhere")


def attacks(t, host, table, mode, backend="native"):
    box = Native(host, mode, backend)
    for row in table:
        verdict = host.attempt(box, row)
        name = f"{mode}: {row.id} {row.mechanism}" if backend == "native" else f"{mode}: {backend} {row.id} {row.mechanism}"
        if row.id in ACCEPTED and verdict.verdict == "worked":
            t.skip(name, f"works, and is documented: {ACCEPTED[row.id]}")
        elif backend == "gvisor" and row.id in ACCEPTED_GVISOR and verdict.verdict == "worked" and not verdict.holes:
            t.ok(True, f"{name}: works on its own kernel alone: {ACCEPTED_GVISOR[row.id]}")
        elif verdict.verdict == "not tried":
            t.skip(name, verdict.reason)
        else:
            t.ok(verdict.verdict == "blocked", name,
                 f"wanted: {row.expected}\n{verdict.verdict}: {verdict.reason}\n{verdict.detail}")


# ---- as the test command of a run -----------------------------------------------------------------------------

def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


def whole_run(t, host, table):
    with Place() as place, open(os.path.join(host.bin, "attack-probe"), "rb") as file:
        canary = place.path("canary")
        ids = [row.id for row in table if row.how == "together"]
        box = Bare(0)
        box.name = "other"  # walks all that there is
        words = host.words(box, table[0], [])[1:]
        script = f"exec ./probe.sh --many {','.join(ids)} {' '.join(map(quoted, words))}\n"
        hostile = f"x;touch {canary};$(touch {canary})`touch {canary}`"
        repo = place.repository({"probe.sh": file.read(), "attacks.sh": script, "a.txt": "one\ntwo\n", "sub/x": "x\n",
                                 "--output=x": "x\n", "-rf": "x\n"}, test="sh attacks.sh")
        place.write(os.path.join(repo, "sub/.env"), host.secret("uncommitted"))
        place.git("config", "http.extraheader", host.secret("header"), cwd=repo)
        place.write(os.path.join(place.home, ".netrc"), host.secret("netrc"))
        place.limits()
        before, home = digest_tree(repo), digest_tree(place.home)
        host.canaries.drain()
        model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate " + hostile)]])
        result = place.agent("run", "-m", hostile, "--model", model, cwd=repo, stdin="something to read\n",
                             env={"ATTACK_TOKEN": host.secret("token")})
        t.equal(result.status, 0, "run: it ends with 0", result.text)
        with open(os.path.join(place.run_dir(), "round-1/log"), errors="replace") as log:
            text = log.read()
        said = dict(line.split(": ", 1) for line in text.splitlines() if re.match(r"\w+: ", line))
        for row in table:
            if row.id in ids and not said.get(row.id, "").startswith("not tried"):
                t.ok(said.get(row.id, "").startswith(("blocked", "done")), f"run: {row.id} {row.mechanism}", said.get(row.id, text[-2000:]))
        seen = host.canaries.drain()
        t.equal(seen, [], "run: no listener of the host was reached")
        every = result.out + result.err + text
        t.equal([name for name, secret in host.planted.items() if secret in every], [], "run: no secret came out")
        t.ok(not os.path.exists(canary), "run: no shell took a title apart")
        t.equal(differences(before, digest_tree(repo)), [], "run: the repository is as it was")
        t.equal(differences(home, digest_tree(place.home)), [], "run: so is HOME")
        branches = place.branches(repo)
        changed = place.git("diff", "--name-only", "main", *branches.values(), cwd=repo + ".git") if len(branches) == 1 else branches
        t.equal(changed, "a.txt", "run: what was pushed is the change, and nothing that the tests left")
        own_files(t, place, repo)
        result = place.agent("jail", "--dirty", "--", "./probe.sh", "C16", cwd=repo)
        t.ok("C16: blocked" in result.out and host.secret("header") not in result.text,
             "jail: C16 a view of the working directory has no .git/config", result.text)
        t.equal(place.leftovers(), [], "run: nothing is left")


def own_files(t, place, repo):
    """agent jail, given files by its caller (X33)."""
    paths = [place.write(name, "earlier\n", 0o600) for name in ("given", "taken")]
    with open(paths[0], "rb") as given, open(paths[1], "ab") as taken:
        subprocess.run(place.command(["jail", "--", "./probe.sh", "X33"]), cwd=repo, env=place.env, stdin=given, stdout=taken,
                       stderr=taken, start_new_session=True, check=False, timeout=60)
    modes = [os.stat(path).st_mode & 0o7777 for path in paths]
    with open(paths[1], errors="replace") as file:
        text = file.read()
    t.ok(modes == [0o600, 0o600] and text.startswith("earlier\n") and "X33: done: 0 changes" in text,
         "jail: X33 the caller's files as input and output stay as they are", f"{modes}\n{text}")


def hostile_output(t, host):
    """What the tests print: shown to people escaped, to the model as foreign, never taken for a word of ours."""
    with Place() as place, open(os.path.join(host.bin, "attack-probe"), "rb") as file:
        repo = place.repository({"probe.sh": file.read(), "a.txt": "one\n", "t.sh": "if grep -q eins a.txt\nthen ./probe.sh --many F24,F19,F21\n"
                                 "else ./probe.sh F20\nfi\nexit 1\n"}, remote=False, test="sh t.sh")
        place.limits()
        model = place.recording([[edit("a.txt", "one", "eins")], [edit("a.txt", "eins", "zwei")]])
        result = place.agent("run", "-m", "x", "--model", model, "--rounds", "2", "--dry-run", cwd=repo)
        shown = result.out + result.err
        t.ok(result.status not in (0, 2, 125), "output: F20: the run is red", result.text)
        shown += place.agent("show", os.path.basename(place.run_dir()), cwd=repo).text
        bad = re.findall("[^\n\t\x20-\x7e\xa0-\u200a\u2010-\u2027\u2030-\u2065\u2070-\ufefe]", shown)
        t.ok(not bad and "\\x1b]8;;" in shown and "\\x0dPASS" in shown, "output: F19, F21: what would rule the terminal is shown escaped",
             repr(shown[-3000:]))
        lines = [line for line in shown.splitlines() if re.match(r"::|##|RESULT: PASS|\{\"event\":\"result\"", line)]
        t.ok(not lines and "::stop-commands" in shown, "output: F20: no line begins as a CI's command does", shown)
        with open(os.path.join(place.run_dir(), "round-2/conversation.jsonl"), encoding="utf-8") as file:
            said = file.read()
        t.ok(re.search(r"BEGIN RESULT (\w{16}) [^\"]*IGNORE ALL PREVIOUS[^\"]*END RESULT \1", said.replace('\\"', "'")),
             "output: F24: to the model it is between marks that nobody can guess", said)
        for path in glob.glob(os.path.join(place.run_dir(), "report.*")):
            with open(path, "rb") as report:
                t.ok(b"\033" not in report.read(), f"output: {os.path.basename(path)} has no escapes")


def nothing_left(t, base, before):
    """Behind the end of the host's own canaries."""
    places = ("/tmp", "/var/tmp", "/dev/shm", "/sys/fs/cgroup", "/sys/fs/cgroup/*", "/run")
    left = [path for place in places for path in glob.glob(f"{place}/*{base}*")]
    left += [f"process {pid}" for pid in processes_with(base.encode())]
    t.equal(left, [], "nothing is left")
    t.equal(settings(), before, "the kernel's settings are as they were")


def settings():
    """What of the whole machine's an attack would have changed."""
    names = ("kernel/core_pattern", "kernel/modprobe", "kernel/sysrq", "kernel/hostname", "vm/panic_on_oom", "kernel/panic")
    seen = []
    for name in names:
        try:
            with open("/proc/sys/" + name) as file:
                seen.append(file.read())
        except OSError:
            seen.append(None)
    with open("/proc/filesystems") as file:  # loaded modules show here
        return seen + [file.read()]


def main():
    # X37: what is left to a user's other programs depends on their own limit; with the customary 1024 it is shared
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    table = rows()
    with Tap() as t:
        listed = [row for row in table if row.section != "extra"]
        t.equal((len(listed), len({row.id for row in table})), (192, len(table)), "the table has all 192 attacks, and ours")
        before = settings()
        with Host() as host:
            if "AGENT_TEST_BRIEF" in os.environ:  # another kernel on a slow machine (tests/vm): what hangs on the kernel, once
                # E49 is a race of a million turns: not within its time there
                attacks(t, host, [row for row in table if row.section in ("escape", "network") and row.id != "E49"], modes()[0])
            else:
                controls(t, host, table)
                for mode in modes():
                    attacks(t, host, table, mode)
                    if "gvisor" in backends():
                        full = os.environ.get("CHECK_FULL") == "1"
                        attacks(t, host, [row for row in table if full or row.id in SAMPLE_GVISOR], mode, "gvisor")
                whole_run(t, host, table)
                hostile_output(t, host)
        nothing_left(t, host.base, before)


main()
