#!/bin/sh
# deadline: 300
# change.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" change.py
