"""The attacks that need more from the host than a start of the probe. See attack.py."""

import fcntl
import os
import select
import socket
import subprocess
import threading
import time

from attack import DEADLINE_MS, ENDLESS, LIMITS, STATUSES, TAKES_MEMORY, Verdict, as_user


def limits(row):
    """Options of jailrun: the limit that the attack goes against, else generous ones."""
    options = {"--mem": 512 << 20, "--pids": 300, "--disk": 256 << 20, "--inodes": 20000}
    if row.id in TAKES_MEMORY:
        options["--mem"] = LIMITS["memory"]
    if row.id in ("R1", "R2"):
        options["--pids"] = LIMITS["processes"]
    if row.id in ("R5", "R7", "R17"):
        options["--disk"] = LIMITS["disk"]
    if row.id in ("R8", "R19"):
        options["--inodes"] = LIMITS["inodes"]
    if row.id in ENDLESS:
        options["--wall"] = DEADLINE_MS
    if row.id == "X37":
        options["--wall"] = 10000
    return [str(word) for pair in options.items() for word in pair]


def reason_of(run, row):
    """(word, reason) of the probe's own line."""
    for line in reversed(run.out.splitlines()):
        if line.startswith(row.id + ": "):
            _, word, reason = (line.split(": ", 2) + ["", ""])[:3]
            return word, reason
    return "", ""


def how_it_ended(box, run):
    """("exited", status), ("signalled", number), or another outcome of the jail's."""
    if box.facts:
        return run.facts.get("outcome", "nothing told"), int(run.facts.get("value") or 0)
    if run.timed_out:
        return "timeout", 0
    return ("signalled", -run.status) if run.status < 0 else ("exited", run.status)


def judge(box, row, run):
    outcome, value = how_it_ended(box, run)
    word, reason = reason_of(run, row)
    detail = run.text()
    if outcome in ("setup", "internal", "not-run", "nothing told"):
        return Verdict("broken", f"the jail tells {outcome}: {run.facts.get('detail', '')}", detail)
    if word == "worked":
        if row.id in TAKES_MEMORY | {"R1", "R2"} and run.facts.get("limits") == "degraded":
            return Verdict("not tried", f"without a control group, as the facts say: {reason}", detail)
        return Verdict("worked", reason, detail)
    if word == "not tried" and (outcome, value) == ("exited", 11):
        return Verdict("not tried", reason, detail)
    if row.id in STATUSES:
        if (outcome, value) == ("exited", STATUSES[row.id]):
            return Verdict("blocked", f"told as it was: {STATUSES[row.id]}", detail)
        return Verdict("worked", f"told as {outcome} {value}, it was {STATUSES[row.id]}", detail)
    if outcome == "limit" and row.id == "R1" and box.backend == "gvisor":
        return Verdict("blocked", "no more threads for the sandbox, and told so", detail)
    if outcome == "oom" and row.id in TAKES_MEMORY:
        return Verdict("blocked", "out of memory, and told so", detail)
    if outcome != "exited":
        return Verdict("broken", f"ended by {outcome} {value} before it could say what came of it", detail)
    if value == 12:
        return Verdict("carried out", reason, detail)
    if value == 0:
        return Verdict("blocked", reason, detail)
    if value == 11:
        return Verdict("not tried", reason, detail)
    return Verdict("broken", f"ended with {value}", detail)


def usual(host, box, row, **more):
    return judge(box, row, host.run_in(box, row, options=limits(row), **more))


# ---- time ---------------------------------------------------------------------------------------------------

def endless(host, box, row):
    run = host.run_in(box, row, options=limits(row), deadline=LONGEST if box.facts else DEADLINE_MS / 1000)
    outcome, value = how_it_ended(box, run)
    if outcome == "timeout" and run.seconds < DEADLINE_MS / 1000 + 15:
        return Verdict("carried out", f"ended by the deadline after {run.seconds:.1f} s", run.text())
    if outcome == "exited" and value == 125:
        return Verdict("broken", "the sandbox does not start", run.text())
    return Verdict("worked", f"{outcome} {value} after {run.seconds:.1f} s", run.text())


LONGEST = 40


def held_end(host, box, row):
    """A tracer holds back the payload's end: told as it was, and soon."""
    run = host.run_in(box, row, options=[*limits(row), "--wall", "2500"], deadline=LONGEST if box.facts else 2)
    outcome, value = how_it_ended(box, run)
    word, reason = reason_of(run, row)
    if word == "not tried" and (outcome, value) == ("exited", 11):
        return Verdict("not tried", reason, run.text())
    if (outcome, value) == ("exited", 42):
        return Verdict("carried out", f"told as it was, after {run.seconds:.1f} s", run.text())
    return Verdict("worked", f"told as {outcome} {value} after {run.seconds:.1f} s", run.text())


def dead_reader(host, box, row):
    if not box.facts:
        return Verdict("not tried", "the output is the caller's matter in this sandbox")
    ends = os.pipe()
    os.close(ends[0])
    run = host.run_in(box, row, options=["--no-log"], stdout=ends[1], stderr=subprocess.DEVNULL)
    os.close(ends[1])
    first = how_it_ended(box, run)
    ends = os.pipe()  # and one that is open, but not read
    stalled = host.run_in(box, row, options=["--no-log", "--wall", "600"], stdout=ends[1], stderr=subprocess.DEVNULL)
    os.close(ends[0])
    os.close(ends[1])
    if first[0] in ("exited", "signalled") and how_it_ended(box, stalled)[0] == "timeout":
        return Verdict("carried out", "both runs end", run.text())
    return Verdict("worked", f"{first}, {how_it_ended(box, stalled)}", run.text() + stalled.text())


def removal(host, box, row):
    run = host.run_in(box, row, options=limits(row))
    verdict = judge(box, row, run)
    if run.seconds > 10:
        return Verdict("worked", f"the end takes {run.seconds:.1f} s", run.text())
    return verdict


# ---- output ------------------------------------------------------------------------------------------------

def flood(host, box, row):
    if not box.facts:
        return Verdict("not tried", "the output is the caller's matter in this sandbox")
    run = host.run_in(box, row, options=["--log-bytes", "65536"])
    if len(run.out) < 70000 and "cut=1" in run.err and how_it_ended(box, run) == ("exited", 12):
        return Verdict("blocked", f"{len(run.out)} bytes were kept, and it is told", run.err)
    return Verdict("worked", f"{len(run.out)} bytes of output, {how_it_ended(box, run)}", run.text()[-500:])


def standard_output(host, box, row, **more):
    """0 is null, 1 and 2 are sockets of the caller's with something to read in them."""
    ours, theirs = socket.socketpair()
    ours.send(host.secret("output").encode())
    with ours, theirs:
        run = host.run_in(box, row, stdout=theirs, **more)
        ours.setblocking(False)
        try:
            run.out += ours.recv(65536).decode(errors="replace")
        except BlockingIOError:
            pass
    return judge(box, row, run)


def socket_handed_on(host, box, row):
    """The same, without a log of ours between: what agent-jail takes."""
    verdict = standard_output(host, box, row, options=["--no-log"], stderr=subprocess.DEVNULL)
    if verdict.verdict == "broken" and "stdio:" in verdict.reason:
        return Verdict("blocked", "the jail does not take a socket of the caller's", verdict.detail)
    return verdict


def descriptor_flags(host, box, row):
    with open("/dev/null", "rb") as null, open(os.path.join(host.out, "flags"), "w+b") as out:
        run = host.run_in(box, row, stdin=null, stdout=out)
        flags = [fcntl.fcntl(file, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) for file in (null, out)]
        out.seek(0)
        run.out += out.read().decode(errors="replace")
    verdict = judge(box, row, run)
    # what the caller gives as input itself is its own choice: ours gives /dev/null, and the jail's own
    if any(flags):
        return Verdict("worked", f"flags of the caller's descriptors are changed: {flags}", run.text())
    return verdict


def terminal(host, box, row):
    """Started from a terminal, with it as standard input; where that is refused, with one that nobody else has."""
    verdict = from_terminal(host, box, row, ["setsid", "--ctty", "--wait"])
    if verdict.verdict == "broken" and "stdio:" in verdict.reason:
        return from_terminal(host, box, row, [])
    return verdict


def from_terminal(host, box, row, wrap):
    master, slave = os.openpty()
    import termios
    modes = termios.tcgetattr(slave)
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    try:
        os.chmod(os.ttyname(slave), 0o666)
        run = host.run_in(box, row, stdin=slave, wrap=wrap)
        typed = select.select([slave], [], [], 0.05)[0]
    finally:
        os.close(master)
        os.close(slave)
    verdict = judge(box, row, run)
    if typed:
        return Verdict("worked", "something was typed into the caller's terminal", run.text())
    return verdict


def input_that_waits(host, box, row):
    """The caller's own standard input stays open; agent-test gives none."""
    if box.facts:
        return usual(host, box, row)
    if box.name != "none":
        return Verdict("not tried", "the input is the caller's matter in this sandbox")
    ends = os.pipe()
    run = host.run_in(box, row, stdin=ends[0])
    os.close(ends[0])
    os.close(ends[1])
    return judge(box, row, run)


# ---- two at once ----------------------------------------------------------------------------------------------

def lock_channel(host, box, row):
    with open(os.path.join(host.bin, "shared"), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return usual(host, box, row)


def watch_channel(host, box, row):
    stop = threading.Event()

    def open_it():
        while not stop.wait(0.01):
            with open(os.path.join(host.bin, "shared"), "rb") as file:
                file.read(1)
    thread = threading.Thread(target=open_it)
    thread.start()
    try:
        return usual(host, box, row)
    finally:
        stop.set()
        thread.join()


def earlier_job(host, box, row):
    run = host.run_in(box, row, more=["plant=1"])
    verdict = usual(host, box, row)
    for folder in (host.tree, host.home, "/tmp", "/var/tmp", "/dev/shm", "/run"):
        path = os.path.join(folder, host.base + "-earlier")
        if os.path.exists(path):
            os.unlink(path)
    verdict.detail += run.text()
    return verdict


def collusion(host, box, row):
    listener = host.run_in(box, row, more=["listen=1", "hold=3000"], wait=False)
    log = box.log if box.facts else None
    kept = (box.log, box.facts_path) if box.facts else None
    end = time.monotonic() + 5
    while time.monotonic() < end:
        listener.files[0].seek(0)
        text = listener.files[0].read()
        if log and os.path.exists(log):
            with open(log, "rb") as file:
                text += file.read()
        if b"listening" in text or listener.poll() is not None:
            break
        time.sleep(0.01)
    verdict = usual(host, box, row)
    listener.kill()
    if box.facts:
        box.log, box.facts_path = kept
    run = host.finish(box, listener)
    host.leftover = 0  # of the listener, which was killed
    for folder in ("/dev/shm", "/tmp"):
        path = os.path.join(folder, host.base + "-meet")
        if os.path.exists(path):
            os.unlink(path)
    if b"listening" not in text:
        return Verdict("broken", "the other job does not listen", run.text())
    return verdict


def shared_limits(what, told):
    """While the attack holds all that it gets, the host, as the same user, tries to have some, too."""
    def attempt(host, box, row):
        child = host.run_in(box, row, more=["hold=600"], wait=False)
        end = time.monotonic() + 10
        while time.monotonic() < end and child.poll() is None:
            child.files[0].seek(0)
            text = child.files[0].read()
            if box.facts and os.path.exists(box.log):
                with open(box.log, "rb") as file:
                    text += file.read()
            if b"holding" in text:
                break
            time.sleep(0.01)
        have = subprocess.run([host.probe, "--have", what], check=False, **as_user(box.uid))
        run = host.finish(box, child)
        verdict = judge(box, row, run)
        if have.returncode == 10:
            return Verdict("worked", told, verdict.detail)
        if box.backend == "gvisor" and how_it_ended(box, run)[0] in ("timeout", "oom"):
            # a kernel that has no end of it, within limits that have: the host has what it had
            return Verdict("carried out", f"ended by {how_it_ended(box, run)[0]}", run.text())
        return verdict
    return attempt


def standard_files(host, box, row):
    """A file to append to as output, one to read as input, both the caller's own."""
    paths = [os.path.join(host.out, name) for name in ("input", "output")]
    for path in paths:
        host.write(path, "earlier\n", 0o600)
        if os.geteuid() == 0:
            os.chown(path, box.uid, box.uid)
    with open(paths[0], "rb") as given, open(paths[1], "ab") as taken:
        run = host.run_in(box, row, stdin=given, stdout=taken, options=["--no-log"])
    told = []
    for path in paths:
        with open(path, errors="replace") as file:
            text = file.read()
        run.out += text
        if os.stat(path).st_mode & 0o7777 != 0o600:
            told.append(f"{os.path.basename(path)} has mode {os.stat(path).st_mode & 0o7777:o}")
        if not text.startswith("earlier"):
            told.append(f"{os.path.basename(path)} was truncated")
        os.unlink(path)
    if told:
        return Verdict("worked", ", ".join(told), run.text())
    if box.facts and how_it_ended(box, run)[0] == "setup":
        return Verdict("blocked", "a file of the caller's is refused before anything runs", run.text())
    return judge(box, row, run)


# ---- statuses -----------------------------------------------------------------------------------------------

def posing(host, box, row):
    """exit 137 must not look like SIGKILL, 143 like SIGTERM."""
    told = []
    for code in (137, 143, 124):
        run = host.run_in(box, row, more=[f"code={code}"])
        if box.facts and how_it_ended(box, run) != ("exited", code):
            return Verdict("worked", f"exit {code} is told as {how_it_ended(box, run)}", run.text())
        told.append(how_it_ended(box, run))
    if not box.facts:
        class Killed:
            id, section = "F27", row.section
        run = host.run_in(box, Killed)
        if how_it_ended(box, run) == told[0]:
            return Verdict("worked", f"exit 137 and SIGKILL are both told as {told[0]}", run.text())
    return Verdict("blocked", "told as exits", run.text())


def kill_oneself(host, box, row):
    run = host.run_in(box, row)
    outcome = how_it_ended(box, run)
    if outcome == ("signalled", 9) or (not box.facts and outcome == ("exited", 137)):
        return Verdict("blocked", f"told as {outcome[0]} {outcome[1]}", run.text())
    if outcome == ("exited", 11):
        return Verdict("not tried", "as PID 1 it cannot kill itself", run.text())
    return Verdict("worked", f"SIGKILL to itself is told as {outcome}", run.text())


def kill_all(host, box, row):
    """Whether somebody outside died is seen by the victims."""
    run = host.run_in(box, row)
    word, reason = reason_of(run, row)
    outcome = how_it_ended(box, run)
    if word == "worked":
        return Verdict("worked", reason, run.text())
    if box.facts and outcome != ("signalled", 9):
        return Verdict("worked", f"told as {outcome}", run.text())
    return Verdict("carried out", reason, run.text())


def false_clock(host, box, row):
    run = host.run_in(box, row, more=[] if box.facts else ["safe=1"])
    verdict = judge(box, row, run)
    if box.facts and verdict.verdict == "blocked" and not 300 <= int(run.facts.get("elapsed_ms", 0)) < 20000:
        return Verdict("worked", f"{run.facts.get('elapsed_ms')} ms are told, it took 300", run.text())
    return verdict


def hidden_usage(host, box, row):
    run = host.run_in(box, row)
    verdict = judge(box, row, run)
    peak = int(run.facts.get("memory_peak_bytes", 0) or 0)
    if verdict.verdict != "blocked" or not box.facts:
        return verdict
    if not peak:
        return Verdict("not tried", "without a control group nothing is measured, as the facts say", run.text())
    if peak < 40 << 20:
        return Verdict("worked", f"a peak of {peak} bytes is told, there were 48 MiB", run.text())
    return Verdict("blocked", f"a peak of {peak >> 20} MiB is told", run.text())


def ignoring_caller(host, box, row):
    return usual(host, box, row, wrap=["/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"])


# ---- set-up ---------------------------------------------------------------------------------------------------

def swapped_layer(host, box, row):
    """A layer is now a folder, now a link to a folder of secrets, while jails start."""
    if not box.facts:
        return Verdict("not tried", "this sandbox has no layers")
    good, other = os.path.join(host.store, "base/1"), os.path.join(host.store, "base/2")
    os.mkdir(other)
    os.symlink(host.secrets, os.path.join(other, "tree"))
    stop = threading.Event()

    def swap():
        import ctypes
        libc = ctypes.CDLL(None)
        a, b = os.path.join(good, "tree").encode(), os.path.join(other, "tree").encode()
        while not stop.is_set():
            libc.syscall(316, -100, a, -100, b, 2)  # renameat2(RENAME_EXCHANGE)
    thread = threading.Thread(target=swap)
    thread.start()
    seen, told = [], set()
    try:
        for _ in range(12):
            run = host.run_in(box, row)
            told.add(how_it_ended(box, run)[0])
            seen += [run.text()] if host.secret("file") in run.out else []
    finally:
        stop.set()
        thread.join()
        path = os.path.join(good, "tree")
        if os.path.islink(path):
            os.unlink(path)
            os.rename(os.path.join(other, "tree"), path)
        else:
            os.unlink(os.path.join(other, "tree"))
        os.rmdir(other)
    if seen:
        return Verdict("worked", "a layer was taken from behind a link", seen[0])
    if not told <= {"exited", "setup"}:
        return Verdict("broken", f"told: {sorted(told)}", run.text())
    return Verdict("carried out", f"12 starts, told: {', '.join(sorted(told))}", run.text())


def linked_mount_point(host, box, row):
    """The tree has a link where a mount point is wanted; a source lies below a link."""
    if not box.facts:
        return Verdict("not tried", "this sandbox makes no mount points from what it is told")
    layer = os.path.join(host.store, "base/3/tree")
    os.makedirs(layer)
    try:
        for name, target in (("a", host.secrets), ("b", "/opt/bin"), (".cache", "/")):
            os.symlink(target, os.path.join(layer, name))
            os.lchown(os.path.join(layer, name), box.uid, box.uid) if os.geteuid() == 0 else None
        os.chown(layer, box.uid, box.uid)
        os.symlink(host.secrets, os.path.join(host.scratch, "l"))
        runs = [host.run_in(box, row, options=["--no-layers", "--layer", "base/3/tree", "--home-layer", "base/3/tree", *more])
                for more in (["--rw", f"{host.out}:/work/a/deep"], ["--ro", f"{host.toolchain}:/work/b/x"],
                             ["--ro", f"{host.scratch}/l/file:/mnt/f"], ["--layer", "run/l"])]
    finally:
        for path in (os.path.join(host.scratch, "l"), *[os.path.join(layer, name) for name in ("a", "b", ".cache")]):
            if os.path.lexists(path):
                os.unlink(path)
        os.removedirs(layer)
        os.makedirs(host.store, exist_ok=True)
    told = [how_it_ended(box, run)[0] for run in runs]
    detail = "\n".join(run.text() for run in runs)
    if not set(told) <= {"exited", "setup"}:
        return Verdict("broken", f"told: {told}", detail)
    return Verdict("carried out", f"told: {', '.join(told)}", detail)


def admitted_socket(host, box, row):
    """A socket in a folder that the operator has admitted."""
    path = os.path.join(host.bin, "rosock")
    sock = host.canaries.unix(path)
    try:
        return usual(host, box, row, more=[f"rosock={box.inside(path)}"])
    finally:
        host.canaries.forget(sock, path)


def hostile_words(host, box, row):
    canary = os.path.join(host.out, "words")
    verdict = usual(host, box, row, more=[f"words=;touch {canary};$(touch {canary})`touch {canary}`|touch {canary}\n"])
    if os.path.exists(canary):
        os.unlink(canary)
        return Verdict("worked", "a shell took the words apart", verdict.detail)
    return verdict


def preload(host, box, row):
    """The dynamic loader of any program outside that takes the variable says so."""
    run = host.run_in(box, row, options=["--env", f"LD_PRELOAD={host.tree}/{host.base}.so"],
                      wrap=() if box.facts or box.prefix or hasattr(box, "words") else ["/usr/bin/env"])
    verdict = judge(box, row, run)
    if host.base + ".so" in run.err:
        return Verdict("worked", "a program outside has taken the library", run.text())
    return verdict


def kernel_log(host, box, row):
    """Crashes and refused calls: how many lines they make."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return Verdict("not tried", "the kernel's log cannot be read to see")
    os.lseek(log, 0, os.SEEK_END)
    run = host.run_in(box, row)
    verdict, lines = judge(box, row, run), 0
    try:
        while True:
            try:
                lines += b"attack-probe" in os.read(log, 8192)
            except BrokenPipeError:
                lines += 1
    except BlockingIOError:
        pass
    finally:
        os.close(log)
    if lines > 150:
        return Verdict("worked", f"{lines} lines in the kernel's log", run.text())
    verdict.reason += f", {lines} lines in the kernel's log"
    return verdict


SPECIAL = {"N25": standard_output, "N33": lock_channel, "N34": watch_channel, "C27": earlier_job, "E16": preload, "E27": terminal,
           "E32": swapped_layer, "E33": linked_mount_point, "E40": hostile_words, "E51": ignoring_caller, "E52": kill_all,
           "P19": descriptor_flags, "R11": flood, "R15": dead_reader, "R26": held_end, "R33": input_that_waits,
           "R38": shared_limits("user", "the host's user gets no more watchers (inotify) or queues"),
           "X34": shared_limits("async", "nobody on the host gets a context for asynchronous I/O"),
           "X37": shared_limits("flight", "the host's user can send no descriptor"), "X33": standard_files, "X38": socket_handed_on,
           "R41": kernel_log, "R42": removal, "F10": collusion, "F25": posing, "F27": kill_oneself,
           "F29": hidden_usage, "F31": false_clock, "X24": admitted_socket, **{row: endless for row in ENDLESS}}
