#!/bin/sh
# Installs fixed versions of two clients of the Model Context Protocol, with which tests ask
# docgauge, into .tools/mcp at the top of the repository: the PyPI package mcp, and the npm
# inspector with its command line. Needs python3 with venv, npm, and Node 20 or newer. Does
# nothing if they are installed. 45 MB are downloaded, and 180 MB kept.
set -eu

mcp=2.3.0
inspector=2.12.0

root=$(cd "$(dirname "$0")/../../.." && pwd)
dir=$root/.tools/mcp
mkdir -p "$dir"

if ! "$dir/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('mcp') != '$mcp')" 2>/dev/null; then
	echo "installing mcp $mcp" >&2
	python3 -m venv "$dir"
	"$dir/bin/pip" install --quiet --disable-pip-version-check "mcp==$mcp"
fi
if ! grep -qs "\"version\": \"$inspector\"" "$dir/npm/node_modules/@modelcontextprotocol/inspector/package.json"; then
	echo "installing the MCP inspector $inspector" >&2
	mkdir -p "$dir/npm"
	npm install --silent --no-audit --no-fund --save-exact --prefix "$dir/npm" "@modelcontextprotocol/inspector@$inspector"
fi
