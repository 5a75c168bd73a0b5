#!/bin/sh
# A function fits a screen (60 lines), a file is about 600 (a tenth more is let pass). Longer ones are on tests/lint/size.list with a
# reason; entries that are no longer needed are an error too.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"
FUNCTION=60 FILE=660

# "FILE:FUNCTION LINES" and "FILE LINES" of everything too long. Relies on the format: a function's braces
# stand in the first column.
measure()
{
	for file; do
		awk -v file="$file" -v most="$FUNCTION" -v most_file="$FILE" '
		/^[A-Za-z_].*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
		/^\{/ { start = NR }
		/^\}/ { if (start && NR - start - 1 > most) print file ":" name, NR - start - 1; start = 0 }
		END { if (NR > most_file) print file, NR }' "$file"
	done
}
# shellcheck disable=SC2046
measure $(find cmd pipeline gitops sandbox -name '*.[ch]' | sort) >"$TMP/long"
grep -vE '^(#|$)' tests/lint/size.list >"$TMP/list" || true

bad=$(while read -r what lines; do
	grep -qF "$what : " "$TMP/list" || echo "$what: $lines lines"
done <"$TMP/long")
if [ -z "$bad" ]; then
	tap_ok "functions fit a screen, files are about 600 lines"
else
	tap_fail "functions fit a screen, files are about 600 lines" "$bad" \
		"split it, or give the reason in tests/lint/size.list"
fi
stale=$(sed 's/ : .*//' "$TMP/list" | while read -r what; do
	grep -q "^$what " "$TMP/long" || echo "$what"
done)
tap_is "each exception is still needed" "$stale" ''
unreasoned=$(grep -vE ' : .{15}' "$TMP/list" || true)
tap_is "each exception has a reason" "$unreasoned" ''

{
	echo 'int f(void)'
	echo '{'
	i=0
	while [ $i -lt 61 ]; do
		echo '	i++;'
		i=$((i + 1))
	done
	echo '}'
} >"$TMP/x.c"
tap_is "a planted long function is seen" "$(measure "$TMP/x.c")" "$TMP/x.c:f 61"
