#!/bin/sh
# Runs the commands on standard input, one a line, to the last one whatever fails. One that ends in " &" runs beside
# the lines after it, when the one before it of this kind has ended; the line "wait" waits for those. The last lines
# name what failed and how to run just that; then the exit code is 1.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkfifo "$dir/beside" "$dir/idle" || exit 1

run() { # number, command
  { printf '== %s\n' "$2"; sh -c "$2" </dev/null 2>&1 || echo '== failed'; } | tee "$dir/$1"
}

while read -r n step; do
  case $step in
  wait) : >"$dir/idle" ;;
  *) run "$n" "$step" ;;
  esac
done <"$dir/beside" &
exec 3>"$dir/beside"
n=1000 # all numbers have as many digits
while IFS= read -r step; do
  n=$((n + 1))
  case $step in
  *' &') printf '%s %s\n' $n "${step% &}" >&3 ;;
  wait) echo "$n wait" >&3 && read -r _ <"$dir/idle" ;;
  *) run $n "$step" 3>&- ;;
  esac
done
exec 3>&-
wait
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
  END { exit failed }' "$dir"/1*
