package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// lookEvery is between two looks at serve's metrics.
const lookEvery = 200 * time.Millisecond

// done is what serve shows when it has done everything once: the sums of
// counters, by the beginning of their lines.
var done = []string{
	`docgauge_export_runs_total{outcome="success"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_api",result="pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="no_pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="failed"}`,
}

// Await returns when serve has exported, and agent jobs have ended with a pull
// request, without one, and as failed; or when serve has ended or ctx has, with
// an error that says what is lacking.
func (s *Stack) Await(ctx context.Context) error { return s.await(ctx, s.lacking) }

// await returns when nothing is lacking any more.
func (s *Stack) await(ctx context.Context, lacking func(context.Context) string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		what := lacking(ctx)
		if what == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.serve.Ended():
			return fmt.Errorf("serve ended:\n%s", s.serve.Tail())
		case <-ctx.Done():
			return fmt.Errorf("still waiting for %s: %w\n%s", what, ctx.Err(), s.serve.Tail())
		}
	}
}

// lacking names the first of done that serve does not show yet.
func (s *Stack) lacking(ctx context.Context) string {
	text, err := get(ctx, s.URL+"/metrics")
	if err != nil {
		return err.Error()
	}
	for _, name := range done {
		value := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
		if value == nil {
			return name
		}
		if n, err := strconv.ParseFloat(value[1], 64); err != nil || n < 1 {
			return name
		}
	}
	return ""
}

// client waits for a page longer than a busy machine takes.
var client = &http.Client{Timeout: time.Minute}

// get reads a page; an answer other than 200 is an error.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, response.Status, strings.TrimSpace(string(text)))
	}
	return string(text), err
}
