package runner

import "testing"

// Processes that leave the session, the process group, the environment and their parent end
// with the command too.
func TestNothingLeavesTheCommand(t *testing.T) {
	for name, starts := range map[string]string{
		"setsid":      "setsid sleep 1000 3> $FIFO &",
		"daemon":      "(setsid sh -c 'trap \"\" TERM HUP; env -i sleep 1000 3> '$FIFO' & exit' &);",
		"two daemons": "setsid sh -c 'setsid sleep 1000 3> '$FIFO' & setsid sleep 1000 3> '$FIFO' &';",
	} {
		t.Run(name, func(t *testing.T) { testNothingIsLeft(t, starts) })
	}
}
