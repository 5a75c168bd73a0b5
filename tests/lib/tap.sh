# TAP for shell tests. Source it; it knows the repository ($ROOT) and the build ($BUILD), makes $TMP
# (removed at the end) and prints the plan and exits by itself.
#
#	tap_ok NAME			a check that passed
#	tap_fail NAME [DETAIL...]	one that failed; each detail is a line
#	tap_is NAME GOT WANTED		compares two texts
#	tap_run NAME COMMAND...		passes when the command does; its output is the detail
#	tap_skip NAME REASON		could not be tried
#
# shellcheck shell=sh

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$ROOT/build}
TMP=$(mktemp -d)
tap_count=0
tap_bad=0

tap_end()
{
	tap_status=$?
	rm -rf "$TMP"
	if [ "$tap_status" -ne 0 ]; then
		tap_count=$((tap_count + 1))
		echo "not ok $tap_count - the script ended early with status $tap_status"
		tap_bad=1
	fi
	echo "1..$tap_count"
	exit "$tap_bad"
}
trap tap_end EXIT
trap 'exit 130' INT TERM HUP

tap_ok()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1"
}

tap_fail()
{
	tap_count=$((tap_count + 1))
	tap_bad=1
	echo "not ok $tap_count - $1"
	shift
	for tap_line; do
		printf '%s\n' "$tap_line" | sed 's/^/# /'
	done
}

tap_is()
{
	if [ "$2" = "$3" ]; then
		tap_ok "$1"
	else
		tap_fail "$1" "got:    $2" "wanted: $3"
	fi
}

tap_run()
{
	tap_name=$1
	shift
	if "$@" >"$TMP/tap.out" 2>&1; then
		tap_ok "$tap_name"
	else
		tap_fail "$tap_name" "$(tail -n 40 "$TMP/tap.out")"
	fi
}

tap_skip()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}
