#!/usr/bin/python3
# deadline: 300
"""What programs expect of the system around them, in the jail: the complaints that users of other sandboxes have had, one by one.
What must stay denied is denied in the way that programs know how to take."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from compat import Row, run_rows  # noqa: E402
from tap import Tap  # noqa: E402


def python(name, code, needs="", **more):
    return Row(name, "python3 " + needs, "python3 t.py", {"t.py": code}, **more)


def shell(name, script, needs="", files=None, **more):
    return Row(name, needs, "set -e\n" + script, files, **more)


PLACES = [
    python("/dev/shm, /tmp, /var/tmp, HOME: sized, writable, programs start there", r"""
import os, stat, subprocess
for place, mode in (("/dev/shm", 0o1777), ("/tmp", 0o1777), (os.environ["HOME"], 0o700), (os.environ["XDG_RUNTIME_DIR"], 0o700)):
    st = os.stat(place); assert stat.S_IMODE(st.st_mode) == mode, (place, oct(st.st_mode))
    if mode == 0o700: assert st.st_uid == os.getuid(), place
for place in ("/dev/shm", "/tmp", "/var/tmp", os.environ["HOME"], "/work", os.environ["XDG_RUNTIME_DIR"]):
    path = place + "/program"; open(path, "w").write("#!/bin/sh\nexit 7\n"); os.chmod(path, 0o700)
    assert subprocess.call([path]) == 7, place
    assert os.statvfs(place).f_bavail > 0
for name in ("CACHE_HOME", "CONFIG_HOME", "DATA_HOME", "STATE_HOME"):
    os.makedirs(os.environ["XDG_" + name])
assert os.environ["TMPDIR"] == "/tmp" and not os.path.exists("/run/user")
"""),
    shell("links of a merged /usr, /var/run, the usual shells and interpreters", r"""
test -x /bin/sh; test -x /usr/bin/env; /usr/bin/env sh -c true
test ! -d /usr/bin -o ! -L /host; test "$(readlink /var/run)" = /run; test "$(readlink /var/tmp)" = /tmp
for link in fd stdin stdout stderr; do test -L /dev/$link; done; test -c /dev/full; test -c /dev/tty; test -c /dev/random
echo x >/dev/stdout; echo x >/dev/stderr; echo y | cat /dev/stdin | cat /dev/fd/0 | grep -qx y; ! echo x 2>/dev/null >/dev/full"""),
    shell("lists of /etc, read-only: services, protocols, mime types, alternatives, certificates, the loader's cache", r"""
getent services https >/dev/null; getent protocols tcp >/dev/null; test ! -e /etc/ssl/private; test ! -e /etc/shadow
test -s /etc/ld.so.cache; ls /etc/alternatives >/dev/null
test ! -d /etc/ssl/certs || cat /etc/ssl/certs/*.pem >/dev/null; cat /etc/os-release >/dev/null"""),
]

NAMES = [
    shell("a user with a name, a home, a shell; a host with a name", r"""
test "$(whoami)" = agent; test "$(id -gn)" = agent; getent passwd agent | grep -q ':/home/agent:/bin/sh$'; test ~ = /home/agent
test "$(getent passwd "$(id -u)")" = "$(getent passwd agent)"; test "$(uname -n)" = "$(hostname 2>/dev/null || cat /etc/hostname)"
test ${#USER} -gt 0; test "$(wc -c </etc/machine-id)" = 33; getent hosts "$(uname -n)" >/dev/null"""),
    python("localhost in both families, also when only configured addresses are asked for; no other name, at once", r"""
import socket, time
begun = time.monotonic()
for flags in (0, socket.AI_ADDRCONFIG):
    found = {i[0] for i in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM, flags=flags)}
    assert found == {socket.AF_INET, socket.AF_INET6}, (flags, found)
assert socket.gethostbyname(socket.gethostname()).startswith("127.")
assert socket.gethostbyaddr("127.0.0.1")[0] == "localhost"
for name in ("example.com", "registry.invalid", "jail.example.com"):
    try: socket.getaddrinfo(name, 443); raise SystemExit(name)
    except socket.gaierror: pass
assert time.monotonic() - begun < 3
"""),
    python("locales and time zones", r"""
import locale, os, subprocess, time, zoneinfo, datetime
locale.setlocale(locale.LC_ALL, ""); assert "UTF-8" == locale.nl_langinfo(locale.CODESET) and "LC_ALL" not in os.environ
assert sys.getfilesystemencoding() == "utf-8" if (sys := __import__("sys")) else False
open("\u00e4\u4e2d", "w").close(); assert "\u00e4\u4e2d" in os.listdir(".")
assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("America/New_York")).utcoffset() == datetime.timedelta(hours=-4)
os.environ["TZ"] = "Europe/Berlin"; time.tzset(); assert time.localtime(0).tm_hour == 1
assert subprocess.run(["date", "-d", "@0", "+%H"], env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True).stdout == b"09\n"
assert subprocess.run(["date", "-d", "@0", "+%H %Z"], env={"TZ": "UTC"}, capture_output=True).stdout == b"00 UTC\n"
""", "date"),
    shell("a locale of the tests' own", r"""
localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 2>/dev/null || test -d de_DE.UTF-8
test "$(LOCPATH=$PWD LC_ALL=de_DE.UTF-8 date -d @0 +%A)" = Donnerstag""", "localedef /usr/share/i18n/locales/de_DE"),
]

SYSTEM = [
    python("limits that programs need: descriptors, stack, addresses, files", r"""
import resource as r, mmap, os
soft, hard = r.getrlimit(r.RLIMIT_NOFILE); assert soft == 1024 and hard >= 4096; r.setrlimit(r.RLIMIT_NOFILE, (hard, hard))
assert r.getrlimit(r.RLIMIT_STACK) == (8 << 20, r.RLIM_INFINITY) and r.getrlimit(r.RLIMIT_AS)[0] == r.RLIM_INFINITY
assert r.getrlimit(r.RLIMIT_FSIZE)[0] >= 1 << 30 and os.umask(0) == 0o22
m = mmap.mmap(-1, 1 << 45, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)
fds = [os.dup(0) for _ in range(3000)]
"""),
    python("signals as at a login: none ignored, none blocked", r"""
import signal
for line in open("/proc/self/status"):
    if line.startswith(("SigBlk", "SigIgn")):
        mask = int(line.split()[1], 16) & ~(1 << signal.SIGPIPE - 1) & ~(1 << 24)  # the interpreter's own: SIGPIPE, SIGXFSZ
        assert not mask, line
"""),
    python("processors counted alike everywhere", r"""
import os, subprocess, glob
n = len(os.sched_getaffinity(0)); assert int(subprocess.check_output(["nproc"])) == n
assert int(subprocess.check_output(["getconf", "_NPROCESSORS_ONLN"])) >= n
assert len(glob.glob("/sys/devices/system/cpu/cpu[0-9]*")) >= n and open("/sys/devices/system/cpu/online").read()
assert open("/proc/cpuinfo").read().count("processor") >= n
""", "getconf"),
    python("calls that are refused are refused in a way that libraries fall back from", r"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def answer(number, *args):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args]) == -1 else 0
for name, number in (("clone3", 435), ("io_uring_setup", 425), ("not yet a call", 600), ("keyctl", 250)):
    assert answer(number, 0, 0, 0) == errno.ENOSYS, name
assert answer(298, 0, 0, -1, -1, 0) == errno.EACCES  # perf_event_open
for name, number in (("openat2", 437), ("statx", 332), ("membarrier", 324), ("faccessat2", 439), ("futex_waitv", 449), ("rseq", 334)):
    assert answer(number, 0, 0, 0, 0, 0) != errno.ENOSYS, name
""") if os.uname().machine == "x86_64" else None,
    python("ownership: a root's file stays closed, foreign ids are refused as arguments", r"""
import os, errno
assert os.getuid() == os.geteuid() == 1000 and os.getgroups() in ([], [1000])
open("f", "w").close(); os.chmod("f", 0)
try: open("f"); raise SystemExit(1)
except PermissionError: pass
os.chown("f", 1000, 1000)
for call in (lambda: os.chown("f", 0, 0), lambda: os.setgroups([5]), lambda: os.setuid(0)):
    try: call(); raise SystemExit(2)
    except OSError as e: assert e.errno in (errno.EINVAL, errno.EPERM), e
"""),
    python("files that change are told: inotify, epoll, leases on time stamps", r"""
import os, select, ctypes, time
libc = ctypes.CDLL(None); fd = libc.inotify_init1(0); assert libc.inotify_add_watch(fd, b".", 0x100) > 0
open("new", "w").close(); assert select.select([fd], [], [], 5)[0]
os.utime("new", ns=(1, 123456789)); assert os.stat("new").st_mtime_ns == 123456789
"""),
    python("sockets: options, names, broadcast on the loopback, ICMP", r"""
import socket as s
for family, host in ((s.AF_INET, "127.0.0.1"), (s.AF_INET6, "::1")):
    with s.socket(family, s.SOCK_STREAM) as a:
        a.setsockopt(s.SOL_SOCKET, s.SO_REUSEADDR, 1); a.setsockopt(s.SOL_SOCKET, s.SO_REUSEPORT, 1)
        a.setsockopt(s.IPPROTO_TCP, s.TCP_NODELAY, 1); a.bind((host, 81)); a.listen(); assert a.getsockname()[1] == 81
g = s.socket(s.AF_INET, s.SOCK_DGRAM); g.setsockopt(s.IPPROTO_IP, s.IP_MULTICAST_IF, s.inet_aton("127.0.0.1")); g.bind(("", 9999))
g.setsockopt(s.IPPROTO_IP, s.IP_ADD_MEMBERSHIP, s.inet_aton("224.1.1.1") + s.inet_aton("127.0.0.1"))
assert [n for _, n in s.if_nameindex()][0] == "lo"
"""),
    python("the overlay: a renamed directory, hard links, holes, unlinked and nameless files", r"""
import os, shutil, tempfile, errno
os.makedirs("a/b"); open("a/b/f", "w").write("x"); os.rename("a", "c"); os.link("c/b/f", "h"); assert os.stat("h").st_nlink == 2
shutil.move("lower", "moved"); assert open("moved/f").read() == "lower\n" and not os.path.exists("lower")
os.replace("low", "low2"); os.link("low2", "low3"); os.unlink("low2"); assert open("low3").read() == "text\n"
before = os.stat("same").st_mtime_ns; open("same", "a").close(); assert os.stat("same").st_mtime_ns == before
with tempfile.TemporaryFile(dir=".") as f: f.write(b"x")
fd = os.open("sparse", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 1 << 29); assert os.fstat(fd).st_blocks < 100
os.posix_fallocate(fd, 0, 4096); os.mkdir("closed", 0); os.mkdir("d"); os.rmdir("d")
import fcntl; fcntl.flock(fd, fcntl.LOCK_EX); fcntl.lockf(fd, fcntl.LOCK_UN)
"""),
    python("a sandbox within: Landlock and seccomp of the tests' own", r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Filter(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Prog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]
one = (Filter * 1)(Filter(6, 0, 0, 0x7fff0000)); prog = Prog(1, one)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(prog), 0, 0) == 0
attr = (ctypes.c_uint64 * 1)(2); fd = libc.syscall(444, attr, 8, 0); assert fd >= 0 and libc.syscall(446, fd, 0) == 0
try: open("denied", "w"); raise SystemExit(1)
except PermissionError: pass
"""),
]
# what lies below the tests' own files
SYSTEM[-2].files.update({"lower/f": "lower\n", "low": "text\n", "same": "x\n"})

TOOLS = [
    shell("AddressSanitizer finds, LeakSanitizer finds, UndefinedBehaviorSanitizer finds", r"""
gcc -g -fsanitize=address,undefined -fno-sanitize-recover=undefined a.c -o a
! ./a use 2>err; grep -q heap-use-after-free err; ! ./a leak 2>err; grep -q 'detected memory leaks' err
! ./a over 2>err; grep -q 'signed integer overflow' err; ./a fine""", "gcc", {"a.c": r"""
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) {
	volatile int big = 2147483647;
	char *p = malloc(9);
	if (!strcmp(v[1], "leak")) { *(char *volatile *)&p = malloc(8); p = 0; return 0; }
	free(p);
	return !strcmp(v[1], "use") ? p[c] : !strcmp(v[1], "over") ? big + c : 0;
}
"""}, options=["--mem", str(1 << 50)]),  # without a control group the limit counts what is reserved
    shell("ThreadSanitizer finds a race, and nothing where there is none", r"""
gcc -g -fsanitize=thread t.c -o t -pthread; ! ./t 1 2>err; grep -q 'data race' err; ./t""", "gcc", {"t.c": r"""
#include <pthread.h>
static int n; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static int wild;
static void *f(void *a) { if (!wild) pthread_mutex_lock(&lock); n++; if (!wild) pthread_mutex_unlock(&lock); return a; }
int main(int c, char **v) { pthread_t t[4]; wild = c > 1; (void)v;
	for (int i = 0; i < 4; i++) pthread_create(t + i, 0, f, 0);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	return n != 4; }
"""}, options=["--mem", str(1 << 50)]),
    shell("a standalone leak check", "gcc -g -fsanitize=leak l.c -o l; ! ./l 2>err; grep -q 'detected memory leaks' err", "gcc",
          {"l.c": "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(7); p = 0; return p != 0; }\n"},
          options=["--mem", str(1 << 50)]),
    shell("gdb: breakpoints, watchpoints, threads, attaching, a child followed", r"""
gcc -g -pthread -O0 g.c -o g
gdb -q -batch -ex 'break f' -ex run -ex bt -ex 'print n' -ex 'watch n' -ex continue -ex 'info threads' -ex 'delete' -ex continue ./g >out 2>&1
grep -q 'Breakpoint 1, f' out; grep -q 'Hardware watchpoint\|Watchpoint' out; grep -q 'exited with code 03' out
./g wait & pid=$!; gdb -q -batch -p $pid -ex bt -ex detach >out 2>&1; kill $pid; grep -q main out""", "gcc gdb", {"g.c": r"""
#include <pthread.h>
#include <unistd.h>
int n;
static void *f(void *a) { n = 3; return a; }
int main(int c, char **v) { pthread_t t; (void)v; if (c > 1) pause(); pthread_create(&t, 0, f, 0); pthread_join(t, 0); return n; }
"""}),
    shell("strace: follows children, attaches, counts", r"""
strace -f -o out sh -c 'ls >/dev/null; true'; grep -q 'execve("/bin/sh\|execve("/usr/bin/sh' out; grep -q '+++ exited with 0' out
strace -c -o out true; grep -q execve out; sleep 30 & strace -p $! -o out & sleep 0.3; kill $!; kill %1 2>/dev/null || kill "$(pgrep sleep)"; true""",
          "strace pgrep"),
    shell("script gives a terminal", r"""
script -qec 'test -t 0 && test -t 1 && stty size >/dev/null && tty' /dev/null </dev/null | grep -q /dev/pts/""", "script"),
    shell("git: identity, commit, branch, merge, hooks, the tests' own HOME configuration", r"""
git config --global init.defaultBranch trunk; git init -q r; cd r; echo a >f; git add f; git commit -qm one
git checkout -qb side; echo b >g; git add g; git commit -qm two; git checkout -q trunk; git merge -q --no-ff -m m side
printf '#!/bin/sh\nexit 1\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ! git commit -q --allow-empty -m no 2>/dev/null
git clone -q --bare . ../b; git push -q ../b HEAD:x; git log --format='%an <%ae>' -1 | grep -qx 'agent <agent@localhost>'; git fsck 2>/dev/null""", "git"),
    shell("ps, pgrep, top, df, mount, free, uptime, lsof of one's own", r"""
sleep 20 & until pgrep -x sleep >/dev/null; do sleep 0.05; done; ps -o pid,comm -p $! | grep -q sleep; top -bn1 >/dev/null; df / >/dev/null; mount >/dev/null; free >/dev/null
test "$(readlink /proc/self/exe)" -ef "$(command -v readlink)"; ls -l /proc/self/fd >/dev/null; kill $!; ipcs >/dev/null""", "ps pgrep top"),
    shell("a daemon does not keep the run open", "setsid sleep 300 >/dev/null 2>&1 & exit 0"),
    shell("tar, gzip, rsync-like copies keep modes and times", r"""
mkdir -p d/e; echo x >d/e/f; chmod 751 d/e/f; touch -d '2001-02-03 04:05:06' d/e/f; tar czf t.tgz d; rm -r d; tar xzf t.tgz
test "$(stat -c '%a %Y' d/e/f)" = "$(printf '751 %s' "$(date -d '2001-02-03 04:05:06' +%s)")"; cp -a d c; test ! d/e/f -nt c/e/f"""),
    shell("make rebuilds what is newer and nothing else", r"""
printf 'out: in\n\tcp in out; echo made >>log\n' >Makefile; make -s; make -s; test "$(wc -l <log)" = 1; sleep 0.02; touch in; make -s; test "$(wc -l <log)" = 2""",
          "make", {"in": "x\n"}),
    shell("perl, awk and python speak unix time, UTF-8 and subprocesses", r"""
perl -CS -e 'print chr(228)' | od -An -tx1 | grep -q 'c3 a4'; perl -e 'exit(system("sh", "-c", "exit 3") >> 8)' || test $? = 3
awk 'BEGIN { "echo hi" | getline x; exit(x != "hi") }'""", "perl"),
]

with Tap() as tap:
    run_rows(tap, [row for row in PLACES + NAMES + SYSTEM + TOOLS if row])
