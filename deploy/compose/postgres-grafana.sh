#!/bin/sh
# Makes Grafana's user of PostgreSQL, which can only read. The server runs this once, when it makes its data.
set -eu
psql -q -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -v password="$(cat /run/secrets/postgres_grafana_password)" <<'SQL'
CREATE USER grafana PASSWORD :'password';
GRANT pg_read_all_data TO grafana;
ALTER USER grafana SET default_transaction_read_only = on;
SQL
