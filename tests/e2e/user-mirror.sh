#!/bin/sh
# deadline: 200
# mirror.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" mirror.py
