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

// PageQuery asks for a page of a report of unique visitors (section 4.3).
type PageQuery struct {
	// Report is one that the service has; not every service has all.
	Report  analytics.Report
	Project string
	// Window becomes dateFrom and dateTo, which are both half-open. An empty one asks whether the service sees
	// it so.
	Window analytics.Window
	// Limit is the most rows per page, 1 to MaxLimit; 0 means MaxLimit.
	Limit int
	// Offset is how many rows are skipped before the first page.
	Offset int
}

// Page reads the page at q.Offset, with retries. Errors are *Error, or the
// cause of the context. The paths of one page share memory: keeping one path keeps
// all paths of its page.
func (c *Client) Page(ctx context.Context, q PageQuery) (page analytics.Page, err error) {
	q.Limit = cmp.Or(q.Limit, maxLimit)
	r := call{
		method:   http.MethodGet,
		op:       q.Report.String() + " at offset " + strconv.Itoa(q.Offset),
		endpoint: q.Report.String(),
		project:  q.Project,
		about:    slog.Int("offset", q.Offset),
		notFound: missingProject,
		key:      c.admin,
		timeout:  c.options.Timeout,
		send:     c.options.Transport,
		url:      c.base + "/v1/analytics/" + url.PathEscape(q.Project) + "/" + q.Report.String(),
		query: url.Values{
			"dateFrom": {q.Window.From.String()},
			"dateTo":   {q.Window.To.String()},
			"limit":    {strconv.Itoa(q.Limit)},
			"offset":   {strconv.Itoa(q.Offset)},
		}.Encode(),
		decode: func(body []byte) (err error) {
			page, err = decode(body, q.Limit, q.Report.Shape())
			return err
		},
	}
	if err := q.check(); err != nil {
		return page, r.refuse(err)
	}
	if err := c.read(ctx, r); err != nil {
		return analytics.Page{}, err
	}
	page.Offset = q.Offset
	return page, nil
}

func (q PageQuery) check() error {
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
