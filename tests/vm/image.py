"""The root file system of the test machine: an ext4 image with what is installed here.

It holds the files of some packages and of all that they depend on, as the package database lists them, our programs and tests,
and a few files of its own. Nothing is downloaded, and nothing of the image changes while it runs: the machine writes to a
temporary file.
"""

import glob
import os
import re
import shutil
import subprocess

# What the guest needs; what these depend on follows.
PACKAGES = ["systemd", "dbus", "dbus-user-session", "libpam-systemd", "kmod", "python3", "git", "bash", "coreutils",
            "util-linux", "mount", "procps", "grep", "sed", "findutils", "netbase", "base-files", "base-passwd", "passwd", "libc-bin", "mawk", "diffutils", "tar", "gzip",
            "dash", "strace", "login", "make", "uidmap"]
LEFT_OUT = re.compile(r"/usr/share/(doc|man|info|locale|lintian|bug|i18n|zoneinfo)/|/boot/|/usr/lib/modules|/lib/modules")
KEPT_ETC = ["nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "security", "login.defs", "alternatives", "dbus-1"]
USERS = {"dev": 2001, "plain": 2002, "shut": 2003, "ranger": 2004}  # ordinary users; guest says what each may


class Missing(Exception):
    """Something that this machine lacks; the text says what to do."""


def kernel():
    """(version, path) of the newest kernel in /boot that has its modules."""
    def key(path):
        return [int(n) for n in re.findall(r"\d+", os.path.basename(path))]
    for path in sorted(glob.glob("/boot/vmlinuz-*"), key=key, reverse=True):
        version = os.path.basename(path).removeprefix("vmlinuz-")
        if os.path.isdir(f"/lib/modules/{version}"):
            return version, path
    raise Missing("no kernel with modules is installed in /boot: tests/setup check installs linux-image-cloud-amd64")


def packages():
    """name -> (names that it depends on, each a list of alternatives)."""
    text = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}\t${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    needs, provides = {}, {}
    for line in text.splitlines():
        status, name, provided, depends = line.split("\t")
        if status != "installed":
            continue
        needs[name] = [[re.sub(r"[ (:].*", "", word.strip()) for word in group.split("|")] for group in depends.split(",") if group.strip()]
        for word in provided.split(","):
            provides.setdefault(re.sub(r"[ (:].*", "", word.strip()), []).append(name)
    return needs, provides


def closure():
    needs, provides = packages()
    todo, found = list(PACKAGES), set()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        if name not in needs:
            raise Missing(f"package {name} is not installed: tests/setup check installs it")
        found.add(name)
        for group in needs[name]:
            for word in group:
                candidates = [word] if word in needs else provides.get(word, [])
                if candidates:
                    todo.append(candidates[0])
                    break
    return found


def files_of(names):
    """Paths of the packages, directories first named; merged /usr is followed by tar itself."""
    found = set()
    for name in names:
        lists = glob.glob(f"/var/lib/dpkg/info/{glob.escape(name)}.list") + glob.glob(f"/var/lib/dpkg/info/{glob.escape(name)}:*.list")
        for path in lists:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found |= set(file.read().splitlines())
    return sorted(path for path in found if path not in ("/.", "") and not LEFT_OUT.search(path) and os.path.lexists(path))


def libraries(programs):
    """Paths of the shared libraries that these programs load, with the links that lead to them."""
    found = set()
    for program in programs:
        text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        for path in re.findall(r"=> (/\S+)", text):
            found |= {path, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), os.path.realpath(path)}
    return sorted(path for path in found if not os.path.islink("/" + path.split("/")[1]))


def copy_files(paths, top):
    """By tar: owners, modes and links as they are."""
    merged = {"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}
    real = []
    for path in paths:
        head = "/" + path.split("/")[1]
        if head in merged and os.path.islink(head):
            if path == head:
                real.append(path)
                continue
            path = os.path.realpath(head) + path[len(head):]
        real.append(path)
    names = "\0".join(path.lstrip("/") for path in real)
    with subprocess.Popen(["tar", "-C", "/", "--null", "--no-recursion", "-T", "-", "-cf", "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as pack:
        with subprocess.Popen(["tar", "-C", top, "-xpf", "-"], stdin=pack.stdout) as unpack:
            pack.stdout.close()
            pack.stdin.write(names.encode(errors="surrogateescape"))
            pack.stdin.close()
            unpack.wait()
    if pack.wait() != 0 or unpack.returncode != 0:
        raise Missing("tar could not copy the files of the packages")


# Units of ours. The tests start when the machine has settled, and with their end it goes off.
UNITS = {
    "vm.target": """[Unit]
Requires=basic.target dbus.socket systemd-logind.service vm-tests.service
After=basic.target
AllowIsolate=yes
""",
    "vm-tests.service": """[Unit]
Requires=basic.target
After=basic.target systemd-logind.service dbus.socket
FailureAction=poweroff-immediate
SuccessAction=poweroff-immediate
[Service]
Type=oneshot
TimeoutStartSec=infinity
Environment=LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
ExecStart=/opt/agent/tests/vm/guest
StandardOutput=file:/dev/ttyS1
StandardError=journal+console
""",
}
# Nothing here waits for hardware, writes logs to a disk or makes keys.
MASKED = ["systemd-udev-settle.service", "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
          "systemd-udevd-kernel.socket", "systemd-random-seed.service", "systemd-journal-flush.service", "systemd-remount-fs.service",
          "systemd-tmpfiles-clean.timer", "systemd-update-utmp.service", "systemd-pstore.service", "systemd-machine-id-commit.service",
          "apt-daily.timer", "fstrim.timer", "e2scrub_all.timer", "dpkg-db-backup.timer", "getty.target", "systemd-modules-load.service"]


def put(top, path, text, mode=0o644):
    full = os.path.join(top, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(full, mode)


def put_tree(source, target):
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "obj", "unit", "gen", "*.a"))


# Who may log in is not the question here; that a session gets its run-time directory is.
PAM = """account required pam_permit.so
auth required pam_permit.so
password required pam_deny.so
session required pam_permit.so
session optional pam_systemd.so
"""


def put_users(top):
    """The system's own users as here, and ours."""
    for file in ("passwd", "group"):
        with open(os.path.join("/etc", file), encoding="utf-8") as here:
            lines = [line for line in here if int(line.split(":")[2]) < 1000 or line.startswith("no")]
        for name, uid in USERS.items():
            lines.append(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n" if file == "passwd" else f"{name}:x:{uid}:\n")
        put(top, "etc/" + file, "".join(lines))
    for file in ("subuid", "subgid"):
        put(top, "etc/" + file, "ranger:7000000:65536\n")
    for name, uid in USERS.items():
        home = os.path.join(top, "home", name)
        os.mkdir(home, 0o700)
        os.chown(home, uid, uid)


def put_alternatives(top):
    """Programs that the package database does not list: links through /etc/alternatives to what is in the image."""
    for path in glob.glob("/usr/bin/*"):
        target = os.readlink(path) if os.path.islink(path) else ""
        if target.startswith("/etc/alternatives/") and os.path.exists(top + os.path.realpath(path)):
            os.symlink(target, top + path)


def stage(top, version, build, tests):
    """The whole tree."""
    for name in ("bin", "sbin", "lib", "lib64"):  # merged /usr, whichever package owns the links
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), os.path.join(top, name))
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "home", "mnt"):
        os.makedirs(os.path.join(top, name), exist_ok=True)
    for name in ("tmp", "var/tmp"):
        os.chmod(os.path.join(top, name), 0o1777)
    programs = [os.path.join(build, name) for name in os.listdir(build) if name.startswith("agent")]
    paths = [path for path in files_of(closure()) if not os.path.lexists(top + path) or not os.path.islink(top + path)]
    modules = [path for path in modules_of(version) if os.path.exists(path)]
    copy_files(sorted({*paths, *libraries(programs), *modules}), top)
    for name in KEPT_ETC:
        source, target = os.path.join("/etc", name), os.path.join(top, "etc", name)
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        elif os.path.exists(source):
            shutil.copy2(source, target)
    put_alternatives(top)
    put_tree(build, os.path.join(top, "opt/agent/build"))
    put_tree(tests, os.path.join(top, "opt/agent/tests"))
    put_tree(os.path.join(tests, "../hooks"), os.path.join(top, "opt/agent/hooks"))
    for path in glob.glob(os.path.join(tests, "../pipeline/*.h")):  # tests read the numbers of rows and descriptors there
        with open(path, encoding="utf-8") as file:
            put(top, "opt/agent/pipeline/" + os.path.basename(path), file.read())
    put_users(top)
    for name in ("other", "systemd-user"):
        put(top, "etc/pam.d/" + name, PAM)
    for name, text in UNITS.items():
        put(top, "etc/systemd/system/" + name, text)
    for name in MASKED:
        os.symlink("/dev/null", os.path.join(top, "etc/systemd/system", name))
    put(top, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(top, "etc/hostname", "vm\n")
    put(top, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
    put(top, "etc/fstab", "")


def modules_of(version):
    """What a jail may need of the kernel, and modprobe's index of it."""
    base = f"/lib/modules/{version}"
    return [os.path.realpath(path) for path in (f"{base}/kernel/fs/overlayfs/overlay.ko", *glob.glob(f"{base}/modules.*"))]


def make(target, build, tests, scratch):
    """Writes the image to target; returns the kernel's path."""
    for program in ("mke2fs", "dpkg-query", "tar", "ldd"):
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Missing(f"{program} is not installed: tests/setup check installs what is missing")
    version, path = kernel()
    top = os.path.join(scratch, "root")
    os.mkdir(top, 0o755)
    stage(top, version, build, tests)
    done = subprocess.run(["/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", top, target, "1500m"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"mke2fs: {done.stdout}")
    shutil.rmtree(top)
    return path
