#!/usr/bin/python3
# deadline: 300
"""The jail's work tree and HOME from layers: overlay and copy mean the same; nothing of the layers changes; names cannot lead
out of the store (laws L6, L10)."""
import hashlib
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, modes, overlay  # noqa: E402
from tap import Tap  # noqa: E402

LIST = r"""
cd /work && find . -mindepth 1 \( -type d -printf 'd %m %p\n' -o -type l -printf 'l %p %l\n' -o -type f -printf 'f %m %p ' -exec cat {} \; \) | sort
cat ~/.cache/entry; find /work ~ ! -user agent
"""
CHANGE = r"""
set -e
echo changed >sub/kept; rm -r opaque; mkdir opaque; echo y >opaque/z; rm deep/a/b/c; mkdir deep/a/b/c; rm -rf deep
mkdir deep; test -z "$(ls deep)"; mv sub moved; cat moved/kept; chmod 600 top; echo more >>top; rm link; ln -s nowhere link
echo x >~/.cache/entry; mkfifo pipe; python3 -c 'import socket;socket.socket(socket.AF_UNIX).bind("sock")'; ln top hard
test ! -e removed; mkdir removed; test "$(stat -c %h top)" = 2; find . | sort
"""


def digest(path):
    """All that stat and read say about a tree."""
    total = hashlib.sha256()
    for folder, dirs, files in sorted(os.walk(path)):
        for name in sorted([".", *dirs, *files]):
            full = os.path.join(folder, name)
            st = os.lstat(full)
            total.update(repr((full, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_nlink)).encode())
            if os.path.isfile(full) and not os.path.islink(full):
                total.update(open(full, "rb").read())
    return total.hexdigest()


def make(jail):
    base = jail.layer("base/0001/tree", {
        "top": "base\n", "removed": "gone\n", "sub/kept": "kept\n", "sub/run.sh": "#!/bin/sh\necho runs\n",
        "dir-gone/x": "x\n", "opaque/old": "old\n", "deep/a/b/c": "c\n", "link": ("link", "top"), "file-to-dir": "file\n",
        "dir-to-file/x": "x\n", "empty": ("dir", False)})
    deps = jail.layer("deps/k1/work", {"node_modules/m/index.js": "m\n", "sub/from-deps": "deps\n"})
    apply = jail.layer("run/layer", {
        "top": "applied\n", "removed": None, "dir-gone": None, "opaque": ("dir", True), "opaque/new": "new\n",
        "file-to-dir/inner": "inner\n", "dir-to-file": "now a file\n"})
    home = jail.layer("deps/k1/home", {".cache/entry": "cached\n"}, home=True)
    return [*jail.stores(), *apply, *deps, *base, *home]


def same_meaning(t, jail, mode):
    layers = make(jail)
    before = digest(jail.store) + digest(os.path.join(jail.scratch, "layer"))
    os.chmod(os.path.join(jail.store, "base"), 0o700)  # the payload's uid cannot walk there by itself
    over = jail.run("/bin/sh", "-c", LIST, options=layers)
    t.ok(over.status == 0 and over.work == overlay(), f"{mode}: layers are an overlay", over.text())
    wanted = ("d 755 ./deep\n", "f 644 ./top applied\n", "./sub/run.sh #!/bin/sh\n", "f 644 ./sub/from-deps deps\n",
              "f 644 ./opaque/new new\n", "f 644 ./dir-to-file now a file\n", "f 644 ./file-to-dir/inner inner\n",
              "l ./link top\n", "d 755 ./empty\n")
    for part in wanted:
        if part not in over.out:
            t.ok(False, f"{mode}: {part.strip()} is there", over.out)
    t.ok(not any(word in over.out for word in ("removed", "dir-gone", "opaque/old")),
         f"{mode}: what the upper layer removed is gone", over.out)
    copy = jail.run("/bin/sh", "-c", LIST, options=[*layers, "--copy"])
    t.equal((copy.status, copy.work), (0, "copy"), f"{mode}: and can be copied", copy.text())
    t.equal(copy.out, over.out, f"{mode}: copy and overlay are the same tree")
    over = jail.run("/bin/sh", "-c", CHANGE, options=layers)
    t.ok(over.status == 0 and over.out.startswith("changed\n"), f"{mode}: all of an overlay can be changed", over.text())
    copy = jail.run("/bin/sh", "-c", CHANGE, options=[*layers, "--copy"])
    t.equal((copy.status, copy.out), (0, over.out), f"{mode}: and of a copy, in the same way", copy.text())
    os.chmod(os.path.join(jail.store, "base"), 0o755)
    t.equal(digest(jail.store) + digest(os.path.join(jail.scratch, "layer")), before, f"{mode}: the layers are untouched")
    result = jail.run("git", "-c", "safe.directory=*", "status", options=layers)
    t.ok("not a git repository" in result.err, f"{mode}: no repository of the host shows through", result.text())


# What test suites do to their tree, each on a lower layer's files. (Both names of a linked file have one inode, but an
# overlay tells the number of the lower file for the old name as long as it is cached.)
DO = r"""
set -e
test "$(stat -c %Y Makefile)" = 1000000000; make -s; test -e out; test "$(make)" != ""; test "$(make -q && echo fresh)" = fresh
touch src.c; ! make -q; make -s >/dev/null
ln src.c hard; test "$(stat -c %h src.c)" = 2; echo x >>hard; tail -1 src.c
mv dir renamed; cat renamed/sub/f; mkdir dir; test -z "$(ls dir)"; mv renamed/sub dir/; cat dir/sub/f; rm -r renamed dir
python3 - <<'PY'
import os
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"unnamed\n")
here = os.open(".", os.O_RDONLY)
os.link(f"/proc/self/fd/{fd}", "named", dst_dir_fd=here)  # with it, Python calls linkat
print(open("named").read(), end="")
os.rename("named", "src.c")
os.utime("src.c", ns=(1, 2))
assert os.stat("src.c").st_mtime_ns == 2
PY
git -c init.defaultBranch=m init -q; git add -A; git -c user.name=t -c user.email=t@example.org commit -qm x
test -z "$(git status --porcelain)"; echo more >>src.c; git status --porcelain
"""


def worked_on(t, jail, mode):
    """Time stamps for make, hard links, unnamed files, renamed directories and git, on overlay and copy alike."""
    options = jail.layer("base/0003/tree", {"Makefile": "out: src.c\n\tcp src.c out\n", "src.c": "one\n", "dir/sub/f": "f\n"})
    for folder, dirs, files in os.walk(os.path.join(jail.store, "base/0003/tree")):
        for name in dirs + files:
            os.utime(os.path.join(folder, name), (1000000000, 1000000000))
    for how, extra in ((overlay(), []), ("copy", ["--copy"])):
        result = jail.run("/bin/sh", "-c", DO, options=[*jail.stores(), *options, *extra])
        t.ok((result.status, result.work) == (0, how) and result.out.endswith("x\nf\nf\nunnamed\n M src.c\n"),
             f"{mode}: a test suite can work on its files ({how})", result.text())


def stacked(t, jail, mode):
    """Layers that hold only what differs, four deep: what one takes away another brings back, and so on."""
    options = []
    for name, files in (
            ("d", {"a": "4\n", "dir": "a file\n", "sub/gone": "back\n", "again/new": "n\n"}),
            ("c", {"sub/gone": None, "again": ("dir", False), "b": None, "file": ("dir", False), "file/in": "in\n"}),
            ("b", {"again": None, "dir/x": None, "b": "2\n", "file": None}),
            ("a", {"a": "1\n", "again/old": "o\n", "dir/x": "x\n", "dir/y": "y\n", "sub/gone": "g\n", "sub/stays": "s\n", "file": "f\n"})):
        options += jail.layer(f"base/{name}/tree", files)
    listing = "cd /work && find . -mindepth 1 -type f -printf '%p ' -exec cat {} \\; | sort"
    wanted = "./a 4\n./again/new n\n./dir a file\n./file/in in\n./sub/gone back\n./sub/stays s\n"
    for extra, how in (([], overlay()), (["--copy"], "copy")):
        result = jail.run("/bin/sh", "-c", listing, options=[*jail.stores(), *options, *extra])
        t.equal((result.status, result.out, result.work), (0, wanted, how), f"{mode}: a stack of differences ({how})", result.text())


def many(t, jail, mode):
    options = [*jail.stores()]
    count = 8 if "AGENT_TEST_BRIEF" in os.environ else 100  # on a slow machine (tests/vm)
    for i in range(count):
        options += jail.layer(f"many/{i}", {f"f{i}": f"{i}\n", "all": f"{i}\n"})
    result = jail.run("/bin/sh", "-c", "ls | wc -l; cat all", options=options)
    t.equal((result.status, result.out, result.work), (0, f"{count + 1}\n0\n", overlay()), f"{mode}: {count} layers", result.text())


def bad_names(t, jail, mode):
    jail.layer("base/ok/tree", {"f": "f\n"})
    os.symlink("/etc", os.path.join(jail.store, "link"))
    os.symlink("base", os.path.join(jail.store, "inner"))
    open(os.path.join(jail.store, "file"), "w").close()
    for name in ("../store", "base/../../etc", "/etc", "link", "link/ssl", "inner/ok/tree", "missing", "file", ".", "base//ok",
                 "base/ok/", "", "base/ok tree", "run/../store", "run/", "base/\n"):
        go = os.path.join(jail.scratch, "go")
        with open(go, "wb") as file:
            file.write(b"layer=" + name.encode() + b"\0go=1\0")
        os.chown(go, jail.owner, jail.owner)
        result = jail.run("/bin/sh", "-c", "ls /work", options=[*jail.stores(), "--raw-go", go])
        t.ok(result.outcome == "setup" and result.status == 125, f"{mode}: no layer {name!r}", result.text())
    for raw in (b"go=1", b"layer=base/ok/tree\0", b"x=1\0go=1\0", b"go=1\0layer=base/ok/tree\0go=1\0", b"layer=a\0" * 200 + b"go=1\0",
                b"\0" * 10 + b"go=1\0", b"A" * 70000):
        with open(go, "wb") as file:
            file.write(raw)
        result = jail.run("/bin/sh", "-c", "echo ran", options=[*jail.stores(), "--raw-go", go, "--no-go"])
        t.ok("ran" not in result.out and result.outcome in ("", "setup"),
             f"{mode}: a malformed go runs nothing: {raw[:20]!r}", result.text())


def directories(t, jail, mode):
    work = os.path.join(jail.top, "dirty")
    os.makedirs(os.path.join(work, "sub"))
    for path, text in (("file", "mine\n"), ("sub/secret", "private\n")):
        with open(os.path.join(work, path), "w") as file:
            file.write(text)
    os.chmod(os.path.join(work, "sub/secret"), 0o600)
    for folder, dirs, files in os.walk(work):
        for name in [".", *dirs, *files]:
            os.chown(os.path.join(folder, name), jail.owner, jail.owner)
    layer = jail.layer("run/patch", {"file": "patched\n"})
    before = digest(work)
    for extra, how in (([], overlay()), (["--copy"], "copy")):
        result = jail.run("/bin/sh", "-c", "cat file sub/secret; echo x >sub/secret; rm file; ls",
                          options=[*jail.stores(), "--work-dir", work, *layer, *extra])
        t.equal((result.status, result.out, result.work), (0, "patched\nprivate\nsub\n", how),
                f"{mode}: a directory as the lowest layer ({how})", result.text())
    t.equal(digest(work), before, f"{mode}: the directory is untouched")
    result = jail.run("/bin/sh", "-c", "cat file sub/secret && echo made >out && mkdir d && rm file",
                      options=["--work-dir", work, "--work-rw"])
    made = os.path.join(work, "out")
    t.ok(result.status == 0 and result.work == "bind" and open(made).read() == "made\n" and not os.path.exists(work + "/file")
         and os.stat(made).st_uid == jail.owner, f"{mode}: a warm writes its directory, as its owner", result.text())
    rw = os.path.join(jail.top, "rw")
    os.mkdir(rw)
    os.chown(rw, jail.owner, jail.owner)
    result = jail.run("/bin/sh", "-c", "echo a >/mnt/rw/a && ! touch /mnt/ro/a 2>/dev/null && cat /mnt/ro/sub/secret",
                      options=["--rw", f"{rw}:/mnt/rw", "--bind-store", f"{work}:/mnt/ro"])
    t.ok(result.status == 0 and os.path.exists(os.path.join(rw, "a")), f"{mode}: writable and read-only binds", result.text())
    result = jail.run("/bin/sh", "-c", "echo home >~/x && cat ~/x", options=["--rw", f"{rw}:/home/agent"])
    t.ok(result.status == 0 and os.path.exists(os.path.join(rw, "x")), f"{mode}: HOME can be a writable directory", result.text())
    if mode == "root":
        os.chown(rw, 0, 0)
        for options in (["--rw", f"{rw}:/mnt/rw"], ["--work-dir", rw, "--work-rw"]):
            result = jail.run("true", options=options)
            t.ok(result.outcome == "setup" and "belongs to root" in result.detail,
                 f"{mode}: nothing of root's is made writable", result.text())
    for source, why in (("/nosuch", "No such file"), (os.path.join(jail.store, "link") + "/ssl", "ymbolic link"),
                        ("/dev/null", "neither a directory nor a regular file")):
        result = jail.run("true", options=["--ro", f"{source}:/mnt/x"])
        t.ok(result.outcome == "setup" and why in result.detail and source in result.detail,
             f"{mode}: {source.rsplit('/', 1)[-1]} cannot be mounted", result.text())
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(os.path.join(jail.top, "s"))
    result = jail.run("true", options=["--ro", f"{jail.top}/s:/mnt/s"])
    t.ok(result.outcome == "setup", f"{mode}: a socket cannot be mounted", result.text())
    result = jail.run("/bin/sh", "-c", "touch /mnt/t/x", options=["--ro", f"{work}:/mnt/t"])
    t.ok(result.status != 0, f"{mode}: read-only is read-only", result.text())


def egress(t, jail, mode):
    """The listener that a warm gets, and nothing but it."""
    result = jail.run("python3", "-c", "import socket; s=socket.create_connection(('127.0.0.1',3128),2); print('connected')",
                      options=["--egress"])
    t.equal((result.status, result.out), (0, "connected\n"), f"{mode}: the proxy's listener is there", result.text())
    result = jail.run("python3", "-c", "import socket; s=socket.create_connection(('127.0.0.1',3128),2); print('connected')")
    t.ok(result.status == 1, f"{mode}: and not when it was not asked for", result.text())


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                same_meaning(t, jail, mode)
            with Jail(mode) as jail:
                worked_on(t, jail, mode)
                stacked(t, jail, mode)
            with Jail(mode) as jail:
                many(t, jail, mode)
                bad_names(t, jail, mode)
                directories(t, jail, mode)
                egress(t, jail, mode)


main()
