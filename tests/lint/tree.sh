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
none "no path of one machine" "$(search '/(root|home/[a-z]+)/[.a-z]|/work/(main|shared)|/tmp/[a-z]' \
	'^tests/lint/tree\.sh:|/home/(agent|you|user|me)/|mktemp|/tmp/(x|agent)')"

# a test that cannot be executed would never run, and nobody would miss it
bad=$(grep -E '^tests/(wall|e2e|lint|fuzz)/[^/]*\.(sh|py)$' "$TMP/files" | while read -r file; do
	[ -x "$file" ] || echo "$file"
done)
none "every test script is executable" "$bad"
bad=$(grep -E '\.sh$|^tests/(setup|check|demo/run|bench/run)$|^\.ci/run$' "$TMP/files" | while read -r file; do
	case $(head -n 1 "$file") in
	*bash*) bash -n "$file" 2>&1 || echo "$file" ;;
	*) sh -n "$file" 2>&1 || echo "$file" ;;
	esac
done)
none "every shell script parses" "$bad"
bad=$(grep -E '\.py$|^tests/run$' "$TMP/files" | while read -r file; do
	python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" 2>&1 || echo "$file"
done)
none "every Python script parses" "$bad"
bad=$(find tests/unit -name '*.c' ! -name 'test_*.c' | sort)
none "every unit test is named test_*.c" "$bad"
