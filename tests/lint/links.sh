#!/bin/sh
# What each program is linked with, as the loader sees it, against the list in the Makefile.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

programs=$(sed -n '/^PROGRAMS := /,/[^\\]$/p' Makefile | sed 's/^PROGRAMS := //; s/\\$//' | tr -s ' \t\n' '   ')
allowed_of()
{
	sed -n "s/^$1_LIBS[[:space:]]*:= *//p" Makefile | tr ' ' '\n' |
		sed -n 's/^-lgit2$/libgit2/p; s/^-lcurl$/libcurl/p; s/^-ljansson$/libjansson/p; s/^-lsqlite3$/libsqlite3/p; s/^-lutf8proc$/libutf8proc/p; s/^-lz$/libz/p'
}
needed_of()
{
	readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | sed 's/\.so.*//; s/-gnutls$//' |
		grep -vxE 'libc|libm|ld-linux-x86-64|ld-linux-aarch64|libasan|libubsan|libgcc_s|libpthread|libdl|librt' || true
}

for program in $programs; do
	file=$BUILD/$program
	if [ ! -x "$file" ]; then
		tap_fail "$program is built" "no $file"
		continue
	fi
	extra=$(needed_of "$file" | grep -vxF -e "$(allowed_of "$program")" || true)
	[ -n "$(allowed_of "$program")" ] || extra=$(needed_of "$file")
	if [ -z "$extra" ]; then
		tap_ok "$program links nothing beyond its list: $(needed_of "$file" | paste -sd' ')"
	else
		tap_fail "$program links nothing beyond its list" "beyond: $extra" "list: $(allowed_of "$program")"
	fi
	headers=$(readelf -hldW "$file")
	lacking=''
	case $headers in *"Type:"*DYN*) ;; *) lacking="$lacking pie" ;; esac
	case $headers in *GNU_RELRO*) ;; *) lacking="$lacking relro" ;; esac
	printf '%s\n' "$headers" | grep -qE 'BIND_NOW|FLAGS_1.*NOW' || lacking="$lacking bind-now"
	printf '%s\n' "$headers" | grep -qE 'GNU_STACK.* RW ' || lacking="$lacking noexecstack"
	printf '%s\n' "$headers" | grep -qE 'RPATH|RUNPATH' && lacking="$lacking no-rpath"
	tap_is "$program is position independent, relro, bind-now, without executable stack" "$lacking" ''
done

# said by name, so that a changed Makefile does not loosen it
must_not()
{
	for library in $2; do
		tap_is "$1 has no $library" "$(needed_of "$BUILD/$1" | grep -cxF "$library" || true)" 0
	done
}
must_not agent 'libgit2 libcurl libseccomp'
for program in agent-apply agent-layer agent-test agent-change agent-publish agent-fetch; do
	must_not "$program" 'libcurl libseccomp libsqlite3'
done
for program in agent-dial agent-egress; do
	must_not "$program" 'libcurl libgit2 libseccomp libsqlite3'
done
must_not agent-model 'libseccomp libsqlite3'
tap_is "agent-jail is static" "$(readelf -ldW "$BUILD/agent-jail" | grep -cE 'NEEDED|INTERP' || true)" 0
