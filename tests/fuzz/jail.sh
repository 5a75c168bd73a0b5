#!/bin/sh
# deadline: 300
# The records between supervisor, starter and agent-jail, what a test prints, and what is told of a work tree, under the sanitizers: their corpora, and a
# bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="sandbox/jail/dns.c sandbox/jail_spec.c sandbox/jail_record.c sandbox/jail_take.c sandbox/jail_facts.c sandbox/jail_find.c sandbox/jail/identity.c sandbox/jail/ids.c
	sandbox/subuid.c sandbox/own_group.c sandbox/jail/run.c pipeline/base/error.c pipeline/base/mem.c
	pipeline/base/strbuf.c pipeline/base/text.c pipeline/base/fdio.c"
libraries=""
runs=30000

fuzz jail_records jail_dns jail_output jail_take
