package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// report is everything that is printed.
type report struct {
	Machine machine  `json:"machine"`
	Results []result `json:"results"`
	// Loads are those into ClickHouse.
	Loads []loadResult `json:"loads,omitempty"`
	// Scrapes are of /metrics.
	Scrapes []scrapeResult `json:"scrapes,omitempty"`
	Aims    []aim          `json:"aims"`
}

func (r report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r report) writeMarkdown(w io.Writer) error {
	results := table("scenario", "windows × rows", "latency", "client", "in flight", "seconds", "rows/s", "windows/s", "CPU s/Mrow", "peak RSS", "requests", "ratio", "× plain")
	for _, res := range r.Results {
		results.add(res.cells()...)
	}
	loads := table("server", "rows", "windows × rows", "client", "seconds", "rows/s", "windows/s", "CPU s/Mrow", "peak RSS", "× bare")
	for _, res := range r.Loads {
		loads.add(res.cells()...)
	}
	scrapes := table("scrape", "format", "in flight", "scrapes", "median", "p99", "allocations", "allocated", "bytes sent")
	for _, res := range r.Scrapes {
		scrapes.add(res.cells()...)
	}
	reached := table("aim", "measured", "met")
	for _, a := range r.Aims {
		reached.add(a.Aim, a.Measured, map[bool]string{true: "yes", false: "no"}[a.Met])
	}
	parts := []string{r.Machine.String() + "\n"}
	for _, lines := range []lines{results, loads, scrapes, reached} {
		if len(lines) > 1 {
			parts = append(parts, markdown(lines))
		}
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// lines are those of a table; the first is its head.
type lines [][]string

func table(head ...string) lines { return lines{head} }

func (l *lines) add(cells ...string) { *l = append(*l, cells) }

func (r result) cells() []string {
	load := workload{Windows: r.Windows, Rows: r.WindowRows}
	times := "-"
	if r.TimesPlain > 0 {
		times = fmt.Sprintf("%.2f", r.TimesPlain)
	}
	return []string{
		r.Scenario, load.String(), fmt.Sprintf("%d ms", r.LatencyMillis), r.Client, fmt.Sprint(r.InFlight),
		fmt.Sprintf("%.2f", r.Seconds), commas(int64(r.RowsPerSecond)), fmt.Sprintf("%.1f", r.WindowsPerSecond),
		r.cpuCell(), fmt.Sprintf("%.0f MiB", mebibytes(r.MaxRSS)), commas(r.Requests), fmt.Sprintf("%.2f", r.RequestRatio), times,
	}
}

func (r loadResult) cells() []string {
	windows := workload{Windows: r.Rows / r.WindowRows, Rows: r.WindowRows}
	return []string{
		r.Server, commas(int64(r.Rows)), windows.String(), r.Client, fmt.Sprintf("%.2f", r.Seconds),
		commas(int64(r.RowsPerSecond)), fmt.Sprintf("%.1f", r.WindowsPerSecond),
		fmt.Sprintf("%.2f", r.CPUSeconds/(float64(r.Rows)/1e6)), fmt.Sprintf("%.0f MiB", mebibytes(r.MaxRSS)), fmt.Sprintf("%.2f", r.TimesBare),
	}
}

// cpuCell leaves out what a few rows say little about.
func (r result) cpuCell() string {
	if r.Windows*r.WindowRows < 10_000 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.CPUPerMillion)
}

// markdown renders a table whose first line is its head, columns aligned.
func markdown(lines lines) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			b.WriteString("|" + strings.Repeat("-", width+2))
		}
		b.WriteString("|\n")
	}
	return b.String()
}
