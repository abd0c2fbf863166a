package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSinkKinds: each package below sinks is a sink in the table, with every field, and each setting of the group
// Sinks belongs to one of them.
func TestSinkKinds(t *testing.T) {
	var packages []string
	entries, err := os.ReadDir("../../sinks")
	check(t, err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != "sinktest" {
			packages = append(packages, e.Name())
		}
	}
	if names := slices.Sorted(slices.Values(SinkNames())); !slices.Equal(names, packages) {
		t.Errorf("sinks %v, packages %v", names, packages)
	}
	settings := []string{"DOCGAUGE_SINKS"}
	// The documentation's form of a DSN is a DSN, without its optional parts.
	optional := regexp.MustCompile(`\[[^]]*\]|[ ;,].*`)
	for _, k := range SinkKinds {
		for i, v := 0, reflect.ValueOf(k); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%s: no %s", k.Name, v.Type().Field(i).Name)
			}
		}
		settings = append(settings, k.Settings...)
		if len(k.Settings) == 0 {
			continue
		}
		v, _ := variable(k.Settings[0])
		if is := v.Default != "" && filepath.IsLocal(v.Default) && !v.Secret; is != (k.Place == Files) {
			t.Errorf("%s: its place is %d, %s has the default %q", k.Name, k.Place, v.Name, v.Default)
		}
		c := Config{StateDir: t.TempDir()}
		if c.MoveFiles(c.StateDir); k.Place == Server {
			v.in(&c).SetString(optional.ReplaceAllString(v.Meaning, ""))
		}
		s, err := c.NewSink(k.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name() != k.Name {
			t.Errorf("%s: calls itself %s", k.Name, s.Name())
		}
		check(t, s.Close())
	}
	for _, v := range Variables() {
		if v.Group == "Sinks" && v.Meaning != "" && !slices.Contains(settings, v.Name) {
			t.Errorf("%s: no sink has it among its settings", v.Name)
		}
	}
}

// TestSinkPlaces: each chosen sink has a separate place, and settings that have no effect are reported.
func TestSinkPlaces(t *testing.T) {
	for settings, want := range map[string]string{
		"SINKS=clickhouse":                     "DOCGAUGE_CLICKHOUSE_DSN: missing; where the sink clickhouse writes: ",
		"SINKS=postgres":                       "DOCGAUGE_POSTGRES_DSN: missing; where the sink postgres writes: ",
		"CLICKHOUSE_CLUSTER=a":                 "DOCGAUGE_CLICKHOUSE_CLUSTER: without DOCGAUGE_CLICKHOUSE_DSN it",
		"CLICKHOUSE_DSN=x":                     "DOCGAUGE_CLICKHOUSE_DSN, DOCGAUGE_CLICKHOUSE_CLUSTER: ",
		"POSTGRES_DSN=x":                       "DOCGAUGE_POSTGRES_DSN: ",
		"DELTA_URL=gs://x":                     "DOCGAUGE_DELTA_URL: want",
		"PARQUET_URL=gs://x":                   "DOCGAUGE_PARQUET_URL: want",
		"DELTA_URL=./data":                     "",
		"SINKS=parquet DELTA_URL=./data":       "",
		"SINKS=delta DELTA_URL=./data":         "DOCGAUGE_DELTA_URL: is the same place as DOCGAUGE_PARQUET_URL",
		"SINKS=parquet,delta DELTA_URL=data/.": "DOCGAUGE_DELTA_URL: is the same place as DOCGAUGE_PARQUET_URL",
	} {
		t.Run(settings, func(t *testing.T) {
			clearVariables(t)
			for setting := range strings.FieldsSeq(settings) {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(prefix+name, value)
			}
			_, err := ReadSource(EnvFile{}, nil).Load(NeedNothing, time.Now())
			p, _ := errors.AsType[Problems](err)
			if one := strings.Join(p, "\n"); len(p) > 1 || (want == "") != (one == "") || !strings.HasPrefix(one, want) {
				t.Errorf("%q, want %q", one, want)
			}
		})
	}
}
