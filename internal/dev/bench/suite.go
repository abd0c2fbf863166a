package main

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// The names of the scenarios.
const (
	daysScenario  = "many days"
	largeScenario = "one large window"
	firstReading  = "first reading"
	secondReading = "second reading"
	smallScenario = "small windows"
)

// What the aims are about.
const (
	manyInFlight = 16
	dayRows      = 25_000
	middleRows   = 1_000_000
	largeRows    = 10_000_000
	usualLatency = 50 * time.Millisecond
)

// shortLatency is enough for a smoke run.
const shortLatency = 5 * time.Millisecond

// scenario is one workload read by several clients.
type scenario struct {
	name string
	workload
	// inFlight lists the concurrencies docgauge is run with.
	inFlight []int
	// plain: the plain client does it too.
	plain bool
	// again: docgauge reads it a second time, when its ledger knows the pages.
	again bool
	// rounds is how often it is repeated; 0 is once.
	rounds int
}

// fullSuite takes about three minutes on two cores.
func fullSuite() []scenario {
	return []scenario{
		{name: daysScenario, workload: workload{40, dayRows, 0}, inFlight: []int{1, 4, manyInFlight}, plain: true, rounds: 3},
		{name: daysScenario, workload: workload{40, 2_500, usualLatency}, inFlight: []int{1, 4, manyInFlight}, plain: true},
		{name: largeScenario, workload: workload{1, 100_000, 0}, inFlight: []int{4}},
		{name: largeScenario, workload: workload{1, middleRows, 0}, inFlight: []int{4}},
		{name: largeScenario, workload: workload{1, largeRows, 0}, inFlight: []int{4}},
		{name: firstReading, workload: workload{1, dayRows, usualLatency}, inFlight: []int{manyInFlight}, plain: true, again: true},
		{name: smallScenario, workload: workload{300, 10, 0}, inFlight: []int{4}, plain: true},
	}
}

// shortSuite takes a few seconds and has every kind of scenario.
func shortSuite() []scenario {
	return []scenario{
		{name: daysScenario, workload: workload{6, 1_000, 0}, inFlight: []int{1, 4}, plain: true},
		{name: daysScenario, workload: workload{6, 750, shortLatency}, inFlight: []int{4}, plain: true},
		{name: largeScenario, workload: workload{1, 20_001, 0}, inFlight: []int{4}},
		{name: firstReading, workload: workload{1, 2_600, shortLatency}, inFlight: []int{manyInFlight}, again: true},
		{name: smallScenario, workload: workload{12, 10, 0}, inFlight: []int{4}},
		{name: smallScenario, workload: workload{3, 0, 0}, inFlight: []int{4}},
	}
}

// runAll runs the scenarios one after the other; done is told each result.
func (l *lab) runAll(ctx context.Context, suite []scenario, done func(result)) ([]result, error) {
	var all []result
	for _, s := range suite {
		results, err := l.runScenario(ctx, s)
		if err != nil {
			return all, err
		}
		for _, r := range results {
			done(r)
		}
		all = append(all, results...)
	}
	return all, nil
}

// runScenario lets the clients take turns, round after round, and returns the
// median of each.
func (l *lab) runScenario(ctx context.Context, s scenario) ([]result, error) {
	readings := map[line][]result{}
	var order []line
	note := func(c contestant, name string, r result) {
		key := line{c, name}
		if readings[key] == nil {
			order = append(order, key)
		}
		r.Scenario = name
		readings[key] = append(readings[key], r)
	}
	for range max(s.rounds, 1) {
		for _, c := range s.contestants() {
			if err := l.turn(ctx, s, c, note); err != nil {
				return nil, err
			}
		}
	}
	var results []result
	for _, key := range order {
		results = append(results, median(readings[key]))
	}
	compare(results)
	return results, nil
}

// line names a line of the table within a scenario.
type line struct {
	contestant
	name string
}

func (s scenario) contestants() []contestant {
	var out []contestant
	if s.plain {
		out = append(out, contestant{plainClient, 1})
	}
	for _, n := range s.inFlight {
		out = append(out, contestant{docgaugeClient, n})
	}
	return out
}

// turn is one client's turn: one reading, or two in the same directory.
func (l *lab) turn(ctx context.Context, s scenario, c contestant, note func(contestant, string, result)) error {
	return l.fresh(func(dir string) error {
		r, err := l.run(ctx, c, s.workload, dir)
		if err != nil {
			return err
		}
		note(c, s.name, r)
		if !s.again || c.Client != docgaugeClient {
			return nil
		}
		if r, err = l.run(ctx, c, s.workload, dir); err == nil {
			note(c, secondReading, r)
		}
		return err
	})
}

func median(rs []result) result {
	slices.SortFunc(rs, func(a, b result) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return rs[len(rs)/2]
}
