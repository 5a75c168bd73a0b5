#!/bin/sh
# deadline: 300
# The parsers of agent-publish under the sanitizers: their corpora, and a bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="pipeline/publish/remote.c pipeline/publish/advert.c pipeline/publish/porcelain.c pipeline/publish/sshkey.c
	pipeline/publish/relay.c pipeline/publish/pump.c pipeline/publish/rules.c pipeline/dial.c pipeline/proxy.c pipeline/addr.c pipeline/base/error.c
	pipeline/base/json.c pipeline/base/mem.c pipeline/base/strbuf.c pipeline/base/text.c pipeline/base/fdio.c"
libraries="-ljansson"
runs=30000

fuzz publish_remote publish_server publish_words
