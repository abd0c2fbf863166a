package logs_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/logs"
)

var (
	hostRow   = regexp.MustCompile(`(?m)^\| \[([^]]+)\]\(#([^)]+)\) \| (.*) \|$`)
	hostBlock = regexp.MustCompile("<!-- logs: (.*) -->\n```sh\n((?:.*\n)*?)```")
	setting   = regexp.MustCompile(`^export (DOCGAUGE_SITE_\w+)='([^']*)'$`)
)

// TestHosts: each host of docs/site-hosts.md that has a log has settings, and with them its log counts as its requests
// do: readers, pages and days.
func TestHosts(t *testing.T) {
	page, err := os.ReadFile("../../../docs/site-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sections, _ := strings.Cut(string(page), "\n## Settings\n")
	rows := hostRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 19 {
		t.Errorf("%d hosts", len(rows))
	}
	for _, row := range rows {
		name, cells := row[1], strings.Split(row[3], " | ")
		var section string
		for _, s := range strings.Split(sections, "\n### ")[1:] {
			title, text, _ := strings.Cut(s, "\n")
			anchor := strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ".", "")), " ", "-")
			if anchor == row[2] {
				section = text
			}
		}
		block := hostBlock.FindStringSubmatch(section)
		if hasLog := cells[0] != "none"; section == "" || hasLog != (block != nil) {
			t.Errorf("%s: want a section, with settings if it has a log", name)
			continue
		}
		if block == nil {
			continue
		}
		values := map[string]string{}
		for line := range strings.Lines(block[2]) {
			m := setting.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.Fatalf("%s: %s", name, line)
			}
			values[m[1]] = m[2]
		}
		if sources, err := logs.ParseSources(values["DOCGAUGE_SITE_LOGS"]); err != nil || len(sources) != 1 {
			t.Errorf("%s: %v, %v", name, sources, err)
		}
		hasHeaders := false
		for format := range strings.SplitSeq(block[1], "; ") {
			t.Run(name+"/"+format, func(t *testing.T) {
				hasHeaders = countHost(t, format, values) || hasHeaders
			})
		}
		if says := strings.Contains(cells[1], "headers"); says != hasHeaders {
			t.Errorf("%s: the page says that its log can have headers: %t", name, says)
		}
	}
}

// countHost counts the log of a format with the settings of a host, and reports whether it has evidence of browsers: it
// has no assets, but Sec-Fetch-Mode where the format does.
func countHost(t *testing.T, format string, values map[string]string) bool {
	text, saysHost := logs.TextOf(t, format)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := count.Settings{LogFormat: cmp.Or(values["DOCGAUGE_SITE_LOG_FORMAT"], "auto"),
		LogProxies: values["DOCGAUGE_SITE_LOG_PROXIES"]}
	if saysHost {
		s.Projects = "prj_docs=docs.example.com,prj_other=other.example.com"
	}
	rules, err := count.ParseRules(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	o := count.Options{Now: analytics.DateOf(time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)), ByDay: true}
	if saysHost {
		o.Project = "prj_docs"
	}
	report, err := rules.Count(t.Context(), []string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	row := func(name string, human, ai, total int64) string {
		return fmt.Sprint(name, " ", human, " ", ai, " ", total)
	}
	got := []string{row("site", report.Totals.Human, report.Totals.AI, report.Totals.Total)}
	for _, p := range report.Pages {
		got = append(got, row(p.Path, p.Human, p.AI, p.Total))
	}
	for _, d := range report.Days {
		got = append(got, row(d.Day.String(), d.Human, d.AI, d.Total))
	}
	slices.Sort(got)
	if diff := gocmp.Diff(wantHost(), got); diff != "" {
		t.Error(diff)
	}
	for _, text := range report.Warnings {
		if !strings.Contains(text, "no Sec-Fetch-Mode") {
			t.Error(text)
		}
	}
	if report.LeftOut[count.Unparsed]+report.LeftOut[count.Client] > 0 {
		t.Errorf("left out %v", report.LeftOut)
	}
	return report.People.Logged.FetchMode
}

// wantHost are the readers of the site, each page and each day: sets of clients with their browsers.
func wantHost() (want []string) {
	sets := map[string][2]map[string]bool{}
	for _, h := range logs.Hits() {
		kind := slices.IndexFunc([]string{"Firefox", "Claude-User"}, func(name string) bool { return strings.Contains(h.Agent, name) })
		if kind < 0 || h.Status == 404 {
			continue
		}
		path, _, _ := strings.Cut(h.Path, "?")
		for _, name := range []string{"site", path, h.At.Format(time.DateOnly)} {
			if sets[name][0] == nil {
				sets[name] = [2]map[string]bool{{}, {}}
			}
			sets[name][kind][h.Client+" "+h.Agent] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		human, ai := len(sets[name][0]), len(sets[name][1])
		want = append(want, fmt.Sprint(name, " ", human, " ", ai, " ", human+ai))
	}
	slices.Sort(want)
	return want
}
