#!/usr/bin/python3
# deadline: 120
"""What a jail is given of the host stays as it is: while a jail is built, nothing is made, not even for an instant, in a
directory that is mounted in it, whatever it is mounted on."""
import ctypes
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, backends, modes  # noqa: E402
from tap import Tap  # noqa: E402

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Names that are made in directories."""

    def __init__(self, *directories):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for directory in directories:
            if libc.inotify_add_watch(self.fd, directory.encode(), IN_CREATE | IN_MOVED_TO) < 0:
                raise OSError(ctypes.get_errno(), directory)

    def made(self):
        names = []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return names
            while data:
                size = struct.unpack("iIII", data[:16])[3]
                names.append(data[16:16 + size].rstrip(b"\0").decode())
                data = data[16 + size:]


# not ls, which asks for more than gVisor has an answer to
LIST = 'list() { cd "$1" && for f in * .[!.]*; do test ! -e "$f" || echo "$f"; done; }; '


def folder(jail, name):
    path = os.path.join(jail.scratch, name)
    os.makedirs(path)
    os.chmod(path, 0o777)
    os.chown(path, jail.owner, jail.owner)
    return path


with Tap() as t:
    for mode in modes():
        for backend in backends():
            with Jail(mode, backend) as jail:
                where = f"{backend}, started by {mode}"
                given, below = folder(jail, "given"), folder(jail, "given/sub")
                watch = Watch(given, below)
                for target in ("/run", "/data", "/opt", "/mnt", "/var"):
                    # /opt has programs of the test: they are mounted first, and then hidden
                    result = jail.run("/bin/sh", "-c", f"{LIST} list {target}", options=["--rw", f"{given}:{target}"])
                    t.equal((result.outcome, result.out, watch.made(), sorted(os.listdir(given))),
                            ("exited", "sub\n", [], ["sub"]), f"{where}: a folder on {target} stays as it is", result.text())
                result = jail.run("/bin/sh", "-c", LIST + "echo x >/run/made; list /run; list /", options=["--rw", f"{given}:/run"])
                t.ok(result.outcome == "exited" and watch.made() == ["made"] and result.out.startswith("made\nsub\n") and
                     ".old" not in result.out, f"{where}: but for what the command makes there", result.text())
                os.unlink(given + "/made")

                other, file = folder(jail, "other"), os.path.join(jail.scratch, "file")
                with open(file, "w", encoding="ascii") as out:
                    out.write("f\n")
                os.symlink("file", file + ".link")
                for name, options in (("a directory", ["--rw", f"{other}:/data/new"]), ("a directory further down", ["--rw", f"{other}:/data/sub/a/b"]),
                                      ("a file", ["--ro", f"{file}:/data/file"])):
                    result = jail.run("/bin/true", options=["--rw", f"{given}:/data", *options])
                    t.equal((result.outcome, watch.made(), sorted(os.listdir(given))), ("setup", [], ["sub"]),
                            f"{where}: no place for {name} is made in it: nothing is run", result.text())
                result = jail.run("/bin/true", options=["--rw", f"{given}:/data", "--ro", f"{file}.link:/data/link"])
                t.equal((watch.made(), sorted(os.listdir(given))), ([], ["sub"]), f"{where}: nor a link", result.text())
                result = jail.run("/bin/sh", "-c", LIST + "list /data; list /data/sub", options=["--rw", f"{given}:/data", "--rw", f"{other}:/data/sub"])
                t.equal((result.outcome, watch.made()), ("exited", []), f"{where}: one that is there is used", result.text())
