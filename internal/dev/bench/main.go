// Bench measures the real docgauge binary over loopback, in turns with hand-written clients that do the same
// work. It prints Markdown; docs/performance-tables.md explains the columns and the clients. -short is a smoke
// run of a few seconds.
//
// Most cases are contests: several clients take turns in several rounds, and the median of each counts. The
// server, docgauge, the clients and the checker are separate processes, so that each has its own CPU time and
// peak memory; on a machine with few cores the server takes its share of them. After each run, the rows that were
// written are compared with what the server sends, or counted in the database; a difference is an error.
package main

import (
	"cmp"
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
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	short := flags.Bool("short", false, "smoke run of a few seconds; its speeds mean nothing")
	only := flags.String("only", "",
		"run the cases with this in their names: small, large, clickhouse, delta, postgres, scrape, site, agents …")
	former := flags.String("former", "", "docgauge `binary` of an earlier commit, which takes part as docgauge before")
	withPeers := flags.Bool("peers", false, "compare with other tools instead: see make bench-peers")
	if flags.Parse(args) != nil {
		return flag.ErrHelp
	}
	l := &lab{binaries: map[string]string{}, short: *short, log: log}
	if *former != "" {
		if l.binaries[formerClient], err = filepath.Abs(*former); err != nil {
			return err
		}
	}
	fmt.Fprintln(log, "building docgauge")
	if l.binaries[docgaugeClient], err = engines.DocgaugeBinary(); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "docgauge-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	machine, err := describeMachine(l.dir)
	if err != nil {
		return err
	}
	stop, err := l.startServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var text string
	if *withPeers {
		text, err = l.comparePeers(ctx, installed(peers, log))
	} else {
		var all []result
		all, err = l.measureAll(ctx, *only)
		text = report(all)
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	_, err = io.WriteString(out, machine+"\n"+text)
	return err
}

// measureAll runs the cases with only in their names, about ten minutes on two cores for all of them. Cases whose
// engine is not installed are left out.
func (l *lab) measureAll(ctx context.Context, only string) (all []result, err error) {
	type benchCase struct {
		name string
		run  func(context.Context) ([]result, error)
	}
	var cases []benchCase
	for _, s := range exportScenarios {
		cases = append(cases, benchCase{s.name,
			func(ctx context.Context) ([]result, error) { return l.exportAll(ctx, s) }})
	}
	for _, s := range loadSinks {
		cases = append(cases, benchCase{s.name,
			func(ctx context.Context) ([]result, error) { return l.loadAll(ctx, s) }})
	}
	for _, c := range append(cases, benchCase{"scrape", l.scrapeAll}, benchCase{"site", l.siteAll},
		benchCase{"agents", l.agentsAll}) {
		if !strings.Contains(c.name, only) {
			continue
		}
		results, err := c.run(ctx)
		all = append(all, results...)
		if missing, ok := errors.AsType[engines.Missing](err); ok && os.Getenv("CI") != "true" {
			fmt.Fprintln(l.log, "not measured:", missing)
		} else if err != nil {
			return all, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, r := range results {
			fmt.Fprintln(l.log, strings.ReplaceAll(tables[r.table].row(r), "|", "  "))
		}
	}
	return all, nil
}
