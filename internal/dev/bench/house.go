package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// The contestants of loading into ClickHouse.
const (
	bareClient        = "bare"
	bareWindowsClient = "bare windows"
)

// house is a ClickHouse server of the bench.
type house struct {
	name string // as the table shows it
	http bool
	databaseServer
}

// databaseServer is a running engine.
type databaseServer interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
	Stop() error
}

// startHouses starts the server of 18.16 for the native protocol and the engine
// of 26 for HTTP.
func startHouses(dir string) (_ []house, err error) {
	var out []house
	defer func() {
		if err != nil {
			err = errors.Join(err, stopHouses(out))
		}
	}()
	old, err := engines.StartClickHouse(filepath.Join(dir, "old"))
	if err != nil {
		return nil, err
	}
	out = append(out, house{"18.16 native", false, old})
	modern, err := engines.StartEngine26(filepath.Join(dir, "modern"))
	if err != nil {
		return out, err
	}
	return append(out, house{"26 HTTP", true, modern}), nil
}

func stopHouses(houses []house) error {
	var errs []error
	for _, h := range houses {
		errs = append(errs, h.Stop())
	}
	return errors.Join(errs...)
}

// loading is one amount of rows in windows of one size.
type loading struct {
	rows, windowRows int
	// rounds is how often it is repeated; 0 is once.
	rounds int
	// bareWindows: the bare client writes it window by window, too.
	bareWindows bool
}

func (l loading) windows() int { return l.rows / l.windowRows }

// fullLoadings leaves out ten million rows in windows of a thousand: nothing
// is to be learned of them that one million does not show.
func fullLoadings() []loading {
	return []loading{
		{1_000_000, 1_000, 1, true},
		{1_000_000, 20_000, 3, true},
		{1_000_000, 1_000_000, 3, false},
		{10_000_000, 20_000, 1, false},
		{10_000_000, 1_000_000, 1, false},
	}
}

func shortLoadings() []loading {
	return []loading{{2_000, 500, 1, true}, {3_000, 3_000, 1, false}}
}

// loadResult is a line of the table of loads.
type loadResult struct {
	Server     string `json:"server"`
	Rows       int    `json:"rows"`
	WindowRows int    `json:"rows_per_window"`
	Client     string `json:"client"`
	cost
	RowsPerSecond    float64 `json:"rows_per_second"`
	WindowsPerSecond float64 `json:"windows_per_second"`
	// TimesBare is the speed divided by that of the bare insert of everything.
	TimesBare float64 `json:"times_bare"`
}

// loadAll runs every loading into every server.
func (l *lab) loadAll(ctx context.Context, houses []house, loadings []loading, done func(loadResult)) ([]loadResult, error) {
	var all []loadResult
	for _, load := range loadings {
		err := l.fresh(func(dir string) error {
			if err := runSelf(ctx, "seal", dir, strconv.Itoa(load.windows()), strconv.Itoa(load.windowRows)); err != nil {
				return err
			}
			for _, h := range houses {
				results, err := l.loadInto(ctx, h, load, dir)
				if err != nil {
					return fmt.Errorf("%s: %w", h.name, err)
				}
				for _, r := range results {
					done(r)
				}
				all = append(all, results...)
			}
			return nil
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func runSelf(ctx context.Context, role string, args ...string) error {
	cmd, err := self(ctx, role, args...)
	if err != nil {
		return err
	}
	_, _, err = measure(cmd)
	return err
}

// loadInto lets the clients take turns, and returns the median of each.
func (l *lab) loadInto(ctx context.Context, h house, load loading, archive string) ([]loadResult, error) {
	clients := []string{bareClient, docgaugeClient}
	if load.bareWindows {
		clients = append(clients, bareWindowsClient)
	}
	runs := map[string][]cost{}
	for range max(load.rounds, 1) {
		for _, client := range clients {
			spent, err := l.loadOnce(ctx, h, load, archive, client)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", client, err)
			}
			runs[client] = append(runs[client], spent)
		}
	}
	var out []loadResult
	for _, client := range clients {
		spent := medianCost(runs[client])
		out = append(out, loadResult{
			Server: h.name, Rows: load.rows, WindowRows: load.windowRows, Client: client, cost: spent,
			RowsPerSecond: float64(load.rows) / spent.Seconds, WindowsPerSecond: float64(load.windows()) / spent.Seconds,
			TimesBare: medianCost(runs[bareClient]).Seconds / spent.Seconds,
		})
	}
	return out, nil
}

// loadOnce loads into an empty database and counts what is there then.
func (l *lab) loadOnce(ctx context.Context, h house, load loading, archive, client string) (spent cost, err error) {
	const database = "bench"
	if _, err := h.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return spent, err
	}
	defer func() {
		_, derr := h.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+database)
		err = errors.Join(err, derr)
	}()
	table := database + ".docgauge_visitors"
	cmd, err := l.loader(ctx, h, archive, client, database)
	if err != nil {
		return spent, err
	}
	if client != docgaugeClient {
		table = database + ".bare"
		if _, err := h.Exec(ctx, "CREATE TABLE "+table+bareTable); err != nil {
			return spent, err
		}
	}
	if _, spent, err = measure(cmd); err != nil {
		return spent, err
	}
	out, err := h.Exec(ctx, "SELECT toString(count()) FROM "+table)
	if got := strings.TrimSpace(out); err == nil && got != strconv.Itoa(load.rows) {
		err = fmt.Errorf("%s shows %s rows, want %d", table, got, load.rows)
	}
	return spent, err
}

// loader is `docgauge load` of the real binary, or this program as a bare client.
func (l *lab) loader(ctx context.Context, h house, archive, client, database string) (*exec.Cmd, error) {
	if client != docgaugeClient {
		return self(ctx, client, h.DSN(database), archive, strconv.FormatBool(h.http))
	}
	state := filepath.Join(archive, "state")
	if err := os.RemoveAll(state); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, l.binary, "load", "--sink", "clickhouse")
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(archive, "data"),
		"DOCGAUGE_CLICKHOUSE_DSN="+h.DSN(database),
		"DOCGAUGE_SINKS=clickhouse",
		"DOCGAUGE_STATE_DIR="+state,
		"DOCGAUGE_LOG_LEVEL=error",
	)
	return cmd, nil
}
