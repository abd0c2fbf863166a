#!/bin/sh
# Installs what docgauge is compared with into .tools/peers at the top of the
# repository. Needs python3 with venv. Does nothing if these versions are there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$here/../../../.." && pwd)/.tools/peers

if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/requirements.txt"
fi

# A counter of hits, in Rust.
if [ ! -x "$venv/../bin/rhit" ] && command -v cargo >/dev/null; then
	cargo install --quiet --locked --root "$venv/.." rhit@2.0.4
fi
