#!/bin/sh
# Who may include what. One third-party header has one owner; dependencies run
# base <- sandbox, gitops <- pipeline <- cmd; a source includes its own header first.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

sources=$(find cmd pipeline gitops sandbox -name '*.[ch]' | sort)

# ---- third-party headers: HEADER, and the pattern of the files that own it ----
owner()
{
	# shellcheck disable=SC2086
	found=$(grep -lE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$1" $sources |
		grep -vE "^($2)\$" || true)
	if [ -z "$found" ]; then
		tap_ok "$3 is included by its owner only"
	else
		tap_fail "$3 is included by its owner only" "owner: $2" "$found"
	fi
}
owner 'git2(\.h|/)' 'gitops/[^/]*\.c|gitops/[a-z_]*_internal\.h' git2.h
owner 'curl/' 'pipeline/http/http\.c' curl.h
owner 'jansson\.h' 'pipeline/base/json\.c' jansson.h
owner 'sqlite3\.h' 'pipeline/(database|ledger|queue|queue_tips|maintain/record)\.c' sqlite3.h
owner 'seccomp\.h' 'sandbox/gen_[a-z_]*\.c' seccomp.h
owner 'linux/landlock\.h' 'sandbox/.*' landlock.h
owner 'utf8proc\.h' 'gitops/pathfold\.c' utf8proc.h
owner 'zlib\.h' 'gitops/binpatch\.c' zlib.h
owner 'cmocka\.h' 'nobody: unit tests only' cmocka.h

# ---- direction: FOLDER, what its files may include of ours ----
# fds.h and exitcode.h are numbers without code, which every layer shares.
numbers='pipeline/(fds|exitcode)\.h'
violations()
{
	find "$1" -name '*.[ch]' | sort | while read -r file; do
		sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file" |
			while read -r header; do
				case $header in
				*/*) ;;
				*) [ -e "$(dirname "$file")/$header" ] && header=$(dirname "$file")/$header ;;
				esac
				printf '%s\n' "$header" | grep -qE "^($2)" || echo "$file includes $header"
			done
	done
}
direction()
{
	bad=$(violations "$1" "$2")
	if [ -z "$bad" ]; then
		tap_ok "$1 includes only what it may"
	else
		tap_fail "$1 includes only what it may" "$bad"
	fi
}
# filters.h and jail_filter.h are made from sandbox/gen_*.c
direction pipeline/base "pipeline/base/|$numbers"
direction sandbox "pipeline/base/|sandbox/|$numbers|filters\\.h|jail_filter\\.h"
direction gitops "pipeline/base/|gitops/|$numbers"
direction pipeline 'pipeline/|gitops/|sandbox/'
direction cmd 'cmd/|pipeline/|gitops/|sandbox/'

# ---- own header first ----
bad=$(for file in $sources; do
	case $file in *.c) ;; *) continue ;; esac
	header=${file%.c}.h
	[ -e "$header" ] || continue
	first=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$file" | head -n 1)
	[ "$first" = "$(basename "$header")" ] || [ "$first" = "$header" ] || echo "$file begins with $first"
done)
if [ -z "$bad" ]; then
	tap_ok "each source includes its own header first"
else
	tap_fail "each source includes its own header first" "$bad"
fi

# ---- the check can fail: a planted violation is seen ----
mkdir -p "$TMP/pipeline/base"
echo '#include "cmd/agent/agent.h"' >"$TMP/pipeline/base/x.c"
cd "$TMP"
tap_is "a planted include of cmd from base is seen" "$(violations pipeline/base 'pipeline/base/')" \
	"pipeline/base/x.c includes cmd/agent/agent.h"
