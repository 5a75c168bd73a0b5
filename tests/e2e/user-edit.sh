#!/bin/sh
# deadline: 200
# edit.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" edit.py
