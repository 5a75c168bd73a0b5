#!/bin/sh
# deadline: 600
# run-tree-walls.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-tree-walls.py
