#!/bin/sh
# deadline: 300
# queue.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" queue.py
