package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

// apiWindow is a row for a complete window that should be known. A missing one has null wherever
// nothing is known, as has RowCount if only the totals were read.
type apiWindow struct {
	analytics.Key
	State      string            `json:"state"` // settled, provisional, missing
	Verified   *bool             `json:"verified"`
	Revision   *int32            `json:"revision"`
	Totals     *analytics.Totals `json:"totals" api:"inline"`
	Humans     analytics.Humans  `json:"humans,omitempty"`
	RowCount   *int64            `json:"row_count"`
	ExportedAt *time.Time        `json:"exported_at"`
}

// windowRows returns the newest windows of each project and granularity, oldest first.
func windowRows(_ context.Context, s *view.Snapshot, q question) (out []any, more bool, _ error) {
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			if q.project != "" && p.ID != q.project || q.window != "" && g.Granularity != q.window {
				continue
			}
			for _, c := range g.Cells[max(0, len(g.Cells)-q.limit):] {
				key := analytics.Key{Project: p.ID, Granularity: g.Granularity, Window: c.Window}
				w := apiWindow{Key: key, State: query.Missing}
				if r := c.Revision; r != nil {
					w = apiWindow{key, r.State(), &r.Verified, &r.Number, &r.Totals, r.Humans, &r.Rows,
						&r.ExportedAt}
					if r.TotalsOnly() {
						w.RowCount = nil
					}
				}
				out = append(out, w)
			}
		}
	}
	return out, false, nil
}

// pageRows returns the pages of each newest window with the most visitors, and whether the snapshot
// has all that are asked for.
func pageRows(s *view.Snapshot, q question) (out []any, all bool) {
	all = true
	for _, w := range s.Windows {
		if q.project != "" && w.Project != q.project || q.window != "" && w.Granularity != q.window {
			continue
		}
		all = all && (len(w.Pages) >= q.limit || int64(len(w.Pages)) >= w.Rows)
		for i, r := range w.Pages[:min(q.limit, len(w.Pages))] {
			visitors := r.Totals
			out = append(out, query.PageRow{Key: w.Key, RankedPage: query.RankedPage{
				Rank: i + 1, Path: r.Path, Visitors: &visitors}})
		}
	}
	return out, all
}

// apiHistory is a row for a window of a page, or of the site: then path is null. A page that the
// rows of a window lack is absent, and has no numbers there.
type apiHistory struct {
	analytics.Key
	Path *string `json:"path"`
	query.HistoryNumbers
}

// historyRows returns the windows of a history.
func historyRows(h query.HistoryReport) (out []any) {
	for _, w := range h.Windows {
		out = append(out, apiHistory{analytics.Key{Project: h.Project, Granularity: h.Granularity, Window: w.Window},
			h.Path, w.HistoryNumbers})
	}
	return out
}

// jobRows returns the prompts that wait to become a job, and the jobs, newest first; none
// without a queue.
func jobRows(_ context.Context, s *view.Snapshot, q question) (out []any, more bool, _ error) {
	if s.Queue == nil {
		return nil, false, nil
	}
	for _, j := range slices.Concat(s.Queue.Waiting, s.Queue.Jobs) {
		if (q.project == "" || j.Project == q.project) && (q.state == "" || j.State == q.state) && len(out) < q.limit {
			out = append(out, j)
		}
	}
	return out, false, nil
}

// apiEffect is a row for an effect of a merge.
type apiEffect struct {
	view.Merge
	Final bool `json:"final"`
	view.Effect
	// The cost is the merge's, in each of its rows.
	MergeCost      *float64 `json:"merge_cost"`
	MergeCostUnit  string   `json:"merge_cost_unit"`
	MergeCostBasis string   `json:"merge_cost_basis"`
}

// Unknown reports whether the value of a column is not known.
func (e apiEffect) Unknown(name string) bool {
	switch name {
	case "before":
		return e.Before == 0
	case "actual", "expected", "change", "low", "high", "p", "placebos":
		return e.Verdict == view.NotEnoughData
	}
	return false
}

// effectRows returns the effects of merges, the newest merge first.
func effectRows(_ context.Context, s *view.Snapshot, q question) (out []any, more bool, _ error) {
	for _, o := range s.Outcomes.Merges {
		o.Link = analytics.SafeLink(o.Link)
		cost, unit, basis := o.Cost.One()
		for _, e := range o.Effects {
			if (q.project == "" || o.Project == q.project) && len(out) < q.limit {
				out = append(out, apiEffect{o.Merge, o.Final, e, cost, unit, basis})
			}
		}
	}
	return out, false, nil
}

// encodeJSON writes the rows as objects, with their columns in order.
func encodeJSON(body *bytes.Buffer, name string, rows []any) error {
	fmt.Fprintf(body, "{%q:[", name)
	for i, row := range rows {
		separator := ",{"
		if i == 0 {
			separator = "{"
		}
		for _, c := range query.Columns(row) {
			fmt.Fprintf(body, "%s%q:", separator, c.Name)
			if err := encodeValue(body, c.Value); err != nil {
				return err
			}
			separator = ","
		}
		body.WriteByte('}')
	}
	body.WriteString("]}\n")
	return nil
}

func encodeValue(body *bytes.Buffer, v any) error {
	enc := json.NewEncoder(body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	body.Truncate(len(bytes.TrimRight(body.Bytes(), "\n")))
	return err
}
