#!/usr/bin/python3
# deadline: 240
"""The scratch of a jail: on disk (jail.scratch = disk), and how a large one, in memory or on disk, is freed: by a sweeper, after
the verdict (sandbox/jail/disk.h, sandbox/jail/sweep.h)."""
import contextlib
import ctypes
import fcntl
import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, backends, eventually, mark, marked_processes, modes, stale_groups  # noqa: E402
from tap import Tap  # noqa: E402

MIB = 1 << 20
PATH = ["--env", "PATH=/usr/bin:/bin"]
MANY = "mkdir many && cd many && for i in 1 2 3 4 5 6 7 8 9 10; do mkdir $i && (cd $i && seq 3000 | xargs touch); done"
PR_SET_CHILD_SUBREAPER = 36


def layers(jail):
    return [*jail.stores(), *jail.layer("base/1/tree", {"f": "f\n", "d/x": "x\n"}), *PATH]


# ---- what a jail on disk leaves, or must not ----

def loops(jail):
    """Loop devices whose file lies below the jail's directory."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path) as file:
                if jail.top in file.read():
                    found.append(path)
        except OSError:
            pass
    return found


def mounts():
    with open("/proc/self/mountinfo") as file:
        return set(file)


def left(jail, before):
    return [*loops(jail), *(mounts() - before), *os.listdir(jail.scratch)]


def groups_of(pids):
    return [path for path in stale_groups() if int(os.path.basename(path).split("-")[1]) in pids]


# ---- on disk ----

SEEN = """
touch n && for i in . n /home/agent /tmp/runtime-agent; do [ -O $i ] && [ -G $i ] || echo "not ours: $i"; done
while read -r id parent dev root where options rest; do
	case $where in /work|/home/agent|/tmp|/dev/shm|/) echo "mount $where $options $rest";; esac
done </proc/self/mountinfo
ln f g && mv d e && cat e/x && rm -r e && mkdir d && echo d/*
"""


def there(t, jail, backend, copy):
    name = f"{backend}, {'copied' if copy else 'overlay'}"
    options = [*layers(jail), "--on-disk", "--backend", backend, *(["--copy"] if copy else [])]
    before = mounts()
    result = jail.run("/bin/sh", "-c", SEEN, options=options)
    t.equal((result.outcome, result.value, result.scratch), ("exited", "0", "disk"), f"{name}: a scratch on disk", result.text())
    lines = result.out.splitlines()
    t.ok("not ours" not in result.out and lines[-2:] == ["x", "d/*"],
         f"{name}: its files are the payload's, and can be renamed, linked, replaced", result.text())
    if backend == "native":
        seen = {line.split()[1]: line for line in lines if line.startswith("mount ")}
        disk = ["/tmp", "/dev/shm", "/", *(["/work", "/home/agent"] if copy else [])]
        t.ok(all(" ext4 " in seen.get(path, "") for path in disk), f"{name}: everything that can be written is on it", seen)
        t.ok(all("nosuid,nodev" in seen.get(path, "") for path in disk), f"{name}: nosuid, nodev", seen)
    t.ok(eventually(lambda: not left(jail, before)), f"{name}: no device, no mount, no file is left", left(jail, before))


def memory(t, jail):
    """What is written to a scratch in memory is the jail's memory; on disk it is not, but for caches."""
    write = ["/bin/sh", "-c", "dd if=/dev/zero of=big bs=1M count=400 2>/dev/null && cmp -n 419430400 big /dev/zero && stat -c %s big"]
    options = [*layers(jail), "--mem", str(128 * MIB), "--disk", str(600 * MIB), "--fsize", str(600 * MIB)]
    result = jail.run(*write, options=[*options, "--on-disk"])
    t.equal((result.outcome, result.value, result.out), ("exited", "0", "419430400\n"), "400 MiB with 128 MiB of memory, on disk",
            result.text())
    t.ok(int(result.memory_peak_bytes or 0) <= 129 * MIB, "its caches are within the jail's memory", result.text())
    result = jail.run(*write, options=options)
    t.ok(int(result.oom_count or 0) > 0 and result.value != "0", "in memory it is out of memory", result.text())


FULL = {
    "bytes": (["--disk", str(24 * MIB), "--fsize", str(64 * MIB)],
              "said=$(dd if=/dev/zero of=big bs=64k 2>&1); n=$?; rm big; echo \"$said\" | grep -c 'No space left'; echo x >again && exit $n"),
    "files": (["--inodes", "1200"],
              "i=0; while touch f$i 2>&1; do i=$((i + 1)); done | grep -c 'No space left'; rm f1; touch again; exit 1"),
}


def full(t, jail):
    for what, (limits, script) in FULL.items():
        told = []
        for where in ([], ["--on-disk"]):
            result = jail.run("/bin/sh", "-c", script, options=[*layers(jail), *limits, *where])
            told.append((result.outcome, result.value, result.out, result.detail))
        t.equal(told[1], told[0], f"no {what} left: the same verdict on disk as in memory")
        t.equal(told[1], ("exited", "1", "1\n", ""), f"no {what} left: the command sees it, and goes on")


def sizes(t, jail):
    """Whatever is asked for: that much, and little more."""
    for size, files in ((1, 300), (8, 500000), (33, 33000), (1024, 1000), (2048, 1 << 20)):
        result = jail.run("/bin/stat", "-f", "-c", "%a %S %d", "/tmp",
                          options=[*layers(jail), "--on-disk", "--disk", str(size * MIB), "--inodes", str(files)])
        free, block, inodes = [int(word) for word in result.out.split()] or [0, 0, 0]
        t.ok(0.95 * size * MIB <= free * block <= 1.1 * size * MIB + MIB and files - 300 <= inodes <= 1.05 * files + 200,
             f"{size} MiB and {files} files", result.text())


def refused(t, jail):
    options = [*PATH, "--on-disk"]
    before = mounts()

    def fails(name, detail, remedy, options, **more):
        result = jail.run("/bin/sh", "-c", "echo ran", options=options, **more)
        t.ok((result.outcome, result.status) == ("setup", 125) and "ran" not in result.out and detail in result.detail and
             remedy in result.next, name, result.text())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as ram:
        fails("a directory in memory is refused", "image: ", "jail.scratch = memory", [*options, "--store", ram])
    fails("so is a spec without a directory", "image: ", "", options)
    free = os.statvfs(jail.scratch)
    fails("a disk that has no room for all of it", "No space left", "lower jail.disk",
          [*layers(jail), "--on-disk", "--disk", str(2 * free.f_bavail * free.f_frsize)])
    jail.drop = ["/bin/sh", "-c", 'ulimit -f 1000 && exec "$0" "$@"']
    fails("a starter whose own files may not be so large", "File too large", "", [*layers(jail), "--on-disk"])
    jail.drop = []
    for step in ("image", "disk"):
        for backend in backends():
            value = mark()
            result = jail.run("/bin/sh", "-c", "echo ran", options=[*layers(jail), "--on-disk", "--backend", backend, "--env",
                                                                   f"MARK={value}", "--fault", step])
            t.ok((result.outcome, result.status) == ("setup", 125) and "ran" not in result.out and
                 result.detail.startswith(step + ":") and not marked_processes(value), f"{backend}: {step} fails: nothing is run",
                 result.text())
    script = "for f in /usr/sbin /sbin /usr/bin /usr/local/sbin; do [ ! -e $f/mke2fs ] || mount --bind /dev/null $f/mke2fs || exit 9; done; " \
             "exec \"$@\""
    facts = os.path.join(jail.scratch, "facts")
    words = jail.command("true", options=["--facts", facts, *layers(jail), "--on-disk"])
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False)
    with open(facts) as file:
        text = file.read()
    os.unlink(facts)
    t.ok(done.returncode == 125 and "mke2fs is not installed" in text and "e2fsprogs" in text, "without mke2fs", text + done.stderr)
    t.ok(eventually(lambda: not left(jail, before)), "nothing is left of all these", left(jail, before))


def refused_user(t):
    with Jail("user") as jail:
        result = jail.run("/bin/sh", "-c", "echo ran", options=[*layers(jail), "--on-disk"])
        t.ok((result.outcome, result.status) == ("setup", 125) and "ran" not in result.out and "only root" in result.detail and
             "jail.scratch = memory" in result.next, "a user is refused, and told why and what to do", result.text())


def killed(t, jail, random_times):
    """SIGKILL of one process of it, at any time."""
    rng = random.Random(random_times)
    before, ours = mounts(), set()
    for _ in range(random_times):
        child = jail.start("/bin/sh", "-c", "dd if=/dev/zero of=big bs=1M count=30 2>/dev/null; sleep 20",
                           options=[*layers(jail), "--on-disk"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        time.sleep(rng.random() * 0.12)
        pids = [child.pid, *below(child.pid)]
        kill(rng.choice(pids))
        time.sleep(rng.random() * 0.05)
        pids += below(child.pid)
        ours.update(pids)
        for pid in pids:
            kill(pid)
        child.communicate()
        jail.read_facts()

    def nothing_left():
        jail.run("true", options=[*layers(jail), "--on-disk"])  # removes the control groups of the killed, once they are empty
        return not left(jail, before) and not groups_of(ours)
    t.ok(eventually(nothing_left, 30),
         f"{random_times} jails killed, one process of each first: nothing is left", [*left(jail, before), *groups_of(ours)])


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def below(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *below(child)]
    return found


# ---- sweepers: we adopt them, so that each one is seen ----

def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def look_at(pid):
    """What a sweeper has, while it works."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            env = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        with open(f"/proc/{pid}/cgroup") as file:
            groups = file.read()
        return {**status_of(pid), "env": env, "words": words, "groups": groups, "policy": os.sched_getscheduler(pid)}
    except (OSError, ProcessLookupError):
        return {}


def run_large(jail, script=MANY, options=()):
    """A jail's result, and for each sweeper what was seen of it while it worked."""
    seen = {}
    eventually(lambda: reap() and not below(os.getpid()))
    child = jail.start("/bin/sh", "-c", script, options=[*layers(jail), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
    child.communicate()
    facts = jail.read_facts()
    while True:
        alive = [pid for pid in below(os.getpid()) if status_or_none(pid)]
        for pid in alive:
            if comm(pid) == "agent-sweeper":
                found = look_at(pid)
                seen[pid] = found if found.get("Seccomp") == "2" else seen.get(pid, {})
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if not pid:
            time.sleep(0.001)
    return facts, seen


def status_or_none(pid):
    try:
        return status_of(pid)
    except (OSError, ProcessLookupError):
        return None


def swept(t, jail, mode, options=()):
    name = f"{mode}{' ' + options[0] if options else ''}"
    facts, seen = run_large(jail, options=options)
    t.equal((facts.get("outcome"), facts.get("value"), len(seen)), ("exited", "0", 1), f"{name}: one sweeper frees 30,000 files", facts)
    one = next(iter(seen.values()), {})
    t.ok(one and set(one["CapEff"] + one["CapPrm"]) == {"0"} and one["NoNewPrivs"] == "1" and one["Seccomp"] == "2" and
         not one["env"] and one["words"].startswith(b"agent-sweeper: ") and "/job" not in one["groups"] and
         "/agent-" not in one["groups"] and one["policy"] == os.SCHED_OTHER,
         f"{name}: no capability, no environment, a filter, a name, no group of a jail, the ordinary scheduling", one)


def not_swept(t, jail, mode):
    facts, seen = run_large(jail, "touch a b c")
    t.equal((facts.get("outcome"), seen), ("exited", {}), f"{mode}: a few files are freed without one")
    with open(os.path.join(jail.bin, "agent-jail")) as program:
        fcntl.flock(program, fcntl.LOCK_EX)
        facts, seen = run_large(jail)
        t.equal((facts.get("outcome"), seen), ("exited", {}), f"{mode}: where one is at work there is no second", facts)
    with open("/proc/meminfo") as file:
        total = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemTotal"))
    facts, seen = run_large(jail, options=["--mem", str(2 * total)])
    t.equal((facts.get("outcome"), seen), ("exited", {}), f"{mode}: nor where the next job would not have room beside it", facts)


@contextlib.contextmanager
def disk_of(jail, size, make=("/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal")):
    """A directory on a file system of so many MiB."""
    image, at = os.path.join(jail.top, f"disk{size}"), os.path.join(jail.top, f"at{size}")
    with open(image, "wb") as file:
        file.truncate(size * MIB)
    subprocess.run([*make, image], check=True, stdout=subprocess.DEVNULL)
    os.mkdir(at)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        yield at
    finally:
        eventually(lambda: reap() and not below(os.getpid()))
        subprocess.run(["umount", at], check=True)


def swept_on_small_disk(t, jail):
    """A file that a sweeper still holds is not free for the next jail."""
    for size, wanted in ((180, 0), (600, 1)):
        with disk_of(jail, size) as at:
            for _ in range(3):
                facts, seen = run_large(jail, options=["--on-disk", "--scratch", at, "--disk", str(96 * MIB), "--inodes", "40000"])
                t.equal((facts.get("outcome"), facts.get("value"), len(seen)), ("exited", "0", wanted),
                        f"a disk of {size} MiB: {'a' if wanted else 'no'} sweeper has a scratch of 96", facts)


REWRITES = """
import os
scratch = os.open("big", os.O_RDWR | os.O_CREAT)
blocks = 28672
for i in range(0, blocks, 256):
    os.pwrite(scratch, bytes(256 * 4096), i * 4096)
os.fsync(scratch)
for first in range(7):
    for i in range(first, blocks, 8):
        os.pwrite(scratch, b"x" * 4096, i * 4096)
    os.fsync(scratch)
print("written")
"""


def copied_on_write(t, jail):
    """Where a file system writes again somewhere else, a scratch that is nearly all of it still has room to be written again."""
    mkfs = shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin:/usr/bin")
    with open("/proc/filesystems") as file:
        if not mkfs or "btrfs" not in file.read():
            t.skip("btrfs", "needs mkfs.btrfs and a kernel with btrfs")
            return
    with disk_of(jail, 230, (mkfs, "-q")) as at:
        result = jail.run("/usr/bin/python3", "-c", REWRITES,
                          options=[*layers(jail), "--on-disk", "--scratch", at, "--disk", str(120 * MIB), "--inodes", "1000"])
        t.equal((result.outcome, result.value, result.out), ("exited", "0", "written\n"), "on btrfs nothing is copied on write", result.text())


def slow(t, jail):
    """A process that waits for the disk cannot be killed; that is the disk's matter, not the verdict's. This disk takes nothing for
    longer than other processes are given to end (TEAR_DOWN_MS of outer.c), and then all."""
    with disk_of(jail, 200) as at:
        child = jail.start("/bin/sh", "-c", "echo on; while :; do dd if=/dev/zero of=/tmp/out bs=1M count=50 conv=fsync; done",
                           options=[*layers(jail), "--on-disk", "--scratch", at, "--disk", str(96 * MIB), "--inodes", "40000",
                                    "--wall", "2000"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdout.readline()
        subprocess.run(["fsfreeze", "--freeze", at], check=True)
        try:
            time.sleep(13)
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", at], check=True)
        child.communicate()
        facts = jail.read_facts()
        t.equal((facts.get("outcome"), facts.get("value")), ("timeout", "2000"), "a time-out while the command waits for the disk", facts)


def sweeper_killed(t, jail):
    child = jail.start("/bin/sh", "-c", MANY, options=layers(jail), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ours = {child.pid}
    while child.poll() is None:
        ours.update(below(child.pid))
        time.sleep(0.01)
    child.communicate()
    jail.read_facts()
    for pid in below(os.getpid()):
        kill(pid)
    t.ok(eventually(lambda: reap() and not below(os.getpid())), "a sweeper that is killed ends")
    t.ok(eventually(lambda: not groups_of(ours)), "and leaves no group", groups_of(ours))


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return True


def by_hand(t, jail):
    """Started by anybody as a sweeper it closes what it was given, and that is all."""
    read, write = os.pipe()
    done = subprocess.run(["agent-sweeper: frees what the command of an ended jail wrote", "x"], env={}, stdin=subprocess.DEVNULL,
                          executable=os.path.join(jail.bin, "agent-jail"), capture_output=True, check=False)
    t.equal(done.returncode, 125, "with an argument more it is not one", done)
    done = subprocess.run(["agent-sweeper: frees what the command of an ended jail wrote"], env={}, stdin=subprocess.DEVNULL,
                          executable=os.path.join(jail.bin, "agent-jail"), capture_output=True, check=False, pass_fds=[write])
    t.equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), "by hand it does nothing", done)
    os.close(write)
    os.close(read)


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                swept(t, jail, mode)
                not_swept(t, jail, mode)
                sweeper_killed(t, jail)
                by_hand(t, jail)
        if os.geteuid() != 0:
            return
        if not os.path.exists("/dev/loop-control") or not shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin"):
            t.skip("scratch on disk", "needs loop devices and mke2fs")
            return
        with Jail("root") as jail:
            for backend in backends():
                there(t, jail, backend, False)
            there(t, jail, "native", True)
            memory(t, jail)
            full(t, jail)
            sizes(t, jail)
            refused(t, jail)
            swept(t, jail, "root", ["--on-disk"])
            swept_on_small_disk(t, jail)
            copied_on_write(t, jail)
            slow(t, jail)
            killed(t, jail, int(os.environ.get("AGENT_TEST_KILLS", "15")))
        if "user" in modes():
            refused_user(t)


main()
