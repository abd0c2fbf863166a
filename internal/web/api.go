package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// maxLimit is the largest limit that can be asked for.
	maxLimit = 10_000
	// askTimeout limits a question to the archive.
	askTimeout = 20 * time.Second
	csvType    = "text/csv"
	jsonType   = "application/json"
)

// NewAPI returns the handlers of /api/v1 by path. current returns the newest snapshot, or nil before
// the first one. archive opens the archive for the questions that the snapshot does not answer.
func NewAPI(current func() *view.Snapshot, archive Archive) map[string]http.Handler {
	return map[string]http.Handler{
		"/api/v1/windows": endpoint{current, "windows", []string{"project", "window"}, 30, apiWindow{},
			windowRows, nil},
		"/api/v1/pages": endpoint{current, "pages", []string{"project", "window", "at", "list", "by", "prefix"}, 20,
			apiPage{}, pageRows, archive},
		"/api/v1/jobs":     endpoint{current, "jobs", []string{"project", "state"}, 100, view.Job{}, jobRows, nil},
		"/api/v1/outcomes": endpoint{current, "outcomes", []string{"project"}, 100, apiEffect{}, effectRows, nil},
	}
}

// Archive calls a function with the archive, which is open until that returns.
type Archive func(func(sinks.Sink) error) error

// endpoint is a list that can be requested.
type endpoint struct {
	current func() *view.Snapshot
	name    string
	// filters are the parameters beside limit and format; limit is the default of that.
	filters []string
	limit   int
	// empty is a row without values; find returns rows of its type.
	empty any
	find  func(*view.Snapshot, question) []any
	// archive answers the questions about pages that the snapshot does not answer.
	archive Archive
}

// question is a request, parsed. Empty fields were not given.
type question struct {
	project string
	window  analytics.Granularity
	state   string
	limit   int
	csv     bool
	// top is the question to the archive; asked: it is one.
	top   query.TopOptions
	asked bool
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := e.current()
	if s == nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "the first values are being read: try again in a few seconds")
		return
	}
	q, err := e.read(s, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	var body bytes.Buffer
	var rows []any
	if !q.asked {
		rows = e.find(s, q)
	} else if rows, err = e.ask(r.Context(), s, q); err != nil {
		code, message := http.StatusInternalServerError, "the archive cannot be read: docgauge verify says why"
		if none, ok := errors.AsType[query.NoAnswerError](err); ok {
			code, message = http.StatusNotFound, none.Error()
		}
		refuse(w, code, message)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	if q.csv {
		w.Header().Set("Content-Type", csvType+"; charset=utf-8; header=present")
		err = encodeCSV(&body, e.empty, rows)
	} else {
		err = encodeJSON(&body, e.name, rows)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "encode: "+err.Error())
		return
	}
	// A client may keep an answer, and asks whether it has changed.
	sum := sha256.Sum256(body.Bytes())
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Accept")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body.Bytes()))
}

// read parses a request, and refuses unknown parameters: a misspelt filter must not be answered with
// everything.
func (e endpoint) read(s *view.Snapshot, r *http.Request) (q question, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("query: %.200q cannot be read", r.URL.RawQuery)
	}
	known := append(slices.Clone(e.filters), "limit", "format")
	for name, all := range values {
		if !slices.Contains(known, name) {
			return q, fmt.Errorf("parameter %.100q: want %s", name, strings.Join(known, ", "))
		}
		if len(all) > 1 {
			return q, fmt.Errorf("parameter %s: given more than once", name)
		}
	}
	q = question{project: values.Get("project"), state: values.Get("state"), limit: e.limit}
	if q.project != "" && !slices.ContainsFunc(s.Projects, func(p view.Project) bool { return p.ID == q.project }) {
		return q, fmt.Errorf("project %.140q: not one of DOCGAUGE_PROJECTS", q.project)
	}
	if text := values.Get("window"); text != "" {
		if q.window, err = analytics.ParseGranularity(text); err != nil {
			return q, fmt.Errorf("window %.20q: want day, week, month or Nd, such as 28d", text)
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, fmt.Errorf("limit %.20q: want 1 to %d", text, maxLimit)
		}
	}
	if err := q.readTop(values, s.At); err != nil {
		return q, err
	}
	switch format := values.Get("format"); format {
	case "":
		q.csv = prefersCSV(r.Header)
	case "csv", "json":
		q.csv = format == "csv"
	default:
		return q, fmt.Errorf("format %.20q: want json or csv", format)
	}
	return q, nil
}

// readTop reads the parameters that ask the archive.
func (q *question) readTop(values url.Values, now time.Time) error {
	for _, name := range []string{"at", "list", "by", "prefix"} {
		q.asked = q.asked || values.Has(name)
	}
	q.top = query.TopOptions{Today: analytics.DateOf(now), Ranking: query.Ranking{
		List: query.List(cmp.Or(values.Get("list"), string(query.MostRead))), Prefix: values.Get("prefix"), N: q.limit,
		By: analytics.Audience(cmp.Or(values.Get("by"), string(analytics.Everyone))),
	}}
	q.top.Selection.Granularity = cmp.Or(q.window, analytics.Week)
	if text := values.Get("at"); text != "" {
		at, err := analytics.ParseDate(text)
		if err != nil {
			return fmt.Errorf("at %.20q: want a day, YYYY-MM-DD", text)
		}
		q.top.At = &at
	}
	return q.top.Ranking.Check()
}

// ask returns the pages of the archive. Of several projects some may have none.
func (e endpoint) ask(ctx context.Context, s *view.Snapshot, q question) (out []any, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var errs []error
	var absent error // a project that the archive lacks
	err = e.archive(func(from sinks.Sink) error {
		for _, p := range s.Projects {
			if q.project != "" && q.project != p.ID {
				continue
			}
			q.top.Selection.Projects = []string{p.ID}
			all, err := query.Top(ctx, unnamed{from}, q.top)
			if unknown, ok := errors.AsType[query.UnknownProjectError](err); ok {
				absent = cmp.Or(absent, error(query.NoAnswerError(unknown)))
				continue
			}
			errs = append(errs, err)
			for _, r := range all {
				out = append(out, archivePages(r)...)
			}
		}
		return nil
	})
	if len(errs) == 0 {
		errs = append(errs, absent)
	}
	for _, failed := range errs {
		if _, none := errors.AsType[query.NoAnswerError](failed); failed != nil && (!none || len(out) == 0) {
			err = cmp.Or(err, failed)
		}
	}
	return out, err
}

// unnamed is an archive whose messages do not name its place on this machine.
type unnamed struct{ sinks.Sink }

func (unnamed) Location() string { return "of this server" }

// prefersCSV reports whether a client names CSV, and likes it better than JSON.
func prefersCSV(h http.Header) bool {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		if q, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64); err == nil {
			quality[kind] = q
		}
	}
	return quality[csvType] > quality[jsonType]
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	var body bytes.Buffer
	_ = encodeValue(&body, map[string]string{"error": message}) // strings can be encoded
	_, _ = w.Write(body.Bytes())
}
