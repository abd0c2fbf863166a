package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	// docgaugePackage is what is measured.
	docgaugePackage = "github.com/docgauge/docgauge/cmd/docgauge"
	// benchKey is no secret: the bench's server takes any key.
	benchKey = "bench_key"

	plainClient    = "plain"
	docgaugeClient = "docgauge"
)

// build makes the real binary in dir.
func build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "docgauge")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, docgaugePackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", docgaugePackage, err, out)
	}
	return path, nil
}

// lab is where runs take place: the binary, the server, and a directory.
type lab struct {
	binary, server, dir string
}

// contestant is a client and how many requests it has in flight.
type contestant struct {
	Client   string `json:"client"`
	InFlight int    `json:"in_flight"`
}

// run lets c read w once, in a directory of its own, and checks the number of rows.
func (l *lab) run(ctx context.Context, c contestant, w workload, dir string) (result, error) {
	before, err := readStats(l.server)
	if err != nil {
		return result{}, err
	}
	cmd, err := l.command(ctx, c, w, dir)
	if err != nil {
		return result{}, err
	}
	out, spent, err := measure(cmd)
	if err != nil {
		return result{}, err
	}
	after, err := readStats(l.server)
	if err != nil {
		return result{}, err
	}
	var said tally
	if err := json.Unmarshal(out, &said); err != nil {
		return result{}, fmt.Errorf("%s: its summary: %w", c.Client, err)
	}
	seen := stats{after.Requests - before.Requests, after.CPUSeconds - before.CPUSeconds}
	if want := (tally{w.totalRows(), seen.Requests}); said != want {
		return result{}, fmt.Errorf("%s reading %s rows: it says %+v, the server has seen and served %+v", c.Client, w, said, want)
	}
	return newResult(c, w, spent, seen), nil
}

func (l *lab) command(ctx context.Context, c contestant, w workload, dir string) (*exec.Cmd, error) {
	if c.Client == plainClient {
		return self(ctx, "plain", l.server, w.project(), strconv.Itoa(w.Windows), filepath.Join(dir, "rows.csv"))
	}
	from, to := w.span()
	cmd := exec.CommandContext(ctx, l.binary, "export", "--json", "--from", from, "--to", to)
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_BASE_URL="+l.server,
		"DOCGAUGE_API_KEY="+benchKey,
		"DOCGAUGE_PROJECTS="+w.project(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_BUDGET=0",
		"DOCGAUGE_CONCURRENCY="+strconv.Itoa(c.InFlight),
		"DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"),
		"DOCGAUGE_LOG_LEVEL=error",
	)
	return cmd, nil
}

// fresh calls f with a new directory that is gone afterwards.
func (l *lab) fresh(f func(dir string) error) error {
	dir, err := os.MkdirTemp(l.dir, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir)
}
