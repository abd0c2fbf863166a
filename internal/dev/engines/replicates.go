package engines

import (
	"context"
	"fmt"
	"strings"
)

// replicates says whether the server answers, has a session with ZooKeeper and
// has announced each of its replicated tables there.
//
// After a kill that is ten seconds later. A table stands still while the
// announcement of the killed process lasts, 18.16 looks again only after that
// time, and until then no system table tells it from one that works.
func (c *ClickHouse) replicates(ctx context.Context) bool {
	if !c.answers(ctx) {
		return false
	}
	if _, err := c.Exec(ctx, "SELECT count() FROM system.zookeeper WHERE path = '/'"); err != nil {
		return false
	}
	replicas, err := c.Exec(ctx, "SELECT replica_path FROM system.replicas")
	if err != nil {
		return false
	}
	for _, replica := range strings.Fields(replicas) {
		if !c.announces(ctx, replica) {
			return false
		}
	}
	return true
}

// announces says whether the process that runs now, not one before it, holds
// the announcement of a replica, which begins with "pid: 123, ".
func (c *ClickHouse) announces(ctx context.Context, replica string) bool {
	holder, err := c.Exec(ctx, fmt.Sprintf(
		"SELECT value FROM system.zookeeper WHERE path = '%s' AND name = 'is_active'", replica))
	return err == nil && strings.HasPrefix(holder, fmt.Sprintf("pid: %d,", c.cmd.Process.Pid))
}
