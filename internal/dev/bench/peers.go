package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// peerPrograms are the other tools' programs.
//
//go:embed peers/*.py
var peerPrograms embed.FS

// peer is a tool that does the same work as docgauge.
type peer struct {
	name       string
	program    string // in Python; empty for docgauge and go-parquet
	guarantees string
}

var peers = []peer{
	{docgaugeClient, "", "verifies each window, flushes it, resumes at the page, knows what is due (exclusive ends), keeps to the hourly limit"},
	{goParquetClient, "", "no file in part; resumes at the window"},
	{"requests and pyarrow", "by_hand.py", "no file in part; resumes at the window"},
	{"dlt, tuned", "dlt_tuned.py", "begins again; schema, many destinations"},
	{"dlt, as documented", "dlt_documented.py", "begins again; schema, many destinations"},
}

// peerWork is one workload of all peers.
type peerWork struct {
	work     workload
	inFlight int
}

// peerWorks are many small windows, a few large ones and a first reading; kill is
// what the peers are killed in.
func peerWorks(short bool) (works []peerWork, kill peerWork) {
	if short {
		return []peerWork{{workload{12, 10, 0}, usualInFlight}, {workload{1, 1_300, time.Millisecond}, manyInFlight}},
			peerWork{workload{8, 1_000, 0}, usualInFlight}
	}
	return []peerWork{
		{workload{1_000, 10, 0}, usualInFlight},
		{workload{5, 100_000, 0}, usualInFlight},
		{workload{1, dayRows, usualLatency}, manyInFlight},
	}, peerWork{workload{40, 2_500, 10 * time.Millisecond}, usualInFlight}
}

// peerResult is one row of the table of peers.
type peerResult struct {
	peer
	costs    []cost // by work
	requests int64  // of all works
	repeated int64  // requests of the two runs, the killed one and the next, above the fewest
	found    findings
}

// peerAll lets all peers do each work, in turns, the median of each counts; and
// kills each once.
func (l *lab) peerAll(ctx context.Context, all []peer, short bool, done func(cells []string)) ([]peerResult, error) {
	works, kill := peerWorks(short)
	rounds := 3
	if short {
		rounds = 1
	}
	results := make([]peerResult, len(all))
	for _, work := range works {
		runs := make([][]exportResult, len(all))
		for range rounds {
			for i, p := range all {
				r, err := l.peer(ctx, p, work)
				if err != nil {
					return nil, fmt.Errorf("%s, %s rows: %w", p.name, work.work, err)
				}
				runs[i] = append(runs[i], r)
			}
		}
		for i, p := range all {
			r := median(runs[i], func(r exportResult) float64 { return r.cost.seconds })
			done([]string{p.name, work.work.String(), fmt.Sprintf("%.2f s", r.cost.seconds), mebibytes(r.cost.maxRSS), humanize.Comma(r.requests)})
			results[i].peer, results[i].costs = p, append(results[i].costs, r.cost)
			results[i].requests += r.requests
		}
	}
	for i, p := range all {
		if err := l.killed(ctx, p, kill, &results[i]); err != nil {
			return nil, fmt.Errorf("%s, killed: %w", p.name, err)
		}
		done([]string{p.name, "killed", fmt.Sprintf("%d requests repeated, %+v", results[i].repeated, results[i].found)})
	}
	return results, nil
}

// peer lets p do the work in a directory of its own, and compares what it wrote.
func (l *lab) peer(ctx context.Context, p peer, w peerWork) (r exportResult, err error) {
	err = l.inDir(func(dir string) error {
		cmd, err := l.peerCommand(ctx, p, w, dir, firstDay)
		if err != nil {
			return err
		}
		before, err := countRequests(l.server)
		if err != nil {
			return err
		}
		if _, r.cost, err = measure(cmd); err != nil {
			return err
		}
		after, err := countRequests(l.server)
		r.requests = after - before
		if err != nil {
			return err
		}
		found, err := findRows(ctx, dir, w.work, firstDay)
		if want := (findings{Rows: w.work.totalRows()}); err == nil && found != want {
			err = fmt.Errorf("wrote %+v, want %+v", found, want)
		}
		return err
	})
	return r, err
}

func (l *lab) peerCommand(ctx context.Context, p peer, w peerWork, dir string, first time.Time) (*exec.Cmd, error) {
	args := orderArgs(l.server, w.work, w.inFlight, dir, first)
	switch p.name {
	case docgaugeClient:
		return l.exportCommand(ctx, contestant{client: p.name, inFlight: w.inFlight}, w.work, dir)
	case goParquetClient:
		return child(ctx, p.name, args...)
	}
	python, err := peerPython()
	if err != nil {
		return nil, err
	}
	program, err := peerPrograms.ReadFile("peers/" + p.program)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(l.dir, p.program)
	return exec.CommandContext(ctx, python, append([]string{path}, args...)...), os.WriteFile(path, program, 0o600)
}

// peerPython returns the Python that peers/install.sh has installed dlt for.
func peerPython() (string, error) {
	path := filepath.Join(engines.Tools(), "peers", "bin", "python")
	if _, err := os.Stat(filepath.Join(engines.Tools(), "peers", "requirements.txt")); err != nil {
		return "", engines.Missing{Engine: "dlt", Install: "make bench-peers"}
	}
	return path, nil
}

// killed kills p when half of the requests have been answered, and lets it begin
// again: how many requests were sent in vain, and are all rows there, once? The
// windows are the newest days, which is what docgauge reads without being told;
// told which windows to read, it reads them again. It has a budget, and so asks for no page
// that may not exist.
func (l *lab) killed(ctx context.Context, p peer, w peerWork, r *peerResult) error {
	for {
		today := time.Now().UTC().Truncate(24 * time.Hour)
		err := l.inDir(func(dir string) error { return l.killedOnce(ctx, p, w, dir, today.AddDate(0, 0, -w.work.windows), r) })
		if time.Since(today) < 24*time.Hour { // otherwise there is one more day now
			return err
		}
	}
}

func (l *lab) killedOnce(ctx context.Context, p peer, w peerWork, dir string, first time.Time, r *peerResult) error {
	command := func() (*exec.Cmd, error) {
		if p.name != docgaugeClient {
			return l.peerCommand(ctx, p, w, dir, first)
		}
		cmd := l.docgaugeCommand(ctx, contestant{client: p.name, inFlight: w.inFlight, budget: largeBudget}, w.work, dir)
		cmd.Env = append(cmd.Env, "DOCGAUGE_SINCE="+first.Format(time.DateOnly))
		return cmd, nil
	}
	before, err := countRequests(l.server)
	if err != nil {
		return err
	}
	half := before + w.work.fewest()/2
	if err := l.answerUntil(half); err != nil {
		return err
	}
	cmd, err := command()
	if err != nil {
		return err
	}
	if err := errors.Join(l.kill(cmd, half), l.answerUntil(0)); err != nil {
		return err
	}
	if cmd, err = command(); err != nil {
		return err
	}
	if _, _, err := measure(cmd); err != nil {
		return err
	}
	after, err := countRequests(l.server)
	if err != nil {
		return err
	}
	r.repeated = after - before - w.work.fewest()
	r.found, err = findRows(ctx, dir, w.work, first)
	return err
}

// kill starts cmd and kills it and its children as soon as the server has counted
// more than that many requests: the server does not answer those, so it cannot end.
func (l *lab) kill(cmd *exec.Cmd, requests int64) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return errors.Join(errors.New("ended before it was killed"), err)
		case <-time.After(time.Millisecond):
		}
		n, err := countRequests(l.server)
		if err == nil && n <= requests {
			continue
		}
		err = errors.Join(err, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		<-ended
		return err
	}
}

// answerUntil makes the server answer no requests beyond that number, ever; 0 is
// no limit.
func (l *lab) answerUntil(requests int64) error {
	resp, err := http.Post(l.server+"/answers?until="+strconv.FormatInt(requests, 10), "", nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// peerTable has one row for each peer.
func peerTable(results []peerResult, short bool) table {
	works, kill := peerWorks(short)
	head := []string{"tool"}
	for _, w := range works {
		head = append(head, fmt.Sprintf("%s, %d ms: s", w.work, w.work.latency.Milliseconds()))
	}
	t := table{append(head, "peak RSS", "requests", fmt.Sprintf("killed in %s: repeated", kill.work), "missing", "doubled", "guarantees")}
	for _, r := range results {
		cells, rss := []string{r.name}, int64(0)
		for _, c := range r.costs {
			cells, rss = append(cells, fmt.Sprintf("%.2f", c.seconds)), max(rss, c.maxRSS)
		}
		t = append(t, append(cells, mebibytes(rss), humanize.Comma(r.requests), humanize.Comma(r.repeated),
			humanize.Comma(r.found.Missing), humanize.Comma(r.found.Doubled+r.found.Wrong), r.guarantees))
	}
	return t
}

// installed leaves out the peers that are not installed, and says which.
func installed(all []peer) (there []peer, missing string) {
	_, err := peerPython()
	var names []string
	for _, p := range all {
		if p.program == "" || err == nil {
			there = append(there, p)
		} else {
			names = append(names, p.name)
		}
	}
	if err != nil {
		missing = fmt.Sprintf("%s: %v", strings.Join(names, "; "), err)
	}
	return there, missing
}
