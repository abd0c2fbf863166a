package prompts

import (
	"fmt"
	"testing"
	"time"
)

// TestTenThousand: a folder of 10,000 files.
func TestTenThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10,000 files")
	}
	const n = 10_000
	files := map[string]string{}
	for i := range n {
		text := fmt.Sprintf("---\nid: prompt-%d\ntitle: \"Page %d\"\nconcurrency_key: docs\n---\nUpdate the page %d.\n", i, i, i)
		if i%10 == 9 {
			text = fmt.Sprintf("---\ndepends_on: [prompt-%d]\n---\nGo on.\n", i-1)
		}
		files[fmt.Sprintf("%02d/%05d.md", i%20, i)] = text
	}
	f, _ := folder(t, Rules{}, files)
	var s Scanned
	for range 3 {
		start := time.Now()
		s = scan(t, f, &s)
		t.Logf("%d files: %v; %d prompts, %d settle", n, time.Since(start).Round(time.Millisecond), len(s.Prompts), len(s.Settling))
	}
	if len(s.Prompts) != n || len(s.Findings) > 0 {
		t.Errorf("%d prompts, %d findings", len(s.Prompts), len(s.Findings))
	}
}
