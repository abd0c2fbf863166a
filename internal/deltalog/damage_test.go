package deltalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/deltalog"
)

const (
	logPath = "visitors/_delta_log/"
	hint    = logPath + "_last_checkpoint"
)

func entryName(v int) string      { return fmt.Sprintf("%s%020d.json", logPath, v) }
func checkpointName(v int) string { return fmt.Sprintf("%s%020d.checkpoint.parquet", logPath, v) }

// grown returns a table of this many entries, each of which adds a file and removes the one
// before the last.
func grown(t testing.TB, entries int) *memoryFiles {
	files := newFiles(t)
	table := open(files)
	for v := range entries {
		var removes []string
		if v > 1 {
			removes = []string{fmt.Sprint("f", v-2)}
		}
		commit(t, table, []string{fmt.Sprint("f", v)}, removes)
	}
	return files
}

// TestRefused: a log that cannot be read, or must not be written to, is left alone, with an
// error that says where and why.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		entries int
		do      func(*memoryFiles)
		want    error
		says    string
	}{
		"hole": {5, func(f *memoryFiles) { f.Put(entryName(2), nil) }, deltalog.ErrDamaged,
			"02.json"},
		"first entry missing": {5, func(f *memoryFiles) { f.Put(entryName(0), nil) }, deltalog.ErrDamaged,
			"00.json"},
		"hole after a checkpoint": {105, func(f *memoryFiles) { f.Put(entryName(102), nil) },
			deltalog.ErrDamaged, "0102.json"},
		"cut off": {5, func(f *memoryFiles) { cut(f, entryName(4), 100) }, deltalog.ErrDamaged,
			"04.json"},
		"empty entry": {5, func(f *memoryFiles) { f.Put(entryName(4), []byte{}) },
			deltalog.ErrDamaged, "is empty"},
		"no JSON": {5, func(f *memoryFiles) { f.Put(entryName(4), []byte("PAR1")) },
			deltalog.ErrDamaged, "04.json"},
		"wrong types": {5, put(5, `{"add":{"path":7}}`), deltalog.ErrDamaged, "05.json"},
		"no path":     {5, put(5, `{"add":{"size":7}}`), deltalog.ErrDamaged, "without a path"},
		"no protocol": {0, put(0, `{"add":{"path":"a"}}`), deltalog.ErrDamaged, "no protocol"},
		"checkpoint and entries damaged": {101, both(func(f *memoryFiles) { cut(f, checkpointName(100), 900) },
			func(f *memoryFiles) { f.Put(entryName(3), nil) }), deltalog.ErrDamaged, "100.checkpoint.parquet"},
		"newer reader": {5, put(5, `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,`+
			`"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}`), deltalog.ErrProtocol,
			"deletionVectors"},
		"newer writer": {5, put(5, `{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}`),
			deltalog.ErrProtocol, "writer version 4"},
		"column missing": {5,
			alter(`{\"name\":\"ai\",\"type\":\"long\",\"nullable\":false,\"metadata\":{}},`, ""), deltalog.ErrSchema,
			"column ai is missing"},
		"column of another type": {5, alter(`\"ai\",\"type\":\"long\"`, `\"ai\",\"type\":\"integer\"`),
			deltalog.ErrSchema, "column ai"},
		"nested column": {5, alter(`\"ai\",\"type\":\"long\"`,
			`\"ai\",\"type\":{\"type\":\"array\"}`), deltalog.ErrSchema, "column ai"},
		"column NOT NULL": {5, alter(`\"timestamp\",\"nullable\":true`,
			`\"timestamp\",\"nullable\":false`), deltalog.ErrSchema, "exported_at is NOT NULL"},
		"new column NOT NULL": {5, alter(`\"fields\":[`,
			`\"fields\":[{\"name\":\"x\",\"type\":\"long\",\"nullable\":false,\"metadata\":{}},`), deltalog.ErrSchema,
			"column x"},
		"invariant": {5, alter(`\"nullable\":true,\"metadata\":{}`,
			`\"nullable\":true,\"metadata\":{\"delta.invariants\":\"x\"}`), deltalog.ErrSchema, "invariant"},
		"partitions": {5, alter(`"partitionColumns":[]`, `"partitionColumns":["project"]`),
			deltalog.ErrSchema, "project"},
		"append only": {5, alter(`"configuration":{}`,
			`"configuration":{"delta.appendOnly":"true"}`), deltalog.ErrSchema, "appendOnly"},
		"other files": {5, alter(`"provider":"parquet"`, `"provider":"csv"`), deltalog.ErrSchema,
			"csv"},
		"schema is no JSON": {5, alter(`"schemaString":"{`, `"schemaString":"`), deltalog.ErrSchema,
			"schema"},
	} {
		t.Run(name, func(t *testing.T) {
			files := grown(t, tc.entries)
			known := open(files)
			if tc.entries > 0 {
				read(t, known)
			}
			tc.do(files)
			before := strings.Join(files.Names(), "\n")
			tables := []*deltalog.Table{open(files)}
			if strings.HasPrefix(tc.says, "column") || errors.Is(tc.want, deltalog.ErrProtocol) {
				tables = append(tables, known)
			}
			for _, table := range tables {
				_, err := tryRead(t, table)
				_, again := commitOnce(t, table)
				for _, err := range []error{err, again} {
					if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("%v: want %v with %q", err, tc.want, tc.says)
					}
				}
			}
			if after := strings.Join(files.Names(), "\n"); after != before {
				t.Errorf("files were\n%s\nand are\n%s", before, after)
			}
		})
	}
}

// TestTolerated: files that other programs leave in a log are harmless, and so is damage to files
// that only save work.
func TestTolerated(t *testing.T) {
	damaged := func(f *memoryFiles) {
		data := f.Get(checkpointName(100))
		for i := 200; i < 260; i++ {
			data[i] ^= 0x55
		}
	}
	for name, do := range map[string]func(*memoryFiles){
		"nothing": func(*memoryFiles) {},
		"foreign files": func(f *memoryFiles) {
			for _, name := range []string{"00000000000000000099.crc",
				"00000000000000000001.00000000000000000009.compacted.json", ".tmp", "x.json",
				"_sidecars/a.parquet", "00000000000000000200.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
				"0102.json"} {
				f.Put(logPath+name, []byte("foreign"))
			}
		},
		"no hint":                     func(f *memoryFiles) { f.Put(hint, nil) },
		"hint is no JSON":             func(f *memoryFiles) { f.Put(hint, []byte("{")) },
		"hint to no checkpoint":       func(f *memoryFiles) { f.Put(hint, []byte(`{"version":50}`)) },
		"hint beyond":                 func(f *memoryFiles) { f.Put(hint, []byte(`{"version":500000}`)) },
		"hint below zero":             func(f *memoryFiles) { f.Put(hint, []byte(`{"version":-5}`)) },
		"no checkpoint":               func(f *memoryFiles) { f.Put(checkpointName(100), nil) },
		"checkpoint cut":              func(f *memoryFiles) { cut(f, checkpointName(100), 2000) },
		"checkpoint empty":            func(f *memoryFiles) { f.Put(checkpointName(100), []byte{}) },
		"checkpoint damaged":          damaged,
		"newest checkpoint is no use": func(f *memoryFiles) { f.Put(checkpointName(103), []byte("PAR1")) },
		"multi-part, one missing": func(f *memoryFiles) {
			f.Put(logPath+"00000000000000000103.checkpoint.0000000001.0000000002.parquet", f.Get(checkpointName(100)))
		},
		"multi-part": func(f *memoryFiles) {
			for part := range 3 {
				var out bytes.Buffer
				err := open(f).Read(t.Context(), func(s *deltalog.Snapshot) error {
					return s.EncodePart(&out, part, 3)
				})
				check(t, err)
				f.Put(fmt.Sprintf("%s%020d.checkpoint.%010d.%010d.parquet", logPath, 104, part+1, 3), out.Bytes())
			}
			for v := range 104 {
				f.Put(entryName(v), nil)
				f.Put(checkpointName(v), nil)
			}
		},
		"checkpoint without metaData": func(f *memoryFiles) {
			var out bytes.Buffer
			err := open(f).Read(t.Context(), func(s *deltalog.Snapshot) error { return s.EncodePart(&out, 0, 3) })
			check(t, err)
			f.Put(checkpointName(104), out.Bytes())
		},
		"entries before the checkpoint": func(f *memoryFiles) {
			for v := range 100 {
				f.Put(entryName(v), nil)
			}
		},
		"unknown actions": put(105, `{"cdc":{"path":"x"}}`+"\n"+`{"future":{"a":[1]}}`+"\n"),
		"altered and restored": func(f *memoryFiles) {
			alter(`"partitionColumns":[]`, `"partitionColumns":["project"]`)(f)
			f.Put(entryName(106), []byte(metaLine(f)+"\n"))
		},
		"another column": alter(`\"fields\":[`,
			`\"fields\":[{\"name\":\"x\",\"type\":{\"type\":\"array\"},\"nullable\":true,\"metadata\":{}},`),
	} {
		t.Run(name, func(t *testing.T) {
			files := grown(t, 105)
			want := read(t, open(files)).paths()
			do(files)
			got := read(t, open(files))
			if strings.Join(got.paths(), " ") != strings.Join(want, " ") {
				t.Errorf("files %q, want %q", got.paths(), want)
			}
			table := open(files)
			if version, err := commitOnce(t, table); err != nil || version != got.Version+1 {
				t.Errorf("the next commit is %d, %v; want %d", version, err, got.Version+1)
			}
			if again := read(t, open(files)); len(again.Files) != len(want)+1 {
				t.Errorf("then files %q", again.paths())
			}
		})
	}
}

// TestForeignPath: a path that another program escapes differently is not changed in the
// log, in removals and in checkpoints, since programs compare escaped paths.
func TestForeignPath(t *testing.T) {
	const escaped, path = "a%2Eb.parquet", "a.b.parquet"
	for _, after := range []int{0, 100} {
		files := grown(t, 3)
		put(3, `{"add":{"path":"`+escaped+`","partitionValues":{},"size":7,"modificationTime":1,"dataChange":true}}`+
			"\n")(files)
		table := open(files)
		for v := range after {
			commit(t, table, []string{fmt.Sprint("g", v)}, nil)
		}
		for v := range after {
			files.Put(entryName(v), nil) // so that the checkpoint is used
		}
		if version := commit(t, open(files), nil,
			[]string{path}); !strings.Contains(string(files.Get(entryName(int(version)))), `"`+escaped+`"`) {
			t.Errorf("%s is removed by another name: %s", escaped, files.Get(entryName(int(version))))
		}
	}
}

// TestEmptied: a directory that was emptied under a running program, or that holds another
// table now, gets no entry that continues the former one. The next commit begins anew.
func TestEmptied(t *testing.T) {
	for name, now := range map[string]*memoryFiles{
		"empty": newFiles(t), "restored from a copy": grown(t, 3), "another table": grown(t, 5),
		"a longer one": grown(t, 9),
	} {
		t.Run(name, func(t *testing.T) {
			files := newFiles(t)
			table := open(files)
			for v := range 5 {
				commit(t, table, []string{fmt.Sprint("f", v)}, nil)
			}
			for _, name := range files.Names() {
				files.Put(name, nil)
			}
			entries := 0
			for _, name := range now.Names() {
				files.Put(name, now.Get(name))
				entries++
			}
			files.Before = func(call, _ string) error {
				if call == "list" {
					return errors.New("no answer")
				}
				return nil
			}
			if _, err := commitOnce(t, table); err == nil || errors.Is(err, deltalog.ErrGone) {
				t.Fatalf("%v, want that the log cannot be listed", err)
			}
			files.Before = nil
			if _, err := commitOnce(t, table); !errors.Is(err, deltalog.ErrGone) {
				t.Fatalf("%v, want ErrGone", err)
			}
			if got := len(files.Names()); got != entries {
				t.Errorf("%d files, were %d", got, entries)
			}
			if version, err := commitOnce(t, table); err != nil || version != int64(entries) {
				t.Errorf("then version %d, %v; want %d", version, err, entries)
			}
			if got := read(t, open(files)); got.Version != int64(entries) {
				t.Errorf("version %d, want %d", got.Version, entries)
			}
		})
	}
}

// put puts an entry.
func put(v int, text string) func(*memoryFiles) {
	return func(f *memoryFiles) { f.Put(entryName(v), []byte(text)) }
}

// alter appends an entry that changes the metaData.
func alter(former, now string) func(*memoryFiles) {
	return func(f *memoryFiles) {
		line := metaLine(f)
		if !strings.Contains(line, former) {
			panic(former)
		}
		v := 0
		for f.Get(entryName(v)) != nil {
			v++
		}
		f.Put(entryName(v), []byte(strings.Replace(line, former, now, 1)+"\n"))
	}
}

// metaLine is the metaData of entry 0.
func metaLine(f *memoryFiles) string { return strings.Split(string(f.Get(entryName(0))), "\n")[2] }

// cut keeps the beginning of a file.
func cut(f *memoryFiles, name string, bytes int) { f.Put(name, f.Get(name)[:bytes]) }

func both(a, b func(*memoryFiles)) func(*memoryFiles) {
	return func(f *memoryFiles) { a(f); b(f) }
}
