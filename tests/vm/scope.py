#!/usr/bin/python3
"""In the test machine, as a user whose group is not delegated: agent asks the user's systemd for a scope, and the whole run lies in
it (DESIGN §5, order of the limits)."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import AGENT, Place, edit, submit, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

RUNTIME = f"/run/user/{os.getuid()}"


def scopes():
    found = []
    for folder, names, _ in os.walk("/sys/fs/cgroup/user.slice"):
        found += [os.path.join(folder, name) for name in names if name.startswith("agent-") and name.endswith(".scope")]
    return found


def jail(place, repo, *words, env=None, options=()):
    done = subprocess.run([AGENT, "jail", "--json", *options, "--", *words], cwd=repo, env={**place.env, **(env or {})},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False)
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        verdict = {}
    return done, verdict


def enters(t, place, repo):
    for name, env in (("with a session", {"XDG_RUNTIME_DIR": RUNTIME}), ("without, as under cron", {})):
        done, verdict = jail(place, repo, "/bin/sh", "-c", "echo ran; exit 7", env=env)
        t.ok(done.returncode == 7 and verdict.get("limits") == "systemd" and "cgroup" in verdict.get("isolation", "").split(),
             f"{name}: the limits are those of a scope", f"{verdict}\n{done.stderr}")
    t.ok(wait_until_none(), "the scopes are gone", scopes())
    done, verdict = jail(place, repo, "python3", "-c", "bytearray(400 << 20)", options=["-c", "jail.memory=64m"])
    t.equal((verdict.get("outcome"), verdict.get("oom_count")), ("oom", 1), "a limit on memory holds there",
         f"{verdict}\n{done.stderr}")
    done, verdict = jail(place, repo, "/bin/true", options=["-c", "jail.cpus=1"])
    t.equal((done.returncode, verdict.get("limits")), (0, "systemd"), "so does one on processors", f"{verdict}\n{done.stderr}")


def wait_until_none():
    try:
        return wait_for(lambda: not scopes(), 30, "the scopes' end")
    except TimeoutError:
        return False


def stays_itself(t, place, repo):
    """Same process, same environment, nothing of it in the payload's."""
    secret = "k-" + os.urandom(8).hex()
    child = subprocess.Popen([AGENT, "jail", "--", "/bin/sh", "-c", "env; exec sleep 1010"], cwd=repo,
                             env={**place.env, "OPENAI_API_KEY": secret, "XDG_RUNTIME_DIR": RUNTIME}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def group():
        with open(f"/proc/{child.pid}/cgroup") as file:
            return file.read().strip()

    def sleeping():
        text = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return any(line == "sleep 1010" for line in text.splitlines())
    wait_for(sleeping, 60, "the payload")
    where = group()
    scope = where.rpartition("/")[0]
    inside = []
    for folder, _, _ in os.walk("/sys/fs/cgroup" + scope[3:]):
        with open(os.path.join(folder, "cgroup.procs")) as file:
            inside += file.read().split()
    t.ok(f"/agent-{child.pid}-" in scope and scope.endswith(".scope"), "agent itself is in the scope, under its own process id", where)
    t.ok(len(inside) >= 4, "and all that it started", inside)
    seen = ""
    for pid in inside:
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    seen += file.read().decode(errors="replace")
            except OSError:
                pass
    t.ok(secret not in seen and "PATH=" in seen, "no process there has the key in its environment", seen)
    child.kill()
    out, _ = child.communicate(timeout=30)
    t.ok("HOME=" in out and "/run/user" not in out and "DBUS" not in out, "the payload's environment is the list, as ever", out)
    t.ok(wait_until_none(), "agent is killed: the scope goes", scopes())


def whole_run(t, place):
    repo = place.repository({"a.txt": "one\n", "t.sh": "#!/bin/sh\ngrep -q zwei a.txt\n"}, name="whole", test="./t.sh")
    model = place.recording([[edit("a.txt", "one", "zwei"), submit("Translate")]])
    result = place.agent("run", "-m", "x", "--model", model, cwd=repo)
    t.equal(result.status, 0, "a whole run", result.text)
    with open(os.path.join(place.run_dir(), "round-1/verdict.json")) as file:
        verdict = json.load(file)
    t.equal(verdict.get("limits"), "systemd", "its verdict says where the limits come from", verdict)
    t.ok(wait_until_none(), "its scope is gone", scopes())


def not_to_be_had(t, place, repo):
    empty = place.path("empty")
    os.mkdir(empty)
    with open(os.path.join(empty, "bus"), "w"):
        pass
    for name, directory in (("a directory without a socket", empty), ("no directory", place.path("nowhere"))):
        done, verdict = jail(place, repo, "/bin/sh", "-c", "echo ran", env={"XDG_RUNTIME_DIR": directory})
        t.ok(done.returncode == 125 and "ran" not in done.stdout + done.stderr and "no systemd of the user's" in done.stderr,
             f"{name}: 125, and why", f"{verdict}\n{done.stderr}")
        t.ok("Delegate=yes" in done.stderr and "degraded-ok" in done.stderr, f"{name}: what helps is said", done.stderr)
        done, verdict = jail(place, repo, "true", env={"XDG_RUNTIME_DIR": directory}, options=["--limits", "degraded-ok"])
        t.equal((done.returncode, verdict.get("limits")), (0, "degraded"), f"{name}: degraded-ok goes on, recorded",
                f"{verdict}\n{done.stderr}")
    import socket
    deaf = place.path("deaf")
    os.mkdir(deaf)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.join(deaf, "bus"))
        sock.listen(8)
        done, verdict = jail(place, repo, "/bin/sh", "-c", "echo ran", env={"XDG_RUNTIME_DIR": deaf})
        t.ok(done.returncode == 125 and "no answer within" in done.stderr, "a systemd that is silent: 125 in time, and why",
             f"{verdict}\n{done.stderr}")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with Tap() as t, Place() as place:
        place.env.pop("XDG_RUNTIME_DIR", None)
        repo = place.repository({"a.txt": "one\n"}, test="true")
        enters(t, place, repo)
        stays_itself(t, place, repo)
        whole_run(t, place)
        not_to_be_had(t, place, repo)


main()
