#!/bin/sh
# deadline: 200
# hook-task.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" hook-task.py
