package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// served is what a site's own service needs, beside time and memory until a log was kept.
type served struct {
	bytesPerView float64 // on disk
	share        float64 // of 9 bytes a view and 130 bytes a reader
	cold, kept   float64 // ms for all pages of the month, when first asked for and later
}

// serveSite lets docgauge site serve keep a log, of a file or of its standard input, and asks for all
// pages of its month. Its counts must be those wanted, unless there are none.
func (l *lab) serveSite(ctx context.Context, log siteLog, want siteCounts) (r result, err error) {
	r = result{table: serveTable, scenario: log.Format, client: client{name: docgaugeClient},
		work: workload{1, log.Lines, 0}}
	dir, err := l.newDir()
	if err != nil {
		return r, err
	}
	source := log.Path
	if source == "" {
		source = "-"
	}
	env := append(cleanEnv(), "DOCGAUGE_SITE_DIR="+dir, "DOCGAUGE_SITE_LOGS="+source,
		"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0")
	cmd := exec.CommandContext(ctx, l.binaries[docgaugeClient], "site", "serve")
	cmd.Env = env
	if log.Path == "" {
		maker, err := child(ctx, siteLogRole, order{Log: log})
		if err != nil {
			return r, err
		}
		if cmd.Stdin, err = maker.StdoutPipe(); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, maker.Wait()) }()
		if err := maker.Start(); err != nil {
			return r, err
		}
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	stop := func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) }
	s, err := askSite(said, filepath.Join(dir, "facts"), log)
	r.cost.seconds = s.durable.Sub(began).Seconds()
	if err == nil {
		err = s.addKey(exec.CommandContext(ctx, l.binaries[docgaugeClient], "site", "keys", "add", "--project",
			"prj_site",
			"--scope", "read"), env)
	}
	var counts siteCounts
	if err == nil {
		counts, r.served.cold, err = s.pages()
	}
	if err == nil {
		_, r.served.kept, err = s.pages()
	}
	if err = errors.Join(err, stop()); err != nil {
		return r, err
	}
	r.cost = usedBy(cmd, r.cost.seconds)
	r.served.bytesPerView = float64(s.bytes) / float64(s.views)
	r.readers = s.readers
	r.served.share = float64(s.bytes) / float64(9*s.views+130*s.readers)
	fmt.Fprintf(l.log, "%s, %d lines, site serve: %.2f s, %.2f CPU s, %s\n", log.Format, log.Lines, r.cost.seconds,
		r.cost.cpuSeconds, mebibytes(r.cost.maxRSS))
	if want != nil && !slices.Equal(counts, want) {
		return r, fmt.Errorf("site serve: %d rows that are not those of site count, %d", len(counts), len(want))
	}
	return r, nil
}

// askedSite is a site that has kept a log.
type askedSite struct {
	api, key              string
	durable               time.Time
	views, readers, bytes int64
}

var urls = regexp.MustCompile(`(API|metrics) at (http://[^ /]+)`)

// askSite waits until a site has kept every line of a log.
func askSite(said io.Reader, facts string, log siteLog) (s *askedSite, err error) {
	s = &askedSite{}
	lines := bufio.NewScanner(said)
	metrics := ""
	for metrics == "" && lines.Scan() {
		switch m := urls.FindStringSubmatch(lines.Text()); {
		case m != nil && m[1] == "API":
			s.api = m[2]
		case m != nil:
			metrics = m[2]
		}
	}
	if metrics == "" {
		return s, errors.New("site serve did not begin")
	}
	go io.Copy(io.Discard, said) //nolint:errcheck // until the process ends
	counters := regexp.MustCompile(`(?m)^docgauge_site_lines_total\{result="([a-z]+)".*\} (\S+)$`)
	for all := int64(0); all < int64(log.Lines); {
		text, err := get(metrics+"/metrics", "")
		if err != nil {
			return s, err
		}
		all = 0
		for _, m := range counters.FindAllStringSubmatch(string(text), -1) {
			n, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return s, err
			}
			if all += int64(n); m[1] == "view" {
				s.views = int64(n)
			}
		}
		s.durable = time.Now()
		time.Sleep(20 * time.Millisecond) // a scrape is work for the process that is measured
	}
	files, err := os.ReadDir(facts)
	for _, f := range files {
		info, statErr := f.Info()
		if err = errors.Join(err, statErr); statErr == nil {
			s.bytes += info.Size()
		}
	}
	return s, err
}

func (s *askedSite) addKey(cmd *exec.Cmd, env []string) error {
	cmd.Env = env
	key, err := cmd.Output()
	s.key = strings.TrimSpace(string(key))
	return err
}

// pages asks for all pages of the month of every log of the bench, and says how long that took.
func (s *askedSite) pages() (counts siteCounts, ms float64, err error) {
	began := time.Now()
	for offset, more := 0, true; more; {
		text, err := get(fmt.Sprintf("%s/v1/analytics/prj_site/visitors?dateFrom=%s&dateTo=%s&limit=250&offset=%d", s.api,
			siteMonth.Format(time.DateOnly), siteMonth.Add(monthLong).Format(time.DateOnly), offset), s.key)
		if err != nil {
			return nil, 0, err
		}
		type row struct {
			Path             string
			Human, AI, Total int64
		}
		var page struct {
			Totals   row
			Visitors []row
			HasMore  bool
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, 0, err
		}
		if offset == 0 {
			s.readers = page.Totals.Total
			counts = append(counts, fmt.Sprintf("* %d %d %d", page.Totals.Human, page.Totals.AI, page.Totals.Total))
		}
		for _, v := range page.Visitors {
			counts = append(counts, fmt.Sprintf("%s %d %d %d", v.Path, v.Human, v.AI, v.Total))
		}
		more = page.HasMore
		offset += len(page.Visitors)
	}
	ms = time.Since(began).Seconds() * 1000
	slices.Sort(counts)
	return counts, ms, nil
}

func get(url, key string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s: %.200s", url, resp.Status, text))
	}
	return text, err
}
