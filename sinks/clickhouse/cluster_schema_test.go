package clickhouse

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// uneven is a cluster whose shards have one and two replicas.
const uneven = `<remote_servers><uneven>
<shard><replica><host>127.0.0.1</host><port>1</port></replica></shard>
<shard><replica><host>127.0.0.1</host><port>1</port></replica>
<replica><host>127.0.0.1</host><port>2</port></replica></shard>
</uneven></remote_servers>`

func TestClusterMigrations(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t, twoReplicas)
	checkOf := func(s *Sink) func() error { return func() error { return s.Check(t.Context()) } }
	named := func(name string) *Sink {
		s := c.sink(0)
		s.cluster = name
		return s
	}
	t.Run("two processes at once", func(t *testing.T) {
		var starts sync.WaitGroup
		for i := range 4 {
			s := c.sink(i % 2)
			starts.Go(func() {
				if err := s.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
	})
	t.Run("unknown cluster", func(t *testing.T) {
		fails(t, soon, checkOf(named("nowhere")),
			`cluster "nowhere" is not in the server's configuration (remote_servers)`)
	})
	t.Run("uneven cluster", func(t *testing.T) {
		fails(t, soon, checkOf(named("uneven")), "shards of 1 and of 2 replicas")
	})
	t.Run("other placement", func(t *testing.T) {
		fails(t, soon, checkOf(named("")),
			"the tables were made for cluster docgauge of 1 shard(s), weights 1, and this is one server")
		c := c.fresh(t)
		alone := c.sink(0)
		alone.cluster = ""
		check(t, alone.Check(t.Context()))
		fails(t, soon, checkOf(c.sink(0)), "the tables were made for one server")
	})
	t.Run("database on one node only", func(t *testing.T) {
		c := c.fresh(t)
		must(t, c.Nodes[1], "DROP DATABASE "+c.database)
		fails(t, soon, checkOf(c.sink(0)), "the database does not exist")
		must(t, c.Nodes[1], "CREATE DATABASE "+c.database)
		if err := c.sink(0).Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestClusterMigrationsLackAServer find one that is down, and continue when it is back.
func TestClusterMigrationsLackAServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2)
	check(t, c.Nodes[1].Kill())
	s := c.impatient(0)
	fails(t, soon, func() error { return s.Replace(t.Context(), seal(1, 5)) }, hintAbsent)
	check(t, c.Nodes[1].Restart())
	s.timeout = clusterTimeout
	w := seal(1, 5)
	replace(t, s, w)
	c.agree(w)
}

// TestClusterCollect has attempts that were superseded two days ago, today, and one that was never committed, and
// collects the attempts of two days ago everywhere.
func TestClusterCollect(t *testing.T) {
	forms(t, func(t *testing.T, c cluster) {
		s := c.sink(0)
		check(t, s.Check(t.Context()))
		for _, project := range []string{"prj_a", "prj_b", "prj_c", "prj_d"} {
			c.past(project)
		}
		w := seal(9, 50)
		replace(t, s, w)
		begin := time.Now()
		found, err := c.sink(1).Collect(t.Context(), false)
		if err != nil || len(found) != 8 {
			t.Fatalf("collected %v, %v; want two attempts of each of four projects", found, err)
		}
		t.Logf("collected in %v", time.Since(begin))
		for i, node := range c.Nodes {
			left := must(t, node, "SELECT count() FROM "+c.database+"."+visitors.rows+localSuffix+" WHERE attempt < 3")
			if left != "0\n" {
				t.Errorf("node %d still holds %s collected rows", i+1, strings.TrimSpace(left))
			}
			others := "SELECT sum(human) FROM " + c.database + "." + visitors.view + " WHERE project != 'prj_a'"
			if got := must(t, node, others); got != "9\n" {
				t.Errorf("readers of node %d see %s of attempt 3, want 9", i+1, got)
			}
		}
		c.agree(w)
		if found, err := s.Collect(t.Context(), false); err != nil || len(found) > 0 {
			t.Errorf("collected again: %v, %v", found, err)
		}
	})
}

// past writes attempts 1, never committed, 2 and 3, committed two days ago.
func (c cluster) past(project string) {
	c.t.Helper()
	key := "'" + project + "', 'day', toDate('2026-10-01'), toDate('2026-10-02')"
	const ago = ", now() - 172800"
	for _, attempt := range []string{"1", "2", "3"} {
		c.insert(visitors.rows, key+", "+attempt+", '/', "+attempt+", 0, 0, 1, 0, 0, 0"+ago)
		if attempt != "1" {
			c.insert(visitors.markers, key+", "+attempt+", 1, 0, 0, 'claimed', 1, 1, 0, 0, 0"+ago)
		}
	}
}

// insert writes a row through a Distributed table, and waits until it is stored.
func (c cluster) insert(table, row string) {
	c.t.Helper()
	ses, err := c.sink(0).open(c.t.Context(), analytics.VisitorsReport)
	if err == nil {
		err = ses.conn.Exec(ses.inserting(context.Background()), "INSERT INTO "+table+" SELECT "+row)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
