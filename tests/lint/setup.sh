#!/bin/sh
# tests/setup: quiet when all is there; without power it says exactly what to run, and does nothing.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

tap_is "nothing to do: nothing said" "$(tests/setup check 2>&1)" ''
tap_is "a wrong word is a usage error" "$(tests/setup sideways 2>&1)" 'usage: tests/setup build|check|full|list'

# a machine that has none of the packages, an ordinary user, no sudo
mkdir "$TMP/bin"
printf '#!/bin/sh\nexit 1\n' >"$TMP/bin/dpkg-query"
for program in sh sed id printf cat env; do
	ln -s "$(command -v $program)" "$TMP/bin/$program"
done
chmod 755 "$TMP" "$TMP/bin" "$TMP/bin/dpkg-query"
cp tests/setup "$TMP/setup"
if [ "$(id -u)" -eq 0 ]; then
	run='setpriv --reuid 65534 --regid 65534 --clear-groups'
else
	run=''
fi
status=0
# shellcheck disable=SC2086
$run env PATH="$TMP/bin" sh "$TMP/setup" build >"$TMP/out" 2>&1 || status=$?
tap_is "no root and no sudo: 1" "$status" 1
tap_is "and one line with the command, which names every package" \
	"$(wc -l <"$TMP/out") $(grep -c 'as root: apt-get install --no-install-recommends gcc libc6-dev musl-tools make git .*libsqlite3-dev$' "$TMP/out")" "1 1"
tap_is "each package has its reason" "$(tests/setup list | awk -F '\t' '$2 == ""')" ''
