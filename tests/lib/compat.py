"""Rows of real software that must work in the jail: a table of small projects, each run as root and as a user.

A row is Row(name, needs, script, files): `files` are laid out as the work tree, `script` runs there by /bin/sh -c, with status 0
when all is well. `needs` are programs that must lie where the jail has them; a row whose programs are missing is skipped, which
fails in continuous integration, where tests/setup has installed them.
"""

import glob
import os
import re

from jail import Jail, modes

# where the jail's PATH leads, and toolchains that distributions and their makers put elsewhere below /usr
PLACES = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"]


class Row:
    def __init__(self, name, needs, script, files=None, options=(), env=None, wall_s=120):
        self.name, self.needs, self.script = name, needs.split(), script
        self.files, self.options, self.env, self.wall_s = files or {}, list(options), env or {}, wall_s


def find(pattern):
    """A program by its name in the jail's PATH, or by an absolute pattern; "" when it is not there."""
    candidates = [pattern] if pattern.startswith("/") else [os.path.join(place, pattern) for place in PLACES]
    for candidate in candidates:
        found = sorted(glob.glob(candidate))
        if found:
            return found[-1]
    return ""


def run_rows(t, rows, more=()):
    """Runs every row in every mode. more: options of every jail."""
    for mode in modes():
        with Jail(mode) as jail:
            base = jail.layer("base/1/tree", {"README": "x\n"})
            for row in rows:
                run_row(t, jail, row, base, more)


def run_row(t, jail, row, base, more):
    name = f"{jail.mode}: {row.name}"
    missing = [need for need in row.needs if not find(need)]
    if missing:
        t.skip(name, f"not installed below /usr: {' '.join(missing)}")
        return
    layer = jail.layer("run/" + re.sub(r"[^A-Za-z0-9]+", "-", row.name)[:60].strip("-"), row.files) if row.files else []
    log = os.path.join(jail.scratch, "log")  # output as a stage takes it
    env = [word for pair in row.env.items() for word in ("--env", "=".join(pair))]
    result = jail.run("/bin/sh", "-c", row.script, timeout=row.wall_s + 60,
                      options=[*jail.stores(), *layer, *base, "--log", log, "--log-bytes", str(1 << 20), "--wall",
                               str(row.wall_s * 1000), *env, *more, *row.options])
    with open(log, errors="replace") as file:
        result.out = file.read()
    t.ok(result.status == 0 and result.outcome == "exited", name, result.text())
