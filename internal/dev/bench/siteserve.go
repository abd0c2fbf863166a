package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
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
	apiPort, apiErr := engines.Port()
	metricsPort, metricsErr := engines.Port()
	if err := errors.Join(apiErr, metricsErr); err != nil {
		return r, err
	}
	api, metrics := "127.0.0.1:"+strconv.Itoa(apiPort), "127.0.0.1:"+strconv.Itoa(metricsPort)
	site := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, l.binaries[docgaugeClient], append([]string{"site"}, args...)...)
		cmd.Env = append(cleanEnv(), "DOCGAUGE_SITE_DIR="+dir, "DOCGAUGE_SITE_LOGS="+cmp.Or(log.Path, "-"),
			"DOCGAUGE_SITE_LISTEN_ADDRESS="+api, "DOCGAUGE_SITE_METRICS_ADDRESS="+metrics)
		return cmd
	}
	serve := site("serve")
	made, err := pipeLog(ctx, serve, log)
	if err != nil {
		return r, err
	}
	var said bytes.Buffer
	serve.Stderr = &said
	began := time.Now()
	if err := serve.Start(); err != nil {
		return r, err
	}
	views, err := awaitLines("http://"+metrics+"/metrics", began, int64(log.Lines))
	r.cost.seconds = time.Since(began).Seconds()
	counts, asked := siteCounts(nil), error(nil)
	if err == nil {
		key, keyErr := site("keys", "add", "--project", "prj_site", "--scope", "read").Output()
		counts, r.served.cold, asked = l.askSite("http://"+api, strings.TrimSpace(string(key)))
		if err = errors.Join(keyErr, asked); err == nil {
			_, r.served.kept, err = l.askSite("http://"+api, strings.TrimSpace(string(key)))
		}
	}
	if err = errors.Join(err, serve.Process.Signal(os.Interrupt), serve.Wait(), made()); err != nil {
		return r, fmt.Errorf("%w: %s", err, said.Bytes())
	}
	r.cost = usedBy(serve, r.cost.seconds)
	r.readers = counts.readers()
	size, err := sizeOf(filepath.Join(dir, "facts"))
	r.served.bytesPerView = float64(size) / float64(views)
	r.served.share = float64(size) / float64(9*views+130*r.readers)
	fmt.Fprintf(l.log, "%s, %d lines, site serve: %.2f s, %.2f CPU s, %s\n", log.Format, log.Lines, r.cost.seconds,
		r.cost.cpuSeconds, mebibytes(r.cost.maxRSS))
	if err == nil && want != nil && !slices.Equal(counts, want) {
		err = fmt.Errorf("site serve: %d rows that are not those of site count, %d", len(counts), len(want))
	}
	return r, err
}

var lineCounter = regexp.MustCompile(`(?m)^docgauge_site_lines_total\{result="([a-z]+)".*\} (\S+)$`)

// awaitLines waits until a site has counted this number of log lines, and returns the number of views among them.
func awaitLines(metrics string, began time.Time, lines int64) (views int64, err error) {
	for all := int64(0); all < lines; {
		time.Sleep(20 * time.Millisecond) // a scrape is work for the process that is measured
		text, err := get(metrics, "")
		if all == 0 && err != nil && time.Since(began) < time.Minute {
			continue // it does not listen yet
		}
		if err != nil {
			return 0, err
		}
		all = 0
		for _, m := range lineCounter.FindAllSubmatch(text, -1) {
			n, err := strconv.ParseFloat(string(m[2]), 64)
			if err != nil {
				return 0, err
			}
			if all += int64(n); string(m[1]) == "view" {
				views = int64(n)
			}
		}
	}
	return views, nil
}

// sizeOf adds up the sizes of the files in a directory.
func sizeOf(dir string) (size int64, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		info, statErr := f.Info()
		if err = errors.Join(err, statErr); statErr == nil {
			size += info.Size()
		}
	}
	return size, err
}

// askSite asks for all pages of the month of every log of the bench, and says how long that took.
func (l *lab) askSite(api, key string) (counts siteCounts, ms float64, err error) {
	began := time.Now()
	err = readPages(api, "prj_site", key, siteMonth, siteMonth.Add(monthLong), func(p page) error {
		if counts == nil {
			p.Totals.Path = "*"
			counts = siteCounts{p.Totals.count()}
		}
		for _, v := range p.Visitors {
			counts = append(counts, v.count())
		}
		return nil
	})
	ms = time.Since(began).Seconds() * 1000
	slices.Sort(counts)
	return counts, ms, err
}
