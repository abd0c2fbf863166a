#!/bin/sh
# Installs fixed versions of what reads Delta tables back in tests, into .tools/delta
# at the top of the repository: the Python package deltalake, DuckDB with its delta
# extension, and Spark with Delta Lake's jars, which pyspark lacks. Needs python3 with
# venv, and curl; Spark needs Java 17 to run, which install.sh installs. Does nothing
# if these versions are installed; packages that are there already are kept.
# 590 MB are downloaded, in about 40 seconds, and 780 MB kept.
set -eu

deltalake=1.6.6
pyarrow=26.0.1
duckdb=1.4.4
duckdb_delta=1.4.4.20260205
pyspark=4.0.1
delta=4.0.1 # of Spark pyspark

root=$(cd "$(dirname "$0")/../../.." && pwd)
venv=$root/.tools/delta
jars=$venv/jars
python=$venv/bin/python
mkdir -p "$root/.tools"

# has reports whether packages are installed in these versions: name==version.
has() {
	"$python" -c '
import sys
from importlib.metadata import version
for package in sys.argv[1:]:
    name, want = package.split("==")
    if version(name) != want:
        sys.exit(1)' "$@" 2>/dev/null
}

packages="deltalake==$deltalake pyarrow==$pyarrow duckdb==$duckdb duckdb-ext-delta==$duckdb_delta"
if ! has $packages; then
	[ -x "$python" ] || python3 -m venv "$venv"
	echo "installing $packages" >&2
	"$python" -m pip install --quiet --disable-pip-version-check $packages
fi

# Without pip's cache, which would keep another 430 MB; without the parts of Spark
# that no query of a table uses.
if ! has pyspark==$pyspark; then
	echo "installing pyspark $pyspark (430 MB)" >&2
	"$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir pyspark==$pyspark
	spark=$("$python" -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')
	(cd "$spark" && rm -rf data examples jars/connect-repl jars/rocksdbjni-*.jar jars/spark-mllib_*.jar jars/breeze_*.jar \
		jars/spire_*.jar jars/cats-kernel_*.jar jars/kubernetes-*.jar)
fi

is() { # file, SHA-256
	"$python" -c 'import hashlib, sys; sys.exit(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest() != sys.argv[2])' "$@" 2>/dev/null
}

# jar downloads a jar of io.delta, unless it is there with this SHA-256.
jar() { # artifact, SHA-256
	file=$jars/$1-$delta.jar
	is "$file" "$2" && return
	echo "installing $1 $delta" >&2
	mkdir -p "$jars"
	curl --silent --show-error --fail --location --retry 3 --output "$file.new" \
		"https://repo1.maven.org/maven2/io/delta/$1/$delta/$1-$delta.jar"
	if ! is "$file.new" "$2"; then
		rm -f "$file.new"
		echo "engines: $1-$delta.jar of Maven Central is not the file whose SHA-256 is in $0" >&2
		exit 1
	fi
	mv "$file.new" "$file"
}
rm -rf "$jars"/*.new
jar delta-spark_2.13 a1e76860b19fe1e6b205a4ea7a9099a2f9575d39bb71d49b3e679b299d0efb91
jar delta-storage ecc42c5aaa51c423312d9e4e48aa4a12b34740bf2c37de0e8f279277ec3d12e4
