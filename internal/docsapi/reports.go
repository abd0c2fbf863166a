package docsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/docgauge/docgauge/internal/analytics"
)

// maxLimit is the most rows one page can have (specification, section 8).
const maxLimit = analytics.PageRows

const missingProject = "check DOCGAUGE_PROJECTS and DOCGAUGE_BASE_URL"

// VisitorsQuery asks for unique visitors (section 4.3), or for another report of them.
type VisitorsQuery struct {
	Project string
	// Window becomes dateFrom and dateTo, which are both half-open. An empty one asks whether the service sees
	// it so.
	Window analytics.Window
	// Limit is the most rows per page, 1 to MaxLimit; 0 means MaxLimit.
	Limit int
	// Offset is how many rows are skipped before the first page.
	Offset int
}

// VisitorsPage reads the page at q.Offset, with retries. Errors are *Error, or the
// cause of the context. The paths of one page share memory: keeping one path keeps
// all paths of its page.
func (c *Client) VisitorsPage(ctx context.Context, q VisitorsQuery) (analytics.VisitorsPage, error) {
	return readPage[analytics.Row](ctx, c, q)
}

// AgentsPage is [Client.VisitorsPage] for the report of agents, which not every service has.
func (c *Client) AgentsPage(ctx context.Context, q VisitorsQuery) (analytics.AgentsPage, error) {
	return readPage[analytics.AgentRow](ctx, c, q)
}

// readPage reads a page of the report whose rows are of type R.
func readPage[R any](ctx context.Context, c *Client, q VisitorsQuery) (page analytics.Page[R], err error) {
	of, report := analytics.DatasetOf[R]()
	q.Limit = cmp.Or(q.Limit, maxLimit)
	r := call{
		method:   http.MethodGet,
		op:       report.String() + " at offset " + strconv.Itoa(q.Offset),
		endpoint: report.String(),
		project:  q.Project,
		about:    slog.Int("offset", q.Offset),
		notFound: missingProject,
		key:      c.admin,
		timeout:  c.options.Timeout,
		send:     c.options.Transport,
		url:      c.base + "/v1/analytics/" + url.PathEscape(q.Project) + "/" + report.String(),
		query: url.Values{
			"dateFrom": {q.Window.From.String()},
			"dateTo":   {q.Window.To.String()},
			"limit":    {strconv.Itoa(q.Limit)},
			"offset":   {strconv.Itoa(q.Offset)},
		}.Encode(),
		decode: func(body []byte) (err error) {
			page, err = decode(body, q.Limit, of)
			return err
		},
	}
	if err := q.check(); err != nil {
		return page, r.refuse(err)
	}
	if err := c.read(ctx, r); err != nil {
		return analytics.Page[R]{}, err
	}
	page.Offset = q.Offset
	return page, nil
}

func (q VisitorsQuery) check() error {
	if err := checkProject(q.Project); err != nil {
		return err
	}
	switch {
	case q.Window.From > q.Window.To:
		return fmt.Errorf("window %v: want no end before its start", q.Window)
	case q.Limit < 1 || q.Limit > maxLimit:
		return fmt.Errorf("limit %d: want 1 to %d", q.Limit, maxLimit)
	case q.Offset < 0:
		return fmt.Errorf("offset %d: want 0 or more", q.Offset)
	}
	return nil
}

// checkProject refuses ids that would change the path.
func checkProject(id string) error {
	if id == "" || isDots(id) {
		return errors.New("no project id: copy it from the API keys page of the dashboard")
	}
	return nil
}
