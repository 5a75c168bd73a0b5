#!/bin/sh
# deadline: 1500
# gcc's own path analysis of every source.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

find cmd pipeline gitops sandbox -name '*.c' ! -name 'gen_*.c' | sort >"$TMP/files"
while read -r file; do printf '%s\0%s\0' "$file" "$TMP"; done <"$TMP/files" |
	xargs -0 -P "$(nproc)" -n 2 sh -c '
	gcc -std=gnu11 -O2 -I. -I"$0/gen" -D_GNU_SOURCE -DAGENT_VERSION=\"lint\" -fanalyzer -Werror \
		-c -o /dev/null "$1" >"$2/$(echo "$1" | tr / _).log" 2>&1 || echo "$1" >>"$2/bad"' "$BUILD"
while read -r file; do
	log=$TMP/$(echo "$file" | tr / _).log
	if grep -qxF "$file" "$TMP/bad" 2>/dev/null; then
		tap_fail "gcc -fanalyzer: $file" "$(grep -E 'warning|error' "$log" | head -n 10)"
	else
		tap_ok "gcc -fanalyzer: $file"
	fi
done <"$TMP/files"
