package sandbox

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/api"
)

func TestPagesOfAWindowAddUp(t *testing.T) {
	s := newTest(t, Config{})
	want := truth(t, s, "2026-10-05", "2026-10-12")
	for _, limit := range []int{1, 7, 50, 250} {
		got := all(t, s, "2026-10-05", "2026-10-12", limit)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	truth(t, s, "2026-10-05", "2026-10-12").Rows[0].Path = "changed by a caller"
	if got := truth(t, s, "2026-10-05", "2026-10-12").Rows[0].Path; got != "/" {
		t.Errorf("a caller changed the rows kept: %s", got)
	}
	for i, row := range want.Rows[1:] {
		previous := want.Rows[i]
		if previous.Total < row.Total || previous.Total == row.Total && previous.Path >= row.Path {
			t.Fatalf("%v before %v", previous, row)
		}
	}
}

func TestDefaultsAndEnds(t *testing.T) {
	s := newTest(t, Config{})
	rows := len(truth(t, s, "2026-10-05", "2026-10-12").Rows)
	for query, want := range map[string]struct {
		rows int
		more bool
	}{
		"":                             {50, true},
		"limit=250":                    {250, true},
		"limit=250&offset=250":         {250, true},
		"limit=250&offset=500":         {rows - 500, false},
		"limit=250&offset=100000":      {0, false},
		"offset=9223372036854775807":   {0, false},
		"limit=0007&offset=000":        {7, true},
		"unknown=x&unknown=y&limit=1":  {1, true},
		"dateFrom=2026-10-09&limit=1":  {1, true},
		"dateFrom=2026-10-12&limit=1":  {0, false},
		"dateFrom=1000-01-01&limit=1":  {1, true},
		"dateFrom=2026-10-09T00%3A00Z": {50, true},
	} {
		got := decode(t, get(s, path+"?dateTo=2026-10-12&"+query))
		if len(got.Visitors) != want.rows || got.HasMore != want.more {
			t.Errorf("%s: %d rows, hasMore %v; want %v", query, len(got.Visitors), got.HasMore, want)
		}
	}
	exact := get(s, path+"?dateFrom=2026-10-05&dateTo=2026-10-12&limit=1&offset="+strconv.Itoa(rows-1))
	if decode(t, exact).HasMore {
		t.Error("hasMore on the page with the last row")
	}
	empty := get(s, path+"?dateFrom=2026-10-12&dateTo=2026-10-12").Body.String()
	want := `{"totals":{"human":0,"ai":0,"total":0},"visitors":[],"hasMore":false,` +
		`"dataFrom":"2026-06-16","humans":"claimed"}`
	if empty != want {
		t.Errorf("empty window: %s", empty)
	}
}

func TestDatesAreInstants(t *testing.T) {
	s := newTest(t, Config{})
	day := all(t, s, "2026-10-05", "2026-10-06", 250)
	for _, ends := range [][2]string{
		{"2026-10-05T00:00:00Z", "2026-10-06T00:00:00Z"},
		{"2026-10-05T00:00Z", "2026-10-06T00:00:00.000Z"},
		{"2026-10-05T02:00:00+02:00", "2026-10-05T19:00:00-0500"},
		{"2026-10-05T02:00+02", "2026-10-05T19:00-05"},
		{"2026-10-04T23:59:59.25Z", "2026-10-05T23:59:59,75Z"},
	} {
		if got := all(t, s, ends[0], ends[1], 250).Totals; got != day.Totals {
			t.Errorf("%v: %v, want %v", ends, got, day.Totals)
		}
	}
	if half := all(t, s, "2026-10-05", "2026-10-05T12:00:00Z", 250); half.Totals.Total >= day.Totals.Total {
		t.Errorf("half a day has %v, the day %v", half.Totals, day.Totals)
	}
}

func TestBadParameters(t *testing.T) {
	s := newTest(t, Config{})
	dates := []string{
		"", "today", "2026-13-01", "2026-02-29", "2026-1-1", "20261001", "2026-10-01T00:00:00", "2026-10-01T24:00:00Z",
		"2026-10-01T12:61:00Z", "2026-10-01 12:00:00Z", "2026-10-01T12:00:00+99:00", "1759276800",
		"2026-10-01T1:00:00Z", "2026-10-01T02+02", "٢٠٢٦-10-01",
	}
	whole := []string{"", "x", "-1", "+5", " 5", "5 ", "1.0", "1e2", "0x10", "1_0", "٣", "9223372036854775808",
		"99999999999999999999999"}
	good := map[string]string{"dateFrom": "2026-10-01", "dateTo": "2026-10-01", "limit": "1", "offset": "1"}
	for name, values := range map[string][]string{
		"dateFrom": dates, "dateTo": dates, "limit": append([]string{"0", "251"}, whole...), "offset": whole,
	} {
		for _, value := range values {
			w := get(s, path+"?"+url.Values{name: {value}}.Encode())
			if w.Code != http.StatusBadRequest || !strings.HasPrefix(message(t, w), name+": want ") {
				t.Errorf("%s=%q: %d %s", name, value, w.Code, w.Body)
			}
		}
		w := get(s, path+"?"+url.Values{name: {good[name], good[name]}}.Encode())
		if w.Code != http.StatusBadRequest || message(t, w) != name+": want it once, got it 2 times" {
			t.Errorf("%s twice: %d %s", name, w.Code, w.Body)
		}
	}
	for query, want := range map[string]string{
		"dateFrom=2026-10-02&dateTo=2026-10-01": "dateFrom: must not be after dateTo",
		"limit=%zz":                             "query string: ",
		"limit=1;offset=2":                      "query string: ",
	} {
		if w := get(s, path+"?"+query); w.Code != http.StatusBadRequest || !strings.HasPrefix(message(t, w), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestRouting(t *testing.T) {
	s := newTest(t, Config{Projects: []string{"prj_sandbox", "b"}})
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/analytics/b/visitors", 200},
		{"GET", "/v1/analytics/%62/visitors", 200},
		{"GET", "/v1/analytics/c/visitors", 404},
		{"GET", "/v1/analytics/b%2Fvisitors", 404},
		{"GET", "/v1/analytics//visitors", 404},
		{"GET", "/v1//analytics/b/visitors", 404},
		{"GET", "/v1/analytics/b/visitors/", 404},
		{"GET", "/v2/analytics/b/visitors", 404},
		{"GET", "/", 404},
		{"HEAD", "/v1/analytics/b/visitors", 405},
		{"POST", "/v1/analytics/b/visitors", 405},
	} {
		r := httptest.NewRequest(tc.method, tc.path, strings.NewReader("ignored"))
		r.Header.Set("Authorization", "bearer "+DefaultAPIKey)
		w := respond(s, r)
		if w.Code != tc.status {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.path, w.Code, tc.status)
		}
		if tc.status != 200 {
			message(t, w)
		}
		if allow := w.Header().Get("Allow"); (tc.status == 405) != (allow == "GET") {
			t.Errorf("%s %s: Allow %q", tc.method, tc.path, allow)
		}
	}
}

func TestAuthentication(t *testing.T) {
	s := newTest(t, Config{ExpiredKey: "sbx_old", ReadOnlyKey: "sbx_read", WriteOnlyKey: "sbx_write"})
	const ok = "Bearer " + DefaultAPIKey
	for _, tc := range []struct {
		headers []string
		status  int
		message string
	}{
		{[]string{ok}, 200, ""},
		{[]string{"Bearer sbx_read"}, 200, ""},
		{[]string{"Bearer sbx_write"}, 403, "API key: lacks the read scope"},
		{[]string{"Bearer sbx_old"}, 401, "API key: has expired"},
		{[]string{"Bearer sbx_wrong"}, 401, "API key: is not known"},
		{[]string{"Bearer sbx_"}, 401, "Authorization header: "},
		{[]string{"Bearer nounderscore"}, 401, "Authorization header: "},
		{[]string{DefaultAPIKey}, 401, "Authorization header: "},
		{[]string{"Basic " + DefaultAPIKey}, 401, "Authorization header: "},
		{[]string{ok + " "}, 401, "Authorization header: "},
		{[]string{""}, 401, "Authorization header: "},
		{[]string{ok, ok}, 401, "Authorization header: "},
	} {
		w := get(s, path, tc.headers...)
		if w.Code != tc.status {
			t.Errorf("%q: status %d", tc.headers, w.Code)
		}
		if tc.status == 200 {
			continue
		}
		if got := message(t, w); !strings.HasPrefix(got, tc.message) || strings.Contains(got, "sbx") {
			t.Errorf("%q: %s", tc.headers, got)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	for _, tc := range []struct {
		config Config
		want   []string // beginnings of lines
	}{
		{Config{
			Days: -1, Pages: maxPages + 1, Projects: []string{"a b", "c", "c"}, APIKey: "secretkey",
			ExpiredKey: "sbx_top", ReadOnlyKey: "sbx_top",
			Faults: Faults{Latency: -1, RateLimit: -1, RetryAfter: -1, ThrottleAfter: -1, ErrorEvery: -1, CutEvery: -1,
				DriftEvery: -1, LateDays: 366, PageRows: -1},
			Agent: Agent{
				Workers: -1, After: -1, ArchiveAfter: -1, PublicURL: "ftp://x",
				Faults: AgentFaults{Latency: -1, RateLimit: -1, ThrottleEvery: -1, DropEvery: -1, BadGatewayEvery: -1,
					Stall: -1, StallEvery: -1},
			},
		}, []string{
			"days:", "pages:", `project "a b"`, `project "c": is named twice`, "API key:",
			"read-only key: is the expired key too",
			"latency:", "rate limit:", "retry after:", "throttle after:", "error every:", "cut every:", "drift every:",
			"late days:", "page rows:",
			"agent workers:", "agent duration:", "agent archive after:", "public URL",
			"agent latency:", "agent rate limit:",
			"agent 429 every:", "agent drop every:", "agent 502 every:", "agent stall:", "agent stall every:",
		}},
		{Config{Faults: Faults{Moving: 30 * time.Second}}, []string{"moving: want whole minutes"}},
		{Config{Faults: Faults{Moving: 90 * time.Second}}, []string{"moving: want whole minutes"}},
		{Config{Faults: Faults{Moving: -time.Hour}}, []string{"moving: want whole minutes"}},
		{Config{Faults: Faults{Moving: time.Hour, MovingDays: 366}}, []string{"moving days: want 1 to 365, got 366"}},
		{Config{Faults: Faults{Moving: time.Minute, MovingDays: 7}},
			[]string{"moving: every 1m0s over 7 days is more than 10000 changes"}},
	} {
		_, err := New(tc.config)
		if err == nil {
			t.Fatalf("%+v: no error", tc.config)
		}
		lines := strings.Split(err.Error(), "\n")
		for _, want := range tc.want {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("no line begins with %q:\n%v", want, err)
			}
		}
		if len(lines) != len(tc.want) || strings.Contains(err.Error(), "secretkey") ||
			strings.Contains(err.Error(), "sbx_top") {
			t.Errorf("more than %d lines, or a key is in the error: %v", len(tc.want), err)
		}
	}
}

func FuzzPageQuery(f *testing.F) {
	f.Add("dateFrom=2026-10-01&dateTo=2026-10-02T03:04:05.6-07:00&limit=5&offset=1")
	f.Add("limit=%zz&offset=")
	s := newTest(f, Config{Pages: 5, Days: 5})
	p := s.projects[DefaultProject]
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := api.ParseQuery(raw)
		if err != nil {
			return
		}
		if q.Limit < 1 || q.Limit > api.MaxLimit || q.Offset < 0 || q.From > q.To {
			t.Fatalf("%q reads as %+v", raw, q)
		}
		a, err := answerOf(s, visitorsReport, p, traffic.Interval{From: q.From, To: q.To}, time.Unix(noon.Unix(), 0))
		check(t, err)
		api.NewPage(a.Totals, a.Rows, q.Limit, q.Offset, nil, "")
	})
}
