// Bench measures the real docgauge binary over loopback, in turns with hand-written clients that do the same
// work. It prints Markdown; docs/dev/performance-tables.md explains the columns and the clients. -short is a smoke
// run of a few seconds.
//
// Most cases are contests: several clients take turns in several rounds, and the median of each counts. The
// server, docgauge, the clients and the checker are separate processes, so that each has its own CPU time and
// peak memory; on a machine with few cores the server takes its share of them. After each run, the rows that were
// written are compared with what the server sends, or counted in the database; a difference is an error.
//
// An error ends the whole bench: functions panic with it by package must.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isChild, err := runChild()
	if !isChild {
		err = bench(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// lab is where the runs take place.
type lab struct {
	binaries map[string]string // by client: docgauge, and the former one if there is one
	server   string            // base URL
	dir      string
	short    bool
	log      io.Writer // gets each result immediately
}

// bench is the whole program: tables go to out, progress to log.
func bench(ctx context.Context, args []string, out, log io.Writer) (err error) {
	defer must.Catch(&err)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	short := flags.Bool("short", false, "smoke run of a few seconds; its speeds mean nothing")
	only := flags.String("only", "",
		"run the cases with this in their names: small, large, clickhouse, delta, postgres, site …")
	former := flags.String("former", "", "docgauge `binary` of an earlier commit, which takes part as docgauge before")
	withPeers := flags.Bool("peers", false, "compare with other tools instead: see make bench-peers")
	if flags.Parse(args) != nil {
		return flag.ErrHelp
	}
	l := &lab{binaries: map[string]string{}, short: *short, log: log}
	if *former != "" {
		l.binaries[formerClient] = must.Get(filepath.Abs(*former))
	}
	fmt.Fprintln(log, "building docgauge")
	l.binaries[docgaugeClient] = must.Get(engines.DocgaugeBinary())
	l.dir = must.Get(os.MkdirTemp("", "docgauge-bench-"))
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	machine, stop := describeMachine(l.dir), l.startServer(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	all, err := l.measureAll(ctx, *only, *withPeers)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	must.Do(err)
	_, err = io.WriteString(out, machine+"\n"+report(all))
	return err
}

// measureAll runs the cases with only in their names, about ten minutes on two cores for all of them, or the peers.
// Cases whose engine is not installed are left out.
func (l *lab) measureAll(ctx context.Context, only string, withPeers bool) (all []result, err error) {
	measure := func(name string, run func() []result) {
		if err != nil || !strings.Contains(name, only) || withPeers != (name == "peers") {
			return
		}
		var results []result
		if err = l.installed(func() { results = run() }); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, results...)
	}
	for _, c := range exportContests {
		measure(c.scenario, func() []result { return l.exportAll(ctx, c) })
	}
	for _, s := range loadSinks {
		measure(s.name, func() []result { return l.loadAll(ctx, s) })
	}
	measure("site", func() []result { return l.siteAll(ctx) })
	measure("peers", func() []result { return l.comparePeers(ctx, peers) })
	return all, err
}

// installed returns the error of run, but only logs that an engine is not installed, except where CI=true.
func (l *lab) installed(run func()) error {
	err := must.Try(run)
	if missing, ok := errors.AsType[engines.Missing](err); ok && os.Getenv("CI") != "true" {
		fmt.Fprintln(l.log, "not measured:", missing)
		return nil
	}
	return err
}
