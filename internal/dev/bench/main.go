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
	"slices"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	is, err := playRole()
	if !is {
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

// options are the command line.
type options struct {
	short, json bool
	only        string
	binary      string
}

func parse(args []string, log io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.short, "short", false, "a smoke run of a few seconds: its speeds mean nothing")
	flags.BoolVar(&o.json, "json", false, "print JSON instead of Markdown")
	flags.StringVar(&o.only, "only", "", "only scenarios whose name contains this; clickhouse; scrape")
	flags.StringVar(&o.binary, "binary", "", "measure this docgauge instead of building one")
	return o, flags.Parse(args)
}

// bench is the whole program: the table goes to out, progress to log.
func bench(ctx context.Context, args []string, out, log io.Writer) (err error) {
	o, err := parse(args, log)
	if err != nil {
		return flag.ErrHelp
	}
	dir, err := os.MkdirTemp("", "docgauge-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rep, err := o.measure(ctx, dir, log)
	if err != nil {
		return err
	}
	if o.json {
		return rep.writeJSON(out)
	}
	return rep.writeMarkdown(out)
}

// measure sets the lab up in dir, runs the suite, and takes the lab down.
func (o options) measure(ctx context.Context, dir string, log io.Writer) (rep report, err error) {
	l := &lab{dir: dir, binary: o.binary}
	if l.binary == "" && o.only != scrapeScenarios {
		fmt.Fprintln(log, "building docgauge")
		if l.binary, err = build(ctx, dir); err != nil {
			return rep, err
		}
	}
	if rep.Machine, err = inspectMachine(dir); err != nil {
		return rep, err
	}
	base, stop, err := startChild(ctx, serverRole)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	l.server = base
	rep.Results, err = l.runAll(ctx, o.suite(), func(r result) { fmt.Fprintln(log, strings.Join(r.cells(), "  ")) })
	if err == nil {
		rep.Loads, err = o.loads(ctx, l, log)
	}
	if err == nil && strings.Contains(scrapeScenarios, o.only) {
		rep.Scrapes, err = scrapeAll(ctx, scrapings(o.short), func(r scrapeResult) { fmt.Fprintln(log, strings.Join(r.cells(), "  ")) })
	}
	rep.Aims = slices.Concat(aims(rep.Results), loadAims(rep.Loads), scrapeAims(rep.Scrapes))
	return rep, cmp.Or(ctx.Err(), err)
}

// clickHouseScenarios is what -only calls the loads.
const clickHouseScenarios = "clickhouse"

// loads measures ClickHouse, where it is installed and asked for.
func (o options) loads(ctx context.Context, l *lab, log io.Writer) (_ []loadResult, err error) {
	if !strings.Contains(clickHouseScenarios, o.only) {
		return nil, nil
	}
	houses, err := startHouses(l.dir)
	if missing, ok := errors.AsType[engines.Missing](err); ok && os.Getenv("CI") != "true" {
		fmt.Fprintln(log, "not measured:", missing)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopHouses(houses)) }()
	loadings := fullLoadings()
	if o.short {
		loadings = shortLoadings()
	}
	return l.loadAll(ctx, houses, loadings, func(r loadResult) { fmt.Fprintln(log, strings.Join(r.cells(), "  ")) })
}

func (o options) suite() []scenario {
	suite := fullSuite()
	if o.short {
		suite = shortSuite()
	}
	var chosen []scenario
	for _, s := range suite {
		if strings.Contains(s.name, o.only) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
