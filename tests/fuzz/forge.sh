#!/bin/sh
# deadline: 300
# What agent-forge makes of a forge's bytes, under the sanitizers: its corpus, and a bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="pipeline/forge/forge.c pipeline/forge/answer.c pipeline/forge/strip.c pipeline/forge/strip_text.c
	pipeline/forge/words.c pipeline/url.c pipeline/base/error.c pipeline/base/json.c pipeline/base/mem.c
	pipeline/base/strbuf.c pipeline/base/text.c pipeline/base/fdio.c"
libraries="-ljansson"
runs=30000

fuzz forge_text
