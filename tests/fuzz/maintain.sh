#!/bin/sh
# deadline: 300
# Maintenance tasks as they are written, and schedules, under the sanitizers: their corpus, and a bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

sources="pipeline/maintain/task.c pipeline/maintain/schedule.c gitops/glob.c pipeline/base/sha256.c
	pipeline/base/error.c pipeline/base/json.c pipeline/base/mem.c
	pipeline/base/strbuf.c pipeline/base/text.c pipeline/base/fdio.c"
flags="-std=gnu11 -g -O1 -I. -D_GNU_SOURCE -fno-sanitize-recover=undefined"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' >"$TMP/probe.c"
if clang -fsanitize=fuzzer "$TMP/probe.c" -o "$TMP/probe" 2>"$TMP/probe.err"; then
	fuzzer=yes
else
	fuzzer=
fi

for name in maintain_task; do
	# shellcheck disable=SC2086
	if [ "$fuzzer" ]; then
		tap_run "$name is built" clang $flags -fsanitize=fuzzer,address,undefined "tests/fuzz/$name.c" $sources \
			-o "$TMP/$name" -ljansson
		mkdir "$TMP/$name.found"
		tap_run "$name: corpus and 30,000 more" "$TMP/$name" -seed=1 -runs=30000 -max_total_time=60 \
			-artifact_prefix="$TMP/" "$TMP/$name.found" "tests/fuzz/corpus/$name"
	else
		tap_run "$name is built" "${CC:-cc}" $flags -fsanitize=address,undefined "tests/fuzz/$name.c" tests/fuzz/replay.c \
			$sources -o "$TMP/$name" -ljansson
		tap_run "$name: corpus" "$TMP/$name" tests/fuzz/corpus/"$name"/*
	fi
done
