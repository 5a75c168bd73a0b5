# Sourced by tests/fuzz/*.sh, behind tap.sh: fuzz TARGET…, each of them tests/fuzz/TARGET.c with its corpus, under the
# sanitizers. $sources: what they are linked with; $libraries; $runs: inputs that are searched from the corpus on, where the
# compiler has libFuzzer (without it, the corpus alone is replayed).
# shellcheck shell=sh disable=SC2086,SC2154 # words are split on purpose; the variables are the caller's

fuzz()
{
	flags="-std=gnu11 -g -O1 -I. -D_GNU_SOURCE -fno-sanitize-recover=undefined"
	echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' >"$TMP/probe.c"
	if clang -fsanitize=fuzzer "$TMP/probe.c" -o "$TMP/probe" 2>"$TMP/probe.err"; then
		compile="clang $flags -fsanitize=fuzzer-no-link,address,undefined"
		link="clang $flags -fsanitize=fuzzer,address,undefined"
	else
		compile="${CC:-cc} $flags -fsanitize=address,undefined"
		link="$compile tests/fuzz/replay.c"
	fi
	mkdir "$TMP/objects" # the sources once, for all targets
	for source in $sources; do
		$compile -c "$source" -o "$TMP/objects/$(echo "$source" | tr / _).o" 2>>"$TMP/compile.err" ||
			tap_fail "$source is compiled" "$(cat "$TMP/compile.err")"
	done
	for name in "$@"; do
		tap_run "$name is built" $link "tests/fuzz/$name.c" "$TMP"/objects/*.o -o "$TMP/$name" $libraries
		if [ -x "$TMP/probe" ]; then
			mkdir "$TMP/$name.found"
			tap_run "$name: corpus and $runs more" "$TMP/$name" -seed=1 -runs="$runs" -max_total_time=60 -max_len=4096 \
				-artifact_prefix="$TMP/" "$TMP/$name.found" "tests/fuzz/corpus/$name"
		else
			tap_run "$name: corpus" "$TMP/$name" tests/fuzz/corpus/"$name"/*
		fi
	done
}
