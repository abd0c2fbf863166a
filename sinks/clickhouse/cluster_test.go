package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// cluster is a cluster with one empty database.
type cluster struct {
	*engines.Cluster
	t        *testing.T
	database string
}

// newCluster starts a cluster that the test may stop.
func newCluster(t *testing.T, shards, replicas int) cluster {
	t.Helper()
	engines.Long(t)
	c := cluster{engines.RunCluster(t, shards, replicas), t, ""}
	return c.fresh(t)
}

// sharedCluster is one that serves other tests too.
func sharedCluster(t *testing.T, get func(*testing.T) *engines.Cluster) cluster {
	t.Helper()
	engines.Long(t)
	return cluster{get(t), t, ""}.fresh(t)
}

// fresh makes an empty database on every node, dropped at the end.
func (c cluster) fresh(t *testing.T) cluster {
	t.Helper()
	c.t, c.database = t, sinktest.NewName()
	for _, node := range c.Nodes {
		must(t, node, "CREATE DATABASE "+c.database)
	}
	t.Cleanup(func() {
		for _, node := range c.Nodes {
			if _, err := node.Exec(context.Background(), "DROP DATABASE "+c.database); err != nil {
				t.Log(err)
			}
		}
	})
	return c
}

// sink is one connected to a node.
func (c cluster) sink(node int, reports ...analytics.Report) *Sink {
	c.t.Helper()
	s, err := New(Options{DSN: c.Nodes[node].DSN(c.database), Cluster: c.Name, Version: "test", Now: time.Now,
		Reports: reports})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return s
}

// impatient is a sink whose servers wait less for each other than usual.
func (c cluster) impatient(node int) *Sink {
	c.t.Helper()
	s := c.sink(node, analytics.AgentsReport)
	s.timeout = 8 * time.Second
	return s
}

func (c cluster) reader(node int) reader { return newReader(c.t, c.Nodes[node].DSN(c.database)) }

// agree expects readers of every node to see w.
func (c cluster) agree(w window) {
	c.t.Helper()
	for i := range c.Nodes {
		if got := c.reader(i).shown(w.Revision().Key); got != w.Revision().Number {
			c.t.Errorf("readers of node %d see revision %d, want %d", i+1, got, w.Revision().Number)
		}
	}
}

// forms are the clusters that two servers can be.
func forms(t *testing.T, f func(t *testing.T, c cluster)) {
	t.Parallel()
	t.Run("two replicas", func(t *testing.T) { t.Parallel(); f(t, sharedCluster(t, twoReplicas)) })
	t.Run("two shards", func(t *testing.T) { t.Parallel(); f(t, sharedCluster(t, twoShards)) })
}

// TestClusterContract writes through the first node and reads from the second.
func TestClusterContract(t *testing.T) {
	forms(t, func(t *testing.T, c cluster) {
		if strings.HasSuffix(t.Name(), "two_shards") && !*long {
			t.Skip("takes a minute more: -long, make torture")
		}
		sinktest.RunMixed(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
			t.Parallel()
			c := c.fresh(t)
			return c.sink(0, reports...), c.reader(1)
		})
	})
}

// TestClusterShards sees each window on one shard, and all of them everywhere.
func TestClusterShards(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, twoShards)
	s := c.sink(0)
	for day := range 12 {
		w := windowOf(day, 1, 40)
		replace(t, s, w)
		c.agree(w)
	}
	count := func(node int, of string) string {
		return strings.TrimSpace(must(t, c.Nodes[node],
			fmt.Sprintf("SELECT count(), uniq(window_start), count() %% 40 FROM %s.%s", c.database, of)))
	}
	for node := range c.Nodes {
		if got := count(node, visitors.view); got != "480\t12\t0" {
			t.Errorf("node %d shows rows, windows, broken: %s", node+1, got)
		}
		local := count(node, visitors.rows+localSuffix)
		if !strings.HasSuffix(local, "\t0") || local == "0\t0\t0" || local == "480\t12\t0" {
			t.Errorf("node %d holds rows, windows, broken: %s", node+1, local)
		}
	}
}

// TestClusterWriters lets one process, then two on two nodes, write windows of several months at once. Among
// replicas, a table takes one insert at a time.
func TestClusterWriters(t *testing.T) {
	forms(t, func(t *testing.T, c cluster) {
		write := func(names ...string) {
			var all []window
			var writes sync.WaitGroup
			begin := time.Now()
			for i, name := range names {
				s := c.sink(i)
				for n := range 8 {
					w := windowOf(9*n, 1, 100).Of(name)
					all = append(all, w)
					writes.Go(func() {
						if err := s.Replace(t.Context(), w); err != nil {
							t.Errorf("%s: %v", w.Revision().Key, err)
						}
					})
				}
			}
			writes.Wait()
			t.Logf("%d process(es): %v", len(names), time.Since(begin))
			for _, w := range all {
				c.agree(w)
			}
		}
		write("prj_one")
		write("prj_two", "prj_three")
	})
}

// TestClusterDeduplication shows that a server drops a block it has seen, and
// that the rows of a window written again are not superseded.
func TestClusterDeduplication(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, twoReplicas)
	s, w := c.sink(0), seal(1, 50)
	other := seal(1, 5).Of("prj_b")
	for _, w := range []window{w, other} { // the server does not touch the last insert
		replace(t, s, w)
	}
	table := c.database + "." + visitors.rows + localSuffix
	for range 2 {
		must(t, c.Nodes[0], "INSERT INTO "+table+" (project, attempt, written_at) VALUES ('twice', 1, 0)")
	}
	if got := must(t, c.Nodes[0], "SELECT count() FROM "+table+" WHERE project = 'twice'"); got != "1\n" {
		t.Errorf("an identical block came twice: %s rows; this test has lost its ground", got)
	}
	must(t, c.Nodes[0], "ALTER TABLE "+table+" DELETE WHERE project = 'prj_a'")
	for _, node := range c.Nodes {
		sinktest.Eventually(t, "the server", func() bool {
			return must(t, node, "SELECT count() FROM "+table+" WHERE project = 'prj_a'") == "0\n"
		})
	}
	replace(t, s, w)
	c.agree(w)
}
