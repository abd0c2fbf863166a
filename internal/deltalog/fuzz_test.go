package deltalog

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const entrySeed = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"x","name":"n","format":{"provider":"parquet","options":{"a":"b"}},"schemaString":"{}",
"partitionColumns":["p"],"createdTime":5,"configuration":{"c":"d"}}}
{"txn":{"appId":"docgauge/x","version":7,"lastUpdated":8}}
{"remove":{"path":"s3://b/%zz","deletionTimestamp":5,"size":6}}
{"add":{"path":"a%20b","size":-1,"modificationTime":9,"stats":"{\"numRecords\":3}","tags":{"a":null,"":"b"}}}
`

// FuzzEntry: any entry is read, or refused with an error; its actions survive packing
// and a checkpoint.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(entrySeed))
	f.Add([]byte(`{"cdc":{}}{"metaData":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		actions, err := decodeEntry(bytes.NewReader(data))
		if err != nil {
			return
		}
		s := newSnapshot()
		s.apply(0, []action{{Protocol: &protocol{MinReaderVersion: 1, MinWriterVersion: 2}},
			{MetaData: &metaData{ID: "x"}}})
		s.apply(1, actions)
		s.protocol = &protocol{MinReaderVersion: readerVersion,
			MinWriterVersion: writerVersion} // all others are refused
		again := newSnapshot()
		if err := decodeCheckpoint(section(encoded(t, s)), again.set); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(state(s), state(again)); d != "" {
			t.Error(d)
		}
	})
}

// state returns the actions that a checkpoint must keep.
func state(s *Snapshot) (all []action) {
	for a := range s.actions() {
		if a.Txn != nil && a.Txn.AppID == "" || a.MetaData != nil && a.MetaData.ID == "" {
			continue // not written by any program
		}
		if a.MetaData != nil {
			m := *a.MetaData
			m.PartitionColumns = append([]string(nil), m.PartitionColumns...)
			if len(m.Configuration) == 0 {
				m.Configuration = nil
			}
			if len(m.Format.Options) == 0 {
				m.Format.Options = nil
			}
			a.MetaData = &m
		}
		if a.Add != nil && len(a.Add.Tags) == 0 {
			a.Add.Tags = nil
		}
		all = append(all, a)
	}
	return all
}

func encoded(t testing.TB, s *Snapshot) []byte {
	var out bytes.Buffer
	if _, err := encodeCheckpoint(&out, s.actions()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func section(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// FuzzCheckpoint: any checkpoint is read, or refused with an error.
func FuzzCheckpoint(f *testing.F) {
	s := newSnapshot()
	actions, err := decodeEntry(bytes.NewReader([]byte(entrySeed)))
	if err != nil {
		f.Fatal(err)
	}
	s.apply(0, actions)
	good := encoded(f, s)
	f.Add(good)
	seed := func(at int, b byte) {
		bad := bytes.Clone(good)
		bad[at] = b
		f.Add(bad)
	}
	for at := 0; at < len(good); at += 97 {
		seed(at, good[at]^0x41)
	}
	// The Parquet library panics on these.
	seed(89, 109)
	seed(1995, 14)
	seed(2580, 21)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = decodeCheckpoint(section(data), func(action) {})
	})
}
