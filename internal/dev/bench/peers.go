package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
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

//go:embed peers/*.py
var peerFiles embed.FS

// peerPrograms are the programs of the peers in Python.
var peerPrograms = map[string]string{
	"requests and pyarrow": "by_hand.py",
	"dlt, tuned":           "dlt_tuned.py",
	"dlt, as documented":   "dlt_documented.py",
}

// peer is a tool that does the same work as docgauge.
type peer struct{ name, guarantees string }

var peers = []peer{
	{docgaugeClient, "verifies and flushes each window, resumes at the page, knows what is due, keeps the " +
		"hourly limit"},
	{goParquetClient, "no file in part; resumes at the window"},
	{"requests and pyarrow", "no file in part; resumes at the window"},
	{"dlt, tuned", "begins again; schema, many destinations"},
	{"dlt, as documented", "begins again; schema, many destinations"},
}

// installed leaves out the peers that are not installed, and logs which.
func installed(all []peer, log io.Writer) (found []peer) {
	_, err := os.Stat(filepath.Join(engines.Tools(), "peers", "requirements.txt"))
	for _, p := range all {
		if peerPrograms[p.name] != "" && err != nil {
			fmt.Fprintf(log, "not measured: %s: %v\n", p.name,
				engines.Missing{Engine: "dlt", Install: "make bench-peers"})
			continue
		}
		found = append(found, p)
	}
	return found
}

// pythonCommand runs a program, which it puts into dir, with the Python that peers/install.sh has installed dlt for.
func pythonCommand(ctx context.Context, dir, program string, args ...string) (*exec.Cmd, error) {
	text, err := peerFiles.ReadFile("peers/" + program)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, program)
	args = append([]string{path}, args...)
	return exec.CommandContext(ctx, filepath.Join(engines.Tools(), "peers", "bin", "python"), args...),
		os.WriteFile(path, text, 0o600)
}

// peerTasks are many small windows, a few large ones and a first reading. The peers are killed
// while they do killWork.
var (
	peerTasks = []task{
		{workload{1_000, 10, 0}, 3}, {workload{5, 100_000, 0}, 3}, {workload{1, 25_000, 50 * time.Millisecond}, 3},
	}
	killWork = workload{40, 2_500, 10 * time.Millisecond}
)

// comparePeers lets all peers do each task in turns, kills each once, and returns the table.
func (l *lab) comparePeers(ctx context.Context, all []peer) (string, error) {
	head, rows := "tool", make([]string, len(all))
	requests, maxRSS := make([]int64, len(all)), make([]int64, len(all))
	for _, t := range peerTasks {
		var clients []client
		for _, p := range all {
			clients = append(clients, client{name: p.name, inFlight: 4})
			if t.work.Windows == 1 {
				clients[len(clients)-1].inFlight = 16
			}
		}
		results, err := l.exportAll(ctx, scenario{"peers", t, clients})
		if err != nil {
			return "", err
		}
		head += fmt.Sprintf("|%s, %d ms: s", results[0].work, results[0].work.ms())
		for i, r := range results {
			fmt.Fprintln(l.log, strings.ReplaceAll(tables[exportTable].row(r), "|", "  "))
			rows[i] += fmt.Sprintf("|%.2f", r.cost.seconds)
			requests[i], maxRSS[i] = requests[i]+r.requests, max(maxRSS[i], r.cost.maxRSS)
		}
	}
	work := killWork
	if l.short {
		work = work.shortened()
	}
	head += fmt.Sprintf("|peak RSS|requests|killed in %s: repeated|missing|doubled|guarantees", work)
	for i, p := range all {
		repeated, found, err := l.killed(ctx, client{name: p.name, inFlight: 4, budget: largeBudget}, work)
		if err != nil {
			return "", fmt.Errorf("%s, killed: %w", p.name, err)
		}
		fmt.Fprintf(l.log, "%s  killed  %d requests repeated, %+v\n", p.name, repeated, found)
		rows[i] = fmt.Sprintf("%s%s|%s|%s|%d|%d|%d|%s", p.name, rows[i], mebibytes(maxRSS[i]),
			humanize.Comma(requests[i]),
			repeated, found.Missing, found.Doubled+found.Wrong, p.guarantees)
	}
	return markdown(head, rows), nil
}

// killed kills c when half of the requests have been answered, and starts it again. It returns how many requests
// were repeated, and which rows are there. The windows are the newest days, which docgauge exports when they are
// due: told which windows to read, it would read them all again. It has a budget, so it asks for no page that may
// not exist.
func (l *lab) killed(ctx context.Context, c client, w workload) (repeated int64, found findings, err error) {
	dir, err := l.newDir()
	if err != nil {
		return 0, found, err
	}
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -w.Windows)
	o := order{Base: l.server, Work: w, InFlight: c.inFlight, Dir: dir, First: first, Due: true}
	before, err := countRequests(l.server)
	if err != nil {
		return 0, found, err
	}
	half := before + w.fewest()/2
	if err := l.answerUntil(half); err != nil {
		return 0, found, err
	}
	cmd, err := l.exportCommand(ctx, c, o)
	if err == nil {
		err = l.kill(cmd, half)
	}
	if err := errors.Join(err, l.answerUntil(0)); err != nil {
		return 0, found, err
	}
	if cmd, err = l.exportCommand(ctx, c, o); err != nil {
		return 0, found, err
	}
	if _, _, err := measure(cmd); err != nil {
		return 0, found, err
	}
	after, countErr := countRequests(l.server)
	found, err = findRows(ctx, o)
	return after - before - w.fewest(), found, errors.Join(countErr, err)
}

// kill starts cmd, and kills it and its children as soon as the server has counted more than that many requests.
// The server does not answer those, so cmd cannot end before.
func (l *lab) kill(cmd *exec.Cmd, requests int64) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var failed error
	for n := int64(0); n <= requests && failed == nil; time.Sleep(time.Millisecond) {
		select {
		case err := <-ended:
			return errors.Join(errors.New("ended before it was killed"), err)
		default:
			n, failed = countRequests(l.server)
		}
	}
	failed = errors.Join(failed, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	<-ended
	return failed
}

// answerUntil makes the server leave all requests beyond that number unanswered; 0 means no limit.
func (l *lab) answerUntil(requests int64) error {
	_, err := get(l.server+"/answers?until="+strconv.FormatInt(requests, 10), benchKey)
	return err
}
