package query

import (
	"encoding"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

// PageRow is a row for a page of a window. The change is the change of the requested audience.
type PageRow struct {
	analytics.Key
	RankedPage
}

// Table has the listed pages, each a [PageRow].
func (r TopReport) Table() (out []any) {
	for _, p := range r.Pages {
		out = append(out, PageRow{r.Key, p})
	}
	return out
}

// AgentRow is a row for an agent of the site, for a page of one, which has a path, or for a path that is
// not there: that has agents, in one text with their requests, in place of one agent.
type AgentRow struct {
	analytics.Key
	view.RankedAgent
	Agents   string            `json:"agents"`
	Nearest  string            `json:"nearest"`
	Redirect *journal.Redirect `json:"redirect"`
}

// Unknown reports whether the value of a column is not known.
func (a AgentRow) Unknown(column string) bool {
	switch column {
	case "agent", "class", "audience":
		return a.Agents != ""
	case "agents":
		return a.Agents == ""
	case "nearest":
		return a.Nearest == ""
	}
	return false
}

// Table has the agents, pages or misses, each an [AgentRow].
func (r AgentsReport) Table() (out []any) {
	for _, p := range r.Agents {
		out = append(out, AgentRow{Key: r.Key, RankedAgent: p})
	}
	for _, m := range r.Misses {
		miss := view.RankedAgent{Rank: m.Rank, Path: m.Path, AgentNumbers: m.AgentNumbers, AgentChange: m.AgentChange}
		out = append(out, AgentRow{r.Key, miss, m.AgentsText(), m.Nearest(), m.Redirect})
	}
	return out
}

// AgentHistoryRow is a row for a window of an agent on the site, or on a page: then it has a path.
type AgentHistoryRow struct {
	analytics.Key
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Path     string             `json:"path"`
	AgentHistoryNumbers
}

// Table has the windows, each an [AgentHistoryRow].
func (h AgentHistory) Table() (out []any) {
	for _, w := range h.Windows {
		out = append(out, AgentHistoryRow{
			analytics.Key{Project: h.Project, Granularity: h.Granularity, Window: w.Window}, h.Agent, h.Class, h.Audience,
			h.Path, w.AgentHistoryNumbers})
	}
	return out
}

// Column is a column of a row: the JSON name of a field and its value, which is nil if it is not known.
type Column struct {
	Name  string
	Value any
}

// partlyKnown is a row that says itself which of its columns are unknown, whatever their values.
type partlyKnown interface{ Unknown(column string) bool }

// Columns returns the columns of a struct. Embedded structs are part of it, as are those with the tag
// api:"inline"; a column of another nested one is named after both, as in pr_state. A zero time is not known,
// nor is a number of a struct that is not there, nor what [partlyKnown] says. Fields with the
// tag api:"-" are left out.
func Columns(row any) (out []Column) {
	if own, ok := row.(interface{ Columns() []Column }); ok {
		return own.Columns()
	}
	says, _ := row.(partlyKnown)
	value := reflect.ValueOf(row)
	for _, field := range reflect.VisibleFields(value.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || field.Tag.Get("api") == "-" {
			continue
		}
		v, known := value.FieldByIndex(field.Index), says == nil || !says.Unknown(name)
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
			for _, c := range Columns(v.Interface()) {
				if _, text := c.Value.(string); !known && !text {
					c.Value = nil
				}
				if field.Tag.Get("api") != "inline" {
					c.Name = name + "_" + c.Name
				}
				out = append(out, c)
			}
		case !known, isTime && at.IsZero():
			out = append(out, Column{name, nil})
		case isTime:
			out = append(out, Column{name, at.UTC()})
		default:
			out = append(out, Column{name, v.Interface()})
		}
	}
	return out
}

// WriteCSV writes rows as RFC 4180 has it, with the line ends of Unix, below the names of the columns of
// empty, a row. It changes no value: a path that a spreadsheet would take for a formula is left alone.
func WriteCSV(w io.Writer, empty any, rows []any) error {
	names, table := []string{}, csv.NewWriter(w)
	for _, c := range Columns(empty) {
		names = append(names, c.Name)
	}
	if err := table.Write(names); err != nil {
		return err
	}
	cells := slices.Clone(names)
	for _, row := range rows {
		for i, c := range Columns(row) {
			switch v := c.Value.(type) {
			case nil:
				cells[i] = ""
			case encoding.TextMarshaler:
				text, err := v.MarshalText()
				if err != nil {
					return err
				}
				cells[i] = string(text)
			default:
				cells[i] = fmt.Sprint(v)
			}
		}
		if err := table.Write(cells); err != nil {
			return err
		}
	}
	table.Flush()
	return table.Error()
}
