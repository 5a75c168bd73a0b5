#!/bin/sh
# .clang-format decides. Releases of clang-format lay out a few things differently; 14 (Debian 12) counts.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

tool=$(command -v clang-format-14 || command -v clang-format || true)
version=$([ -n "$tool" ] && "$tool" --version | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" != 14 ]; then
	tap_skip "sources are formatted" "clang-format 14 decides; here is ${version:-none}"
	exit 0
fi
bad=$(find cmd pipeline gitops sandbox tests -name '*.[ch]' -print0 | sort -z |
	xargs -0 -P "$(nproc)" -n 16 "$tool" --dry-run -Werror 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error.*/\1/p' | sort -u)
if [ -z "$bad" ]; then
	tap_ok "sources are formatted"
else
	tap_fail "sources are formatted" "make fmt mends these:" "$bad"
fi
# the check can fail
printf 'int  x ;\n' >"$TMP/x.c"
cp .clang-format "$TMP/"
if "$tool" --dry-run -Werror "$TMP/x.c" >/dev/null 2>&1; then
	tap_fail "a planted bad line is seen"
else
	tap_ok "a planted bad line is seen"
fi
