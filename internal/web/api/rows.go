package api

import (
	"encoding"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Window is a complete window that should be known. Its columns are stable; what is not
// known is null in JSON and empty in CSV.
type Window struct {
	Project     string                `json:"project"`
	Granularity analytics.Granularity `json:"granularity"`
	From        analytics.Date        `json:"from"`
	To          analytics.Date        `json:"to"`
	State       string                `json:"state"` // settled, provisional, missing
	Verified    *bool                 `json:"verified"`
	Revision    *int32                `json:"revision"`
	Human       *int64                `json:"human"`
	AI          *int64                `json:"ai"`
	Total       *int64                `json:"total"`
	// RowCount is null where only the totals are known.
	RowCount   *int64     `json:"row_count"`
	ExportedAt *time.Time `json:"exported_at"`
}

// windows returns the newest windows of each project and granularity, oldest first.
func windows(s *view.Snapshot, q question) []Window {
	out := []Window{}
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			if q.project != "" && p.ID != q.project || q.window != "" && g.Granularity != q.window {
				continue
			}
			for _, c := range g.Cells[max(0, len(g.Cells)-q.limit):] {
				w := Window{Project: p.ID, Granularity: g.Granularity, From: c.From, To: c.To, State: "missing"}
				if r := c.Revision; r != nil {
					w.State = r.State()
					w.Verified, w.Revision, w.Human, w.AI, w.Total = &r.Verified, &r.Number, &r.Totals.Human, &r.Totals.AI, &r.Totals.Total
					w.ExportedAt = &r.ExportedAt
					if !r.TotalsOnly() {
						w.RowCount = &r.Rows
					}
				}
				out = append(out, w)
			}
		}
	}
	return out
}

// Page is one of the most read pages of a newest window. Its columns are stable.
type Page struct {
	Project     string                `json:"project"`
	Granularity analytics.Granularity `json:"granularity"`
	From        analytics.Date        `json:"from"`
	To          analytics.Date        `json:"to"`
	Rank        int                   `json:"rank"`
	Path        string                `json:"path"`
	Human       int64                 `json:"human"`
	AI          int64                 `json:"ai"`
	Total       int64                 `json:"total"`
}

// pages returns the pages of each newest window with the most visitors.
func pages(s *view.Snapshot, q question) []Page {
	out := []Page{}
	for _, w := range s.Windows {
		if q.project != "" && w.Project != q.project || q.window != "" && w.Granularity != q.window {
			continue
		}
		for i, r := range w.Pages[:min(q.limit, len(w.Pages))] {
			out = append(out, Page{w.Project, w.Granularity, w.From, w.To, i + 1, r.Path, r.Human, r.AI, r.Total})
		}
	}
	return out
}

// Job is the newest agent job of a prompt, or a prompt that waits to become one. Its
// columns are stable; a time that has not come is null in JSON and empty in CSV.
type Job struct {
	Project string `json:"project"`
	Prompt  string `json:"prompt"`
	Title   string `json:"title"`
	// State is the queue's word, Status the service's; JobID is the service's.
	State  string `json:"state"`
	Status string `json:"status"`
	JobID  string `json:"job_id"`
	Reason string `json:"reason"`
	Result string `json:"result"`
	// PRLink is empty if the service gave a link that nobody should follow.
	PRLink     string     `json:"pr_link"`
	Model      string     `json:"model"`
	Repository string     `json:"repository"`
	Ref        string     `json:"ref"`
	BegunAt    *time.Time `json:"begun_at"`
	CreatedAt  *time.Time `json:"created_at"`
	EndedAt    *time.Time `json:"ended_at"`
	// PRState is draft, open, merged, closed, unknown, or empty before it was asked for.
	// PROpenedAt is since when it waits for people, or did until PREndedAt.
	PRState    string     `json:"pr_state"`
	PROpenedAt *time.Time `json:"pr_opened_at"`
	PREndedAt  *time.Time `json:"pr_ended_at"`
	// Cost is 0 where that is not counted.
	Cost float64 `json:"cost"`
}

// jobs returns the prompts that wait to become a job, and the jobs, newest first; none
// where there is no queue.
func jobs(s *view.Snapshot, q question) []Job {
	out := []Job{}
	if s.Queue == nil {
		return out
	}
	for _, j := range slices.Concat(s.Queue.Waiting, s.Queue.Jobs) {
		if q.project != "" && j.Project != q.project || q.state != "" && j.State != q.state || len(out) == q.limit {
			continue
		}
		pull := view.PullRequest{}
		if j.Pull != nil {
			pull = *j.Pull
		}
		out = append(out, Job{
			j.Project, j.Prompt, j.Title, j.State, j.Status, j.ID, j.Reason, j.Result, analytics.SafeLink(j.PRLink),
			j.Model, j.Repository, j.Ref, known(j.Begun), known(j.Created), known(j.Ended),
			pull.State, known(pull.Opened), known(pull.Ended), j.Cost,
		})
	}
	return out
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// encodeCSV writes rows as RFC 4180 has it, with the line ends of Unix, below the names
// that JSON gives the columns. It alters no value: a path that a spreadsheet would take for
// a formula stays what it is.
func encodeCSV[Row any](w io.Writer, rows []Row) error {
	kind := reflect.TypeFor[Row]()
	header := make([]string, kind.NumField())
	for i := range header {
		header[i] = kind.Field(i).Tag.Get("json")
	}
	table := [][]string{header}
	for _, row := range rows {
		cells := make([]string, len(header))
		for i := range cells {
			var err error
			if cells[i], err = cell(reflect.ValueOf(row).Field(i)); err != nil {
				return err
			}
		}
		table = append(table, cells)
	}
	return csv.NewWriter(w).WriteAll(table)
}

// cell is a value as JSON has it, without quotes; empty for null.
func cell(v reflect.Value) (string, error) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "", nil
		}
		v = v.Elem()
	}
	if text, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := text.MarshalText()
		return string(b), err
	}
	return fmt.Sprint(v.Interface()), nil
}
