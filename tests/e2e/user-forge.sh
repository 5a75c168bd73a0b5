#!/bin/sh
# deadline: 240
# forge.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" forge.py
