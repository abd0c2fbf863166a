package deltalog_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/deltalog"
)

// TestRequests: what a new reader, one that knows all, and one that lacks entries request,
// and that entries are read together: each request takes a second, and 46 entries with 16
// readers three.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newFiles(t)
		writer := open(files)
		write := func(entries int) {
			for range entries {
				commit(t, writer, []string{time.Now().String()}, nil)
				time.Sleep(time.Second)
			}
		}
		write(46)
		c := config(files)
		c.Readers = 16
		reader := deltalog.New(c)
		for _, step := range []struct {
			name    string
			entries int // written before
			want    map[string]int
			took    time.Duration
		}{
			{"new", 0, map[string]int{"hint": 1, "list": 1, "entry": 46}, 5 * time.Second},
			{"known", 0, map[string]int{"entry": 2}, 2 * time.Second},
			{"lacking", 18, map[string]int{"list": 1, "entry": 19}, 5 * time.Second},
		} {
			files.Before = nil
			write(step.entries)
			var mu sync.Mutex
			got := map[string]int{}
			files.Before = func(call, name string) error {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case call == "list":
					got["list"]++
				case strings.HasSuffix(name, "_last_checkpoint"):
					got["hint"]++
				default:
					got["entry"]++
				}
				return nil
			}
			begin := time.Now()
			read(t, reader)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", step.name, diff)
			}
			if took := time.Since(begin); took != step.took {
				t.Errorf("%s: took %v, want %v", step.name, took, step.took)
			}
		}
	})
}
