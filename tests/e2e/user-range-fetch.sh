#!/bin/sh
# deadline: 300
# fetch-kill.py, as a user whose jails have ids of their range: what warms write there comes back, however they end.
exec "$(dirname "$0")/../lib/as-ranger" "$(dirname "$0")/../lib/as-user" fetch-kill.py
