// Command up keeps the whole set of docgauge running on loopback until it is
// interrupted: `make stack` builds docgauge and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/dev/stack"
)

// patience is how long the first run and the first jobs may take.
const patience = 3 * time.Minute

func main() {
	binary := flag.String("docgauge", "bin/docgauge", "the docgauge to run")
	dir := flag.String("dir", "", "a new directory for everything, which stays (default: a temporary one)")
	rules := flag.String("rules", "deploy/prometheus", "directory of Prometheus rules")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *dir, *rules); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

func run(ctx context.Context, binary, dir, rules string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "docgauge-stack-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		return fmt.Errorf("--dir %s: is not empty: name a new directory", dir)
	}
	files, err := stack.RuleFiles(rules)
	if err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{Binary: binary, Dir: dir, Rules: files, Say: say})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := show(ctx, s); err != nil {
		return err
	}
	<-ctx.Done()
	fmt.Println("stopping")
	return nil
}

func say(text string) { fmt.Println("…", text) }

// show waits until there is something to see, and says where.
func show(ctx context.Context, s *stack.Stack) error {
	say("first run and first agent jobs")
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.Await(waiting); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted
		}
		return err
	}
	places, err := s.Places(ctx)
	if err != nil {
		return err
	}
	fmt.Println()
	for _, place := range places {
		fmt.Printf("%-14s %s\n", place.Name, place.Where)
	}
	fmt.Println("\nExports every minute; Ctrl-C stops everything.")
	return nil
}
