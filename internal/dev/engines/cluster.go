package engines

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// clusterName is what ON CLUSTER and Distributed tables call the cluster.
const clusterName = "docgauge"

// Cluster is ClickHouse servers that share one ZooKeeper. Each has the macros
// {shard} ("1", "2", …) and {replica} ("r1", "r2", …). Restart of one of them
// waits until its tables replicate, which needs ZooKeeper.
type Cluster struct {
	Name      string        // "docgauge", for ON CLUSTER
	Nodes     []*ClickHouse // shard by shard: the replicas of shard 1 come first
	ZooKeeper *ZooKeeper
}

// StartCluster starts ZooKeeper and n servers that are replicas of one shard.
// All of them keep what they write below dir.
func StartCluster(dir string, n int, options ...Option) (*Cluster, error) {
	return StartClusterOf(dir, 1, n, options...)
}

// StartClusterOf starts ZooKeeper and a server for each replica of each shard,
// and waits until each answers and has its ZooKeeper session. The options go
// to every server.
func StartClusterOf(dir string, shards, replicas int, options ...Option) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var cluster *Cluster
	err = withPorts(1+portsPerServer*shards*replicas, func(ports []int) (err error) {
		if cluster, err = newCluster(dir, shards, replicas, ports, options); err != nil {
			return err
		}
		if err := cluster.start(); err != nil {
			return errors.Join(err, cluster.Kill())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

// Stop stops every server, then ZooKeeper; the servers that are gone already
// do no harm.
func (c *Cluster) Stop() error {
	return errors.Join(c.each((*ClickHouse).Stop), c.ZooKeeper.Stop())
}

// Kill ends every server and ZooKeeper with SIGKILL.
func (c *Cluster) Kill() error {
	return errors.Join(c.each((*ClickHouse).Kill), c.ZooKeeper.Kill())
}

// Tail returns the ends of the error logs of all servers.
func (c *Cluster) Tail() string {
	text := c.ZooKeeper.Tail()
	for _, node := range c.Nodes {
		text += "\n--- " + node.Addr() + "\n" + node.Tail()
	}
	return text
}

// newCluster writes the configuration of all servers and starts none. The
// first port is ZooKeeper's.
func newCluster(dir string, shards, replicas int, ports []int, options []Option) (*Cluster, error) {
	zookeeper, err := newZooKeeper(filepath.Join(dir, "zookeeper"), ports[0])
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: clusterName, ZooKeeper: zookeeper}
	layout := clusterXML(shards, replicas, ports)
	for i := range shards * replicas {
		shard, replica := i/replicas+1, i%replicas+1
		macros := fmt.Sprintf("<macros><shard>%d</shard><replica>r%d</replica></macros>", shard, replica)
		node, err := newClickHouse(filepath.Join(dir, fmt.Sprintf("shard%d-r%d", shard, replica)),
			serverPorts(ports, i), append([]Option{WithConfig(layout), WithConfig(macros)}, options...)...)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c, nil
}

// serverPorts are the ports of server i of a cluster.
func serverPorts(ports []int, i int) []int { return ports[1+i*portsPerServer:][:portsPerServer] }

// clusterXML is what all servers of a cluster have in common. A killed replica
// loses its session after six seconds, not after the usual thirty.
func clusterXML(shards, replicas int, ports []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<zookeeper><node index=\"1\"><host>127.0.0.1</host><port>%d</port></node>", ports[0])
	fmt.Fprint(&b, "<session_timeout_ms>6000</session_timeout_ms></zookeeper>\n")
	fmt.Fprint(&b, "<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>\n")
	fmt.Fprintf(&b, "<remote_servers><%s>\n", clusterName)
	for shard := range shards {
		fmt.Fprint(&b, "<shard><internal_replication>true</internal_replication>\n")
		for replica := range replicas {
			port := serverPorts(ports, shard*replicas+replica)[0]
			fmt.Fprintf(&b, "<replica><host>127.0.0.1</host><port>%d</port></replica>\n", port)
		}
		fmt.Fprint(&b, "</shard>\n")
	}
	fmt.Fprintf(&b, "</%s></remote_servers>", clusterName)
	return b.String()
}

func (c *Cluster) start() error {
	if err := c.ZooKeeper.Restart(); err != nil {
		return err
	}
	for _, node := range c.Nodes {
		node.ready = node.replicates
	}
	return c.each((*ClickHouse).Restart)
}

// each does one thing to all servers at once.
func (c *Cluster) each(do func(*ClickHouse) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, node := range c.Nodes {
		wg.Go(func() { errs[i] = do(node) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
