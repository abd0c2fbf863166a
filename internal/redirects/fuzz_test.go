package redirects_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/redirects"
)

// FuzzAdd: whatever a file holds, it is refused, or gets the new rules once: the bytes before and behind these stay,
// and it can be read again.
func FuzzAdd(f *testing.F) {
	for i, samples := range [][]sample{jsonSamples(""), jsonSamples(`,"permanent": true`), lineSamples(), mapSamples()} {
		for _, s := range samples {
			f.Add(i, s.before)
		}
	}
	f.Add(3, "map $uri $to {\n /a \"/b\n;\"; ~[ /c; \\default /d; }")
	f.Add(2, "/a\t\n/b /c#d e=f !\r")
	f.Add(0, `{"redirects":[{"source":"/:a(","destination":""},null]}`)
	f.Fuzz(func(t *testing.T, i int, text string) {
		format := redirects.Formats[uint(i)%4]
		file, err := redirects.Parse(format, text)
		if err != nil {
			return
		}
		file.Audit(redirects.Site{Pages: []string{"/new"}})
		after, news, _ := file.Add(added)
		if len(news) == 0 {
			if after != text && strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) != "" {
				t.Fatalf("%s: nothing was added to %q, and it is %q", format, text, after)
			}
			return
		}
		// What was inserted stands in one place; spaces between empty brackets may go.
		begin, end := 0, 0
		for begin < len(text) && text[begin] == after[begin] {
			begin++
		}
		for end < len(text)-begin && text[len(text)-1-end] == after[len(after)-1-end] {
			end++
		}
		if left := text[begin : len(text)-end]; strings.TrimSpace(left) != "" {
			t.Fatalf("%s: %q became %q: %q is lost", format, text, after, left)
		}
		again, err := redirects.Parse(format, after)
		if err != nil || len(again.Rules) != len(file.Rules)+len(news) {
			t.Fatalf("%s: %q became %q: %v", format, text, after, err)
		}
		if format != "netlify" && format != "nginx" && !json.Valid([]byte(strings.TrimPrefix(after, "\ufeff"))) {
			t.Fatalf("%s: %q became %q, which is not JSON", format, text, after)
		}
		if last, more, _ := again.Add(added); more != nil || last != after {
			t.Fatalf("%s: %q became %q, and then %q", format, text, after, last)
		}
	})
}
