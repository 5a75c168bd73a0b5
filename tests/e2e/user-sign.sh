#!/bin/sh
# deadline: 200
# publish-sign.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" publish-sign.py
