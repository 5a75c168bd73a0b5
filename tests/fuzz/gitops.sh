#!/bin/sh
# deadline: 600
# The parsers and matchers of gitops that meet a model's or a repository's bytes, under the sanitizers: their corpora, and a
# bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

sources="$(echo gitops/*.c) $(echo pipeline/base/*.c)"
flags="-std=gnu11 -g -O1 -I. -D_GNU_SOURCE -fno-sanitize-recover=undefined"
libraries="-lgit2 -ljansson -lutf8proc -lz -lm"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' >"$TMP/probe.c"
if clang -fsanitize=fuzzer "$TMP/probe.c" -o "$TMP/probe" 2>"$TMP/probe.err"; then
	fuzzer=yes
else
	fuzzer=
fi

# The sources once, for all targets.
mkdir "$TMP/objects"
if [ "$fuzzer" ]; then
	compile="clang $flags -fsanitize=fuzzer-no-link,address,undefined"
	link="clang $flags -fsanitize=fuzzer,address,undefined"
else
	compile="${CC:-cc} $flags -fsanitize=address,undefined"
	link="$compile tests/fuzz/replay.c"
fi
for source in $sources; do
	# shellcheck disable=SC2086
	$compile -c "$source" -o "$TMP/objects/$(echo "$source" | tr / _).o" 2>>"$TMP/compile.err" || break
done
for name in gitops_place gitops_patterns gitops_message gitops_edits gitops_edit_text gitops_binpatch gitops_policy; do
	# shellcheck disable=SC2086
	tap_run "$name is built" $link "tests/fuzz/$name.c" "$TMP"/objects/*.o -o "$TMP/$name" $libraries
	if [ "$fuzzer" ]; then
		mkdir "$TMP/$name.found"
		tap_run "$name: corpus and 20,000 more" "$TMP/$name" -seed=1 -runs=20000 -max_total_time=60 -max_len=4096 \
			-artifact_prefix="$TMP/" "$TMP/$name.found" "tests/fuzz/corpus/$name"
	else
		tap_run "$name: corpus" "$TMP/$name" tests/fuzz/corpus/"$name"/*
	fi
done
