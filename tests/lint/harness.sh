#!/bin/sh
# The harness itself: what it must count as a failure, it does.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$TMP"

make_test()
{
	{
		echo '#!/bin/sh'
		cat
	} >"$1"
	chmod +x "$1"
}
judge()
{
	wanted=$2
	"$ROOT/tests/run" "$1" >out && status=0 || status=$?
	got=$(tail -n 1 out)
	case $wanted in
	*' 0 failed'*) tap_is "harness: $1" "$got ($status)" "$wanted (0)" ;;
	*) tap_is "harness: $1" "$got ($status)" "$wanted (1)" ;;
	esac
}
unset CI

printf 'echo 1..2\necho ok 1 - a\necho "ok 2 - b # SKIP none"\n' | make_test passes
judge passes '1 passed, 0 failed, 1 skipped'
printf 'echo 1..1\necho not ok 1 - a\n' | make_test not-ok
judge not-ok '0 passed, 1 failed, 0 skipped'
printf 'echo 1..2\necho ok 1 - a\n' | make_test short-plan
judge short-plan '1 passed, 1 failed, 0 skipped'
printf 'echo ok 1 - a\n' | make_test no-plan
judge no-plan '1 passed, 1 failed, 0 skipped'
printf ':\n' | make_test says-nothing
judge says-nothing '0 passed, 1 failed, 0 skipped'
printf 'echo 1..1\necho ok 1 - a\nexit 3\n' | make_test bad-status
judge bad-status '1 passed, 1 failed, 0 skipped'
printf 'echo 1..1\necho ok 1 - a\nkill -SEGV $$\n' | make_test crashes
judge crashes '1 passed, 1 failed, 0 skipped'
printf '# deadline: 1\necho 1..1\necho ok 1 - a\nsleep 60\n' | make_test too-long
judge too-long '1 passed, 1 failed, 0 skipped'
printf 'echo 1..1\necho ok 1 - a\nsetsid sleep 61 >/dev/null 2>&1 &\n' | make_test leaves-a-process
judge leaves-a-process '1 passed, 1 failed, 0 skipped'
printf 'echo Bail out! no\nexit 1\n' | make_test bails
judge bails '0 passed, 1 failed, 0 skipped'
printf 'echo 1..1\necho "ok 1 - nobody allowed this # SKIP why"\n' | make_test skips
CI=true
export CI
judge skips '0 passed, 1 failed, 0 skipped'
unset CI
tap_is "nothing is left of them" "$(ps -eo args | grep -cE '^sleep 6[01]$' || true)" 0
printf '3 0 1\n2 1 0\n' >tally
tap_is "sums add up" "$("$ROOT/tests/run" --sum tally)" "5 passed, 1 failed, 1 skipped"
