#!/bin/sh
# demo.sh DOCGAUGE OUT: starts the sandbox, exports from it, lets it work on a few
# prompts, and writes the report OUT of all that.
set -eu
docgauge=$1 out=$2
dir=$(mktemp -d)
sandbox=
end() {
	[ -z "$sandbox" ] || kill "$sandbox" 2>/dev/null || true
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM

mkdir "$dir/prompts"
cat >"$dir/prompts/quickstart.md" <<'PROMPT'
---
title: Rewrite the quickstart for agents
---
Shorten the quickstart. [sandbox:pr]
PROMPT
cat >"$dir/prompts/typos.md" <<'PROMPT'
---
title: Fix typos in the guides
follow_ups: [In the changelog too.]
---
Fix all typos. [sandbox:pr]
PROMPT
cat >"$dir/prompts/links.md" <<'PROMPT'
---
title: Look for dead links
---
Look for dead links. [sandbox:no-change]
PROMPT
cat >"$dir/prompts/translate.md" <<'PROMPT'
---
title: Translate the API reference
---
Translate it. [sandbox:fail]
PROMPT

: >"$dir/variables"
"$docgauge" sandbox --listen 127.0.0.1:0 --scenario growth --agent-duration 100ms >"$dir/variables" 2>"$dir/sandbox.log" &
sandbox=$!
n=0
until [ "$(grep -c '^export ' "$dir/variables")" -ge 3 ]; do
	n=$((n + 1))
	[ "$n" -le 600 ] || { cat "$dir/sandbox.log" >&2; exit 1; }
	sleep 0.1
done
. "$dir/variables"
export DOCGAUGE_STATE_DIR="$dir/state" DOCGAUGE_PARQUET_URL="$dir/data" DOCGAUGE_BUDGET=0 DOCGAUGE_LOG_LEVEL=warn
export DOCGAUGE_SINCE="$(date -u -d '90 days ago' +%F 2>/dev/null || date -u -v-90d +%F)"
export DOCGAUGE_PROMPTS_DIR="$dir/prompts" DOCGAUGE_PROMPTS_ON_NEW_STATE=submit DOCGAUGE_POLL_INTERVAL=1s DOCGAUGE_MAX_JOBS_PER_DAY=10
"$docgauge" export
"$docgauge" jobs run --wait >/dev/null || true # the job that fails is part of it
"$docgauge" report -o "$out"
