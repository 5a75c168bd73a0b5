#!/bin/sh
# deadline: 300
# jail-command.py, as an ordinary user.
exec "$(dirname "$0")/../lib/as-user" jail-command.py
