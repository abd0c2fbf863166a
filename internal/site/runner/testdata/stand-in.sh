#!/bin/sh
# A stand-in for claude, codex and gemini, by whose names it is called. It prints the form of their output that
# its prompt names, as in "form success", and appends what its prompt says it should "write".
case $1 in --version) echo "9.8.7 (stand-in for ${0##*/})"; exit;; esac
prompt=$(cat)
echo "${0##*/} is a stand-in of docgauge's tests, not an agent" >&2
echo "$*" >>~/arguments
word() { printf '%s\n' "$prompt" | sed -n "s/.*$1 \([a-z]*\).*/\1/p"; }
form=$(word form) text=$(word write)
if [ -e ~/again ] && [ -n "$(word then)" ]; then form=$(word then); fi
: >~/again
if [ -n "$text" ]; then echo "$text" >>new.md; fi
forms=$(dirname "$0")/forms-${0##*/}
if [ -e "$forms/$form.err" ]; then cat "$forms/$form.err" >&2; fi
if [ -e "$forms/$form.out" ]; then cat "$forms/$form.out"; fi
if [ -e "$forms/$form.exit" ]; then exit "$(cat "$forms/$form.exit")"; fi
