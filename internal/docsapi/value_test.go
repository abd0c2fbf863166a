package docsapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

// pathOf decodes a page whose one path is text between quotes.
func pathOf(t interface{ Fatal(...any) }, text string) string {
	page, err := decodePage([]byte(strings.Replace(onePage, "/a", text, 1)), MaxLimit)
	if err != nil {
		t.Fatal(err)
	}
	return page.Rows[0].Path
}

func TestOddPathsAreKept(t *testing.T) {
	const wtf8 = "\xed\xa0\x80" // what WTF-8 makes of U+D800
	long := strings.Repeat("0123456789", 1000)
	most := strings.Repeat("a", maxPath)
	for sent, want := range map[string]string{
		`/\ud800`:              `/\ud800`,
		`/\uDFFF/\n`:           `/\udfff/` + "\n",
		`/\ud800\ud83d\ude00`:  `/\ud800😀`,
		`/\ud83d\u0041\ude00`:  `/\ud83dA\ude00`,
		`/\ude00\ud83d`:        `/\ude00\ud83d`,
		`/\\ud800`:             `/\\ud800`,
		`/\\\ud800`:            `/\\\ud800`,
		`/\\\\ud800`:           `/\\\\ud800`,
		"/\xff":                `/\xff`,
		"/é\xc3/\xa9":          `/é\xc3/\xa9`,
		"/" + wtf8:             `/\xed\xa0\x80`,
		`/\\xff`:               `/\\xff`,
		"/\\\\\xff\\\\":        `/\\\xff\\`,
		`/c:\\path\\users`:     `/c:\path\users`,
		`\/\"\b\f\n\r\t\u0000`: "/\"\b\f\n\r\t\x00",
		"/\u007f\u0085\u2028":  "/\u007f\u0085\u2028",
		"/\uFFFD":              "/\uFFFD",
		long:                   long,
		most:                   most,
		`\u0061` + most[1:]:    most,
	} {
		if got := pathOf(t, sent); got != want {
			t.Errorf("%.40q is kept as %.40q, want %.40q", sent, got, want)
		}
	}
}

// TestNoTwoPathsBecomeOne writes a path as a service could, and expects its very
// units back: a surrogate written as an escape is another than its bytes.
func TestNoTwoPathsBecomeOne(t *testing.T) {
	unit := rapid.OneOf(
		rapid.Rune(),
		rapid.SampledFrom([]rune(`\\xu0089abcdef/"`)),
		rapid.Int32Range(0xd800, 0xdfff),
		rapid.Map(rapid.SampledFrom([]rune{0x80, 0xa0, 0xbf, 0xc3, 0xe2, 0xed, 0xf0, 0xff}), func(b rune) rune { return analytics.StrayByte + b }),
	)
	rapid.Check(t, func(t *rapid.T) {
		path := readable(rapid.SliceOfN(unit, 0, 20).Draw(t, "path"))
		var text []byte
		for _, u := range path {
			switch {
			case u >= analytics.StrayByte:
				text = append(text, byte(u-analytics.StrayByte))
			case !utf8.ValidRune(u), u < ' ', u == '"', u == '\\', u <= 0xffff && rapid.Bool().Draw(t, "escape"):
				text = fmt.Appendf(text, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), u)
			default:
				text = utf8.AppendRune(text, u)
			}
		}
		kept := pathOf(t, string(text))
		if back := analytics.UnescapePath(kept); !slices.Equal(path, back) {
			t.Fatalf("%q is kept as %q: %x instead of %x", text, kept, back, path)
		}
	})
}

// readable leaves out what no reader of JSON could tell apart: two surrogates
// that make a character, stray bytes that do.
func readable(units []rune) []rune {
	var out []rune
	for _, u := range units {
		n := len(out)
		if n > 0 && 0xd800 <= out[n-1] && out[n-1] <= 0xdbff && 0xdc00 <= u && u <= 0xdfff {
			continue
		}
		if u >= analytics.StrayByte {
			tail := []byte{byte(u - analytics.StrayByte)}
			for i := n - 1; i >= 0 && out[i] >= analytics.StrayByte; i-- {
				tail = append([]byte{byte(out[i] - analytics.StrayByte)}, tail...)
			}
			if strings.ContainsFunc(string(tail), func(r rune) bool { return r != utf8.RuneError }) {
				continue
			}
		}
		out = append(out, u)
	}
	return out
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]int64{
		"1.0": 1, "1e3": 1000, "12.000": 12, "0.0": 0, "-0": 0, "-0.0e7": 0, "0e400": 0, "0.00e-999999999999999999999": 0,
		"1.25E+2": 125, "1200e-2": 12, "0.0012e4": 12, "9223372036854775807.0": math.MaxInt64, "922337203685477580.7e1": math.MaxInt64,
		"1e18": 1e18, "12e0": 12, "1" + strings.Repeat("0", 400) + "e-400": 1,
	} {
		page, err := decodePage([]byte(strings.Replace(onePage, `"human":1`, `"human":`+text, 1)), MaxLimit)
		if err != nil || page.Rows[0].Human != want {
			t.Errorf("%s: %v, %v; want %d", text, page.Rows, err, want)
		}
	}
	for _, text := range []string{
		"1.5", "-1", "-1e0", "0.1", "1e-1", "1e400", "1e19", "9223372036854775808.0", "9223372036854775807.5", "9.3e18",
		"1e99999999999999999999", "1e-99999999999999999999", `"1"`, "true", "[1]",
	} {
		page, err := decodePage([]byte(strings.Replace(onePage, `"human":1`, `"human":`+text, 1)), MaxLimit)
		if !errors.Is(err, errShape) || !strings.Contains(err.Error(), "/visitors/0/human, before byte") {
			t.Errorf("%s: %v, %v; want errShape", text, page.Rows, err)
		}
	}
}

// TestPathsOfOnePageAreBounded: stray bytes take four times their place.
func TestPathsOfOnePageAreBounded(t *testing.T) {
	row := `{"path":"` + strings.Repeat("\xff", maxPath/4) + `","human":1,"ai":2,"total":2}`
	rows := func(n int) []byte {
		return []byte(strings.Replace(onePage, `[`, `[`+strings.Repeat(row+",", n), 1))
	}
	if page, err := decodePage(rows(15), MaxLimit); err != nil || len(page.Rows) != 16 || len(page.Rows[0].Path) != maxPath {
		t.Errorf("paths of 15 MiB: %d rows, %v", len(page.Rows), err)
	}
	if _, err := decodePage(rows(16), MaxLimit); err == nil || !strings.Contains(err.Error(), "paths over 16 MiB together") {
		t.Errorf("paths of 16 MiB and two bytes: %v", err)
	}
}

func TestIsMalformed(t *testing.T) {
	swap := func(old, replacement string) string { return strings.Replace(onePage, old, replacement, 1) }
	for name, tc := range map[string]struct {
		status int
		body   string
		want   bool
	}{
		"fraction":               {200, swap(`"human":1`, `"human":1.5`), true},
		"count as string":        {200, swap(`"human":1`, `"human":"1"`), true},
		"row incomplete":         {200, swap(`"path":"/a",`, ``), true},
		"path too long":          {200, swap(`/a`, strings.Repeat("a", maxPath+1)), true},
		"all null":               {200, `{"totals":null,"visitors":null,"hasMore":null}`, true},
		"hasMore missing":        {200, swap(`,"hasMore":true`, ``), true},
		"member twice":           {200, swap(`{`, `{"hasMore":true,`), true},
		"raw newline in a path":  {200, swap(`/a`, "/\n"), true},
		"more after it":          {200, onePage + onePage, true},
		"larger than any answer": {200, swap(`/a`, strings.Repeat("a", maxBody)), true},
		"too large, not ours":    {200, strings.Repeat(" ", maxBody+1), false},
		"a page":                 {200, onePage, false},
		"cut":                    {200, onePage[:80], false},
		"HTML":                   {200, "<!doctype html><title>Sign in</title>", false},
		"error":                  {200, `{"error":"no such project"}`, false},
		"empty object":           {200, `{}`, false},
		"other JSON":             {200, `{"data":[{"totals":1,"visitors":2,"hasMore":3}],"hasMore":true}`, false},
		"other broken JSON":      {200, `{"data":[01]}`, false},
		"array":                  {200, `[` + swap(`"human":1`, `"human":1.5`) + `]`, false},
		"of another status":      {201, swap(`"human":1`, `"human":1.5`), false},
		"refused":                {400, swap(`"human":1`, `"human":1.5`), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				w.Write([]byte(tc.body))
			})
			var err error
			if e := c.once(t.Context()); e != nil {
				err = fmt.Errorf("window: %w", e)
			}
			if got := IsMalformed(err); got != tc.want {
				t.Errorf("IsMalformed = %t for %v", got, err)
			}
		})
	}
	if _, err := newClient(t, refusing(t), nil).VisitorsPage(t.Context(), VisitorsQuery{}); IsMalformed(err) {
		t.Error("a wrong call counts as a malformed answer")
	}
}
