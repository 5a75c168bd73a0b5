#!/usr/bin/python3
# deadline: 120
"""What agent audit tells is what the kernel tells of a live payload, neither more nor less (law L5): environment, mounts,
descriptors, devices, ids, capabilities, namespaces, limits, interfaces, listeners, the filter itself; and the same of a whole run.
"""
import ctypes
import hashlib
import json
import os
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit  # noqa: E402
from jail import Jail, backends, eventually, mark, marked_processes, modes  # noqa: E402
from tap import Tap  # noqa: E402

LIMITS = {"cpu": "Max cpu time", "fsize": "Max file size", "data": "Max data size", "stack": "Max stack size", "core": "Max core file size",
          "rss": "Max resident set", "nproc": "Max processes", "nofile": "Max open files", "memlock": "Max locked memory",
          "as": "Max address space", "locks": "Max file locks", "sigpending": "Max pending signals", "msgqueue": "Max msgqueue size",
          "nice": "Max nice priority", "rtprio": "Max realtime priority", "rttime": "Max realtime timeout"}
STATUS = ("Umask", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Groups")


def read(path):
    with open(path) as file:
        return file.read()


def listed(records, kind):
    return [text.split(" ", 1)[1] for text in records if text.split(" ", 1)[0] == kind]


def live(jail, options=()):
    """{category: what /proc says of it}, and the records that came at its end."""
    value = mark()
    path = os.path.join(jail.scratch, "audit-" + value)
    command = jail.command("/bin/sh", "-c", "read x", options=["--audit", path, "--env", f"MARK={value}", "--env", "ODD=a b\tc=d",
                                                               "--env", "EMPTY=", *options])
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        # the last of all steps is exec: before it the process is the set-up's
        if not eventually(lambda: [pid for pid in marked_processes(value) if read(f"/proc/{pid}/comm") == "sh\n"]):
            return None, None, child.communicate()[0].decode()
        pid = [pid for pid in marked_processes(value) if read(f"/proc/{pid}/comm") == "sh\n"][0]
        seen = look(pid)
    finally:
        text = child.communicate()[0].decode()
    with open(path, "rb") as file:
        records = file.read().split(b"\0")
    return seen, [record.decode().removeprefix("applied=") for record in records[:-1]], text


def look(pid):
    proc = f"/proc/{pid}"
    seen = {"env": [text.decode() for text in open(f"{proc}/environ", "rb").read().split(b"\0")[:-1]],
            "arg": [text.decode() for text in open(f"{proc}/cmdline", "rb").read().split(b"\0")[:-1]],
            "cwd": [os.readlink(f"{proc}/cwd")], "mount": read(f"{proc}/mountinfo").splitlines(), "fd": [], "device": [], "link": []}
    for number in os.listdir(f"{proc}/fd"):
        flags = int(re.search(r"flags:\s*(\d+)", read(f"{proc}/fdinfo/{number}")).group(1), 8)
        seen["fd"].append(f"{number} {('r', 'w', 'rw')[flags & 3]} {os.readlink(f'{proc}/fd/{number}')}")
    for folder in ("/dev", "/dev/pts"):
        for name in os.listdir(f"{proc}/root{folder}"):
            path = f"{folder}/{name}"
            st = os.lstat(f"{proc}/root{path}")
            if stat.S_ISLNK(st.st_mode):
                seen["link"].append(f"{path} {os.readlink(f'{proc}/root{path}')}")
            elif not stat.S_ISDIR(st.st_mode):
                kind = "c" if stat.S_ISCHR(st.st_mode) else "b" if stat.S_ISBLK(st.st_mode) else "?"
                seen["device"].append(f"{path} {kind} {os.major(st.st_rdev)}:{os.minor(st.st_rdev)} {st.st_mode & 0o7777:o}")
    status = dict(line.split(":", 1) for line in read(f"{proc}/status").splitlines())
    seen["status"] = [f"{name}:{status[name]}" for name in STATUS if name in status]
    ids = [status[name].split() for name in ("Uid", "Gid")]
    seen["outside"] = [f"{ids[0][0]} {ids[1][0]}"]
    seen["same"] = [len(set(words)) for words in ids]  # real, effective, saved, file system
    seen["map"] = [f"{which} {' '.join(read(f'{proc}/{which}_map').split())}" for which in ("uid", "gid")]
    names = [name for name in os.listdir(f"{proc}/ns") if not name.endswith("_for_children")]
    seen["ns"] = [f"{name} {os.readlink(f'{proc}/ns/{name}')}" for name in names]
    seen["interface"] = [line.split(":")[0].strip() for line in read(f"{proc}/net/dev").splitlines() if ":" in line]
    seen["listen"] = []
    for line in read(f"{proc}/net/tcp").splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A":
            address, port = local.split(":")
            seen["listen"].append(".".join(str(byte) for byte in reversed(bytes.fromhex(address))) + f":{int(port, 16)}")
    limits = {line[:25].strip(): line[25:].split()[:2] for line in read(f"{proc}/limits").splitlines()[1:]}
    seen["limit"] = [f"{name} {' '.join(limits[text])}" for name, text in LIMITS.items()]
    seen["cgroup"] = groups(proc)
    seen["filter"] = filter_of(pid)
    return seen


def groups(proc):
    """What the control group of the process allows, as this machine mounts it."""
    found = []
    for line in read(f"{proc}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if "/agent-" not in path:
            continue
        files = {"memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "pids": ("pids.max",),
                 "": ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.max.descendants")}
        for controller, entries in files.items():
            if controller in names.split(","):
                for mount in read("/proc/self/mountinfo").splitlines():
                    left, right = mount.split(" - ")
                    if (right.startswith("cgroup ") and controller and controller in right.split()[2].split(",")) or \
                            (right.startswith("cgroup2 ") and not controller):
                        base = left.split()[4] + path.removeprefix(left.split()[3].rstrip("/"))
                        found += [f"{entry} {read(f'{base}/{entry}').strip()}" for entry in entries if os.path.exists(f"{base}/{entry}")]
    return found


def filter_of(pid):
    """SHA-256 of the program that the kernel runs; None where it does not tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if os.geteuid() != 0 or libc.ptrace(0x4206, pid, None, None) != 0:  # PTRACE_SEIZE
        return None
    try:
        libc.ptrace(0x4207, pid, None, None)  # PTRACE_INTERRUPT
        os.waitpid(pid, 0x40000000)           # __WALL
        count = libc.ptrace(0x420c, pid, None, None)  # PTRACE_SECCOMP_GET_FILTER
        if count <= 0:
            return None
        code = ctypes.create_string_buffer(8 * count)
        libc.ptrace(0x420c, pid, None, code)
        return hashlib.sha256(code.raw).hexdigest()
    finally:
        libc.ptrace(17, pid, None, None)  # PTRACE_DETACH


def same(t, name, mode, told, seen):
    t.equal((sorted(set(told) - set(seen)), sorted(set(seen) - set(told)), len(told)), ([], [], len(seen)),
            f"{mode}: {name}: neither more nor less", f"told {told}\nseen {seen}")


def compare(t, jail, mode, options, what):
    seen, records, text = live(jail, options)
    if seen is None:
        t.ok(False, f"{mode}: {what}: a jail starts", text)
        return
    name = mode + " " + what
    for kind in ("env", "arg", "cwd", "mount", "fd", "device", "link", "ns", "interface", "listen", "limit", "cgroup"):
        same(t, kind, name, listed(records, kind), seen[kind])
    status = [" ".join(line.split()) for line in listed(records, "status") if not line.startswith(("Uid", "Gid"))]
    t.equal((listed(records, "backend"), listed(records, "scratch")), (["native"], ["memory"]), f"{name}: the backend, the scratch")
    same(t, "status", name, status, [" ".join(line.split()) for line in seen["status"]])
    ids = [line.split() for line in listed(records, "status") if line.startswith(("Uid", "Gid"))]
    t.equal(ids, [["Uid:"] + ["1000"] * 4, ["Gid:"] + ["1000"] * 4], f"{name}: ids inside")
    same(t, "outside", name, listed(records, "outside"), seen["outside"])
    t.equal(seen["same"], [1, 1], f"{name}: one uid and one gid in every respect")
    maps = [" ".join(line.split()) for line in listed(records, "map")]
    t.equal(maps, ["uid 1000 0 1", "gid 1000 0 1"], f"{name}: one id is mapped, by a namespace that has one itself")
    outside = seen["outside"][0].split()
    if os.geteuid() == 0:
        t.equal(seen["map"], [f"uid 1000 {outside[0]} 1", f"gid 1000 {outside[1]} 1"], f"{name}: the host sees the same map")
    if seen["filter"]:
        t.equal(listed(records, "seccomp"), [seen["filter"]], f"{name}: the digest is that of the program in the kernel")
    else:
        t.skip(f"{name}: the digest is that of the program in the kernel", "the kernel does not tell a tracer here")
    told = {re.split(" ", text, 1)[0] for text in records}
    t.equal(told - set(LIMITS) - {"env", "arg", "cwd", "mount", "fd", "device", "link", "ns", "interface", "listen", "limit", "cgroup",
                                  "status", "outside", "backend", "scratch", "map", "seccomp", "landlock", "securebits"}, set(), f"{name}: nothing else is told")
    landlock = dict(text.split(" ", 1) for text in listed(records, "landlock") if not text.startswith("rule"))
    rules = [text.split(" ", 2)[2] for text in listed(records, "landlock") if text.startswith("rule")]
    abi = ctypes.CDLL(None).syscall(444, None, 0, 1)
    t.equal((landlock["abi"], len(set(rules)) == len(rules)), (str(abi), True), f"{name}: Landlock as this kernel has it")
    if "--rw" in options:
        t.ok("/opt/rw" in rules, f"{name}: what can be written has a rule", str(rules))


def in_namespace(kind, name):
    """Processes in a namespace: those that we may look at."""
    found = []
    for pid in (entry for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            if os.readlink(f"/proc/{pid}/ns/{kind}") == name:
                found.append(int(pid))
        except OSError:
            pass
    return found


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += [int(word) for word in read(f"/proc/{pid}/task/{task}/children").split()]
    return found


def sources(lines):
    """What mounts show: device and root of each. The file behind a mask is deleted."""
    return {tuple(line.split()[2:4]) for line in lines}


def compare_gvisor(t, mode):
    """What crosses into a sandbox with a kernel of its own: the mounts, words and namespaces that the live runsc has, and nothing
    of the host in its children but of these mounts."""
    name = f"{mode} gvisor"
    with Jail(mode, "gvisor") as jail:
        layers = jail.layer("base/1/tree", {"a": "1\n"})
        path = os.path.join(jail.scratch, "audit")
        command = jail.command("/bin/sh", "-c", "echo begun; read x", options=["--audit", path, *jail.stores(), *layers])
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seen, parts, fds = {}, {}, {}
        try:
            line = child.stdout.readline()
            outer = [pid for pid in children(child.pid) if read(f"/proc/{pid}/comm") == "agent-jail\n"]
            helper = children(outer[0])[0] if outer else None
            runsc = [pid for pid in children(helper) if read(f"/proc/{pid}/cmdline").startswith("runsc\0")] if helper else []
            if runsc:
                seen = look(runsc[0])
                fds = {fd.split(" ")[0]: fd for fd in seen["fd"]}
                parts = {read(f"/proc/{pid}/cmdline").split("\0")[0]: read(f"/proc/{pid}/mountinfo").splitlines() for pid in children(runsc[0])}
                same_ns = {read(f"/proc/{pid}/mountinfo") for pid in in_namespace("mnt", os.readlink(f"/proc/{helper}/ns/mnt"))}
        finally:
            text = line.decode() + child.communicate()[0].decode()
        if not seen:
            t.ok(False, f"{name}: a sandbox starts", text)
            return
        with open(path, "rb") as file:
            records = [record.decode().removeprefix("applied=") for record in file.read().split(b"\0")[:-1]]
        host = listed(records, "host")
        for kind in ("arg", "mount", "ns", "map"):
            same(t, kind, name, [" ".join(told.split()) for told in listed(host, kind)], [" ".join(text.split()) for text in seen[kind]])
        t.equal(len(same_ns), 1, f"{name}: the helper and PID 1 see those mounts, too")
        t.equal(listed(records, "outside"), seen["outside"], f"{name}: the sandbox's user is the payload's")
        told = {fd.split(" ")[0]: fd for fd in listed(host, "fd")}
        t.equal((sorted(told), [fds.get(number) for number in sorted(told)]), (["0", "1", "2"], [told[number] for number in sorted(told)]),
                f"{name}: three descriptors, the sandbox's own", f"{told} {fds}")
        t.equal(sorted(parts), ["runsc-gofer", "runsc-sandbox"], f"{name}: runsc bears a file server and the sandbox")
        from_host = {line for lines in parts.values() for line in lines if " - tmpfs runsc-root " not in line}
        t.equal(sources(from_host) - sources(listed(host, "mount")), set(), f"{name}: and these see no mount that is not told")
        t.ok("/jail/work" in [line.split()[4] for line in listed(host, "mount")], f"{name}: the work tree is among them")
        inside = {line.split()[4] for line in listed(records, "mount")}
        t.ok({"/", "/work", "/tmp", "/home/agent", "/dev/shm"} <= inside, f"{name}: and what that kernel makes of them", str(inside))
        status = {" ".join(line.split()) for line in listed(records, "status")}
        t.ok({"NoNewPrivs: 1", "CapEff: 0000000000000000", "Umask: 0022", "Seccomp: 2"} <= status, f"{name}: with the payload's ids and rights", str(status))


def whole_run(t):
    """The test command of a run writes down what it finds; agent audit tells the same."""
    script = "cat /proc/self/environ | tr '\\0' '\\n' | sed 's/^/env /'; sed 's/^/mount /' /proc/self/mountinfo; grep -E '^(Cap|Umask)' /proc/self/status\n"
    with Place() as place:
        repo = place.repository({"a.txt": "one\n", "look.sh": script}, test="sh look.sh")
        model = place.recording([[edit("a.txt", "one", "two"), submit("Change a.txt")]])
        result = place.agent("run", "-m", "x", "--model", model, "--dry-run", cwd=repo)
        t.equal(result.status, 0, "run: it ends with 0", result.text)
        log = read(os.path.join(place.run_dir(), "round-1/log")).splitlines()
        told = place.agent("audit", "--json", cwd=repo)
        report = json.loads(told.out)
        audit = report["jails"]["round-1/test"]
        t.equal((report["kind"], report["run"], audit["whole"]), ("audit-report", os.path.basename(place.run_dir()), True), "run: it is the newest run's")
        env = [line[4:] for line in log if line.startswith("env ") and not line.startswith(("env PWD=", "env OLDPWD=", "env _="))]
        same(t, "environment", "run", audit["environment"], env)
        mounts = [line[6:].split() for line in log if line.startswith("mount ")]
        same(t, "mounts", "run", [(m["target"], m["root"], m["flags"], m["type"]) for m in audit["mounts"]],
             [(m[4], m[3], m[5], m[m.index("-") + 1]) for m in mounts])
        t.ok(any(m["target"] == "/work" for m in audit["mounts"]), "run: the work tree is among them")
        caps = {line.split(":")[0]: line.split()[1] for line in log if line.startswith("Cap")}
        t.equal(audit["capabilities"]["effective"], caps["CapEff"], "run: capabilities")
        t.ok(audit["seccomp"]["known"] and "read" in audit["seccomp"]["allow"] and
             {"call": "mount", "error": "EPERM"} in audit["seccomp"]["refused"], "run: calls by action")
        t.ok({"path": "/work", "rights": audit["landlock"]["rules"][1]["rights"]} in audit["landlock"]["rules"], "run: Landlock rules by name")
        rows = [stage["row"] for stage in report["stages"]]
        t.ok({"agent-apply base", "agent-model", "agent-apply edit", "agent-test"} <= set(rows) and "agent-publish" not in rows,
             "run: the stages that were started, and no others", str(rows))
        stage = report["stages"][rows.index("agent-test")]
        t.ok("read " + os.path.join(repo, ".git") in stage["paths"] and "facts" in stage["descriptors"] and stage["secret"] == "none",
             "run: with their paths and descriptors", str(stage))
        text = place.agent("audit", cwd=repo).out
        if "gvisor" in backends():
            other = place.agent("audit", "--config", *place.limits(), "--json", "-c", "jail.backend=gvisor", cwd=repo)
            audit_there = json.loads(other.out)["jails"]["test"]
            t.ok(audit_there["whole"] and len(audit_there["rest"]) == 1 and
                 "/jail/work" in [mount["target"] for mount in audit_there["host"]["mounts"]] and audit["rest"] == [] and "host" not in audit,
                 "gvisor: the list is whole, and names the one thing that is not read back", str(audit_there["rest"]))
        t.ok(all(part in text for part in ("==== jail: round-1/test ====", "\nenvironment (", "/work  ", "program " + audit["seccomp"]["digest"])),
             "run: and as text", text[:2000])
        t.equal(place.agent("audit", "--round", "2", cwd=repo).status, 2, "a round that was not tested is said to be none")
        now = place.agent("audit", "--config", *place.limits(), "--json", "-c", "test.env=NEW=yes", cwd=repo)
        fresh = json.loads(now.out)
        t.equal(sorted(set(fresh["jails"]["test"]["environment"]) - set(audit["environment"])), ["NEW=yes"],
                "--config: what a run would get now, with what is new in the configuration", now.text)
        same(t, "mounts", "--config", [m["target"] for m in fresh["jails"]["test"]["mounts"]], [m["target"] for m in audit["mounts"]])
        t.equal((fresh["run"], len(fresh["stages"]) >= len(set(rows))), (None, True), "--config: and the stage table")
        t.equal(place.leftovers(), [], "nothing is left")
        # a file that somebody has spoilt
        path = os.path.join(place.run_dir(), "round-1/audit.json")
        os.chmod(path, 0o600)
        place.write(path, '{"kind":"audit","version":1,"environment":["A=\\u001b[2J\\u202e"],"mounts":7,"devices":[1,"x",{}],"ids":[]}')
        shown = place.agent("audit", cwd=repo)
        t.ok(shown.status == 0 and "\x1b" not in shown.out and "\u202e" not in shown.out and "\\x1b[2J" in shown.out,
             "hostile text of an audit stays text", shown.text[:1000])
        place.write(path, "{")
        t.equal(place.agent("audit", cwd=repo).status, 2, "and one that is broken is an error")


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                compare(t, jail, mode, [], "plain")
                rw = os.path.join(jail.scratch, "rw")
                os.mkdir(rw)
                os.chown(rw, jail.owner, jail.owner)
                layers = jail.layer("base/1/tree", {"a": "1\n"})
                compare(t, jail, mode, ["--egress", "--rw", f"{rw}:/opt/rw", *jail.stores(), *layers, "--cpu", "7", "--mem", str(1 << 28)],
                        "warm")
                result = jail.run("true")
                t.ok(result.status == 0 and not os.path.exists(os.path.join(jail.scratch, "audit")), f"{mode}: nobody asks: nothing is told",
                     result.text())
            if "gvisor" in backends():
                compare_gvisor(t, mode)
            else:
                t.skip(f"{mode} gvisor", "runsc is not installed")
        whole_run(t)


main()
