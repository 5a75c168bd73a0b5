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
bad=$(find cmd pipeline gitops sandbox tests -name '*.[ch]' | sort | while read -r file; do
	"$tool" --dry-run -Werror "$file" >/dev/null 2>&1 || echo "$file"
done)
if [ -z "$bad" ]; then
	tap_ok "sources are formatted"
else
	tap_fail "sources are formatted" "make fmt mends these:" "$bad"
fi
