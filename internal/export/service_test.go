package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
)

// visitorsPage is a page of the report of visitors.
type visitorsPage struct {
	Offset  int
	Totals  analytics.Totals
	Humans  analytics.Humans
	Rows    []analytics.Row
	HasMore bool
}

// of returns the page as a page of report: its rows are the rows of visitors, as recordOf makes them.
func (p visitorsPage) of(report analytics.Report) analytics.Page {
	out := analytics.Page{Offset: p.Offset, Totals: p.Totals, Humans: p.Humans, HasMore: p.HasMore}
	if report.Shape().Site {
		if out.Totals = (analytics.Totals{}); p.Totals != out.Totals {
			out.Site = []analytics.Record{recordOf(report, analytics.Row{Totals: p.Totals})}
		}
	}
	for _, row := range p.Rows {
		out.Rows = append(out.Rows, recordOf(report, row))
	}
	return out
}

// service is the API in memory. answer can replace its own answers.
type service struct {
	// answer replaces the answer to the nth request (from 1) if it returns a page or an
	// error.
	answer func(nth int, q docsapi.PageQuery) (*visitorsPage, error)

	mu   sync.Mutex
	rows map[place][]analytics.Row
	// budget is how many more requests go through, where limited.
	limited bool
	budget  int
	sent    []docsapi.PageQuery
	// lacks: it does not have the report of agents.
	lacks bool
	// cap is the most rows it puts on a page; 0: as many as are requested.
	cap int
	// strict: it refuses an offset beyond the end.
	strict bool
}

// place is the project and window of a query.
type place struct {
	project string
	analytics.Window
}

func newService() *service { return &service{rows: map[place][]analytics.Row{}} }

// put gives the window of k n rows; version tells one content from another.
func (s *service) put(k analytics.Key, n, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[place{k.Project, k.Window}] = rowsOf(n, version)
}

func rowsOf(n, version int) []analytics.Row { return rowsBetween(0, n, version) }

func rowsBetween(from, to, version int) []analytics.Row {
	rows := make([]analytics.Row, max(0, to-from))
	for i := range rows {
		n := from + i
		// Not in the order of the sinks, which sort by path.
		rows[i] = analytics.Row{Path: fmt.Sprintf("/%d/page-%d", n%7, n), Totals: analytics.Totals{Human: int64(n),
			AI:    int64(version),
			Total: int64(n + version)}}
	}
	return rows
}

func totalsOf(rows []analytics.Row) analytics.Totals {
	t := analytics.Totals{Human: int64(len(rows))}
	if len(rows) > 0 {
		t.AI = rows[0].AI
	}
	t.Total = t.Human + t.AI
	return t
}

func (s *service) all(k analytics.Key) []analytics.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[place{k.Project, k.Window}]
}

// room returns the number of requests that the budget allows now.
func (s *service) room(context.Context) (free int, limited bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget, s.limited, nil
}

// requests returns how many requests reached the service.
func (s *service) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// again starts a new count of requests.
func (s *service) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = nil
}

// spent is the refusal of a budget.
type spent struct{ until time.Time }

func (s spent) Error() string      { return "budget used up" }
func (s spent) RetryAt() time.Time { return s.until }

func (s *service) Page(ctx context.Context, q docsapi.PageQuery) (analytics.Page, error) {
	if q.Report == analytics.AgentsReport && s.lacks {
		_, err := s.charge(q)
		return analytics.Page{}, cmp.Or(err, statusError(http.StatusNotFound, docsapi.Permanent))
	}
	p, err := s.visitors(ctx, q)
	if err != nil {
		return analytics.Page{}, err
	}
	return p.of(q.Report), nil
}

func (s *service) visitors(ctx context.Context, q docsapi.PageQuery) (visitorsPage, error) {
	if err := ctx.Err(); err != nil {
		return visitorsPage{}, err
	}
	nth, err := s.charge(q)
	if err != nil {
		return visitorsPage{}, err
	}
	if s.answer != nil {
		if page, err := s.answer(nth, q); err != nil {
			return visitorsPage{}, err
		} else if page != nil {
			page.Offset = q.Offset
			return *page, nil
		}
	}
	if p := s.page(q); !s.strict || q.Offset == 0 || len(p.Rows) > 0 {
		return p, nil
	}
	return visitorsPage{}, statusError(http.StatusBadRequest, docsapi.Permanent)
}

// recordOf is a row of visitors as a row of a report. A report with rows of the site counts readers and requests: they
// are the people and the total.
func recordOf(report analytics.Report, row analytics.Row) (r analytics.Record) {
	shape := report.Shape()
	if !shape.Site {
		return analytics.RecordOf(row)
	}
	f := shape.Fields(&r)
	for i, c := range shape.Columns[:len(f.Texts)] {
		*f.Texts[i] = map[string]string{"path": row.Path, "agent": "claude", "class": "coding",
			"audience": string(analytics.AI), "source": "claude"}[c.Name]
	}
	for _, truth := range f.Truths {
		*truth = true
	}
	*f.Counts[0], *f.Counts[1] = row.Human, row.Total
	return r
}

// rowOf is the inverse of recordOf, for rows of rowsOf.
func rowOf(report analytics.Report, r analytics.Record) analytics.Row {
	human, total := r.Counts[0], r.Counts[1]
	if !report.Shape().Site {
		total = r.Counts[2]
	}
	return analytics.Row{Path: r.Path(), Totals: analytics.Totals{Human: human, AI: total - human, Total: total}}
}

func (s *service) charge(q docsapi.PageQuery) (nth int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limited && s.budget == 0 {
		return 0, &docsapi.Error{Op: "visitors", Outcome: docsapi.Transient, Err: spent{time.Unix(1, 0)}}
	}
	s.budget--
	s.sent = append(s.sent, q)
	return len(s.sent), nil
}

// page is the service's own answer.
func (s *service) page(q docsapi.PageQuery) visitorsPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.rows[place{q.Project, q.Window}]
	limit := q.Limit
	if s.cap > 0 {
		limit = min(limit, s.cap)
	}
	from, to := min(q.Offset, len(rows)), min(q.Offset+limit, len(rows))
	return visitorsPage{
		Offset: q.Offset, Totals: totalsOf(rows), Humans: analytics.Claimed, Rows: rows[from:to:to],
		HasMore: to < len(rows),
	}
}

func statusError(status int, outcome docsapi.Outcome) error {
	return &docsapi.Error{Op: "visitors", Method: "GET", URL: "https://api", Status: status, Outcome: outcome,
		Message: http.StatusText(status)}
}

func shapeError() error  { return statusError(http.StatusOK, docsapi.Permanent) }
func outageError() error { return statusError(http.StatusServiceUnavailable, docsapi.Transient) }

func unreachedError() error {
	return &docsapi.Error{Op: "visitors", Method: "GET", URL: "https://api", Outcome: docsapi.Transient,
		Message: "api: no such host", Err: docsapi.ErrNotSent}
}

// serve answers a request for a page over HTTP. about says with which status, and how many
// rows of which version the window has.
func serve(req *http.Request, about func(at place) (status, rows, version int)) (*http.Response, error) {
	q := req.URL.Query()
	at := place{project: strings.Split(req.URL.Path, "/")[3]}
	if err := errors.Join(at.From.UnmarshalText([]byte(q.Get("dateFrom"))),
		at.To.UnmarshalText([]byte(q.Get("dateTo")))); err != nil {
		return nil, err
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	status, rows, version := about(at)
	visitors := append([]analytics.Row{}, rowsBetween(offset, min(offset+limit, rows), version)...)
	totals := analytics.Totals{Human: int64(rows), Total: int64(rows)}
	if rows > 0 { // as totalsOf
		totals.AI, totals.Total = int64(version), int64(rows+version)
	}
	body := any(map[string]any{"totals": totals, "visitors": visitors, "hasMore": offset+limit < rows})
	if status != http.StatusOK {
		body = map[string]any{"error": "not now"}
	}
	text, err := json.Marshal(body)
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(text)),
		Request: req}, err
}

// clientOver returns the client of a simulation.
func clientOver(t tb, transport http.RoundTripper) *docsapi.Client {
	client, err := docsapi.New(docsapi.ClientOptions{
		BaseURL: "https://api.example.com", APIKey: docsapi.StaticKey("key_secret"), Transport: transport,
		Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
