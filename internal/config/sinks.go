package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// SinkKind describes one sink to all code that treats sinks alike. A new sink is a package below sinks, a value in
// [SinkKinds], and its settings in [Config]. Every field is needed.
type SinkKind struct {
	// Name is the sink's name in DOCGAUGE_SINKS, in the ledger, in logs and in metrics.
	Name string
	// Title is its name in texts.
	Title string
	Place Place
	// Settings are its variables. The first one says where it writes.
	Settings []string
	// New makes the sink; it does not connect.
	New func(Config) (sinks.Sink, error)
	// AtOnce is the number of windows that load commits at the same time.
	AtOnce int
	// Table returns what an SQL query names a table, such as visitors: DuckDB's if place is a directory, else
	// the server's.
	Table func(place, table string) string
}

// Place says where a sink keeps windows.
type Place int

const (
	// Files is a directory or s3://bucket/prefix, in a setting that has a default. Runs leave a marker there.
	Files Place = iota + 1
	// Server is a database server. The setting that names it has no default.
	Server
)

// SinkParquet is the sink whose files are the archive.
const SinkParquet = "parquet"

// SinkKinds are all sinks, in the order in which a window comes to them: data files of Delta Lake are links to files
// of Parquet. ClickHouse commits windows that wait for each other with the same few statements, Delta Lake with one
// entry of its log.
var SinkKinds = []SinkKind{
	{
		SinkParquet, "Parquet", Files, []string{"DOCGAUGE_PARQUET_URL"},
		func(c Config) (sinks.Sink, error) { return parquet.New(c.ParquetURL, c.Reports...) },
		12, func(place, table string) string { return sqlText(filepath.Join(place, table, "v1/*/g=*/*/*.parquet")) },
	},
	{
		"delta", "Delta Lake", Files, []string{"DOCGAUGE_DELTA_URL"}, newDelta,
		1000, func(place, table string) string { return "delta_scan(" + sqlText(filepath.Join(place, table)) + ")" },
	},
	{
		"clickhouse", "ClickHouse", Server, []string{"DOCGAUGE_CLICKHOUSE_DSN", "DOCGAUGE_CLICKHOUSE_CLUSTER"},
		func(c Config) (sinks.Sink, error) {
			return clickhouse.New(clickhouse.Options{DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster,
				Version: c.Build.Version, Now: time.Now, Reports: c.Reports})
		},
		1000, onServer,
	},
	{
		"postgres", "PostgreSQL", Server, []string{"DOCGAUGE_POSTGRES_DSN"},
		func(c Config) (sinks.Sink, error) {
			return postgres.New(postgres.Options{DSN: string(c.PostgresDSN), Version: c.Build.Version, Now: time.Now,
				Reports: c.Reports})
		},
		12, onServer,
	},
}

func newDelta(c Config) (sinks.Sink, error) {
	o := delta.Options{URL: c.DeltaURL, Version: c.Build.Version, Now: time.Now, Reports: c.Reports}
	// Data files are links to the files that the Parquet sink has published, if there are any.
	if files, err := parquet.New(c.ParquetURL, c.Reports...); err == nil {
		o.Published = files.Published
	}
	return delta.New(o)
}

func onServer(_, table string) string { return "docgauge_" + table }

func sqlText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// SinkNames are the names of all sinks.
func SinkNames() (names []string) {
	for _, k := range SinkKinds {
		names = append(names, k.Name)
	}
	return names
}

// SinkTitles are the titles of all sinks.
func SinkTitles() (titles []string) {
	for _, k := range SinkKinds {
		titles = append(titles, k.Title)
	}
	return titles
}

// SinkNamed returns the sink of this name.
func SinkNamed(name string) (SinkKind, error) {
	i := slices.IndexFunc(SinkKinds, func(k SinkKind) bool { return k.Name == name })
	if i < 0 {
		return SinkKind{}, fmt.Errorf("%.40q: want %s", name, AnyOf(SinkNames()))
	}
	return SinkKinds[i], nil
}

// Sinks are the names of the chosen sinks, in the order of [SinkKinds].
type Sinks []string

func (n *Sinks) Decode(s string) error {
	chosen, err := listOf("sink", s, func(name string) (string, error) {
		if _, err := SinkNamed(name); err != nil {
			return "", fmt.Errorf("sink %w, or several of them", err)
		}
		return name, nil
	}, isItself)
	*n = slices.DeleteFunc(SinkNames(), func(name string) bool { return !slices.Contains(chosen, name) })
	return err
}

// Has reports whether the sink is one of them.
func (n Sinks) Has(k SinkKind) bool { return slices.Contains(n, k.Name) }

// Where returns the value of the setting that says where the sink writes, which may be a secret.
func (k SinkKind) Where(c Config) string {
	v, _ := variable(k.Settings[0])
	return v.in(&c).String()
}

// MoveFiles moves the directories of all sinks below dir, with the names that they have by default.
func (c *Config) MoveFiles(dir string) {
	for _, k := range SinkKinds {
		if v, _ := variable(k.Settings[0]); k.Place == Files {
			v.in(c).SetString(filepath.Join(dir, v.Default))
		}
	}
}

// CheckSet returns an error if the setting that says where the sink writes is missing.
func (k SinkKind) CheckSet(c Config) error {
	name := k.Settings[0]
	if k.Where(c) != "" || c.SecretFiles[name] != "" {
		return nil
	}
	v, _ := variable(name)
	return fmt.Errorf("%s: missing; where the sink %s writes: %s", name, k.Name, v.Meaning)
}

// NewSink makes a sink; it does not connect. The error names its settings.
func (c Config) NewSink(name string) (sinks.Sink, error) {
	k, err := SinkNamed(name)
	if err != nil {
		return nil, fmt.Errorf("sink %w", err)
	}
	s, err := k.New(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(k.Settings, ", "), err)
	}
	return s, nil
}

// validateSinks lets each sink check its settings, even one that exports do not use: load can fill it.
func (c *Config) validateSinks(p *Problems) {
	for i, k := range SinkKinds {
		place, chosen := k.Where(*c), c.Sinks.Has(k)
		if k.Place == Server && place != "" || k.Place == Files && strings.Contains(place, "://") {
			_, err := c.NewSink(k.Name)
			p.join(err)
		}
		if chosen {
			p.join(k.CheckSet(*c))
		}
		for _, other := range SinkKinds[:i] { // the files of one would be strays in the other
			if chosen && k.Place == Files && other.Place == Files && filestore.Same(place, other.Where(*c)) {
				p.add("%s: is the same place as %s: name another one", k.Settings[0], other.Settings[0])
			}
		}
		for _, name := range k.Settings[1:] {
			if v, _ := variable(name); !chosen && place == "" && v.Default == "" && !v.in(c).IsZero() {
				p.add("%s: without %s it has no effect", name, k.Settings[0])
			}
		}
	}
}
