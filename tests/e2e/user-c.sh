#!/bin/sh
# deadline: 300
# run-c.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-c.py
