#!/bin/sh
# deadline: 200
# run-dry.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-dry.py
