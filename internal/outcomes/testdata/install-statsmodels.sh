#!/bin/sh
# Installs a fixed version of statsmodels, which estimates the same effects in tests, into
# .tools/outcome at the top of the repository. Needs python3 with venv. Does nothing if it is
# installed. 110 MB are downloaded, and 405 MB kept.
set -eu

statsmodels=0.15.0

root=$(cd "$(dirname "$0")/../../.." && pwd)
venv=$root/.tools/outcome
mkdir -p "$root/.tools"

if ! "$venv/bin/python" -c "import statsmodels, sys; sys.exit(statsmodels.__version__ != '$statsmodels')" 2>/dev/null; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "statsmodels==$statsmodels"
fi
