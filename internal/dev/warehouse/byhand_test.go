package warehouse

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// byHand writes h as two Delta tables below root, an entry a window, from the files of the Parquet sink.
func byHand(t *testing.T, h history, root string) {
	t.Helper()
	dir := t.TempDir()
	sink, err := parquet.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	logs := map[string]*handLog{
		"visitors": {dir: filepath.Join(root, "visitors"), current: map[analytics.Key]string{}},
		"totals":   {dir: filepath.Join(root, "totals"), current: map[analytics.Key]string{}},
	}
	for _, w := range h {
		if err := sink.Replace(t.Context(), sinktest.Seal(t, w.Revision, each(w.rows))); err != nil {
			t.Fatal(err)
		}
		for name, log := range logs {
			if name == "visitors" && w.Revision.Rows == analytics.TotalsOnlyRows {
				continue
			}
			found, err := filepath.Glob(fmt.Sprintf("%s/%s/v1/p=%s/g=%s/*/%s_%s.parquet", dir, name, w.Project, w.Granularity, w.From, w.To))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			log.replace(t, w, found[0])
		}
	}
}

type handLog struct {
	dir     string
	next    int
	current map[analytics.Key]string
}

func (l *handLog) replace(t *testing.T, w window, file string) {
	t.Helper()
	path := fmt.Sprintf("%s/%s/%s_%s_r%d.parquet", w.Project, w.Granularity, w.From, w.To, w.Number)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(l.dir, path)), 0o755))
	must(t, os.WriteFile(filepath.Join(l.dir, path), text, 0o644))
	var entry strings.Builder
	e := json.NewEncoder(&entry)
	must(t, e.Encode(map[string]any{"commitInfo": map[string]any{"timestamp": w.ExportedAt.UnixMilli(), "operation": "WRITE"}}))
	if l.next == 0 {
		must(t, os.MkdirAll(filepath.Join(l.dir, "_delta_log"), 0o755))
		var fields []string
		for column := range strings.FieldsSeq("project:string granularity:string window_start:date window_end:date path:string human:long ai:long total:long revision:integer settled:boolean verified:boolean exported_at:timestamp page_count:long") {
			name, kind, _ := strings.Cut(column, ":")
			if visitors := strings.HasSuffix(l.dir, "visitors"); name == "path" && !visitors || name == "page_count" && visitors {
				continue
			}
			fields = append(fields, fmt.Sprintf(`{"name":%q,"type":%q,"nullable":true,"metadata":{}}`, name, kind))
		}
		must(t, e.Encode(map[string]any{"protocol": map[string]int{"minReaderVersion": 1, "minWriterVersion": 2}}))
		must(t, e.Encode(map[string]any{"metaData": map[string]any{
			"id": "00000000-0000-4000-8000-000000000001", "format": map[string]any{"provider": "parquet", "options": map[string]string{}},
			"schemaString":     `{"type":"struct","fields":[` + strings.Join(fields, ",") + `]}`,
			"partitionColumns": []string{}, "configuration": map[string]string{}, "createdTime": 0,
		}}))
	}
	if former := l.current[w.Key]; former != "" {
		must(t, e.Encode(map[string]any{"remove": map[string]any{"path": former, "deletionTimestamp": w.ExportedAt.UnixMilli(), "dataChange": true}}))
	}
	must(t, e.Encode(map[string]any{"add": map[string]any{
		"path": path, "partitionValues": map[string]string{}, "size": len(text), "modificationTime": w.ExportedAt.UnixMilli(), "dataChange": true,
	}}))
	must(t, os.WriteFile(filepath.Join(l.dir, "_delta_log", fmt.Sprintf("%020d.json", l.next)), []byte(entry.String()), 0o644))
	l.current[w.Key] = path
	l.next++
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
