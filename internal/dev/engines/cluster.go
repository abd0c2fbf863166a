package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// clusterName is the cluster's name for ON CLUSTER and Distributed tables.
const clusterName = "docgauge"

// Cluster is a set of ClickHouse servers that share one ZooKeeper. Each has the
// macros {shard} ("1", "2", …) and {replica} ("r1", "r2", …). Restart of a
// server waits until its tables replicate, which needs ZooKeeper.
type Cluster struct {
	Name      string        // "docgauge", for ON CLUSTER
	Nodes     []*ClickHouse // shard by shard: the replicas of shard 1 come first
	ZooKeeper *zooKeeper
}

// RunCluster starts a cluster for one test, as [StartClusterOf] does.
func RunCluster(t testing.TB, shards, replicas int, options ...option) *Cluster {
	t.Helper()
	return run(t, func(dir string) (*Cluster, error) { return StartClusterOf(dir, shards, replicas, options...) })
}

// StartClusterOf starts ZooKeeper and a server for each replica of each shard,
// all below dir, and waits until each answers and has its ZooKeeper session.
// The options apply to every server.
func StartClusterOf(dir string, shards, replicas int, options ...option) (*Cluster, error) {
	return start(dir, 1+portsPerServer*shards*replicas, func(dir string, ports []int) (*Cluster, error) {
		return newCluster(dir, shards, replicas, ports, options)
	})
}

// newCluster writes the configuration of all servers and starts none. The
// first port is ZooKeeper's.
func newCluster(dir string, shards, replicas int, ports []int, options []option) (*Cluster, error) {
	zookeeper, err := newZooKeeper(filepath.Join(dir, "zookeeper"), ports[:1])
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: clusterName, ZooKeeper: zookeeper}
	layout := clusterXML(shards, replicas, ports)
	for i := range shards * replicas {
		shard, replica := i/replicas+1, i%replicas+1
		macros := fmt.Sprintf("<macros><shard>%d</shard><replica>r%d</replica></macros>", shard, replica)
		node, err := newClickHouse(filepath.Join(dir, fmt.Sprintf("shard%d-r%d", shard, replica)),
			serverPorts(ports, i), append([]option{WithConfig(layout), WithConfig(macros)}, options...)...)
		if err != nil {
			return nil, err
		}
		node.ready = node.replicates
		c.Nodes = append(c.Nodes, node)
	}
	return c, nil
}

// serverPorts are the ports of server i of a cluster.
func serverPorts(ports []int, i int) []int { return ports[1+i*portsPerServer:][:portsPerServer] }

// clusterXML is the configuration that all servers of a cluster share. A killed
// replica loses its session after six seconds, not after the usual thirty.
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

// Restart starts ZooKeeper, then every server. If one of them fails, all are killed.
func (c *Cluster) Restart() error {
	err := c.ZooKeeper.Restart()
	if err == nil {
		err = c.each((*ClickHouse).Restart)
	}
	if err != nil {
		err = errors.Join(err, c.Kill())
	}
	return err
}

// Kill ends every server and ZooKeeper with SIGKILL.
func (c *Cluster) Kill() error {
	return errors.Join(c.each((*ClickHouse).Kill), c.ZooKeeper.Kill())
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

// Tail returns the ends of the error logs of all servers.
func (c *Cluster) Tail() string {
	text := c.ZooKeeper.Tail()
	for _, node := range c.Nodes {
		text += "\n--- " + node.Addr() + "\n" + node.Tail()
	}
	return text
}

// replicates reports whether the server answers, has a session with ZooKeeper
// and has announced each of its replicated tables there.
//
// After a kill that takes ten seconds: a table stands still while the
// announcement of the killed process lasts, 18.16 looks again only after that
// time, and until then no system table shows the difference.
func (c *ClickHouse) replicates(ctx context.Context) bool {
	if _, err := c.Exec(ctx, "SELECT count() FROM system.zookeeper WHERE path = '/'"); err != nil {
		return false
	}
	replicas, err := c.Exec(ctx, "SELECT replica_path FROM system.replicas")
	if err != nil {
		return false
	}
	for _, replica := range strings.Fields(replicas) {
		// The announcement begins with the process that made it: "pid: 123, ".
		announced, err := c.Exec(ctx, fmt.Sprintf(
			"SELECT value FROM system.zookeeper WHERE path = '%s' AND name = 'is_active'", replica))
		if err != nil || !strings.HasPrefix(announced, fmt.Sprintf("pid: %d,", c.cmd.Process.Pid)) {
			return false
		}
	}
	return true
}

// zooKeeper is a running standalone server, which keeps the replication log of a
// cluster of ClickHouse 18.16.
type zooKeeper struct{ process }

// zookeeperClasses are Debian's jars: the server, whose manifest names what it
// needs, and a logger that writes to standard error.
var zookeeperClasses = []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}

// zooCfg has a short tick so that the session of a killed replica can end in
// seconds. Its verbs are the data directory and the port.
const zooCfg = `dataDir=%s
clientPortAddress=127.0.0.1
clientPort=%d
tickTime=500
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=conf
`

// newZooKeeper writes the configuration of a server and does not start it.
func newZooKeeper(dir string, ports []int) (*zooKeeper, error) {
	java, err := program("java")
	if err != nil {
		return nil, err
	}
	for _, jar := range zookeeperClasses {
		if _, err := os.Stat(jar); err != nil {
			return nil, Missing{Engine: "zookeeper", Install: installer}
		}
	}
	config, data := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "data")
	return &zooKeeper{process{
		name: "zookeeper",
		argv: []string{java,
			"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", strings.Join(zookeeperClasses, ":"),
			"org.apache.zookeeper.server.ZooKeeperServerMain", config},
		dir:   dir,
		ports: ports,
		// The command "conf" prints the data directory, which no other server has.
		ready: func(ctx context.Context) bool {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp4", loopback(ports[0]))
			if err != nil {
				return false
			}
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if _, err := io.WriteString(conn, "conf"); err != nil {
				return false
			}
			text, err := io.ReadAll(conn)
			return err == nil && strings.Contains(string(text), "dataDir="+data)
		},
	}}, write(config, fmt.Sprintf(zooCfg, data, ports[0]))
}
