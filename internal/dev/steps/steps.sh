#!/bin/sh
# Runs the commands on standard input, one a line, to the last one whatever fails. Its last
# lines name what failed and how to run just that; then the exit code is 1.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
while IFS= read -r step; do
  printf '== %s\n' "$step" | tee -a "$log"
  { sh -c "$step" </dev/null 2>&1 || echo '== failed'; } | tee -a "$log"
done
awk '
  /^== failed$/ { failed = 1; if (!named) print "FAIL " step; next }
  /^== / { step = substr($0, 4); named = n = 0; test = step ~ / -race / ? "CGO_ENABLED=1 go test -race" : "go test" }
  /^ok  / { n = 0 }
  /^ *--- FAIL: / { if (n && index($3, names[n] "/") == 1) names[n] = $3; else names[++n] = $3 }
  /^FAIL\t/ {
    package = $2
    sub("^github.com/docgauge/docgauge", ".", package)
    if (!n) print "FAIL " package ": " test " " package
    for (i = 1; i <= n; i++) {
      top = names[i]
      sub("/.*", "", top)
      print "FAIL " package " " names[i] ": " test " " package " -run '\''^" top "$'\''"
    }
    named = 1; n = 0
  }
  END { exit failed }' "$log"
