#!/usr/bin/python3
"""In the test machine, as root: hooks/agent-worker.service under the real systemd. The worker is ready when it says so, takes a
job with a model on loopback and a key from a credential, its jails lie in the unit's own delegated group and have uids of their
own, and systemctl stop ends it in order."""
import glob
import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from e2e import BUILD, Place, edit, processes, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

UNIT = "agent-worker.service"
UNITS = "/run/systemd/system/"
GROUP = "/sys/fs/cgroup/system.slice/" + UNIT
SECRET = "planted-key-of-the-credential"
# waits until it is seen
TEST = "go=; trap go=yes USR1; echo >begun; i=0; while test $i -lt 600 && test -z $go; do i=$((i+1)); sleep 0.1; done; grep -q zwei a.txt"


def systemctl(*words, check=True):
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"systemctl {words}: {done.stderr}\n" + journal())
    return done.stdout.strip()


def journal():
    return subprocess.run(["journalctl", "--no-pager", "-n", "60", "-u", UNIT], capture_output=True, text=True, check=False).stdout


def show(*names):
    text = systemctl("show", UNIT, *[word for name in names for word in ("-p", name)])
    return dict(line.split("=", 1) for line in text.splitlines())


def install():
    """As make install does, where nothing of the machine's stays: the programs are where they were built."""
    prefix = "/opt/agent/prefix"
    os.makedirs(prefix + "/bin", exist_ok=True)
    os.symlink(os.path.join(BUILD, "agent"), prefix + "/bin/agent")
    with open(os.path.join(HERE, "../../hooks", UNIT), encoding="utf-8") as file:
        text = file.read().replace("@PREFIX@", prefix)
    os.makedirs(UNITS + UNIT + ".d")
    os.makedirs("/etc/agent", exist_ok=True)
    for path, content in ((UNITS + UNIT, text), (UNITS + UNIT + ".d/key.conf", "[Service]\nLoadCredential=model-key:/etc/agent/model-key\n"),
                          ("/etc/agent/model-key", SECRET + "\n")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if path == UNITS + UNIT else content)
    os.chmod("/etc/agent/model-key", 0o600)
    systemctl("daemon-reload")


def read(path):
    """A file of a group or a process; empty when that is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def in_group(path):
    """Processes of a group and of those below, of which some may end meanwhile."""
    found = set()
    for name in glob.glob(path + "/**/cgroup.procs", recursive=True):
        found |= {int(line) for line in read(name).split()}
    return found


def look(t, ours_too):
    """While the test command runs. ours_too: the model server, which is told the key as a word."""
    jobs = glob.glob(GROUP + "/**/agent-[0-9]*/job", recursive=True)
    t.equal(len(jobs), 1, "the jail has a group below the unit's", jobs)
    pids = in_group(jobs[0]) if jobs else set()
    uids = set()
    for pid in pids:
        uids |= {int(line.split()[1]) for line in read(f"/proc/{pid}/status").splitlines() if line.startswith("Uid:")}
    t.ok(pids and all(uid > 0x70000000 for uid in uids), "with the command, whose uid is nobody else's", f"{pids} {uids}")
    limits = {}
    for name in ("memory.max", "pids.max") if jobs else ():
        with open(f"{jobs[0]}/{name}", encoding="ascii") as file:
            limits[name] = file.read().strip()
    t.ok(limits and "max" not in limits.values(), "and limits", limits)
    ours = {pid for pid, words, _ in processes() if words.startswith(("/opt/agent/prefix", "agent"))}
    t.equal(ours - in_group(GROUP), set(), "nothing of the worker's is outside of the unit's group")
    t.equal([pid for pid, words, _ in processes() if SECRET in words and pid != ours_too], [], "the key is in no command line")


def main():
    os.makedirs("/srv", exist_ok=True)
    with Tap() as t, Place(parent="/srv") as place:
        os.chmod(place.dir, 0o755)
        place.env.update(AGENT_STATE_DIR="/var/lib/agent", HOME="/var/lib/agent")
        install()
        systemctl("start", UNIT)  # returns with READY=1, or fails
        state = show("ActiveState", "SubState", "Type", "StatusText", "Delegate", "ControlGroup", "MainPID")
        t.equal((state["ActiveState"], state["SubState"], state["Type"], state["Delegate"]), ("active", "running", "notify", "yes"),
                "the unit is started: the worker said that it is ready", f"{state}\n{journal()}")
        server = place.model_server([[edit("a.txt", "two", "zwei"), submit("Translate two")]], key=SECRET)
        repo = place.repository({"a.txt": "one\ntwo\n"}, test=TEST)
        added = place.agent("queue", "add", "--json", "-m", "Translate two", "--model", "openai:stub", "--base-url", server.url,
                            "--key", "credential:model-key", cwd=repo)
        t.equal(added.status, 0, "a job is queued", added.text)
        number = json.loads(added.out)["job"]

        def job():
            return json.loads(place.agent("queue", "show", "--json", str(number)).out)
        try:
            begun = wait_for(lambda: job()["state"] not in ("queued", "running") or glob.glob(GROUP + "/**/agent-[0-9]*/job", recursive=True)
                             and find_begun(), 120, "the test command")
        except TimeoutError as why:
            groups = subprocess.run(["find", "/sys/fs/cgroup/system.slice", "-type", "d"], capture_output=True, text=True, check=False)
            t.ok(False, "the job's test command runs", f"{why}\n{job()}\n{journal()}\n{groups.stdout}")
            return
        t.ok(isinstance(begun, str), "the job's test command runs", f"{job()}\n{journal()}")
        if isinstance(begun, str):
            look(t, server.child.pid)
            let_go()
        done = wait_for(lambda: job()["state"] not in ("queued", "running") and job(), 120, "the job's end")
        t.equal((done["state"], list(place.branches(repo))), ("done", ["refs/heads/agent/translate-two"]), "the job is done and its branch pushed",
                f"{done}\n{journal()}")
        verdicts = glob.glob(f"/var/lib/agent/runs/{done.get('run')}/round-*/verdict.json")
        with open(verdicts[0], encoding="utf-8") as file:
            verdict = json.load(file)
        t.equal((verdict["limits"], verdict["uid"], verdict["green"]), ("cgroup2", "separate", True), "its verdict says so", verdict)
        t.equal(len(server.requests()), 1, "the model was asked once")
        main_pid = show("MainPID")["MainPID"]
        systemctl("stop", UNIT)
        state = show("ActiveState", "Result", "ExecMainStatus", "ExecMainCode", "NRestarts")
        t.equal((state["ActiveState"], state["Result"], state["ExecMainStatus"], state["NRestarts"]), ("inactive", "success", "0", "0"),
                "systemctl stop ends it in order", f"{state}\n{journal()}")
        t.ok(not os.path.exists(f"/proc/{main_pid}") and not os.path.exists(GROUP), "and nothing of it is left", in_group(GROUP))


def let_go():
    """Tells the shell of the test command."""
    for group in glob.glob(GROUP + "/**/agent-[0-9]*/job", recursive=True):
        for pid in in_group(group):
            if read(f"/proc/{pid}/comm") == "sh\n":
                os.kill(pid, signal.SIGUSR1)


def find_begun():
    """The path to the marker of the test command, through the root of a process of its jail."""
    for group in glob.glob(GROUP + "/**/agent-[0-9]*/job", recursive=True):
        for pid in in_group(group):
            path = os.path.join(f"/proc/{pid}/root", "work/begun")
            if os.path.exists(path):
                return path
    return None


main()
