package dashboards

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// TestPostgres then runs every query as a user that has only the rights of readers.
func TestPostgres(t *testing.T) {
	for _, version := range engines.PostgresVersions {
		t.Run(version, func(t *testing.T) {
			if version != "15" {
				engines.Long(t)
			}
			dsn := engines.RunPostgres(t, version).DSN("postgres")
			w := newPostgres(t, dsn)
			testSQL(t, w)
			_, err := connect(t, dsn).Exec(t.Context(), "CREATE USER grafana; "+
				"GRANT SELECT ON docgauge_visitors, docgauge_totals TO grafana")
			must(t, err)
			conn := connect(t, dsn)
			_, err = conn.Exec(t.Context(), "SET ROLE grafana")
			must(t, err)
			w.rows = rowsOf(conn)
			for _, q := range w.queries(t) {
				answer(t, w, q, november)
			}
		})
	}
}

func newPostgres(t *testing.T, dsn string) warehouse {
	sink, err := postgres.New(postgres.Options{DSN: dsn, Now: time.Now})
	must(t, err)
	t.Cleanup(func() { _ = sink.Close() })
	return warehouse{
		source: engines.PostgresSource, sink: sink, rows: rowsOf(connect(t, dsn)),
		page: func(path string) string {
			sum := sha256.Sum256([]byte(path))
			h := hex.EncodeToString(sum[:16])
			return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
		},
		lastPanel: "Windows read last",
		last: []string{
			"week | 2026-11-16 | 110 | 5 | 1 | no | yes | 2026-11-20 12:00:00",
			"week | 2026-11-09 | 100 | 5 | 2 | yes | yes | 2026-11-20 12:00:00",
			"week | 2026-11-02 | 85 | 2 | 1 | no | yes | 2026-11-20 12:00:00",
		},
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func rowsOf(conn *pgx.Conn) func(context.Context, string) ([]string, error) {
	return func(ctx context.Context, sql string) ([]string, error) {
		result := conn.PgConn().ExecParams(ctx, sql, nil, nil, nil, nil)
		var names []string
		for _, column := range result.FieldDescriptions() {
			names = append(names, column.Name)
		}
		rows := []string{strings.Join(names, " | ")}
		for result.NextRow() {
			var row []string
			for _, value := range result.Values() {
				cell := string(value)
				if value == nil {
					cell = `\N`
				}
				row = append(row, cell)
			}
			rows = append(rows, strings.Join(row, " | "))
		}
		_, err := result.Close()
		return rows, err
	}
}
