package deltalog_test

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
)

// realistic is a data file with statistics and tags as sinks/delta writes them.
func realistic(i int) deltalog.Add {
	sum := sha256.Sum256(fmt.Append(nil, i))
	project, day := fmt.Sprintf("prj_%x", sum[20:26]), fmt.Sprintf("2026-%02d-%02d", i/28%12+1, i%28+1)
	values := func(path, n int) string {
		return fmt.Sprintf(`{"project":"%s","granularity":"day","window_start":"%s","window_end":"%s",`+
			`"path":"/docs/page-%07d",`+
			`"human":%d,"ai":%d,"total":%d,"revision":1,"exported_at":"2026-11-01T00:%02d:03.%03dZ"}`,
			project, day, day, path%20000, n%10000, n*31%10000, n*17%10000, i%60, i%1000)
	}
	file := analytics.Revision{Number: 1, Settled: true, Rows: int64(i * 7 % 20000), ExportedAt: start.Add(
		time.Duration(i) * time.Millisecond), Totals: analytics.Totals{Human: int64(i * 331), AI: int64(i * 117)}}
	file.Project, file.Granularity = project, analytics.Day
	return deltalog.Add{
		Path: fmt.Sprintf("%s/day/%s_%s_r1_20261101T000003_%x.parquet", project, day, day, sum[16:20]), Size: int64(i),
		Modified: start, Tags: archive.Footer{Revision: file, Checksum: fmt.Sprintf("%x", sum[:8])}.Metadata(),
		Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":%s,"maxValues":%s,`+
			`"nullCount":{"project":0,"granularity":0,"window_start":0,"window_end":0,`+
			`"path":0,"human":0,"ai":0,"total":0,"revision":0,"settled":0,"verified":0,"exported_at":0}}`, i*7%20000,
			values(i, 0), values(i*13, i*97)),
	}
}

// TestMemory: a table of 20,000 files takes less than 8 MiB, a table of 100,000 less than 40.
func TestMemory(t *testing.T) {
	files := newFiles(t)
	const entries, each = 101, 200
	writer := open(files)
	for v := range entries {
		_, err := writer.Commit(t.Context(),
			func(*deltalog.Snapshot) (adds []deltalog.Add, _ []string, _ error) {
				for i := range each {
					adds = append(adds, realistic(v*each+i))
				}
				return adds, nil, nil
			})
		check(t, err)
	}
	used := func() int64 {
		runtime.GC()
		runtime.GC() // what pools held until the first
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	reader := open(files)
	if got := read(t, reader); len(got.Files) != entries*each ||
		got.Files[realistic(77).Path].Stats != realistic(77).Stats {
		t.Errorf("%d files, or other statistics", len(got.Files))
	}
	if size := used() - before; size > 8<<20 {
		t.Errorf("takes %d KiB", size>>10)
	}
	runtime.KeepAlive(writer)
	runtime.KeepAlive(reader)
}
