#!/bin/sh
# deadline: 300
# run-git-snapshot.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-git-snapshot.py
