#!/usr/bin/python3
# deadline: 150
"""agent doctor: on this machine as it is, and with each obstacle that machines have: what is missing is seen, and how to mend it
is said in a line. And its attacks: canaries that are reached are seen."""
import ctypes
import json
import os
import platform
import shutil
import stat
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import AGENT, BUILD, Place, digest_tree  # noqa: E402
from tap import Tap  # noqa: E402

ROOT = os.geteuid() == 0
USER = int(os.environ.get("AGENT_TEST_UID", "1000"))
NUMBERS = {"x86_64": {"unshare": 272, "mount": 165, "seccomp": 317, "keyctl": 250, "sethostname": 170, "landlock_create_ruleset": 444},
           "aarch64": {"unshare": 97, "mount": 40, "seccomp": 277, "keyctl": 219, "sethostname": 161, "landlock_create_ruleset": 444}}[platform.machine()]
with open("/proc/self/cgroup") as groups:
    V1 = {"memory", "pids"} <= {name for line in groups for name in line.split(":")[1].split(",")}
FIELDS = ["detail", "group", "name", "next", "state"]


def denied(error, *names):
    """For Popen: these calls fail so from now on, as in a container. A kernel that does not know them says ENOSYS."""
    code = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    for name in names:
        code += [struct.pack("HBBI", 0x15, 0, 1, NUMBERS[name]), struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | error)]
    code.append(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))

    def install():
        libc = ctypes.CDLL(None, use_errno=True)
        program = ctypes.create_string_buffer(b"".join(code))
        fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, fprog, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")
    return install


class Report:
    def __init__(self, done):
        self.status, self.err = done.returncode, done.stderr.decode(errors="replace")
        self.out = done.stdout.decode(errors="replace")
        self.text = f"status {self.status}\n{self.out[-6000:]}\n{self.err}"
        self.rows = {}
        if self.out.startswith("{"):
            self.json = json.loads(self.out)
            for row in self.json["rows"]:
                self.rows[row["name"] if row["group"] != "jail: native" else "jail " + row["name"]] = row

    def row(self, name):
        return self.rows.get(name, dict.fromkeys(FIELDS, ""))


def doctor(place, *args, before="", preexec=None, env=None, agent=AGENT, user=False, wrap=()):
    """before: shell lines that change the machine, seen by this one alone."""
    command = [agent, "doctor", *args]
    if user:
        command = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", *command]
    if before:
        command = [*(wrap or ["unshare", "-m"]), "sh", "-ec", before + '; exec "$@"', "sh", *command]
    return Report(subprocess.run(command, cwd=place.dir, env={**place.env, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
                                 preexec_fn=preexec, timeout=60, check=False))


def missing(t, report, name, what, remedy, status=125):
    row = report.row(name)
    t.ok(row["state"] == "no" and what in row["detail"] and remedy in row["next"] and "\n" not in row["next"] and report.status == status,
         f"{name}: {what}: what to do is said", f"{row}\n{report.text}")


def as_it_is(t, place, limits):
    before = digest_tree(place.dir)
    report = doctor(place, "--json", *limits)
    t.ok(report.status == 0 and report.json["can_run"] and report.err == "", "as it is: agent run can be used", report.text)
    t.equal((report.json["kind"], report.json["version"], report.json["backend"]), ("doctor", 1, "native"), "--json: a typed artefact")
    t.equal([row for row in report.json["rows"] if sorted(row) != FIELDS or row["state"] not in ("yes", "part", "no", "note", "not tried")], [],
            "--json: each row has all members")
    for name in ("kernel", "user namespaces", "other namespaces", "proc", "seccomp", "pidfd"):
        t.equal(report.row(name)["state"], "yes", f"{name}: tried, and there")
    t.ok("ABI" in report.row("landlock")["detail"], "landlock: its version", str(report.row("landlock")))
    places = [report.row(name)["state"] for name in ("control group", "place for groups")]
    t.ok(places[0] != "yes" or places[1] == "yes", "no warning of what is not missed", str(places))
    t.equal([name for name, row in report.rows.items() if row["state"] == "no" and row["group"] != "tools"], [] if not limits else ["control group"], "nothing else is missing")
    shown = doctor(place, *limits)
    t.ok(shown.status == 0 and "agent run can be used here" in shown.out and "refs/agent/*" in shown.out and
         "nothing is sent to the model's provider" in shown.out, "as text, with what it does not try and what it warns of", shown.text)
    t.equal({path for path in digest_tree(place.dir) if not path.startswith("state")} - set(before), set(), "it leaves nothing behind")
    t.equal(place.leftovers(), [], "no process, mount or group either")


def obstacles(t, place, limits):
    report = doctor(place, "--json", *limits, preexec=denied(1, "unshare"))
    missing(t, report, "user namespaces", "unshare(CLONE_NEWUSER): Operation not permitted", "inside a container")
    missing(t, report, "jail start", "userns: unshare(CLONE_NEWUSER)", "inside a container")
    t.ok(not report.json["can_run"] and report.row("jail seccomp")["state"] == "no", "and what is not reached is not said to hold")
    report = doctor(place, "--json", *limits, preexec=denied(1, "mount"))
    missing(t, report, "user namespaces", "making mounts private: Operation not permitted", "inside a container")
    report = doctor(place, "--json", *limits, preexec=denied(1, "sethostname"))
    missing(t, report, "jail start", "utsns: host name: Operation not permitted", "ProtectHostname=")
    report = doctor(place, "--json", *limits, preexec=denied(38, "landlock_create_ruleset"))
    missing(t, report, "landlock", "Function not implemented", "lsm=landlock")
    report = doctor(place, "--json", *limits, preexec=denied(22, "seccomp"))
    missing(t, report, "seccomp", "a filter cannot be installed", "CONFIG_SECCOMP_FILTER")
    report = doctor(place, "--json", *limits, preexec=denied(38, "keyctl"))
    t.ok(report.status == 0 and "no keyrings" in report.row("keyring")["detail"] and report.row("jail keyring")["state"] == "part",
         "keyring: a kernel without them has nothing to keep apart", report.text)
    report = doctor(place, "--json", "--limits", "degraded-ok", wrap=["unshare", "-U", "-r"], before="echo 0 >/proc/sys/user/max_user_namespaces")
    missing(t, report, "user namespaces", "No space left on device", "sysctl -w user.max_user_namespaces")


def obstacles_of_root(t, place):
    shared = ["--json", "--limits", "degraded-ok"]
    report = doctor(place, *shared, before="mount --bind /dev/null /proc/kallsyms")
    missing(t, report, "proc", "mounting a new proc: Operation not permitted", "masked")
    missing(t, report, "jail start", "proc: ", "masked")
    fake = "mount -t tmpfs none /proc/sys/kernel; echo {} >/proc/sys/kernel/{}"
    report = doctor(place, *shared, before=fake.format(1, "apparmor_restrict_unprivileged_userns"), preexec=None, user=True,
                    agent=place.programs + "/agent", env=place.user_env)
    t.ok("AppArmor" in report.row("proc")["next"] or "masked" in report.row("proc")["next"], "a machine with masks says so", report.text)
    # the kernel lets everybody make one, and gives no right in it
    report = doctor(place, *shared, before=fake.format(1, "apparmor_restrict_unprivileged_userns"), user=True, agent=place.denying("mount", 13),
                    env=place.user_env)
    missing(t, report, "user namespaces", "making mounts private: Permission denied", "AppArmor profile")
    report = doctor(place, *shared, before=fake.format(0, "unprivileged_userns_clone"), user=True, agent=place.denying("unshare", 1),
                    env=place.user_env)
    missing(t, report, "user namespaces", "unshare(CLONE_NEWUSER)", "sysctl -w kernel.unprivileged_userns_clone=1")
    report = doctor(place, *shared, before="mount -t proc -o hidepid=2 none /proc", user=True, agent=place.programs + "/agent",
                    env=place.user_env)
    t.ok(report.status == 0 and report.row("jail start")["state"] == "yes", "hidepid: a user's jail starts all the same", report.text)
    report = doctor(place, "--json", user=True, agent=place.programs + "/agent", env=place.user_env)
    what, remedy = ("are cgroup v1's here", "cgcreate") if V1 else ("neither cgroup v2 is delegated", "Delegate=yes")
    missing(t, report, "control group", what, remedy)
    t.equal((report.row("place for groups")["state"], report.row("place for groups")["next"]), ("part", report.row("control group")["next"]),
            "the place for them is part of that, with the same remedy")
    missing(t, report, "jail start", "cgroup: ", "degraded-ok")
    t.ok(report.row("jail seccomp")["state"] == "yes" and report.row("jail cgroup")["state"] == "part",
         "without a control group the other layers are tried all the same", report.text)
    report = doctor(place, *shared, user=True, agent=place.programs + "/agent", env=place.user_env)
    t.ok(report.status == 0 and "uid=shared" in report.row("uids")["detail"] and report.row("jail uid")["state"] == "part",
         "a start by a user is told as one", report.text)


def surroundings(t, place, limits):
    report = doctor(place, "--json", *limits, env={"PATH": "/nonexistent"})
    missing(t, report, "git", "not found in PATH", "install git", status=4)
    t.ok(report.row("ssh")["state"] == "not tried" and "which publishing over SSH needs" in report.row("ssh")["detail"],
         "ssh is for those who publish over it", report.text)
    by_ssh = ["-c", "publish.remote=ssh://git@host.example/project.git"]
    missing(t, doctor(place, "--json", *limits, *by_ssh, env={"PATH": "/nonexistent"}), "ssh", "not found in PATH", "OpenSSH", status=4)
    missing(t, doctor(place, "--json", *limits, "-c", "publish.signingKey=file:/nonexistent", env={"PATH": "/nonexistent"}),
            "ssh-keygen", "not found in PATH", "publish.signingKey", status=4)
    tools = place.path("tools")
    place.write("tools/git", "#!/bin/sh\nprintf '\\033]0;x\\007git\\342\\200\\256 version\\n'\n", 0o755)
    place.write("tools/ssh", "#!/bin/sh\nsleep 30\n", 0o755)
    report = doctor(place, *limits, *by_ssh, env={"PATH": tools + ":/usr/bin:/bin"})
    t.ok("\x1b" not in report.out and "\u202e" not in report.out and "\\x1b]0;x\\x07git" in report.out, "what a tool prints stays text", report.text)
    t.ok("NO      ssh" in report.out, "a tool that hangs is not waited for", report.text)
    place.write("home/.config/agent/config", "[jail]\n\tmemry = 1g\n")
    report = doctor(place, "--json", *limits)
    missing(t, report, "values", "home/.config/agent/config:2", "config", status=2)
    t.equal(report.row("jail start")["state"], "yes", "and all else is tried all the same")
    os.unlink(place.path("home/.config/agent/config"))
    report = doctor(place, "--json", *limits, env={"AGENT_STATE_DIR": "/proc/agent"})
    t.ok(report.status in (4, 125) and report.row("directory")["state"] == "no" and report.row("directory")["next"],
         "a state directory that cannot be: what to do is said", report.text)
    if ROOT:
        os.mkdir(place.path("sealed"))
        report = doctor(place, "--json", *limits, before=f"mount -t tmpfs -o ro none {place.path('sealed')}",
                        env={"AGENT_STATE_DIR": place.path("sealed/state/agent")})
        missing(t, report, "directory", "Read-only file system", "AGENT_STATE_DIR", status=4)
    t.equal(doctor(place, "word").status, 2, "words are refused")
    t.equal(doctor(place, "--backend", "none").status, 2, "and so is a backend that there is not")
    report = doctor(place, "--json", "--backend", "gvisor", *limits)
    start = [row for row in report.json["rows"] if row["group"] == "jail: gvisor"][0]
    t.ok(report.json["backend"] == "gvisor" and (report.status == 0) == (start["state"] == "yes") and report.status in (0, 125),
         "--backend: that one counts", report.text)
    t.equal(doctor(place, "-c", "jail.memry=1").status, 2, "a mistake on the command line is one as ever")


def attacks(t, place, limits):
    report = doctor(place, "--attack", "--backend", "native", "--json", *limits)
    rows = [row for row in report.json["rows"] if row["group"] == "attacks: native"]
    words = [row["state"] for row in rows]
    t.ok(report.status == 0 and words.count("worked") == 0 and words.count("blocked") > 140, "--attack: none works", report.text)
    table = subprocess.run([os.path.join(BUILD, "agent-probe"), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    t.equal([row["name"].split()[0] for row in rows][:len(table)], [line.split("\t")[0] for line in table], "--attack: all of the table is told")
    t.equal([row for row in rows if row["state"] == "not tried" and not row["detail"]], [], "--attack: what could not be tried has a reason")
    t.equal(place.leftovers() + [name for name in os.listdir("/tmp") if name.startswith("agent-doctor-")], [], "--attack: nothing is left")
    fake = place.programs_copy("fake")
    shutil.copy(os.path.join(BUILD, "wall/fake_jail"), fake + "/agent-jail")
    place.write(fake + "/facts", place.facts())
    report = doctor(place, "--attack", "--backend", "native", "--json", *limits, agent=fake + "/agent")
    rows = {row["name"]: row for row in report.json["rows"] if row["group"] == "attacks: native"}
    reached = {name: row["state"] for name, row in rows.items() if name.startswith("canary")}
    t.equal((set(reached.values()), len(reached)), ({"worked"}, 6), "--attack: each canary tells when it is reached", report.text)
    verdict = {name.split()[0]: row["state"] for name, row in rows.items()}
    t.equal([verdict[name] for name in ("N1", "N2", "N12", "E1", "E2")], ["worked", "blocked", "blocked", "not tried", "not tried"],
            "--attack: each attack's own word is taken, and silence is none")
    t.equal((report.status, rows["sum"]["state"]), (1, "worked"), "--attack: and the end is a clean no", report.text)
    shown = doctor(place, "--attack", "--backend", "native", *limits, agent=fake + "/agent")
    t.ok("\x1b" not in shown.out and "\\x1b[31mas it says" in shown.out, "--attack: what an attack says stays text", shown.text)
    os.unlink(fake + "/agent-probe")
    report = doctor(place, "--attack", "--backend", "native", "--json", *limits, agent=fake + "/agent")
    missing(t, report, "agent-probe", "", "install all programs", status=report.status)
    t.ok(report.status != 0, "a part that is missing is no success", report.text)


class Doctored(Place):
    def __init__(self):
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.programs = self.programs_copy("programs")
        home = self.path("user-home")
        os.mkdir(home)
        if ROOT:
            os.chown(home, USER, USER)
        self.user_env = {"HOME": home, "AGENT_STATE_DIR": home + "/state"}

    def programs_copy(self, name):
        """A directory with copies that every user can run."""
        os.mkdir(self.path(name), 0o755)
        for program in ("agent", "agent-jail", "agent-probe"):
            shutil.copy(os.path.join(BUILD, program), self.path(name))
        return self.path(name)

    def denying(self, call, error):
        """The agent, in a process in which a call fails: behind what the user was made by."""
        path = self.write(f"programs/deny-{call}-{error}", f"#!/usr/bin/python3\nimport sys, os\nsys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                          f"import doctor\ndoctor.denied({error}, {call!r})()\nos.execv({self.programs + '/agent'!r}, ['agent'] + sys.argv[1:])\n", 0o755)
        return path

    def facts(self):
        """The facts of a jail in which all went well, as this build writes them."""
        done = subprocess.run([os.path.join(BUILD, "jailrun"), "--degraded-ok", "--facts", "-", "--", "true"], cwd=self.dir,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        return b"\0".join(done.stderr.rstrip(b"\n").split(b"\n")) + b"\0"


def main():
    with Tap() as t, Doctored() as place:
        limits = place.limits()
        as_it_is(t, place, limits)
        obstacles(t, place, limits)
        if ROOT:
            obstacles_of_root(t, place)
        surroundings(t, place, limits)
        attacks(t, place, limits)


if __name__ == "__main__":
    main()
