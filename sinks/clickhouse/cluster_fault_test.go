package clickhouse

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// soon is before the driver would give up by itself.
const soon = readTimeout * 3 / 4

// fails expects an error of Replace or Check that says want, within limit.
func fails(t *testing.T, limit time.Duration, do func() error, want ...string) {
	t.Helper()
	begin := time.Now()
	err := do()
	took := time.Since(begin)
	t.Logf("after %v: %v", took.Round(time.Millisecond), err)
	if err == nil || took > limit {
		t.Errorf("after %v: %v; want an error within %v", took, err, limit)
		return
	}
	for _, w := range want {
		if strings.Contains(err.Error(), w) {
			return
		}
	}
	t.Errorf("%v; want %q", err, want)
}

// TestClusterReplicaStops ends one of two replicas at each step of a commit
// through the first, and starts it again. The reports take turns.
func TestClusterReplicaStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2)
	s := c.impatient(0)
	number := int32(1)
	ends := map[string]func(*engines.ClickHouse) error{"killed": (*engines.ClickHouse).Kill,
		"stopped": (*engines.ClickHouse).Stop}
	for i, point := range []struct {
		node      int
		how, step string
	}{
		{1, "stopped", "block sent"}, {1, "killed", "rows verified"}, {0, "killed", "marker inserted"},
		{1, "killed", "block sent"}, {1, "killed", "rows inserted"}, {1, "killed", "marker inserted"},
		{1, "stopped", "rows verified"}, {0, "killed", "block sent"},
	} {
		if i > 2 && !*long {
			break
		}
		name := []string{"first ", "second "}[point.node] + point.how + ", " + point.step
		t.Run(name, func(t *testing.T) {
			c.t = t
			report, former := analytics.Reports[i%2], number
			replace(t, s, seal(former, 50).For(report))
			number += 2
			interrupt(t, s, point.step, func() error { return ends[point.how](c.Nodes[point.node]) })
			begin := time.Now()
			err := s.Replace(t.Context(), seal(former+1, 80).For(report))
			t.Logf("after %v: %v", time.Since(begin).Round(time.Millisecond), err)
			left := c.reader(1 - point.node).shown(seal(0, 0).For(report).Rev.Key)
			outcome(t, point.node, point.step, err, left, former)
			check(t, c.Nodes[point.node].Restart())
			begin = time.Now()
			next := seal(number, 60).For(report)
			replace(t, s, next)
			t.Logf("back: after %v", time.Since(begin).Round(time.Millisecond))
			c.agree(next)
		})
	}
}

// interrupt calls once what ends a server when a commit of s comes to the step.
func interrupt(t *testing.T, s *Sink, name string, end func() error) {
	var once sync.Once
	s.step = func(at string) {
		if at == name {
			once.Do(func() {
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Cleanup(func() { s.step = nil })
}

// outcome checks the error of a Replace in which a node ended, and what readers see.
func outcome(t *testing.T, node int, step string, err error, left, former int32) {
	t.Helper()
	after := step == "marker inserted"
	switch {
	case left != former && left != former+1, after && left != former+1:
		t.Errorf("readers see revision %d after %d", left, former)
	case after && node == 1 && err != nil:
		t.Errorf("the commit was over: %v", err)
	case node == 1 && !after && (err == nil || !strings.Contains(err.Error(), "replica")):
		t.Errorf("%v; want an error that names the replica", err)
	case node == 0 && (err == nil || !strings.Contains(err.Error(), "no server answers")):
		t.Errorf("%v; want an error that names the server", err)
	}
}

// TestClusterReplicaBehind has a replica that is up and fetches nothing: a
// commit is not over before it has the rows and the marker.
func TestClusterReplicaBehind(t *testing.T) {
	if !*long {
		t.Skip("takes a minute: -long, make torture")
	}
	t.Parallel()
	c := newCluster(t, 1, 2)
	s := c.impatient(0)
	former := int32(1)
	replace(t, s, seal(former, 50))
	for _, table := range []string{visitors.rows, visitors.markers} {
		t.Run(table, func(t *testing.T) {
			c.t = t
			fetches := func(do string) {
				must(t, c.Nodes[1],
					"SYSTEM "+do+" FETCHES "+c.database+"."+table+localSuffix)
			}
			fetches("STOP")
			fails(t, soon, func() error { return s.Replace(t.Context(), seal(former+1, 80)) }, "replica")
			if got := c.reader(1).shown(seal(0, 0).Rev.Key); got != former {
				t.Errorf("the replica behind shows revision %d, want %d", got, former)
			}
			if got := c.reader(0).shown(seal(0, 0).Rev.Key); got != former && (got != former+1 || table == visitors.rows) {
				t.Errorf("the other replica shows revision %d", got)
			}
			if table == visitors.markers { // it does not know the marker, and would take the attempt for abandoned
				_, err := c.impatient(1).Collect(t.Context(), false)
				if err == nil || !strings.Contains(err.Error(), "up to date") {
					t.Errorf("collected while a replica is behind: %v", err)
				}
			}
			done := make(chan error)
			former += 2
			next := seal(former, 60)
			go func() { done <- s.Replace(t.Context(), next) }() // waits for its turn
			time.Sleep(time.Second)
			fetches("START")
			check(t, <-done)
			c.agree(next)
		})
	}
}

func TestClusterWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2)
	s := c.impatient(0)
	former := seal(1, 50)
	replace(t, s, former)
	check(t, c.ZooKeeper.Kill())
	next := seal(2, 80)
	replace := func() error { return s.Replace(t.Context(), next) }
	fails(t, soon, replace, keeper)
	c.agree(former)
	fails(t, soon, func() error { return c.impatient(1).Check(t.Context()) }, "up to date", keeper)
	check(t, c.ZooKeeper.Restart())
	begin := time.Now()
	sinktest.Eventually(t, "the server", func() bool { return replace() == nil })
	t.Logf("committed %v after ZooKeeper was back", time.Since(begin).Round(time.Millisecond))
	c.agree(next)
	if err := c.sink(1).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
