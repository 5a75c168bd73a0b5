#!/bin/sh
# What is started with 0, 1 or 2 closed opens something else there: a secret, a lock, a log. Nothing of a
# secret may then be read as the issue, and no message may land in a file of ours.
. "$(dirname "$0")/../lib/tap.sh"

AGENT_STATE_DIR=$TMP/state XDG_CONFIG_HOME=$TMP/config HOME=$TMP
ANTHROPIC_API_KEY=planted-closed-descriptor-key
export AGENT_STATE_DIR XDG_CONFIG_HOME HOME ANTHROPIC_API_KEY
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM

git init -q -b main "$TMP/repo"
cd "$TMP/repo" || exit 1
echo one >a.txt
git add a.txt
git -c user.name=x -c user.email=x@example.com commit -q -m one

run()
{
	"$BUILD/agent" run "$@" --model anthropic:x --base-url http://127.0.0.1:9 --test true --dry-run \
		-c jail.limits=degraded-ok
}

run - <&- >out 2>&1
tap_is "standard input closed: there is no issue" "$?" 2
run -m x <&- >out 2>&- # the provider cannot be reached: what matters is where the messages go
tap_is "error output closed: the run fails as it would" "$?" 4
run -m x <&- >&- 2>&-
tap_is "all closed: likewise" "$?" 4
tap_is "the key is in no file of the state directory" \
	"$(grep -rlF planted-closed "$AGENT_STATE_DIR" | wc -l | tr -d ' ')" 0
tap_is "no message is in a lock file" \
	"$(find "$AGENT_STATE_DIR/runs" -name lock -size +0 | wc -l | tr -d ' ')" 0
tap_is "two runs were begun" "$(find "$AGENT_STATE_DIR/runs" -name lock | wc -l | tr -d ' ')" 2
