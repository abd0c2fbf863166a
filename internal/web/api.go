package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// maxLimit is the largest limit that can be asked for, and maxOffset the largest offset.
	maxLimit  = 10_000
	maxOffset = 100_000
	// maxPath is the length of a path or prefix that can be asked for, in bytes.
	maxPath = 8 << 10
	// askTimeout limits a question to the archive.
	askTimeout = 20 * time.Second
	csvType    = "text/csv"
	jsonType   = "application/json"
	apiRoot    = "/api/v1/"
)

// NewAPI returns the handlers of /api/v1 by path. current returns the newest snapshot, or nil before
// the first one. archive opens the archive for the questions that the snapshot does not answer.
func NewAPI(current func() *view.Snapshot, archive Archive) map[string]http.Handler {
	endpoints := []endpoint{
		{name: "windows", rows: "the newest windows of each project, oldest first, missing ones included",
			parameters: []string{"project", "window"}, limit: 30, empty: apiWindow{}, find: windowRows},
		{name: "pages", rows: "the pages of a window with the most readers, or those that changed most",
			parameters: []string{
				"project", "window", "at", "from", "to", "list", "by", "prefix", "path", "offset",
			}, limit: 20, empty: query.PageRow{}, find: archive.pages},
		{name: "history", rows: "the readers of a page, or of the site, window by window, oldest first",
			parameters: []string{"project", "window", "path", "from", "to"}, limit: 30,
			empty: apiHistory{}, find: archive.history},
		{name: "agents", rows: "the agents of the site in a window, the pages of one, or paths that are not there",
			parameters: []string{
				"project", "window", "at", "from", "to", "list", "agent", "by", "prefix", "offset",
			}, limit: 20, empty: query.AgentRow{}, find: archive.agents},
		{name: "agent_history", rows: "the readers and requests of an agent, window by window, oldest first",
			parameters: []string{"project", "window", "agent", "path", "from", "to"}, limit: 30,
			empty: query.AgentHistoryRow{}, find: archive.agentHistory},
		{name: "jobs", rows: "prompts that wait to become a job, then agent jobs, newest first",
			parameters: []string{"project", "state"}, limit: 100, empty: view.Job{}, find: jobRows},
		{name: "outcomes", rows: "readers after each merge, by page and audience, the newest merge first",
			parameters: []string{"project"}, limit: 100, empty: apiEffect{}, find: effectRows},
	}
	for _, report := range analytics.OtherReports {
		endpoints = append(endpoints, archive.endpointsOf(report)...)
	}
	handlers := map[string]http.Handler{apiRoot: apiIndex(endpoints)}
	for _, e := range endpoints {
		e.current = current
		handlers[apiRoot+e.name] = e
	}
	return handlers
}

// parameters are the parameters of all endpoints, with what they mean.
var parameters = map[string]string{
	"project": "id of a project; without it all",
	"window":  "day, week, month or Nd, such as 28d",
	"limit":   "number of rows, of each project and window; 1 to 10000",
	"offset":  "number of rows to leave out at the beginning; at most 100000",
	"format":  "json or csv",
	"path":    "exact path of a page",
	"prefix":  "only paths that begin with this",
	"at":      "a day of the window, YYYY-MM-DD",
	"from":    "only windows that begin on this day or later, YYYY-MM-DD",
	"to":      "only windows that end before this day, YYYY-MM-DD",
	"list":    "top, rising or falling; of agents: agents, pages or misses",
	"agent":   "name of an agent",
	"by":      "total, human, ai or change; of agents: " + query.OrderList(),
	"state":   "state of the job",
}

// apiIndex answers at the root of the API with what there is, and refuses what there is not.
type apiIndex []endpoint

func (all apiIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type parameter struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	type described struct {
		Path       string      `json:"path"`
		Rows       string      `json:"rows"`
		Parameters []parameter `json:"parameters"`
	}
	list, paths := []described{}, []string{}
	for _, e := range all {
		d := described{Path: apiRoot + e.name, Rows: e.rows}
		for _, name := range e.known() {
			p := parameter{name, parameters[name]}
			if e.report != 0 && name == e.report.Shape().Noun() {
				p.Text = "name in the rows of the report " + e.report.String()
			} else if e.report != 0 && name == "by" {
				p.Text = "the count that ranks: " + strings.Join(e.report.Shape().Names(analytics.Count), ", ")
			}
			if name == "limit" {
				p.Text += fmt.Sprintf(" (%d)", e.limit)
			}
			d.Parameters = append(d.Parameters, p)
		}
		list, paths = append(list, d), append(paths, d.Path)
	}
	switch known := r.URL.Path == apiRoot || slices.Contains(paths, r.URL.Path); {
	case !known:
		refuse(w, http.StatusNotFound, fmt.Sprintf("%.100q: no such list; %s", r.URL.Path,
			format.DidYouMean(r.URL.Path, paths)))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "method not allowed: the API takes GET and HEAD")
	default:
		var body bytes.Buffer
		_ = encodeValue(&body, map[string]any{"endpoints": list}) // strings can be encoded
		body.WriteByte('\n')
		serve(w, r, jsonType, body.Bytes())
	}
}

// endpoint is a list that can be requested.
type endpoint struct {
	current    func() *view.Snapshot
	name, rows string
	// parameters are those beside limit and format; limit is the default of that.
	parameters []string
	limit      int
	// empty is a row without values.
	empty any
	find  finder
	// report is the report whose rows are listed, of lists that all reports have; else 0.
	report analytics.Report
}

// finder returns rows of one type, and whether there are more after them.
type finder func(context.Context, *view.Snapshot, question) (rows []any, more bool, err error)

func (e endpoint) known() []string { return append(slices.Clone(e.parameters), "limit", "format") }

// question is a request, parsed. Empty fields were not given.
type question struct {
	list          string // name of the endpoint
	values        url.Values
	project       string
	window        analytics.Granularity
	state         string
	path          *string
	limit, offset int
	csv           bool
	at, from, to  *analytics.Date
	ranking       query.Ranking
	agents        query.AgentRanking // of questions about agents
	rows          query.RowRanking   // of questions about rows of other reports
	// today is the day of the snapshot.
	today analytics.Date
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
	rows, more, err := e.find(r.Context(), s, q)
	if err != nil {
		code, message := archiveProblem(err)
		refuse(w, code, message)
		return
	}
	var body bytes.Buffer
	kind := jsonType
	if q.csv {
		kind = csvType + "; charset=utf-8; header=present"
		err = query.WriteCSV(&body, e.empty, rows)
	} else {
		err = encodeJSON(&body, e.name, rows)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "encode: "+err.Error())
		return
	}
	if more {
		q.values.Set("offset", strconv.Itoa(q.offset+q.limit))
		w.Header().Set("Link", "<?"+q.values.Encode()+`>; rel="next"`)
	}
	serve(w, r, kind, body.Bytes())
}

// serve sends an answer. A client may keep it, and asks whether it has changed.
func serve(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	sum := sha256.Sum256(body)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Accept")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// read parses a request.
func (e endpoint) read(s *view.Snapshot, r *http.Request) (q question, err error) {
	if q, err = readQuestion(r.URL.RawQuery, e.known(), e.limit, e.report); err != nil {
		return q, err
	}
	q.list, q.today = e.name, analytics.DateOf(s.At)
	if q.project != "" && !slices.ContainsFunc(s.Projects, func(p view.Project) bool { return p.ID == q.project }) {
		return q, fmt.Errorf("project %.140q: not one of DOCGAUGE_PROJECTS", q.project)
	}
	noun, lists := "agent", "agents"
	if e.report != 0 {
		noun, lists = e.report.Shape().Noun(), e.report.String()
	}
	if slices.Contains(e.parameters, noun) && !slices.Contains(e.parameters, "offset") && q.values.Get(noun) == "" { // a history
		return q, fmt.Errorf("%s: missing; %s%s lists them", noun, apiRoot, lists)
	}
	if !q.values.Has("format") {
		q.csv = prefersCSV(r.Header)
	}
	return q, nil
}

// readQuestion parses a query with known parameters. It refuses others: a misspelt filter must not be
// answered with everything.
func readQuestion(raw string, known []string, limit int, report analytics.Report) (q question, err error) {
	if q.values, err = url.ParseQuery(raw); err != nil {
		return q, fmt.Errorf("query: %.200q cannot be read", raw)
	}
	for name, all := range q.values {
		if !slices.Contains(known, name) {
			return q, fmt.Errorf("parameter %.100q: want %s", name, strings.Join(known, ", "))
		}
		if len(all) > 1 {
			return q, fmt.Errorf("parameter %s: given more than once", name)
		}
	}
	get := q.values.Get
	q.project, q.state, q.limit = get("project"), get("state"), limit
	if q.values.Has("path") {
		q.path = new(get("path"))
	}
	if text := get("window"); text != "" {
		if q.window, err = analytics.ParseGranularity(text); err != nil {
			return q, fmt.Errorf("window %.20q: want day, week, month or Nd, such as 28d", text)
		}
	}
	if text := get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, fmt.Errorf("limit %.20q: want 1 to %d", text, maxLimit)
		}
	}
	if text := get("offset"); text != "" {
		if q.offset, err = strconv.Atoi(text); err != nil || q.offset < 0 || q.offset > maxOffset {
			return q, fmt.Errorf("offset %.20q: want 0 to %d", text, maxOffset)
		}
	}
	switch format := get("format"); format {
	case "", "csv", "json":
		q.csv = format == "csv"
	default:
		return q, fmt.Errorf("format %.20q: want json or csv", format)
	}
	for _, name := range []string{"path", "prefix"} {
		switch text := get(name); {
		case q.values.Has(name) && text == "" && (name == "prefix" || slices.Contains(known, "agent")):
			return q, fmt.Errorf("%s: empty; leave it out for all", name)
		case len(text) > maxPath:
			return q, fmt.Errorf("%s: longer than %d bytes", name, maxPath)
		case !utf8.ValidString(text):
			return q, fmt.Errorf("%s: not UTF-8", name)
		}
	}
	for name, date := range map[string]**analytics.Date{"at": &q.at, "from": &q.from, "to": &q.to} {
		if text := get(name); text != "" {
			day, err := analytics.ParseDate(text)
			if err != nil {
				return q, fmt.Errorf("%s %.20q: want a day, YYYY-MM-DD", name, text)
			}
			*date = &day
		}
	}
	if q.from != nil && q.to != nil && *q.from >= *q.to {
		return q, fmt.Errorf("from %s, to %s: want from before to", *q.from, *q.to)
	}
	if report != 0 {
		q.rows = query.RowRanking{Report: report, By: get("by"), Name: get(report.Shape().Noun()), Path: get("path"),
			Prefix: get("prefix"), N: q.limit, Offset: q.offset}
		if slices.Contains(known, "offset") { // a history has the rows of a name on a page
			q.rows, err = q.rows.Complete()
		}
		return q, err
	}
	if slices.Contains(known, "agent") {
		q.agents = query.AgentRanking{List: query.AgentList(get("list")), By: query.AgentOrder(get("by")),
			Agent: get("agent"), Prefix: get("prefix"), N: q.limit, Offset: q.offset}
		q.agents, err = q.agents.Complete()
		return q, err
	}
	q.ranking = query.Ranking{
		List: query.List(cmp.Or(get("list"), string(query.MostRead))), Prefix: get("prefix"), Path: q.path,
		By: analytics.Audience(cmp.Or(get("by"), string(analytics.Everyone))), N: q.limit, Offset: q.offset,
	}
	return q, q.ranking.Check()
}

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
