#!/bin/sh
# deadline: 300
# The parsers of the fetch stage under the sanitizers: their corpora, and a bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="pipeline/fetch/authority.c pipeline/fetch/hello.c pipeline/fetch/policy.c pipeline/fetch/npm_lock.c
	pipeline/fetch/inside.c pipeline/base/error.c pipeline/base/json.c pipeline/base/mem.c pipeline/base/strbuf.c
	pipeline/base/text.c pipeline/base/fdio.c"
libraries="-ljansson"
runs=30000

fuzz fetch_hello fetch_request fetch_npm_lock
