#!/bin/sh
# Installs fixed versions of DuckDB and pyarrow, which read our Parquet files back
# in tests, into .tools at the top of the repository. Needs npm and python3 with
# venv. Does nothing if these versions are installed.
set -eu

duckdb=1.5.6-r.1
pyarrow=26.0.1

root=$(cd "$(dirname "$0")/../../.." && pwd)
node=$root/.tools/node
venv=$root/.tools/venv
mkdir -p "$root/.tools"

if ! grep -qs "\"version\": \"$duckdb\"" "$node/node_modules/@duckdb/node-api/package.json"; then
	npm install --silent --no-audit --no-fund --prefix "$node" "@duckdb/node-api@$duckdb"
fi

if ! "$venv/bin/python" -c "import pyarrow, sys; sys.exit(pyarrow.__version__ != '$pyarrow')" 2>/dev/null; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "pyarrow==$pyarrow"
fi
