#!/bin/sh
# deadline: 300
# run-hostile.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-hostile.py
