#!/bin/sh
# deadline: 1800
# clang-tidy with the checks of .clang-tidy. Releases differ in what they know; 14 (Debian 12) counts.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

version=$(clang-tidy --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
if [ "$version" != 14 ]; then
	tap_skip "clang-tidy" "clang-tidy 14 decides; here is ${version:-none}"
	exit 0
fi
find cmd pipeline gitops sandbox -name '*.c' ! -name 'gen_*.c' | sort >"$TMP/files"
while read -r file; do printf '%s\0%s\0' "$file" "$TMP"; done <"$TMP/files" |
	xargs -0 -P "$(nproc)" -n 2 sh -c '
	clang-tidy --quiet --warnings-as-errors="*" "$1" -- -std=gnu11 -I. -I"$0/gen" -D_GNU_SOURCE \
		-DAGENT_VERSION=\"lint\" >"$2/$(echo "$1" | tr / _).log" 2>&1 || echo "$1" >>"$2/bad"' "$BUILD"
while read -r file; do
	log=$TMP/$(echo "$file" | tr / _).log
	if grep -qxF "$file" "$TMP/bad" 2>/dev/null; then
		tap_fail "clang-tidy: $file" "$(grep -E 'warning|error' "$log" | head -n 10)"
	else
		tap_ok "clang-tidy: $file"
	fi
done <"$TMP/files"
