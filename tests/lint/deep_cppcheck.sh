#!/bin/sh
# deadline: 900
# cppcheck: errors, warnings and portability.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

tap_run "cppcheck has nothing to say" cppcheck --quiet --std=c11 --language=c -j "$(nproc)" \
	--enable=warning,portability --inline-suppr --error-exitcode=1 -I . -D_GNU_SOURCE -D__x86_64__ -D__linux__ \
	--suppress=missingIncludeSystem --suppressions-list=tests/lint/cppcheck.list cmd pipeline gitops sandbox
