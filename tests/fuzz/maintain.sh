#!/bin/sh
# deadline: 300
# Maintenance tasks as they are written, and schedules, under the sanitizers: their corpus, and a bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="pipeline/maintain/task.c pipeline/maintain/schedule.c gitops/glob.c pipeline/base/sha256.c
	pipeline/base/error.c pipeline/base/json.c pipeline/base/mem.c
	pipeline/base/strbuf.c pipeline/base/text.c pipeline/base/fdio.c"
libraries="-ljansson"
runs=30000

fuzz maintain_task
