package deltalog

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckpointSizes: checkpoints whose last batch and row group are full, and not.
func TestCheckpointSizes(t *testing.T) {
	for _, n := range []int{2, batchRows - 1, batchRows, batchRows + 1, 2 * batchRows, groupRows - 1, groupRows,
		groupRows + 1, groupRows + batchRows} {
		s := newSnapshot()
		s.protocol, s.meta = &protocol{MinReaderVersion: 1, MinWriterVersion: 2}, &metaData{ID: "x"}
		for i := range n - 2 { // protocol and metaData are two rows
			a := &add{Path: fmt.Sprint("f", i), Size: int64(i)}
			if i%3 > 0 {
				a.Tags = map[string]string{"a": fmt.Sprint(i), "b": ""}
			}
			s.set(action{Add: a})
		}
		again := newSnapshot()
		if err := decodeCheckpoint(section(encoded(t, s)), again.set); err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		if d := cmp.Diff(state(s), state(again)); d != "" {
			t.Errorf("%d rows: %s", n, d)
		}
	}
}
