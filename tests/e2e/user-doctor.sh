#!/bin/sh
# deadline: 200
# doctor.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" doctor.py
