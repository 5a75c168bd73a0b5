#!/bin/sh
# deadline: 900
# clang as the second compiler, all warnings on, each an error.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

tap_run "clang builds everything without a warning" \
	make -s B="$TMP/clang" CC=clang WERROR=-Werror MODE=release CFLAGS=-O1 -j2 all unit
