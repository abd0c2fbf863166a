package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// firstRunLimit bounds the time until the first run and the first jobs have ended.
const firstRunLimit = 3 * time.Minute

func main() {
	if len(os.Args) > 2 && os.Args[1] == "with" {
		if err := with(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("docgauge", "bin/docgauge", "docgauge binary to run")
	dir := flag.String("dir", "", "new directory for everything, which is kept (default: a temporary one)")
	rules := flag.String("rules", "deploy/prometheus", "directory of Prometheus rules")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runStack(ctx, *binary, *dir, *rules); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

func runStack(ctx context.Context, binary, dir, rules string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "docgauge-stack-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		return fmt.Errorf("--dir %s: is not empty: name a new directory", dir)
	}
	files, err := ruleFiles(rules)
	if err != nil {
		return err
	}
	s, err := start(ctx, options{Binary: binary, Dir: dir, Rules: files, Say: say})
	if errors.Is(err, context.Canceled) {
		fmt.Println("stopped before everything ran")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	say("first run and first agent jobs")
	waiting, cancel := context.WithTimeout(ctx, firstRunLimit)
	defer cancel()
	if err = s.awaitFirstRun(waiting); err == nil {
		err = show(ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	fmt.Println("stopping")
	return nil
}

// show lists what there is to look at, and what became of the readers after the merges.
func show(ctx context.Context, s *stack) error {
	places, err := s.places(ctx)
	outcomes, failed := s.docgauge(ctx, nil, "outcomes")
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	fmt.Println()
	for _, place := range places {
		fmt.Printf("%-14s %s\n", place.Name, place.Where)
	}
	for _, job := range s.SiteJobs {
		fmt.Printf("%-14s %s on %s: %s, %s\n", "site job", job.Prompt, job.Host, job.Job.Status,
			cmp.Or(job.Job.PRLink, "no pull request"))
	}
	fmt.Printf("\n$ docgauge outcomes\n\n%s", outcomes)
	fmt.Println("\nExports every minute; Ctrl-C stops everything.")
	return nil
}

func say(text string) { fmt.Println("…", text) }
