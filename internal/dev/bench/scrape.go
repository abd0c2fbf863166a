package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// scrapeScenarios is what -only calls the scrapes.
const scrapeScenarios = "scrape"

// scraping is one way to scrape, often.
type scraping struct {
	name           string
	format, accept string
	encoding       string
	inFlight       int
	scrapes        int
	// fresh publishes a new snapshot before each scrape.
	fresh bool
}

// The formats that are asked for.
const (
	openMetrics   = "application/openmetrics-text;version=1.0.0"
	classicText   = "text/plain;version=0.0.4"
	protobufDelim = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// The names of the ways to scrape.
const (
	steadyScrape   = "same snapshot"
	freshScrape    = "new snapshot each"
	parallelScrape = "in parallel"
)

func scrapings(short bool) []scraping {
	all := []scraping{
		{steadyScrape, "OpenMetrics", openMetrics, "gzip", 1, 1000, false},
		{steadyScrape, "protobuf", protobufDelim, "gzip", 1, 1000, false},
		{steadyScrape, "text", classicText, "identity", 1, 1000, false},
		{parallelScrape, "OpenMetrics", openMetrics, "gzip", 40, 2000, false},
		{freshScrape, "OpenMetrics", openMetrics, "gzip", 1, 100, true},
	}
	if short {
		for i := range all {
			all[i].scrapes /= 50
		}
	}
	return all
}

// scrapeResult is one line of the table of scrapes.
type scrapeResult struct {
	Scenario     string  `json:"scenario"`
	Format       string  `json:"format"`
	Encoding     string  `json:"encoding"`
	InFlight     int     `json:"in_flight"`
	Scrapes      int     `json:"scrapes"`
	MedianMillis float64 `json:"median_ms"`
	P99Millis    float64 `json:"p99_ms"`
	// Allocations and AllocatedBytes are of the serving process, for each scrape.
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocated_bytes"`
	// AnswerBytes is the size of the last answer as it was sent.
	AnswerBytes int64 `json:"answer_bytes"`
}

// scrapeAll starts the process that is scraped, scrapes it in every way, and stops it.
func scrapeAll(ctx context.Context, ways []scraping, done func(scrapeResult)) (all []scrapeResult, err error) {
	base, stop, err := startChild(ctx, metricsRole)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, way := range ways {
		r, err := way.run(ctx, base)
		if err != nil {
			return all, fmt.Errorf("scrape: %w", err)
		}
		done(r)
		all = append(all, r)
	}
	return all, nil
}

// run scrapes; each scraper keeps its connection, as Prometheus does.
func (s scraping) run(ctx context.Context, base string) (scrapeResult, error) {
	if _, _, err := s.scrape(ctx, http.DefaultClient, base); err != nil {
		return scrapeResult{}, err
	}
	before, err := readAllocated(base)
	if err != nil {
		return scrapeResult{}, err
	}
	took, size, err := s.scrapeOften(ctx, base)
	if err != nil {
		return scrapeResult{}, err
	}
	after, err := readAllocated(base)
	slices.Sort(took)
	n := float64(len(took))
	return scrapeResult{
		Scenario: s.name, Format: s.format, Encoding: s.encoding, InFlight: s.inFlight, Scrapes: len(took),
		MedianMillis: milliseconds(took[len(took)/2]), P99Millis: milliseconds(took[len(took)*99/100]),
		Allocations: float64(after.Objects-before.Objects) / n, AllocatedBytes: float64(after.Bytes-before.Bytes) / n,
		AnswerBytes: size,
	}, err
}

// scrapeOften returns how long each scrape took and how large the last answer was.
func (s scraping) scrapeOften(ctx context.Context, base string) (took []time.Duration, size int64, err error) {
	var mu sync.Mutex
	var scrapers sync.WaitGroup
	for range s.inFlight {
		scrapers.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			for range s.scrapes / s.inFlight {
				d, n, scrapeErr := s.scrape(ctx, client, base)
				mu.Lock()
				took, size, err = append(took, d), n, errors.Join(err, scrapeErr)
				mu.Unlock()
				if scrapeErr != nil {
					return
				}
			}
		})
	}
	scrapers.Wait()
	return took, size, err
}

// scrape is timed from before the request to the last byte of the answer.
func (s scraping) scrape(ctx context.Context, client *http.Client, base string) (time.Duration, int64, error) {
	if s.fresh {
		if err := ask(ctx, client, http.MethodPost, base+"/publish", nil, func(io.Reader) error { return nil }); err != nil {
			return 0, 0, err
		}
	}
	header := http.Header{"Accept": {s.accept}, "Accept-Encoding": {s.encoding}}
	var size int64
	start := time.Now()
	err := ask(ctx, client, http.MethodGet, base+"/metrics", header, func(body io.Reader) (err error) {
		size, err = io.Copy(io.Discard, body)
		return err
	})
	return time.Since(start), size, err
}

// ask sends a request and lets read have the body of a good answer.
func ask(ctx context.Context, client *http.Client, method, url string, header http.Header, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	request.Header = header
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return read(answer.Body)
}

func readAllocated(base string) (a allocated, err error) {
	err = ask(context.Background(), http.DefaultClient, http.MethodGet, base+"/allocated", nil, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&a)
	})
	return a, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func (r scrapeResult) cells() []string {
	return []string{
		r.Scenario, strings.ToLower(r.Encoding + " " + r.Format), fmt.Sprint(r.InFlight), commas(int64(r.Scrapes)),
		fmt.Sprintf("%.2f ms", r.MedianMillis), fmt.Sprintf("%.2f ms", r.P99Millis),
		commas(int64(r.Allocations)), fmt.Sprintf("%.0f KiB", r.AllocatedBytes/1024), commas(r.AnswerBytes),
	}
}

// scrapeAims judges the scrapes.
func scrapeAims(rs []scrapeResult) []aim {
	var out []aim
	for _, want := range []struct {
		scenario, aim string
		under         float64
	}{
		{steadyScrape, "a scrape of 10 projects × 4 windows × 50 pages under 10 ms at the median", 10},
		{freshScrape, "the first scrape of a snapshot, 10,000 windows in the ledger, under 50 ms at the median", 50},
	} {
		slowest := 0.0
		for _, r := range rs {
			if r.Scenario == want.scenario {
				slowest = max(slowest, r.MedianMillis)
			}
		}
		if slowest > 0 {
			out = append(out, aim{want.aim, fmt.Sprintf("%.2f ms", slowest), slowest < want.under})
		}
	}
	return out
}
