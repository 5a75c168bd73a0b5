#!/usr/bin/python3
# deadline: 120
"""A payload with an id of its user's subordinate range: whose it is, what it may not become, that what it writes comes back to the
user however it ends, and that where there is no range, or the programs that map one fail, that is said.

The user, their range and the programs are put over those of the machine in a mount namespace of the test's own.
"""
import json
import os
import signal
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import BUILD, USER, Jail, backends, eventually, mark, marked_processes  # noqa: E402
from tap import Tap  # noqa: E402

FIRST, COUNT = 7000000, 65536
NOTES = [f"{place}/agent-ids-{USER}" for place in ("/tmp", "/dev/shm")]
UPPER = range(FIRST + COUNT // 2, FIRST + COUNT)
OVER = 'for f in passwd group subuid subgid; do test ! -e "$0/etc/$f" || mount --bind "$0/etc/$f" "/etc/$f" || exit 99; done; ' \
    'for f in newuidmap newgidmap; do test ! -e "$0/etc/$f" || mount --bind "$0/etc/$f" "/usr/bin/$f" || exit 99; done; ' \
    'test ! -e /run/user || mount -t tmpfs none /run/user || exit 99; exec "$@"'


class Range(Jail):
    """Jails of a user who is in passwd and has a range; files of self.etc lie over those of the machine."""

    def __init__(self, backend="native"):
        super().__init__("user", backend)
        self.drop = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        self.owner = USER
        for path in (self.store, self.scratch):
            os.chown(path, USER, USER)
        with open("/etc/passwd", encoding="utf-8") as file:
            users = [line for line in file if line.split(":")[2] != str(USER)]
        self.etc("passwd", "".join(users) + f"ranger:x:{USER}:{USER}::/nonexistent:/bin/sh\n")
        self.ranges()

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", self.top, *NOTES], check=False)  # deeper than Python's own can go

    def etc(self, name, text, mode=0o644):
        path = os.path.join(self.top, "etc", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def ranges(self, uids=f"other:1000000:65536\nranger:{FIRST}:{COUNT}\n", gids=f"{USER}:{FIRST}:{COUNT}\n"):
        self.etc("subuid", uids)
        self.etc("subgid", gids)

    def around(self, words):
        return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", OVER, self.top, *words]

    def command(self, *command, options=(), program="jailrun"):
        return self.around(super().command(*command, options=["--subuid", *options], program=program))

    def writable(self, name):
        path = os.path.join(self.scratch, name)
        os.mkdir(path, 0o755)
        os.chown(path, USER, USER)
        return path


def owners(top):
    """{(uid, gid)} of all that is below."""
    text = subprocess.run(["find", top, "-printf", "%U %G\n"], capture_output=True, text=True, check=True).stdout
    return {tuple(int(word) for word in line.split()) for line in text.splitlines()}


def identity(t, jail, name):
    value = mark()
    child = subprocess.Popen(jail.command("/bin/sh", "-c", "read x", options=["--env", f"MARK={value}"]), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def payload():
        return [pid for pid in marked_processes(value) if open(f"/proc/{pid}/comm").read() == "sh\n"]
    eventually(payload)
    try:
        with open(f"/proc/{payload()[0]}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        uids, gids = ([int(word) for word in status[name].split()] for name in ("Uid", "Gid"))
        t.ok(set(uids) <= set(UPPER) and set(gids) <= set(UPPER) and len(set(uids)) == len(set(gids)) == 1 and not status["Groups"].split(),
             f"{name}: the host sees an id of the range's upper half, and no groups", f"{uids} {gids} {status['Groups']}")
        session = {int(open(f"/proc/{pid}/status").read().split("\nUid:")[1].split()[0])
                   for pid in os.listdir("/proc") if pid.isdigit() and pid != str(child.pid) and in_tree(int(pid), child.pid)}
        t.equal(session - {uids[0], USER}, set(), f"{name}: the helper and PID 1 have it, agent-jail is the user's")
    finally:
        child.communicate()


def in_tree(pid, top):
    while pid > 1:
        if pid == top:
            return True
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def runs(t, jail):
    layers = [*jail.layer("base/1/tree", {"a": "1\n", "d/x": "x\n", "d/y": "y\n", "o/low": "1\n"}),
              *jail.layer("run/2/tree", {"d/x": None, "o": ("dir", True), "o/high": "2\n", "run.sh": "#!/bin/sh\necho ran\n"})]
    layers = [*layers[2:], *layers[:2], *jail.stores(), *jail.layer("deps/1/home", {"h": "h\n"}, home=True)]
    result = jail.run("/bin/sh", "-c", "id -u; cat /proc/self/uid_map; ls d o; ./run.sh; echo more >>a; rm -r d; mkdir d; cat ~/h; "
                                       "stat -c %u a run.sh ~/h /usr/bin/env; find /work /home ! -readable", options=layers)
    words = result.out.split()
    t.equal((words[:4], words[4:], result.uid, result.work),
            (["1000", "1000", "0", "1"], ["d:", "y", "o:", "high", "ran", "h", "1000", "1000", "1000", "65534"], "subuid", "copy"),
            "layers are the payload's own, as copies", result.text())
    t.ok("uid" in result.layers.split(), "a uid of its own is among the layers", result.text())
    result = jail.run("/bin/sh", "-c", "setpriv --reuid 1 true || unshare -U true || echo no", options=layers)
    t.ok("no" in result.out.split(), "the user's id cannot be taken", result.text())
    result = jail.run("true", options=["--separate-uid"])
    t.equal((result.outcome, result.uid), ("exited", "subuid"), "that is a uid of its own, where one is asked for", result.text())
    started = [jail.start("/bin/sh", "-c", "cat /proc/self/status >/dev/null; sleep 1", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for _ in range(8)]
    t.equal([child.communicate() and child.returncode for child in started], [0] * 8, "eight at once")


def exclusive(t, jail):
    """Two jails never have one id, though there are as few as can be; one with a name in passwd or group has none of them."""
    code = "id -u >/dev/null; echo on; read x"

    def begin():
        child = subprocess.Popen(jail.command("/bin/sh", "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return child, child.stdout.readline()

    def ends(child):
        child.communicate(b"\n")
        return child.returncode
    jail.ranges(uids=f"ranger:{FIRST}:2\n")
    first, said = begin()
    t.equal(said, b"on\n", "the one id of a small range is had")
    second = jail.run("echo", "ran")
    t.ok(second.outcome == "setup" and "other jails'" in second.detail and "jail.uid = shared" in second.next and "ran" not in second.out,
         "and by no other jail meanwhile, whatever its number", second.text())
    t.equal(ends(first), 0, "the first ends")
    again = jail.run("id", "-u")
    t.equal((again.outcome, again.out), ("exited", "1000\n"), "then it is free again", again.text())

    first, said = begin()
    outer = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and in_tree(int(pid), first.pid)
             and open(f"/proc/{pid}/comm").read() == "agent-jail\n"]
    os.kill(min(outer), signal.SIGKILL)
    first.communicate()
    t.ok(eventually(lambda: jail.run("true").outcome == "exited"), "and behind one that was killed")

    jail.ranges(uids=f"ranger:{FIRST}:6\n")
    three = [begin() for _ in range(3)]
    t.equal([said for _, said in three], [b"on\n"] * 3, "three jails have the three ids of a range")
    fourth = jail.run("true")
    t.equal(fourth.outcome, "setup", "and a fourth none", fourth.text())
    t.equal([ends(child) for child, _ in three], [0] * 3, "they end")

    for file, line in (("passwd", f"somebody:x:{FIRST + 1}:7::/:/bin/sh\n"), ("group", f"some:x:{FIRST + 1}:\n")):
        path = os.path.join(jail.top, "etc", file)
        with open(path if os.path.exists(path) else "/etc/" + file, encoding="utf-8") as old:
            before = old.read()
        jail.etc(file, before + line)
        jail.ranges(**{"uids" if file == "passwd" else "gids": f"ranger:{FIRST}:2\n"})
        named = jail.run("true")
        t.ok(named.outcome == "setup" and "/etc/" + file in named.detail, f"an id with a name in {file} is not given", named.text())
        jail.etc(file, before)
    jail.ranges()

    # a place that another user has taken is left out; without any nothing is run
    for path in NOTES:
        os.unlink(path)
    for kind, make in (("a file of another's", lambda path: open(path, "w", encoding="ascii").close()),
                       ("a link", lambda path: os.symlink("/etc/passwd", path)), ("a FIFO", os.mkfifo)):
        make(NOTES[0])
        result = jail.run("true")
        t.equal(result.outcome, "exited", f"{kind} at one place: there are others", result.text())
        os.unlink(NOTES[1])
        make(NOTES[1])
        result = jail.run("echo", "ran")
        t.ok(result.outcome == "setup" and "agent-ids" in result.detail and "ran" not in result.out, f"{kind} at all of them: nothing is run",
             result.text())
        for path in NOTES:
            os.unlink(path)


HOSTILE = """cd /opt/rw && echo x >f && chmod 6777 f && ln -s /etc/passwd l && mkfifo p && mkdir -m 0 none && rm old && mkdir -p a/b && echo 1 >a/b/c &&
python3 - <<'END'
import os, struct
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in ((1, 7, 0xffffffff), (2, 7, os.getuid()), (4, 7, 0xffffffff), (16, 7, 0xffffffff),
                                                                        (32, 0, 0xffffffff)))
for name, kind in (('f', 'access'), ('a', 'access'), ('a/b', 'default')):
    os.setxattr(name, 'system.posix_acl_' + kind, acl)
for i in range(3000):
    os.mkdir('deep'); os.chdir('deep')
open('bottom', 'w').write('x')
END
echo done"""


def writes(t, jail):
    path = jail.writable("rw")
    with open(os.path.join(path, "old"), "w", encoding="ascii"):
        pass
    os.chown(os.path.join(path, "old"), USER, USER)
    with open("/etc/passwd", "rb") as file:
        before = (file.read(), os.stat("/etc/passwd").st_uid, os.stat("/etc/passwd").st_mode)
    result = jail.run("/bin/sh", "-c", HOSTILE, options=["--rw", f"{path}:/opt/rw"])
    t.ok("done" in result.out, "a directory that it may write is its own while it runs", result.text())
    t.equal(owners(path), {(USER, USER)}, "and the user's again behind it, however it was left")
    t.equal(stat.S_IMODE(os.stat(os.path.join(path, "f")).st_mode), 0o770, "without set-id bits")
    t.equal([name for name in ("f", "a", "a/b") if os.listxattr(os.path.join(path, name))], [], "without lists of others who may")
    t.equal(sorted(os.listdir(path)), ["a", "deep", "f", "l", "none", "p"], "with all that it wrote")
    with open("/etc/passwd", "rb") as file:
        t.equal((file.read(), os.stat("/etc/passwd").st_uid, os.stat("/etc/passwd").st_mode), before, "a link is not followed")
    removed = subprocess.run([*jail.drop, "rm", "-rf", os.path.join(path, "none"), os.path.join(path, "deep")], check=False)
    t.equal(removed.returncode, 0, "the user can remove it")
    work = jail.writable("work")
    result = jail.run("/bin/sh", "-c", "mkdir x; echo 1 >x/y", options=["--work-dir", work, "--work-rw"])
    t.equal((result.value, owners(work), os.listdir(work)), ("0", {(USER, USER)}, ["x"]), "a work tree that it may write, too", result.text())


def killed(t, jail):
    """agent-jail is killed while the payload writes: what it wrote is of the range, and --reclaim gives it back."""
    path, value = jail.writable("killed"), mark()
    child = jail.start("/bin/sh", "-c", "mkdir -m 700 /opt/rw/d; echo x >/opt/rw/d/f; echo y >/opt/rw/ready; sleep 100",
                       options=["--rw", f"{path}:/opt/rw", "--env", f"MARK={value}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    eventually(lambda: os.path.exists(os.path.join(path, "ready")))
    outer = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and in_tree(int(pid), child.pid)
             and open(f"/proc/{pid}/comm").read() == "agent-jail\n"]
    os.kill(min(outer), signal.SIGKILL)
    child.communicate()
    t.ok(eventually(lambda: not marked_processes(value)), "agent-jail is killed: nothing runs on", marked_processes(value))
    t.ok(owners(path) & {(uid, uid) for uid in UPPER}, "what it wrote has ids of the range", owners(path))
    stuck = subprocess.run([*jail.drop, "rm", "-rf", os.path.join(path, "d")], capture_output=True, check=False)
    t.ok(stuck.returncode != 0, "which the user cannot remove", stuck)
    result = jail.run("true", options=["--reclaim", "--scratch", path])
    t.equal((result.outcome, owners(path)), ("exited", {(USER, USER)}), "it is given back", result.text())
    result = jail.run("true", options=["--reclaim", "--scratch", os.path.join(jail.scratch, "nowhere")])
    t.ok(result.outcome == "setup" and "nowhere" in result.detail, "what is not there cannot be", result.text())
    foreign = os.path.join(path, "foreign")
    os.mkdir(foreign)
    result = jail.run("true", options=["--reclaim", "--scratch", path])
    t.ok(result.outcome == "setup" and os.stat(foreign).st_uid == 0, "what is neither the user's nor of their range stays", result.text())


def not_given(t, jail):
    """What cannot be given to the payload is a set-up error that says so, though it cannot be given back either."""
    path = jail.writable("foreign")
    for name in "abcdefghij":
        os.mkdir(os.path.join(path, name))
        os.chown(os.path.join(path, name), *([0, 0] if name in "eh" else [USER, USER]))
    with open(os.path.join(jail.scratch, "file"), "w", encoding="ascii") as file:
        os.fchown(file.fileno(), USER, USER)
    for source, why in ((path, "cannot be given to uid"), (file.name, "Not a directory")):
        result = jail.run("echo", "ran", options=["--rw", f"{source}:/opt/rw"])
        t.ok(result.outcome == "setup" and result.status == 125 and why in result.detail and source in result.detail and "ran" not in result.out,
             f"what may not be written: {why}", result.text())
        t.equal(owners(source) - {(0, 0)}, {(USER, USER)}, "and what is the user's is so still")


FAILS = [
    ("newuidmap", "#!/bin/sh\nprintf 'it is \\033[31m broken' >&2\nexit 1\n", "/usr/bin/newuidmap failed: it is"),
    ("newgidmap", "#!/bin/sh\nexit 3\n", "/usr/bin/newgidmap failed: it says nothing"),
    ("newuidmap", "#!/bin/sh\nyes | head -c 3000000 >&2\nexit 1\n", "/usr/bin/newuidmap failed: y"),
]


def failures(t, jail):
    for program, text, told in FAILS:
        jail.etc(program, text, 0o755)
        result = jail.run("echo", "ran")
        t.ok(result.outcome == "setup" and result.status == 125 and told in result.detail and "jail.uid = shared" in result.next and
             "\x1b" not in str(result.facts) and "ran" not in result.out, f"{program} fails: {told}", result.text())
        os.unlink(os.path.join(jail.top, "etc", program))
    result = jail.run("true", options=["--fault", "subuid"])
    t.ok(result.outcome == "setup" and result.detail.startswith("subuid:"), "a fault in that step", result.text())
    jail.ranges(uids=f"ranger:{FIRST}:{COUNT}\n", gids=f"ranger:{FIRST}:0\n")
    absent(t, jail, "no range of gids", "subordinate gids")
    jail.ranges(uids="ranger:x:65536\nranger:0:65536\nranger:4294967295:1\nranger:4294000000:99999999\nothers:1:1\n"
                     f"ranger:{USER}:1\nranger:\n:::\n\nranger:{FIRST}:12x\n")
    absent(t, jail, "no sound range of uids", "subordinate uids")
    jail.ranges()
    jail.etc("newuidmap", "", 0o644)
    absent(t, jail, "no newuidmap", "newuidmap")
    os.unlink(os.path.join(jail.top, "etc/newuidmap"))
    drop = jail.drop
    jail.drop = [*drop, "--no-new-privs"]
    absent(t, jail, "no new privileges", "no_new_privs")
    jail.drop = drop
    jail.etc("passwd", "root:x:0:0::/:/bin/sh\n")
    jail.ranges(uids=f"{USER}:{FIRST}:{COUNT}\n")
    absent(t, jail, "a user who is not in passwd", "/etc/passwd")


def absent(t, jail, name, why):
    result = jail.run("true")
    t.equal((result.outcome, result.uid), ("exited", "shared"), f"{name}: the user's own uid, and it is said", result.text())
    result = jail.run("true", options=["--separate-uid"])
    t.ok(result.outcome == "setup" and result.detail.startswith("identity:") and why in result.detail and result.next,
         f"{name}: refused where one of its own is asked for, and told why", result.text())


def commands(t, jail):
    """The user's commands: jail, audit, doctor, and gc behind a warm that was killed."""
    home, repo = jail.writable("home"), jail.writable("repo")
    env = {"HOME": home, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    programs = os.path.join(jail.top, "programs")
    subprocess.run(["cp", "-r", "--", BUILD, programs], check=True)

    def agent(*words):
        return subprocess.run(jail.around([*jail.drop, os.path.join(programs, "agent"), *words]), cwd=repo, env=env, capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, check=False)
    for words in (["git", "init", "-q"], ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*jail.drop, *words], cwd=repo, env=env, check=True)
    degraded = ["--limits", "degraded-ok"]
    done = agent("jail", *degraded, "--json", "--", "id", "-u")
    t.equal((done.returncode, json.loads(done.stdout.splitlines()[-1])["uid"]), (0, "subuid"), "agent jail uses the range", done)
    done = agent("jail", *degraded, "-c", "jail.uid=shared", "--json", "--", "true")
    t.equal((done.returncode, json.loads(done.stdout.splitlines()[-1])["uid"]), (0, "shared"), "unless jail.uid = shared", done)
    with open(os.path.join(repo, "new"), "w", encoding="ascii") as file:
        file.write("new\n")
    done = agent("jail", *degraded, "--dirty", "--", "cat", "new")
    t.equal((done.returncode, done.stdout), (0, "new\n"), "a view of the working directory is copied", done)
    audit = json.loads(agent("audit", *degraded, "--config", "--json", "-c", "test.command=true").stdout or "{}")
    outside = audit.get("jails", {}).get("test", {}).get("ids", {}).get("outside", {})
    t.ok(int(outside.get("uid", 0)) in UPPER, "agent audit names the id", outside)
    rows = [row for row in json.loads(agent("doctor", "--json").stdout)["rows"] if row["name"] == "uids"]
    t.ok(rows and str(UPPER[0]) in rows[0]["detail"], "agent doctor names the range", rows)
    left = os.path.join(home, ".local/state/agent/store/deps/.tmp-dead")
    os.makedirs(os.path.join(left, "work/a"))
    subprocess.run(["chown", "-R", f"{USER}:{USER}", os.path.join(home, ".local/state/agent/store/deps")], check=True)
    for path in ("work", "work/a"):
        os.chown(os.path.join(left, path), UPPER[7], UPPER[7])
    done = agent("gc")
    t.ok(done.returncode == 0 and not os.path.exists(left), "agent gc removes what a killed warm left", done)
    done = subprocess.run([*jail.drop, "rm", "-rf", os.path.join(home, ".local")], capture_output=True, text=True, check=False)
    t.equal(done.returncode, 0, "and nothing is left that the user cannot remove", done)


def main():
    with Tap() as t:
        if os.geteuid() != 0:
            t.skip("a user with a range", "only root can make a user with a range for the test")
            return
        if not os.path.exists("/usr/bin/newuidmap"):
            t.skip("a user with a range", "newuidmap is not installed: tests/setup check installs it (uidmap)")
            return
        for backend in backends():
            with Range(backend) as jail:
                result = jail.run("/bin/sh", "-c", "id -u; echo x >x; cat x")
                t.equal((result.out, result.uid), ("1000\nx\n", "subuid"), f"{backend}: it runs", result.text())
        with Range() as jail:
            identity(t, jail, "native")
            exclusive(t, jail)
            runs(t, jail)
            writes(t, jail)
            not_given(t, jail)
            killed(t, jail)
            commands(t, jail)
            failures(t, jail)


main()
