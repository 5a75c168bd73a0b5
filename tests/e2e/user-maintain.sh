#!/bin/sh
# deadline: 300
# maintain.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" maintain.py
