package engines

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// ZooKeeper is a running standalone server, which a cluster of ClickHouse
// 18.16 keeps its replication log in.
type ZooKeeper struct {
	process
	port int
}

// zookeeperClasses are Debian's jars: the server, whose manifest names what it
// needs, and a logger that writes to standard error.
var zookeeperClasses = []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}

// zooCfg has a short tick so that the session of a killed replica may end in
// seconds; "conf" is the one command word by which we tell our server from
// another. Its verbs are the data directory and the port.
const zooCfg = `dataDir=%s
clientPortAddress=127.0.0.1
clientPort=%d
tickTime=500
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=conf
`

// newZooKeeper writes the configuration of a server and does not start it.
func newZooKeeper(dir string, port int) (*ZooKeeper, error) {
	java, err := program("java")
	if err != nil {
		return nil, err
	}
	for _, jar := range zookeeperClasses {
		if _, err := os.Stat(jar); err != nil {
			return nil, Missing{Engine: "zookeeper", Install: installer}
		}
	}
	z := &ZooKeeper{port: port}
	config := filepath.Join(dir, "zoo.cfg")
	z.process = process{
		name: "zookeeper",
		argv: []string{java,
			"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", strings.Join(zookeeperClasses, ":"),
			"org.apache.zookeeper.server.ZooKeeperServerMain", config},
		dir:   dir,
		ports: []int{port},
		ready: z.answers,
	}
	return z, write(config, fmt.Sprintf(zooCfg, z.data(), port))
}

func (z *ZooKeeper) data() string { return filepath.Join(z.dir, "data") }

func (z *ZooKeeper) answers(ctx context.Context) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", loopback(z.port))
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, "conf"); err != nil {
		return false
	}
	text, err := io.ReadAll(conn)
	return err == nil && strings.Contains(string(text), "dataDir="+z.data())
}
