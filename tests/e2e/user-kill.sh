#!/bin/sh
# deadline: 900
# run-kill.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-kill.py
