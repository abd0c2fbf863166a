package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

const (
	exportTable = "export"
	loadTable   = "load"
	siteTable   = "site"
	serveTable  = "site serve"
	peersTable  = "peers"
)

// tables are the heads of all tables, in the order of the report. The first column is the scenario; the others are
// what text knows, or values of the result.
var tables = []struct{ name, head string }{
	{exportTable, "scenario|windows × rows|latency|client|in flight|seconds|rows/s|windows/s|CPU s/Mrow|peak RSS|" +
		"requests|ratio|× plain|× go-parquet|× before"},
	{loadTable, "sink|windows × rows|client|seconds|rows/s|windows/s|CPU s/Mrow|peak RSS|log entries|× first|× before"},
	{siteTable, "log|lines|counter|seconds|CPU s|lines per CPU s|peak RSS|readers"},
	{serveTable, "log, kept by site serve|lines|readers|seconds|lines/s|CPU s|lines per CPU s|peak RSS|bytes a view|" +
		"all pages of the month|again"},
	{peersTable, "tool|1,000 × 10, 0 ms: s|5 × 100,000, 0 ms: s|1 × 25,000, 50 ms: s|peak RSS|requests|" +
		"killed in 40 × 2,500: repeated|missing|doubled|guarantees"},
}

// formats are the formats of values that are no whole numbers.
var formats = map[string]string{
	"latency": "%.0f ms", "seconds": "%.2f", "windows/s": "%.1f", "CPU s/Mrow": "%.2f", "CPU s": "%.2f",
	"peak RSS": "%.0f MiB", "ratio": "%.2f", "× plain": "%.2f", "× go-parquet": "%.2f", "× before": "%.2f",
	"× first": "%.2f", "bytes a view": "%.1f",
	"all pages of the month": "%.0f ms", "again": "%.0f ms",
	"1,000 × 10, 0 ms: s": "%.2f", "5 × 100,000, 0 ms: s": "%.2f", "1 × 25,000, 50 ms: s": "%.2f",
}

// text is the cell of a result below a head.
func (r result) text(head string) string {
	value, ok := r.values[head]
	switch format := formats[head]; {
	case format != "" && ok:
		return fmt.Sprintf(format, value)
	case ok:
		return humanize.Comma(int64(value))
	case head == "windows × rows":
		return r.work.String()
	case head == "client", head == "counter":
		return r.client.label()
	case head == "guarantees":
		return peerTools[r.client.name].guarantees
	}
	return "-" // not measured
}

// rowOf has | between cells.
func rowOf(r result) string {
	row := r.scenario
	for _, t := range tables {
		if t.name == r.table {
			for _, head := range strings.Split(t.head, "|")[1:] {
				row += "|" + r.text(head)
			}
		}
	}
	return row
}

// report renders the tables that have results.
func report(all []result) (text string) {
	for _, t := range tables {
		var rows []string
		for _, r := range all {
			if r.table == t.name {
				rows = append(rows, rowOf(r))
			}
		}
		text += markdown(t.head, rows)
	}
	return text
}

// markdown renders a table after an empty line, or nothing without rows.
func markdown(head string, rows []string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	rule := strings.Repeat("---|", strings.Count(head, "|")) + "---"
	for _, line := range append([]string{head, rule}, rows...) {
		fmt.Fprintln(w, "| "+strings.ReplaceAll(line, "|", "\t| ")+"\t|")
	}
	_ = w.Flush() // to a string
	return "\n" + b.String()
}
