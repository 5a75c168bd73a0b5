#!/bin/sh
# The places that look at a secret's bytes are few and known: tests/lint/secret_sites.list has each file
# with the number of its calls of secret_expose and what it is for.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"

grep -vE '^(#|$)' tests/lint/secret_sites.list | awk '{print $1, $2}' | sort >"$TMP/wanted"
find cmd pipeline gitops sandbox -name '*.c' ! -path pipeline/secret.c | sort | while read -r file; do
	count=$(grep -cE '\bsecret_expose\(' "$file" || true)
	[ "$count" -eq 0 ] || echo "$file $count"
done | sort >"$TMP/found"
if cmp -s "$TMP/wanted" "$TMP/found"; then
	tap_ok "secrets are exposed where tests/lint/secret_sites.list says, only"
else
	tap_fail "secrets are exposed where tests/lint/secret_sites.list says, only" \
		"$(diff "$TMP/wanted" "$TMP/found" | sed -n 's/^</listed, not found:/p; s/^>/found, not listed:/p')"
fi

# nobody else opens the sources of secrets, or asks the environment for one; agent-probe does so in a jail, as an attack
found=$(find cmd pipeline gitops sandbox -name '*.[ch]' ! -path 'pipeline/secret.[ch]' ! -path 'sandbox/probe/*' \
	-exec grep -nE 'CREDENTIALS_DIRECTORY|getenv\("[A-Z_]*(KEY|TOKEN|SECRET|PASSWORD)' {} + || true)
tap_is "only pipeline/secret.c opens sources of secrets" "$found" ''
