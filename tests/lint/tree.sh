#!/bin/sh
# What must not be in the tree: names of package registries (they come from the client's own
# configuration), paths of somebody's machine, tests that would not be run.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"
git -c safe.directory="$ROOT" ls-files -co --exclude-standard >"$TMP/files"

search()
{
	# shellcheck disable=SC2046
	tr '\n' '\0' <"$TMP/files" | xargs -0 grep -InE "$1" -- 2>/dev/null | grep -vE "${2:-^\$}" || true
}
none()
{
	if [ -z "$2" ]; then
		tap_ok "$1"
	else
		tap_fail "$1" "$2"
	fi
}

registries='npmjs[.]|pypi[.]org|pythonhosted[.]|crates[.]io|proxy[.]golang|sum[.]golang|maven[.]org|maven[.]apache|rubygems[.]|debian[.]org|ubuntu[.]com'
none "no host name of a package registry" "$(search "$registries" '^tests/lint/tree\.sh:')"
none "no path of one machine" "$(search '(^|[^A-Za-z0-9_])/(root|home/[a-z]+)/[.a-z]|/work/(main|shared)/|/tmp/(iface|defects|b-)' \
	'^tests/lint/tree\.sh:|/home/(agent|you|user|me)/|/proc/[a-z0-9]*/root/|/root/[.]rustup/…')"

# a test that cannot be executed would never run, and nobody would miss it
bad=$(grep -E '^tests/(wall|e2e|lint|fuzz)/[^/]*\.(sh|py)$' "$TMP/files" | while read -r file; do
	[ -x "$file" ] || echo "$file"
done)
none "every test script is executable" "$bad"
bad=$(while read -r file; do
	[ -f "$file" ] || continue
	case $file in
	*.sh) kind=sh ;;
	*.py) kind=python3 ;;
	*.*) continue ;;
	*) kind=$(head -c 64 "$file" | tr -d '\0' | sed -n '1s/^#!.*[/ ]\(sh\|bash\|python3\)$/\1/p') ;;
	esac
	case $kind in
	sh | bash) "$kind" -n "$file" 2>&1 || echo "$file" ;;
	python3) echo "$file" >>"$TMP/python" ;;
	esac
done <"$TMP/files")
bad=$bad$(tr '\n' '\0' <"$TMP/python" | xargs -0 python3 -c 'import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)' 2>&1 || true)
none "every script parses" "$bad"
none "every unit test is named test_*.c" "$bad"
