"""TAP for Python tests (standard library only).

    with Tap() as t:
        t.ok(condition, "name", detail)
        t.equal(got, wanted, "name")
        t.skip("name", "reason")

The plan is printed at the end; an exception is a failed check with its traceback.
"""

import sys
import traceback


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def __enter__(self):
        return self

    def _line(self, text):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def ok(self, condition, name, detail=""):
        self.count += 1
        if condition:
            self._line(f"ok {self.count} - {name}")
        else:
            self.failed += 1
            self._line(f"not ok {self.count} - {name}")
            for line in str(detail).splitlines()[-40:]:
                self._line("# " + line.encode("ascii", "backslashreplace").decode()[:400])
        return bool(condition)

    def equal(self, got, wanted, name, detail=""):
        return self.ok(got == wanted, name, f"got:    {got!r}\nwanted: {wanted!r}\n{detail}")

    def contains(self, text, part, name):
        return self.ok(part in text, name, f"wanted: {part!r}\nin:\n{text}")

    def skip(self, name, reason):
        self.count += 1
        self._line(f"ok {self.count} - {name} # SKIP {reason}")

    def __exit__(self, kind, value, trace):
        if kind is not None and kind is not SystemExit:
            self.ok(False, "the test ran to its end", "".join(traceback.format_exception(kind, value, trace)))
        self._line(f"1..{self.count}")
        sys.stdout.flush()
        sys.exit(1 if self.failed else 0)
