package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

//go:embed peers/*.py
var peerFiles embed.FS

// peers do the same work as docgauge.
var peers = []string{docgaugeClient, goParquetClient, "requests and pyarrow", "dlt, tuned", "dlt, as documented"}

var peerTools = map[string]struct {
	program    string // in Python
	guarantees string
}{
	docgaugeClient: {"", "verifies and flushes each window, resumes at the page, knows what is due, keeps the " +
		"hourly limit"},
	goParquetClient:        {"", "no file in part; resumes at the window"},
	"requests and pyarrow": {"by_hand.py", "no file in part; resumes at the window"},
	"dlt, tuned":           {"dlt_tuned.py", "begins again; schema, many destinations"},
	"dlt, as documented":   {"dlt_documented.py", "begins again; schema, many destinations"},
}

// peerWorks are many small windows, a few large ones and a first reading. The peers are killed
// while they do killWork.
var (
	peerWorks = []workload{{1_000, 10, 0}, {5, 100_000, 0}, {1, 25_000, 50 * time.Millisecond}}
	killWork  = workload{40, 2_500, 10 * time.Millisecond}
)

// installedPeers leaves out the peers that are not installed, and logs which.
func (l *lab) installedPeers(names []string) (clients []client) {
	_, err := peerPython()
	for _, name := range names {
		if peerTools[name].program == "" || err == nil {
			clients = append(clients, client{name: name, inFlight: 4})
		} else {
			fmt.Fprintf(l.log, "not measured: %s: %v\n", name, err)
		}
	}
	return clients
}

// peerPython returns a Python that has the peers' packages, and Polars.
func peerPython() (string, error) {
	venv := filepath.Join(engines.Tools(), "peers")
	if _, err := os.Stat(filepath.Join(venv, "requirements.txt")); err != nil {
		return "", engines.Missing{Engine: "Python with Polars, pyarrow and dlt", Install: "make bench-peers"}
	}
	return filepath.Join(venv, "bin", "python"), nil
}

// comparePeers lets all peers do each work in turns, and kills each once.
func (l *lab) comparePeers(ctx context.Context, names []string) (rows []result) {
	clients, sums := l.installedPeers(names), map[string]values{}
	for _, c := range clients {
		sums[c.name] = values{}
	}
	for _, w := range peerWorks {
		if w.Windows == 1 {
			for i := range clients {
				clients[i].inFlight = 16
			}
		}
		for _, r := range l.exportAll(ctx, contest{exportTable, "peers", w, 3, clients}) {
			if sum := sums[r.client.name]; sum != nil {
				sum[fmt.Sprintf("%s, %d ms: s", w, w.Latency.Milliseconds())] = r.values["seconds"]
				sum["requests"] += r.values["requests"]
				sum["peak RSS"] = max(sum["peak RSS"], r.values["peak RSS"])
			}
		}
	}
	work := killWork
	if l.short {
		work = work.shortened()
	}
	for _, c := range clients {
		v := sums[c.name]
		repeated, found := l.killed(ctx, client{name: c.name, inFlight: 4, budget: largeBudget}, work)
		missing := work.totalRows() - found.Rows
		if missing == 0 && found.Differ {
			must.Do(fmt.Errorf("%s, killed: it wrote other rows than the server sent", c.name))
		}
		v["killed in 40 × 2,500: repeated"] = float64(repeated)
		v["missing"], v["doubled"] = float64(max(0, missing)), float64(max(0, -missing))
		rows = append(rows, l.show(result{peersTable, c.name, c, work, v}))
	}
	return rows
}

// killed kills c when half of the requests have been answered, and starts it again. It returns how many requests
// were repeated, and which rows are there. The windows are the newest days, which docgauge exports when they are
// due: told which windows to read, it would read them all again. It has a budget, so it asks for no page that may
// not exist.
func (l *lab) killed(ctx context.Context, c client, w workload) (repeated int64, found findings) {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -w.Windows)
	o := order{Base: l.server, Work: w, InFlight: c.inFlight, Dir: l.newDir(), First: first, Due: true}
	before := l.countRequests()
	half := before + w.fewest()/2
	l.answerUntil(half)
	l.kill(l.exportCommand(ctx, c, o), half)
	l.answerUntil(0)
	measure(l.exportCommand(ctx, c, o))
	return l.countRequests() - before - w.fewest(), findRows(ctx, o)
}

// kill starts cmd, and kills it and its children as soon as the server has counted more than that many requests.
// The server does not answer those, so cmd cannot end before.
func (l *lab) kill(cmd *exec.Cmd, requests int64) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for l.countRequests() <= requests {
		select {
		case err := <-ended:
			must.Do(errors.Join(errors.New("ended before it was killed"), err))
		case <-time.After(time.Millisecond):
		}
	}
	must.Do(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	<-ended
}

// answerUntil makes the server leave all requests beyond that number unanswered; 0 means no limit.
func (l *lab) answerUntil(requests int64) {
	get(l.server + "/answers?until=" + strconv.FormatInt(requests, 10))
}
