package web

import (
	"bytes"
	"context"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
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
					w = apiWindow{key, r.State(), &r.Verified, &r.Number, &r.Totals, &r.Rows, &r.ExportedAt}
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

// apiPage is a row for a page of a window. The change is that of the audience that was asked for;
// the pages of the snapshot have none.
type apiPage struct {
	analytics.Key
	query.RankedPage
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
			visitors := r.Totals()
			out = append(out, apiPage{w.Key, query.RankedPage{Rank: i + 1, Path: r.Path, Visitors: &visitors}})
		}
	}
	return out, all
}

// apiHistory is a row for a window of a page, or of the site: then path is empty. A page that the
// rows of a window lack is absent, and has no numbers there.
type apiHistory struct {
	analytics.Key
	Path     string            `json:"path"`
	State    string            `json:"state"` // settled, provisional, missing
	Verified *bool             `json:"verified"`
	Revision *int32            `json:"revision"`
	Absent   bool              `json:"absent"`
	Visitors *analytics.Totals `json:"visitors" api:"inline"`
	AIShare  *float64          `json:"ai_share_percent"`
	Previous *analytics.Totals `json:"previous"`
	Change   *int64            `json:"change"`
	Percent  *float64          `json:"change_percent"`
}

// historyRows returns the windows of a history.
func historyRows(h query.HistoryReport) (out []any) {
	for _, w := range h.Windows {
		out = append(out, apiHistory{analytics.Key{Project: h.Project, Granularity: h.Granularity, Window: w.Window},
			h.Path, w.State, w.Verified, w.Revision, w.Absent, w.Visitors, w.AIShare, w.Previous, w.Change, w.Percent})
	}
	return out
}

// apiAgent is a row for an agent of the site, for a page of one, which has a path, or for a path that is
// not there: that has agents, in one text with their requests, in place of one agent.
type apiAgent struct {
	analytics.Key
	view.RankedAgent
	Agents  string `json:"agents"`
	Nearest string `json:"nearest"`
}

// unknown reports whether the value of a column is not known.
func (a apiAgent) unknown(name string) bool {
	switch name {
	case "agent", "class", "audience":
		return a.Agents != ""
	case "agents":
		return a.Agents == ""
	case "nearest":
		return a.Nearest == ""
	}
	return false
}

// agentRows returns the rows of a report of agents.
func agentRows(r query.AgentsReport) (out []any) {
	for _, p := range r.Agents {
		out = append(out, apiAgent{Key: r.Key, RankedAgent: p})
	}
	for _, m := range r.Misses {
		miss := view.RankedAgent{Rank: m.Rank, Path: m.Path, AgentNumbers: m.AgentNumbers, AgentChange: m.AgentChange}
		out = append(out, apiAgent{r.Key, miss, m.AgentsText(), m.Nearest()})
	}
	return out
}

// apiAgentHistory is a row for a window of an agent on the site, or on a page: then it has a path.
type apiAgentHistory struct {
	analytics.Key
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Path     string             `json:"path"`
	State    string             `json:"state"` // settled, provisional, missing
	Verified *bool              `json:"verified"`
	Revision *int32             `json:"revision"`
	Absent   bool               `json:"absent"`
	Visitors *int64             `json:"visitors"`
	Requests *int64             `json:"requests"`
	view.AgentChange
}

// agentHistoryRows returns the windows of a history.
func agentHistoryRows(h query.AgentHistory) (out []any) {
	for _, w := range h.Windows {
		out = append(out, apiAgentHistory{
			analytics.Key{Project: h.Project, Granularity: h.Granularity, Window: w.Window}, h.Agent, h.Class, h.Audience,
			h.Path, w.State, w.Verified, w.Revision, w.Absent, w.Visitors, w.Requests, w.AgentChange})
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
	// The cost is that of the merge, in each of its rows.
	MergeCost      *float64 `json:"merge_cost"`
	MergeCostUnit  string   `json:"merge_cost_unit"`
	MergeCostBasis string   `json:"merge_cost_basis"`
}

// unknown reports whether the value of a column is not known.
func (e apiEffect) unknown(name string) bool {
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

// column is a column of a row: the JSON name of a field and its value, which is nil if it is not known.
type column struct {
	name  string
	value any
}

// columns returns the columns of a struct. Embedded structs are part of it, as are those with the tag
// api:"inline"; a column of another nested one is named after both, as in pr_state. A zero time is not known,
// nor is a number of a struct that is not there, nor what a method of the row says. Fields with the tag
// api:"-" are left out.
func columns(row reflect.Value) (out []column) {
	says, _ := row.Interface().(interface{ unknown(name string) bool })
	for _, field := range reflect.VisibleFields(row.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || field.Tag.Get("api") == "-" {
			continue
		}
		v, known := row.FieldByIndex(field.Index), says == nil || !says.unknown(name)
		if v.Kind() == reflect.Pointer {
			if known = !v.IsNil(); known {
				v = v.Elem()
			} else {
				v = reflect.Zero(field.Type.Elem())
			}
		}
		at, isTime := v.Interface().(time.Time)
		switch {
		case v.Kind() == reflect.Struct && !isTime:
			for _, c := range columns(v) {
				if _, text := c.value.(string); !known && !text {
					c.value = nil
				}
				if field.Tag.Get("api") != "inline" {
					c.name = name + "_" + c.name
				}
				out = append(out, c)
			}
		case !known, isTime && at.IsZero():
			out = append(out, column{name, nil})
		case isTime:
			out = append(out, column{name, at.UTC()})
		default:
			out = append(out, column{name, v.Interface()})
		}
	}
	return out
}

// encodeJSON writes the rows as objects, with their columns in order.
func encodeJSON(body *bytes.Buffer, name string, rows []any) error {
	fmt.Fprintf(body, "{%q:[", name)
	for i, row := range rows {
		separator := ",{"
		if i == 0 {
			separator = "{"
		}
		for _, c := range columns(reflect.ValueOf(row)) {
			fmt.Fprintf(body, "%s%q:", separator, c.name)
			if err := encodeValue(body, c.value); err != nil {
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

// encodeCSV writes rows as RFC 4180 has it, with the line ends of Unix, below the names of the
// columns of empty, a row. It changes no value: a path that a spreadsheet would take for a
// formula is left alone.
func encodeCSV(w io.Writer, empty any, rows []any) error {
	table := [][]string{{}}
	for _, c := range columns(reflect.ValueOf(empty)) {
		table[0] = append(table[0], c.name)
	}
	for _, row := range rows {
		var cells []string
		for _, c := range columns(reflect.ValueOf(row)) {
			text := ""
			switch v := c.value.(type) {
			case nil:
			case encoding.TextMarshaler:
				b, err := v.MarshalText()
				if err != nil {
					return err
				}
				text = string(b)
			default:
				text = fmt.Sprint(v)
			}
			cells = append(cells, text)
		}
		table = append(table, cells)
	}
	return csv.NewWriter(w).WriteAll(table)
}
