package warehouse

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// TestPostgres runs the recipes of both pages on the tables of each version.
func TestPostgres(t *testing.T) {
	h := exported(t)
	_, all := recipes(t, "", "postgres")
	for _, b := range ofRecipes(blocksOf(t, postgresPage)) {
		if b.code() {
			all = append(all, b)
		}
	}
	for _, version := range engines.PostgresVersions {
		t.Run(version, func(t *testing.T) {
			dsn := engines.RunPostgres(t, version).DSN("postgres")
			sink, err := postgres.New(postgres.Options{DSN: dsn, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			h.into(t, sink)
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			for i, b := range all {
				t.Run(fmt.Sprintf("%s %d", b.name, i), func(t *testing.T) { check(t, b, answerOf(t, conn, b)) })
			}
		})
	}
}

// answerOf runs a recipe, which is one statement, and returns its values as text.
func answerOf(t *testing.T, conn *pgx.Conn, b block) (out table) {
	t.Helper()
	result := conn.PgConn().ExecParams(t.Context(), statements(b.body)[0], nil, nil, nil, nil)
	for _, c := range result.FieldDescriptions() {
		out.Columns = append(out.Columns, c.Name)
	}
	for result.NextRow() {
		var row []string
		for _, v := range result.Values() {
			cell := string(v)
			if v == nil {
				cell = null
			}
			row = append(row, cell)
		}
		out.Rows = append(out.Rows, row)
	}
	if _, err := result.Close(); err != nil {
		t.Fatalf("%v\n%s", err, b.body)
	}
	return out
}
