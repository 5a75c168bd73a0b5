#!/bin/sh
# deadline: 200
# run-resume.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" run-resume.py
