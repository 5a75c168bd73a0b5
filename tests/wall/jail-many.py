#!/usr/bin/python3
# deadline: 300
"""Two hundred jails at once: none fails, and none leaves a process, a mount, a control group or a file."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, many, modes  # noqa: E402
from tap import Tap  # noqa: E402

COUNT = 200


def main():
    with Tap() as t:
        for mode in modes():
            with Jail(mode) as jail:
                failed, left, at_once = many(jail, COUNT)
                t.equal(failed[:5], [], f"{mode}: {COUNT} jails at once, and none fails")
                t.ok(at_once > COUNT, f"{mode}: they do run at once", at_once)
                t.equal(left, [], f"{mode}: none leaves anything")


main()
