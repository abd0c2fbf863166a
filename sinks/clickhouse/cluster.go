package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// clusterTimeout is the time that a server waits for the others: for the replicas to
	// fetch an insert, or for all to make or alter a table. The driver waits longer
	// for an answer.
	clusterTimeout = 30 * time.Second
	// stepTimeout is the time by which a replica may lag behind the others.
	stepTimeout = 10 * time.Second
)

// topology is the layout of the cluster.
type topology struct {
	// replicas is the number of replicas of each shard.
	replicas int
	// weights are the weights of the shards, in order; with their number they decide on which shard a window is.
	weights []string
}

func (t topology) servers() uint64 { return uint64(t.replicas * len(t.weights)) }

// findTopology asks the server how the cluster is laid out. An insert names one
// quorum for all shards, so they must have the same number of replicas.
func (ses *session) findTopology(ctx context.Context) (t topology, err error) {
	query := "SELECT toUInt64(shard_weight), toUInt64(count()) FROM system.clusters WHERE cluster = '" +
		ses.cluster + "' GROUP BY shard_num, shard_weight ORDER BY shard_num"
	err = ses.query(ctx, query, func(rows driver.Rows) error {
		var weight, replicas uint64
		if err := rows.Scan(&weight, &replicas); err != nil {
			return err
		}
		if len(t.weights) > 0 && int(replicas) != t.replicas {
			return fmt.Errorf("cluster %q has shards of %d and of %d replicas: give each shard as many", ses.cluster,
				t.replicas, replicas)
		}
		t.replicas, t.weights = int(replicas), append(t.weights, strconv.FormatUint(weight, 10))
		return nil
	})
	if err == nil && len(t.weights) == 0 {
		err = fmt.Errorf("cluster %q is not in the server's configuration (remote_servers): see SELECT DISTINCT "+
			"cluster FROM system.clusters", ses.cluster)
	}
	return t, err
}

// placement says where windows are. Tables that were filled under another one must
// not be written to: a window could be on two shards then.
func (l layout) placement() string {
	if l.cluster == "" {
		return "one server"
	}
	return fmt.Sprintf("cluster %s of %d shard(s), weights %s", l.cluster, len(l.topology.weights),
		strings.Join(l.topology.weights, ":"))
}

// define runs a statement that makes or alters a table, on every server.
func (ses *session) define(ctx context.Context, statement string) error {
	if ses.cluster == "" {
		return ses.conn.Exec(ctx, statement)
	}
	seconds := int(ses.timeout.Seconds())
	if !ses.server.modern() {
		seconds *= 2 // old servers take a signed setting for zigzag, the driver does not encode it so
	}
	err := ses.conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"distributed_ddl_task_timeout": seconds,
	})), statement)
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok && e.Code == timeoutExceeded {
		return errAbsent{err}
	}
	return err
}

// onEveryServer counts, on all servers of the cluster, the rows of a system table
// that are about one of our tables and meet a condition. Old servers ask every replica
// of a shard only with the setting, and skip those that are down; they do not add up
// the counts of several replicas, hence the inner query.
func (ses *session) onEveryServer(ctx context.Context, system, table, condition string) (uint64, error) {
	from := "system." + system
	switch {
	case ses.cluster != "" && ses.server.modern():
		from = fmt.Sprintf("clusterAllReplicas('%s', system.%s)", ses.cluster, system)
	case ses.cluster != "":
		from = fmt.Sprintf("cluster('%s', system, %s)", ses.cluster, system)
		ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
			"max_parallel_replicas": ses.topology.replicas, "prefer_localhost_replica": 0,
		}))
	}
	return ses.number(ctx, fmt.Sprintf("SELECT toUInt64(count()) FROM (SELECT table FROM %s WHERE database = '%s' "+
		"AND table = '%s' AND %s)",
		from, ses.database, ses.local(table), condition))
}

// inStep waits until every replica is up and has every marker. One that lags would
// not know of an attempt that another one shows.
func (ses *session) inStep(ctx context.Context) error {
	if ses.cluster == "" {
		return nil
	}
	const condition = "NOT is_readonly AND active_replicas = total_replicas AND inserts_in_queue = 0 AND " +
		"(log_pointer > log_max_index OR log_max_index = 0)"
	for end := time.Now().Add(stepTimeout); ; {
		n, err := ses.onEveryServer(ctx, "replicas", ses.data.markers, condition)
		if err != nil || n == ses.topology.servers() {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of the cluster's %d servers replicate and are up to date: see "+
				"system.replicas of each for is_readonly, active_replicas and inserts_in_queue", n,
				ses.topology.servers())
		}
		if err := clock.Sleep(ctx, mutationPoll); err != nil {
			return err
		}
	}
}
