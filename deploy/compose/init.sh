#!/bin/sh
# Creates the files that compose.yaml needs and that no repository should hold: .env,
# and random secrets in secrets/. Existing files stay. Only the owner can enter the
# directory; the users of the containers can read the files in it.
set -eu
cd "$(dirname "$0")"

random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }

[ -e .env ] || cp .env.example .env
mkdir -p secrets
chmod 700 secrets
umask 022

if ! [ -e secrets/clickhouse_dsn ]; then
	password=$(random)
	cat >secrets/clickhouse_users.xml <<XML
<clickhouse><users><docgauge>
  <password_sha256_hex>$(printf %s "$password" | sha256)</password_sha256_hex>
  <networks><ip>::/0</ip></networks>
  <profile>default</profile>
  <quota>default</quota>
</docgauge></users></clickhouse>
XML
	printf '%s\n' "clickhouse://docgauge:$password@clickhouse:9000/default" >secrets/clickhouse_dsn
fi
if ! [ -e secrets/postgres_dsn ]; then
	random >secrets/postgres_password
	# The server has no certificate, and its port is for this machine alone.
	printf 'postgres://docgauge:%s@postgres:5432/docgauge?sslmode=disable\n' "$(cat secrets/postgres_password)" >secrets/postgres_dsn
fi
[ -e secrets/postgres_grafana_password ] || random >secrets/postgres_grafana_password
[ -e secrets/grafana_admin_password ] || random >secrets/grafana_admin_password

echo "Grafana: http://127.0.0.1:3000, user admin, password in $PWD/secrets/grafana_admin_password"
[ -e secrets/api_key ] || echo "For the profile real, write your API key into $PWD/secrets/api_key and the rest into $PWD/.env"
