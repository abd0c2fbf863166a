package docsapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

// onePage is a whole answer with one row.
const onePage = `{"totals":{"human":3,"ai":2,"total":4},` +
	`"visitors":[{"path":"/a","human":1,"ai":2,"total":2}],"hasMore":true}`

var onePageWant = analytics.Page{
	Totals:  analytics.Totals{Human: 3, AI: 2, Total: 4},
	Rows:    recordsOf(analytics.Row{Path: "/a", Totals: analytics.Totals{Human: 1, AI: 2, Total: 2}}),
	HasMore: true,
}

// recordsOf are rows as records.
func recordsOf[R analytics.RowType](rows ...R) []analytics.Record {
	all := []analytics.Record{}
	for _, row := range rows {
		all = append(all, analytics.RecordOf(row))
	}
	return all
}

func TestDecodePage(t *testing.T) {
	longest := "/" + strings.Repeat("é", maxPath/2-1) + "a"
	with := func(from string) string {
		return strings.Replace(onePage, `,"hasMore"`, `,"dataFrom":`+from+`,"hasMore"`, 1)
	}
	dated := func(day analytics.Date) analytics.Page {
		page := onePageWant
		page.DataFrom = &day
		return page
	}
	mode := func(humans string) string {
		return strings.Replace(onePage, `,"hasMore"`, `,"humans":`+humans+`,"hasMore"`, 1)
	}
	counted := func(by analytics.Humans) analytics.Page {
		page := onePageWant
		page.Humans = by
		return page
	}
	for name, tc := range map[string]struct {
		body string
		want analytics.Page
	}{
		"plain":          {onePage, onePageWant},
		"spaces":         {" \n" + strings.ReplaceAll(onePage, ",", " ,\t") + "\r\n ", onePageWant},
		"escaped name":   {strings.Replace(onePage, `"path"`, `"p\u0061th"`, 1), onePageWant},
		"unknown fields": {strings.ReplaceAll(onePage, `"human"`, `"x":[{"human":-1}],"y":null,"human"`), onePageWant},
		"path in totals": {strings.Replace(onePage, `{"human"`, `{"path":7,"human"`, 1), onePageWant},
		"other case":     {strings.Replace(onePage, `"hasMore"`, `"HasMore":7,"hasMore"`, 1), onePageWant},
		"longest path": {strings.Replace(onePage, "/a", longest, 1), analytics.Page{
			Totals: onePageWant.Totals, HasMore: true,
			Rows: recordsOf(analytics.Row{Path: longest, Totals: analytics.Totals{Human: 1, AI: 2, Total: 2}})}},
		"data from":        {with(`"2026-11-16"`), dated(20773)},
		"no data":          {with(`null`), dated(analytics.NoData)},
		"data from 7":      {with(`7`), onePageWant},
		"data from a sea":  {with(`"sea"`), onePageWant},
		"mode of people":   {mode(`"confirmed"`), counted(analytics.Confirmed)},
		"no mode":          {mode(`""`), onePageWant},
		"mode of a sea":    {mode(`"sea"`), onePageWant},
		"mode of a number": {mode(`{"people":7}`), onePageWant},
		"no row": {`{"hasMore":false,"visitors":[],"totals":{"total":0,"ai":0,"human":0}}`,
			analytics.Page{Rows: []analytics.Record{}}},
		"greatest count, odd paths": {
			`{"totals":{"human":9223372036854775807,"ai":0,"total":0},"hasMore":false,"visitors":[` +
				`{"path":"","human":0,"ai":0,"total":0},` +
				`{"path":"/é\n\ud83d\ude00\u0000","human":0,"ai":0,"total":0}]}`,
			analytics.Page{
				Totals: analytics.Totals{Human: math.MaxInt64}, Rows: recordsOf(analytics.Row{},
					analytics.Row{Path: "/é\n😀\x00"}),
			}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decode([]byte(tc.body), maxLimit, analytics.VisitorsReport.Shape())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDecodeReports: the rows of sources and views, which have no empty path.
func TestDecodeReports(t *testing.T) {
	site := analytics.SourceRow{Source: "chatgpt", Class: "assistant", Agent: "browser", Visitors: 2, Requests: 3}
	row := analytics.SourceRow{Path: "/a", Source: "none", Class: "none", Agent: "unconfirmed", Visitors: 1, Requests: 1}
	for name, tc := range map[string]struct {
		report analytics.Report
		body   string
		want   analytics.Page
	}{
		"sources": {analytics.SourcesReport, `{"totals":[{"source":"chatgpt","class":"assistant","agent":"browser",` +
			`"visitors":2,"requests":3}],"sources":[{"path":"/a","source":"none","class":"none","agent":"unconfirmed",` +
			`"visitors":1,"requests":1}],"hasMore":false}`, analytics.Page{Site: recordsOf(site), Rows: recordsOf(row)}},
		"views": {analytics.ViewsReport, strings.Replace(onePage, "visitors", "views", 1), onePageWant},
	} {
		got, err := decode([]byte(tc.body), maxLimit, tc.report.Shape())
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		empty := strings.Replace(tc.body, `"/a"`, `""`, 1)
		if _, err := decode([]byte(empty), maxLimit, tc.report.Shape()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, an empty path: %v", name, err)
		}
	}
}

func TestDecodePageRefuses(t *testing.T) {
	swap := func(old, replacement string) string { return strings.Replace(onePage, old, replacement, 1) }
	row := `{"path":"/a","human":1,"ai":2,"total":2}`
	for name, tc := range map[string]struct{ body, says string }{
		"hasMore missing":   {swap(`,"hasMore":true`, ``), "missing: hasMore"},
		"other JSON":        {`{"data":[{"totals":1,"visitors":2,"hasMore":3}],"hasMore":true}`, "missing: totals"},
		"other broken JSON": {`{"data":[01]}`, "invalid character"},
		"all null":          {`{"totals":null,"visitors":null,"hasMore":null}`, "want an object"},
		"all missing":       {`{}`, "missing: totals, visitors, hasMore"},
		"hasMore null":      {swap(`true`, `null`), "/hasMore, before byte 107: want true or false"},
		"hasMore string":    {swap(`true`, `"true"`), "want true or false"},
		"totals null":       {swap(`{"human":3,"ai":2,"total":4}`, `null`), "/totals, before byte 14: want an object"},
		"totals incomplete": {swap(`"ai":2,"total":4`, `"total":4`), "/totals, before byte 31: missing: ai"},
		"visitors null":     {swap(`[`+row+`]`, `null`), "/visitors, before byte"},
		"visitors object":   {swap(`[`+row+`]`, row), "want an array"},
		"row null":          {swap(row, `null`), "/visitors/0, before byte"},
		"row incomplete":    {swap(row, row+`,{"human":1,"ai":1}`), "/visitors/1, before byte 110: missing: path, total"},
		"path null":         {swap(`"/a"`, `null`), "/visitors/0/path, before byte 63: want a string"},
		"path number":       {swap(`"/a"`, `1`), "want a string"},
		"path too long":     {swap(`/a`, strings.Repeat("a", maxPath+1)), "a path over 1048576 bytes"},
		"escapes too long":  {swap(`/a`, `\n`+strings.Repeat("a", maxPath)), "a path over 1048576 bytes"},
		"kept too long":     {swap(`/a`, strings.Repeat("\xff", maxPath/4+1)), "a path over 1048576 bytes"},
		"much too long":     {swap(`/a`, strings.Repeat("a", 7*maxPath)), "a path over 1048576 bytes"},
		"negative":          {swap(`"human":1`, `"human":-1`), "/visitors/0/human, before byte 74: want an integer"},
		"fraction":          {swap(`"human":1`, `"human":1.5`), "before byte 75: want an integer from 0 to 2^63-1"},
		"negative fraction": {swap(`"human":1`, `"human":-1.0`), "want an integer"},
		"too large":         {swap(`"human":1`, `"human":9223372036854775808`), "want an integer"},
		"much too large":    {swap(`"human":1`, `"human":100000000000000000000`), "want an integer"},
		"count string":      {swap(`"human":1`, `"human":"1"`), "want an integer"},
		"count null":        {swap(`"human":1`, `"human":null`), "want an integer"},
		"count object":      {swap(`"human":1`, `"human":{}`), "want an integer"},
		"duplicate name":    {swap(`"human":1`, `"human":1,"human":1`), "duplicate"},
		"duplicate escaped": {swap(`"human":1`, `"human":1,"hum\u0061n":1`), "duplicate"},
		"duplicate unknown": {swap(`"human":1`, `"human":1,"x":{"y":1,"y":2}`), "duplicate"},
		"no such escape":    {swap(`/a`, `/\ud80x`), "invalid escape"},
		"control character": {swap(`/a`, "/\n"), "invalid character"},
		"trailing value":    {onePage + ` {}`, "more data after the page"},
		"trailing garbage":  {onePage + `x`, "invalid character"},
		"HTML":              {"<!doctype html><title>no</title>", "invalid character"},
		"array":             {`[` + onePage + `]`, "the answer, before byte 1: want an object"},
		"byte order mark":   {"\ufeff" + onePage, "invalid character"},
		"trailing comma":    {swap(`true}`, `true,}`), "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := decode([]byte(tc.body), maxLimit, analytics.VisitorsReport.Shape())
			if !errors.Is(err, errShape) || errors.Is(err, errCut) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v; want errShape with %q", page, err, tc.says)
			}
			notOurs := []string{"all missing", "other JSON", "other broken JSON", "HTML", "array", "byte order mark"}
			if IsMalformed(err) == slices.Contains(notOurs, name) {
				t.Errorf("IsMalformed = %t for %v", IsMalformed(err), err)
			}
		})
	}
	_, err := decode([]byte(swap(row, row+","+row)), 1, analytics.VisitorsReport.Shape())
	if err == nil || !strings.Contains(err.Error(), "more rows than the 1 asked for") {
		t.Errorf("two rows for limit 1: %v", err)
	}
}

func TestDecodePageCutAnywhereIsCut(t *testing.T) {
	for n := range len(onePage) {
		if _, err := decode([]byte(onePage[:n]), maxLimit, analytics.VisitorsReport.Shape()); !errors.Is(err, errCut) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

// TestDecodePageDoesNotKeepItsInput guards the pooled buffers: a page stays unchanged
// when its body's memory and the decoder's are used again.
func TestDecodePageDoesNotKeepItsInput(t *testing.T) {
	body := []byte(onePage)
	page, err := decode(body, maxLimit, analytics.VisitorsReport.Shape())
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if _, err := decode([]byte(strings.Replace(onePage, "/a", "/b", 1)), maxLimit,
		analytics.VisitorsReport.Shape()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(onePageWant, page); diff != "" {
		t.Error(diff)
	}
}

// FuzzDecodePage compares every accepted answer with encoding/json: the values are
// the same, and a second reader accepts them too.
func FuzzDecodePage(f *testing.F) {
	f.Add([]byte(onePage))
	f.Add([]byte(`{"hasMore":false,"x":[1,{"a":null}],"visitors":[],"totals":{"total":0,"ai":0,"human":0}}`))
	f.Add([]byte(strings.Replace(onePage, "/a", `\ud83d\ude00\n`, 1)))
	f.Add([]byte(strings.Replace(onePage, "3", "9223372036854775807", 1)))
	f.Add([]byte(strings.Replace(onePage, `"path"`, `"p\u0061th"`, 1)))
	f.Add([]byte(strings.Replace(onePage, "/a", `/\ud800\ud83d\ude00\\xff`+"\xff\xed\xa0\x80", 1)))
	f.Add([]byte(strings.Replace(onePage, "3", "12.500e+1", 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(body, maxLimit, analytics.VisitorsReport.Shape())
		if err != nil {
			if !errors.Is(err, errShape) && !errors.Is(err, errCut) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		want, err := decodeReference(body)
		if err != nil {
			t.Fatalf("accepted, but encoding/json says: %v", err)
		}
		for i, row := range got.Rows {
			path := row.Path()
			if again := analytics.EscapePath(analytics.UnescapePath(path)); again != path {
				t.Errorf("path %q is %q after the way back", path, again)
			}
			got.Rows[i].Texts[0] = lossy(path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// lossy returns path as encoding/json reads it: bytes that are not Unicode become U+FFFD.
func lossy(path string) string { return string(analytics.UnescapePath(path)) }

// decodeReference reads a page through encoding/json and maps, since its
// structs would also take names that differ in case.
func decodeReference(body []byte) (page analytics.Page, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var top map[string]any
	if err := decoder.Decode(&top); err != nil {
		return page, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("of another shape: %v", r)
		}
	}()
	entry := func(v any) analytics.Row {
		m := v.(map[string]any)
		number := func(name string) int64 {
			text := m[name].(json.Number).String()
			if _, power, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.Trim(power, "+-0")) > 4 {
				return 0 // accepted of 0 alone, and too much for big.Rat
			}
			n, ok := new(big.Rat).SetString(text)
			if !ok || !n.IsInt() || n.Sign() < 0 || !n.Num().IsInt64() {
				panic(text)
			}
			return n.Num().Int64()
		}
		return analytics.Row{Totals: analytics.Totals{Human: number("human"), AI: number("ai"), Total: number("total")}}
	}
	all := entry(top["totals"])
	page.Totals = analytics.Totals{Human: all.Human, AI: all.AI, Total: all.Total}
	page.HasMore = top["hasMore"].(bool)
	page.Rows = []analytics.Record{}
	for _, v := range top["visitors"].([]any) {
		row := entry(v)
		row.Path = v.(map[string]any)["path"].(string)
		page.Rows = append(page.Rows, analytics.RecordOf(row))
	}
	return page, nil
}

// pathOf decodes a page whose one path is text between quotes.
func pathOf(t interface{ Fatal(...any) }, text string) string {
	page, err := decode([]byte(strings.Replace(onePage, "/a", text, 1)), maxLimit, analytics.VisitorsReport.Shape())
	if err != nil {
		t.Fatal(err)
	}
	return page.Rows[0].Path()
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

// TestNoTwoPathsBecomeOne writes a path as a service could, and expects the same
// units back: a surrogate as an escape differs from the same surrogate as bytes.
func TestNoTwoPathsBecomeOne(t *testing.T) {
	unit := rapid.OneOf(
		rapid.Rune(),
		rapid.SampledFrom([]rune(`\\xu0089abcdef/"`)),
		rapid.Int32Range(0xd800, 0xdfff),
		rapid.Map(rapid.SampledFrom([]rune{0x80, 0xa0, 0xbf, 0xc3, 0xe2, 0xed, 0xf0, 0xff}),
			func(b rune) rune { return analytics.StrayByte + b }),
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

// readable leaves out what no reader of JSON could tell apart: surrogates or stray
// bytes that together make a character.
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
		"1.0": 1, "1e3": 1000, "12.000": 12, "0.0": 0, "-0": 0, "-0.0e7": 0, "0e400": 0,
		"0.00e-999999999999999999999": 0, "1.25E+2": 125, "1200e-2": 12, "0.0012e4": 12,
		"9223372036854775807.0": math.MaxInt64, "922337203685477580.7e1": math.MaxInt64,
		"1e18": 1e18, "12e0": 12, "1" + strings.Repeat("0", 400) + "e-400": 1,
	} {
		page, err := decode([]byte(strings.Replace(onePage, `"human":1`, `"human":`+text, 1)), maxLimit,
			analytics.VisitorsReport.Shape())
		if err != nil || page.Rows[0].Counts[0] != want {
			t.Errorf("%s: %v, %v; want %d", text, page.Rows, err, want)
		}
	}
	for _, text := range []string{
		"1.5", "-1", "-1e0", "0.1", "1e-1", "1e400", "1e19", "9223372036854775808.0", "9223372036854775807.5", "9.3e18",
		"1e99999999999999999999", "1e-99999999999999999999", `"1"`, "true", "[1]",
	} {
		page, err := decode([]byte(strings.Replace(onePage, `"human":1`, `"human":`+text, 1)), maxLimit,
			analytics.VisitorsReport.Shape())
		if !errors.Is(err, errShape) || !strings.Contains(err.Error(), "/visitors/0/human, before byte") {
			t.Errorf("%s: %v, %v; want errShape", text, page.Rows, err)
		}
	}
}

// TestPathsOfOnePageAreBounded: together, because escapes can take more than a body may have.
func TestPathsOfOnePageAreBounded(t *testing.T) {
	row := `{"path":"` + strings.Repeat("a", maxPath) + `","human":1,"ai":2,"total":2}`
	rows := func(n int) []byte {
		return []byte(strings.Replace(onePage, `[`, `[`+strings.Repeat(row+",", n), 1))
	}
	page, err := decode(rows(15), maxLimit, analytics.VisitorsReport.Shape())
	if err != nil || len(page.Rows) != 16 || len(page.Rows[0].Path()) != maxPath {
		t.Errorf("paths of 15 MiB: %d rows, %v", len(page.Rows), err)
	}
	_, err = decode(rows(16), maxLimit, analytics.VisitorsReport.Shape())
	if err == nil || !strings.Contains(err.Error(), "paths over 16 MiB together") {
		t.Errorf("paths of 16 MiB and two bytes: %v", err)
	}
}
