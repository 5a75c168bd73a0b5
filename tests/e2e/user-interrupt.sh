#!/bin/sh
# deadline: 500
# run-interrupt.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-interrupt.py
