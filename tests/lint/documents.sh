#!/bin/sh
# README and manual page say what the programs say.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
cd "$ROOT"
agent=$BUILD/agent

between()
{
	sed -n "/<!-- $1:begin/,/<!-- $1:end/p" README.md | sed '1d;$d'
}
same()
{
	if [ -n "$3" ] && [ "$2" = "$3" ]; then
		tap_ok "$1"
	else
		printf '%s\n' "$2" >"$TMP/a"
		printf '%s\n' "$3" >"$TMP/b"
		tap_fail "$1" "$(diff "$TMP/a" "$TMP/b" || true)"
	fi
}
same "README's stage table is the code's (agent help stages table)" "$(between stages)" "$("$agent" help stages table)"
same "README's table of keys is the code's (agent help config table)" "$(between config)" "$("$agent" help config table)"
same "README's table of hook variables is the code's (agent help hooks table)" "$(between hooks)" "$("$agent" help hooks table)"
same "README's exit statuses are the code's (agent help exit table)" "$(between exit)" "$("$agent" help exit table)"

# ---- options: help against manual page, both ways ----
page=cmd/agent/agent.1
for command in run resume publish show jail audit doctor verify replay edit hook queue work maintain mirror gc completion; do
	"$agent" "$command" --help >"$TMP/help" 2>&1 || true
	grep -oE '(^|[[:space:],|[])--?[A-Za-z][a-z-]*' "$TMP/help" | grep -oE -e '--?[A-Za-z][a-z-]*' | sort -u >"$TMP/helped"
	# the subcommand's section: from its ".Ss" or ".It Cm" to the next
	awk -v name="$command" '
		/^\.Ss / { inside = ($2 == "agent" && $3 == name) }
		inside && /^\.(It|Op|Oo|Op Fl) *Fl|^\.Fl|^\.It Fl|^\.Op Fl/ { print }' "$page" |
		grep -oE 'Fl [^ ]+' | sed 's/^Fl //; s/\\-/-/g; s/^/-/' | sort -u >"$TMP/manual"
	if [ ! -s "$TMP/helped" ] && [ "$command" != completion ]; then
		tap_fail "agent $command --help names options" "$(cat "$TMP/help")"
		continue
	fi
	grep -vxE -e '--help|-h' "$TMP/helped" >"$TMP/helped2" || true
	if cmp -s "$TMP/helped2" "$TMP/manual"; then
		tap_ok "options of agent $command: help and agent(1) agree"
	else
		tap_fail "options of agent $command: help and agent(1) agree" \
			"$(diff "$TMP/helped2" "$TMP/manual" | sed -n 's/^</in help, not in agent.1:/p; s/^>/in agent.1, not in help:/p')"
	fi
done

# ---- help: for a terminal of 80 columns ----
bad=$(for topic in '' config stages hooks protect exit $("$agent" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
	wide=$("$agent" help $topic | LC_ALL=C.UTF-8 wc -L)
	[ "$wide" -gt 0 ] && [ "$wide" -le 80 ] || echo "agent help $topic: $wide columns"
done)
tap_is "no help is wider than 80 columns" "$bad" ''

# ---- keys: the manual page has each, and no other ----
"$agent" help config table | sed -n 's/^| `\([a-z]*\.[A-Za-z]*\)`.*/\1/p' | sort >"$TMP/keys"
sed -n '/^\.Sh CONFIGURATION/,/^\.Sh [^C]/s/^\.It Cm \([a-z]*\.[A-Za-z]*\).*/\1/p' "$page" | sort >"$TMP/described"
same "agent(1) describes each configuration key" "$(cat "$TMP/described")" "$(cat "$TMP/keys")"

"$agent" help hooks table | sed -n 's/^| `\(agent\.[A-Za-z]*\)`.*/\1/p' | sort >"$TMP/variables"
sed -n '/^\.Sh HOOKS/,/^\.Sh [^H]/s/^\.It Cm \(agent\.[A-Za-z]*\).*/\1/p' "$page" | sort >"$TMP/explained"
same "agent(1) describes each variable of the hooks" "$(cat "$TMP/explained")" "$(cat "$TMP/variables")"

# ---- exit statuses: header, README, manual page ----
header=$(sed -n 's/.*EXIT_[A-Z]* = \([0-9]*\),.*/\1/p' pipeline/exitcode.h | sort -n | paste -sd' ')
same "README lists the exit statuses" "$(between exit | sed -n 's/^| \([0-9]*\) |.*/\1/p' | sort -n | paste -sd' ')" "$header"
same "agent(1) lists the exit statuses" "$(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh [^E]/s/^\.It \([0-9]*\)$/\1/p' "$page" | sort -n | paste -sd' ')" "$header"

# ---- programs: each has its opening paragraph ----
bad=$(for program in $(sed -n '/^PROGRAMS := /,/[^\\]$/p' Makefile | sed 's/^PROGRAMS := //; s/\\$//'); do
	file=cmd/$program.c
	[ -e "$file" ] || file=cmd/$program/main.c
	for word in NAME SYNOPSIS SECURITY; do
		head -n 60 "$file" 2>/dev/null | grep -q "$word" || echo "$file: no $word in its opening comment"
	done
	grep -q "\`$program" SECURITY.md || echo "SECURITY.md: no paragraph about $program"
done)
tap_is "each program says what it is and what a compromise of it yields" "$bad" ''

# ---- links between our documents ----
bad=$(for document in README.md CONTRIBUTING.md SECURITY.md; do
	grep -oE '\]\([^)#:]+\)' "$document" | sed 's/^](//; s/)$//' | while read -r target; do
		[ -e "$target" ] || echo "$document: $target"
	done
	# paths in code quotes that look like ours must exist
	grep -oE '`(cmd|pipeline|gitops|sandbox|tests|hooks)/[A-Za-z0-9_./-]*`' "$document" | tr -d '`' | sort -u |
		while read -r target; do
			[ -e "$target" ] || echo "$document: $target"
		done
done)
tap_is "files that documents name exist" "$bad" ''

if command -v mandoc >/dev/null; then
	tap_run "agent(1) is good mdoc" mandoc -T lint -W warning "$page"
else
	tap_skip "agent(1) is good mdoc" "no mandoc"
fi
