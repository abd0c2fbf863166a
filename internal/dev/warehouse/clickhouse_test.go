package warehouse

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/clickhouse"
)

// server is a ClickHouse of any version.
type server interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
}

func TestClickHouse1816(t *testing.T) {
	s, h := engines.RunClickHouse(t), exported(t)
	load(t, s, h)
	ask(t, s, "clickhouse", "clickhouse-tables")
}

func TestClickHouse26(t *testing.T) {
	s, h := engines.RunEngine26(t), exported(t)
	load(t, s, h)
	ask(t, s, "clickhouse", "clickhouse-26", "clickhouse-tables")
}

// TestClickHouseFile runs the engine in the directory of ./data, as clickhouse local does.
func TestClickHouseFile(t *testing.T) {
	h := exported(t)
	s, err := engines.StartEngine26(lake(t, h))
	engines.Need(t, err)
	t.Cleanup(func() { _ = s.Kill() })
	setup, _ := recipes(t, "clickhouse-file", "clickhouse")
	prepare(t, s, setup)
	ask(t, s, "clickhouse", "clickhouse-26")
}

func TestClickHouseS3(t *testing.T) {
	h := exported(t)
	b, s := bucket(t, h, "docs", publish), engines.RunEngine26(t)
	setup, _ := recipes(t, "clickhouse-s3", "clickhouse")
	prepare(t, s, inBucket(t, setup, b))
	ask(t, s, "clickhouse", "clickhouse-26")
}

// inBucket lets a setup for S3 read from b.
func inBucket(t *testing.T, setup string, b *engines.S3) string {
	t.Helper()
	const public = "https://lake.s3.us-east-1.amazonaws.com/"
	if !strings.Contains(setup, public) {
		t.Fatalf("the setup for S3 does not read %s", public)
	}
	return strings.NewReplacer(public, b.Endpoint+"/lake/", "ACCESS_KEY_ID", b.AccessKey, "SECRET_ACCESS_KEY", b.SecretKey).Replace(setup)
}

// load fills the tables of the database default.
func load(t *testing.T, s server, h history) {
	t.Helper()
	sink, err := clickhouse.New(clickhouse.Options{DSN: s.DSN("default"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	h.into(t, sink)
}

func prepare(t *testing.T, s server, setup string) {
	t.Helper()
	for _, statement := range statements(setup) {
		if _, err := s.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
	}
}

// ask runs the recipes that are for any of the names.
func ask(t *testing.T, s server, names ...string) {
	t.Helper()
	_, blocks := recipes(t, "", names...)
	for _, b := range blocks {
		t.Run(b.name, func(t *testing.T) {
			all := statements(b.body)
			prepare(t, s, strings.Join(all[:len(all)-1], ";\n"))
			text, err := s.Exec(t.Context(), strings.TrimSuffix(all[len(all)-1], ";")+" FORMAT TSVWithNames")
			if err != nil {
				t.Fatalf("%v\n%s", err, b.body)
			}
			check(t, b, parseTSV(text))
		})
	}
}

func parseTSV(text string) (out table) {
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		cells := strings.Split(strings.ReplaceAll(l, `\N`, null), "\t")
		if i == 0 {
			out.Columns = cells
			continue
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}
