#!/usr/bin/python3
# deadline: 300
"""Real software works in the jail: a jail in which test suites fail gets switched off. What this machine does not have is
not tried, and the name of the check says so."""
import os
import pty
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, modes  # noqa: E402
from tap import Tap  # noqa: E402

PYTHON = {
    "multiprocessing, every start method": r"""
import multiprocessing as m
def f(x): return x * x
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        c = m.get_context(method)
        with c.Pool(2) as p: assert p.map(f, [1, 2, 3]) == [1, 4, 9]
        l, q = c.Lock(), c.Queue(); q.put(1); assert q.get() == 1
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.unlink()
""",
    "unix sockets, named, abstract and in pairs": r"""
import socket, os
for name in ("/tmp/s", "\0abstract", "/work/s"):
    l = socket.socket(socket.AF_UNIX); l.bind(name); l.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(name); a, _ = l.accept(); c.send(b"x"); assert a.recv(1) == b"x"
a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [0]); assert socket.recv_fds(b, 1, 1)[1]
""",
    "servers on 127.0.0.1, ::1, localhost and the own name": r"""
import http.server, threading, urllib.request, socket
class V6(http.server.HTTPServer): address_family = socket.AF_INET6
for cls, host in ((http.server.HTTPServer, "127.0.0.1"), (V6, "::1"), (http.server.HTTPServer, "localhost"),
                  (http.server.HTTPServer, socket.gethostname())):
    s = cls((host, 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    shown = f"[{host}]" if ":" in host else host
    assert urllib.request.urlopen(f"http://{shown}:{s.server_port}/").status == 200; s.shutdown()
s = http.server.HTTPServer(("127.0.0.1", 80), http.server.SimpleHTTPRequestHandler)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"x", u.getsockname()); assert u.recv(1) == b"x"
""",
    "asyncio with a child and a pipe": r"""
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate())[0] == b"hi\n" and p.returncode == 0
asyncio.run(main())
""",
    "a terminal of its own": r"""
import pty, os, sys
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "tty; stty size; test -t 0 && exit 5"])
try:
    while os.read(fd, 999): pass
except OSError: pass
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
""",
    "names, home, locale, time zone, entropy, CPUs": r"""
import pwd, os, getpass, locale, time, socket, tempfile, pathlib, multiprocessing, grp
assert pwd.getpwuid(os.getuid()).pw_name == getpass.getuser() == "agent" and grp.getgrgid(os.getgid()).gr_name == "agent"
assert os.path.expanduser("~") == "/home/agent" == str(pathlib.Path.home())
locale.setlocale(locale.LC_ALL, ""); assert locale.nl_langinfo(locale.CODESET) == "UTF-8"
assert time.tzname[0] == "UTC" and os.urandom(8) and open("/dev/urandom", "rb").read(3) and open("/dev/zero", "rb").read(1) == b"\0"
assert socket.getaddrinfo("localhost", 1) and socket.getservbyname("https") == 443 and os.cpu_count() >= 1
open(os.path.expanduser("~/x"), "w").write("x"); tempfile.mkstemp(); open("/dev/null", "w").write("x"); open("/dev/stdout", "w").write("")
assert open("/proc/self/comm").read() and open("/proc/meminfo").read() and open("/proc/cpuinfo").read()
assert open("/proc/self/oom_score_adj").read().strip() == "500"
open("/proc/self/comm", "w").write("x"); open("/proc/self/oom_score_adj", "w").write("900")
os.setpriority(os.PRIO_PROCESS, 0, 5); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.mkfifo("f"); os.symlink("f", "l"); os.link("f", "h")
import ssl; ssl.create_default_context()
import resource; resource.prlimit(0, resource.RLIMIT_NOFILE)
""",
    "no answer is an immediate one": r"""
import socket, time
begun = time.monotonic()
for target in (("192.0.2.1", 80), ("example.com", 80), ("2001:db8::1", 80)):
    try: socket.create_connection(target, 5); raise SystemExit(1)
    except OSError: pass
raise SystemExit(time.monotonic() - begun > 2)
""",
}

SHELL = {
    "cc compiles, links and runs": ("gcc", r"""
printf '#include <stdio.h>\nint main(void){puts("hi");return 3;}\n' >a.c && gcc -O1 -g a.c -o a && ./a; test $? = 3 &&
printf 'all: b\nb: a.c\n\t$(CC) -o $@ $<\n' >Makefile && make -j4 >/dev/null && ./b; test $? = 3"""),
    "AddressSanitizer and its leak check": ("gcc", r"""
printf '#include <stdlib.h>\nchar*volatile p;int main(void){for(int i=0;i<99;i++)p=malloc(8);return 0;}\n' >l.c
gcc -fsanitize=address -g l.c -o l 2>/dev/null || exit 0
./l 2>err; test $? -ne 0 && grep -q LeakSanitizer err"""),
    "git makes a repository, a commit, a worktree, a clone": ("git", r"""
set -e; git init -q r; cd r; echo x >f; git add f; git commit -qm m; git worktree add -q ../w; git clone -q . ../c; git -C ../c log --oneline |
grep -q m; git fsck 2>/dev/null"""),
    "node starts children, servers, workers": ("node", r"""
node -e '
const {execFileSync, fork}=require("child_process"), http=require("http"), {Worker}=require("worker_threads"), fs=require("fs");
if (execFileSync("echo",["hi"]).toString()!=="hi\n") process.exit(1);
fs.promises.readFile("/etc/hosts").then(()=>{
const s=http.createServer((q,r)=>r.end("ok")).listen(0,"localhost",()=>http.get({host:"localhost",port:s.address().port},r=>{
  new Worker("process.exit(0)",{eval:true}).on("exit",()=>process.exit(r.statusCode===200?0:1));}));});'"""),
    "strace traces": ("strace", r"strace -f -o t sh -c 'true; true' && grep -q execve t"),
    "gdb stops and goes on": ("gdb", r"""
printf 'int main(void){return 4;}\n' >a.c && gcc -g a.c -o a && gdb -q -batch -ex 'break main' -ex run -ex 'info registers rip' -ex continue ./a >o 2>&1
grep -q 'Breakpoint 1, main' o && grep -q 'exited with code 04' o"""),
    "java runs": ("java", r"""
printf 'class A{public static void main(String[]a)throws Exception{System.out.println(System.getProperty("user.home")+Runtime.getRuntime().maxMemory());Thread t=new Thread(()->{});t.start();t.join();}}' >A.java
java A.java | grep -q /home/agent"""),
    "perl, with its modules": ("perl", "perl -MPOSIX -MFile::Temp -e 'File::Temp->new; exit 0'"),
    "bash, awk, sed, tar, find, xargs": ("bash", r"""
bash -c 'set -euo pipefail; a=(1 2); echo "${a[@]}" | awk "{print \$2}" | sed s/2/3/ | grep -qx 3; diff <(echo a) <(echo a); mkdir d; echo x >d/f;
tar cf t.tar d; rm -r d; tar xf t.tar; find d -type f | xargs cat | grep -qx x; flock t.tar true; timeout 5 true; mktemp -d >/dev/null; nproc >/dev/null'"""),
    "system programs that look around": ("ps", "ps aux >/dev/null && id >/dev/null && df -h >/dev/null && mount >/dev/null && uname -a >/dev/null && free >/dev/null; "
                                         "command -v ip >/dev/null && ip addr >/dev/null; true"),
    "set-uid programs run, without effect": ("ping", "test \"$(cp /usr/bin/id i && chmod u+s i 2>/dev/null; ./i -u)\" = 1000"),
    "privileged ports and a pidfd": ("python3", "python3 -c 'import socket,os; socket.socket().bind((\"127.0.0.1\",443)); os.pidfd_open(os.getpid())'"),
}


def terminal(t, jail, mode):
    """A pseudo-terminal handed in is the payload's terminal: a shell can control its jobs."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(jail.command("/bin/bash", "-ic", "echo to-terminal >/dev/tty; sleep 0.05 & fg; exit 4"),
                          stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 4096):
                text += chunk
        except OSError:
            pass
    os.close(ours)
    t.ok(child.returncode == 4 and b"to-terminal" in text and b"no job control" not in text,
         f"{mode}: a terminal handed in", f"{child.returncode} {text!r}")


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                options = [*jail.stores(), *jail.layer("base/1/tree", {"README": "x\n"})]
                for name, script in PYTHON.items():
                    layer = jail.layer("run/" + "".join(c for c in name if c.isalpha()), {"t.py": script})
                    log = os.path.join(jail.scratch, "log")  # output as a stage takes it
                    result = jail.run("python3", "t.py", options=[*jail.stores(), *layer, *options[4:], "--log", log])
                    result.out = open(log).read()
                    t.ok(result.status == 0 and result.outcome == "exited", f"{mode}: {name}", result.text())
                terminal(t, jail, mode)
                for name, (program, script) in SHELL.items():
                    # a user's own directory may come first in our PATH; the jail has the distribution's
                    if not any(os.path.exists(os.path.join(path, program)) for path in ("/usr/bin", "/usr/local/bin", "/bin")):
                        t.ok(True, f"{mode}: {name}: not tried, {program} is not installed")
                        continue
                    more = []
                    if mode == "user" and "Sanitizer" in name:
                        more = ["--mem", str(1 << 50)]  # without a control group the limit counts what is reserved
                    result = jail.run("/bin/sh", "-c", script, options=options + more)
                    t.ok(result.status == 0 and result.outcome == "exited", f"{mode}: {name}", result.text())
        if shutil.which("python3") is None:
            t.ok(False, "python3 is needed")


main()
