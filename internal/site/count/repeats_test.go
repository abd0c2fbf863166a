package count

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/site/logs"
)

// TestRepeated: two files with the same views are found, in whatever format; files that have only a few in common are
// not.
func TestRepeated(t *testing.T) {
	views := func(from, to int, name string, write func(addr, path string, at time.Time) string) string {
		var text strings.Builder
		for i := from; i < to; i++ {
			text.WriteString(write(fmt.Sprintf("192.0.%d.%d", i/200%200, i%200), fmt.Sprint("/", name, i%7),
				now.Time().Add(time.Duration(i)*time.Second)) + "\n")
		}
		return text.String()
	}
	combined := func(addr, path string, at time.Time) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" 200 5 "-" "%s"`, addr, at.Format("02/Jan/2006:15:04:05 -0700"), path,
			firefox)
	}
	object := func(addr, path string, at time.Time) string {
		return fmt.Sprintf(`{"time_iso8601":%q,"remote_addr":%q,"request":"GET %s HTTP/1.1","status":"200",`+
			`"http_user_agent":%q}`, at.Format(time.RFC3339), addr, path, firefox)
	}
	zipped := func(text string) string {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return packed.String()
	}
	log := views(0, 300, "a", combined)
	missing := strings.ReplaceAll(log, " 200 ", " 404 ")
	type files map[string]string
	for name, test := range map[string]struct {
		files files
		want  string // the beginning of the finding
	}{
		"a copy":                       {files{"a.log": log, "b.log": log}, "300 of 300 views of b.log that were compared are in a.log too"},
		"another format":               {files{"a.log": log, "b.log": views(0, 300, "a", object)}, "300 of 300 views of b.log"},
		"a part":                       {files{"a.log": log, "b.log": views(200, 220, "a", combined)}, "20 of 20 views of b.log"},
		"a part, first":                {files{"a.log": views(200, 220, "a", combined), "b.log": log}, "20 of 20 views of a.log"},
		"most":                         {files{"a.log": log, "b.log": views(100, 450, "a", combined)}, "200 of 350 views of b.log"},
		"overlapping":                  {files{"a.log": log, "b.log": views(200, 500, "a", combined)}, ""},
		"four":                         {files{"a.log": log, "b.log": views(296, 300, "a", combined)}, ""},
		"two logs":                     {files{"a.log": log, "b.log": views(0, 300, "b", combined)}, ""},
		"twice in itself":              {files{"a.log": log + log, "b.log": views(0, 300, "b", combined)}, ""},
		"one with its own lines twice": {files{"a.log": log + log, "b.log": log}, "300 of 300 views of b.log"},
		"rotated":                      {files{"a.log": views(300, 400, "a", combined), "a.log.1": log}, ""},
		"no views":                     {files{"a.log": missing, "b.log": missing}, ""},
		"a large one": {files{"a.log": views(0, 3*maxPrints, "a", combined), "b.log": views(0, 3*maxPrints, "a", combined)},
			" views of b.log that were compared are in a.log too"},
		"compressed": {files{"a.log": log, "b.gz": zipped(log)}, "300 of 300 views of b.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var paths []string
			var sources []logs.Source
			for name, text := range test.files {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, name)
				if name != "a.log.1" { // it belongs to a.log
					sources = append(sources, logs.Source{Where: name})
				}
			}
			slices.Sort(paths)
			r := rulesOf(t, Settings{})
			report, err := r.Count(t.Context(), paths, Options{Now: now + 2})
			if err != nil {
				t.Fatal(err)
			}
			check := func(by, got string) {
				dir, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				got = strings.ReplaceAll(got, dir+string(filepath.Separator), "")
				if !strings.Contains(got, test.want) || test.want == "" && got != "" {
					t.Errorf("%s: %q, want %q", by, got, test.want)
				}
			}
			report.Warnings = slices.DeleteFunc(report.Warnings, func(text string) bool {
				return strings.HasPrefix(text, "no line can show whether") // there are only pages
			})
			check("count", strings.Join(report.Warnings, "\n"))
			found, _, err := r.Repeated(t.Context(), sources, (now + 2).Time)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, findings := range found {
				for _, f := range findings {
					all = append(all, f.Text)
				}
			}
			if name == "compressed" && len(all) == 0 { // what follows logs reads the copy of a file once
				return
			}
			check("a look", strings.Join(all, "\n"))
		})
	}
}

// TestUnpackedSize: an archive that is damaged at its end is found as far as unpackedSize goes.
func TestUnpackedSize(t *testing.T) {
	former := unpackedSize
	defer func() { unpackedSize = former }()
	path, packed := filepath.Join(t.TempDir(), "a.gz"), bytes.Buffer{}
	w := gzip.NewWriter(&packed)
	for i := range 40_000 {
		fmt.Fprintf(w, `192.0.2.1 - - [01/Oct/2026:10:00:00 +0000] "GET /%d HTTP/1.1" 200 5 "-" "Mozilla/5.0"`+"\n", i)
	}
	if err := errors.Join(w.Close(), os.WriteFile(path, packed.Bytes()[:packed.Len()-9], 0o600)); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]bool{4 << 20: true, 0: false} {
		unpackedSize = size
		_, unreadable, err := rulesOf(t, Settings{}).Repeated(t.Context(), []logs.Source{{Where: path}}, (now + 2).Time)
		if err != nil || (unreadable[0] != nil) != want {
			t.Errorf("%d bytes: %v, %v, want %t", size, unreadable, err, want)
		}
	}
}
