package engines

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// portAttempts bounds how often an engine is started with other ports.
const portAttempts = 5

// errPortTaken says that somebody took a port between our choice and the
// engine's listen.
var errPortTaken = errors.New("port is taken")

// withPorts calls start with n free ports, and again with others while a port
// turns out to be taken.
func withPorts(n int, start func(ports []int) error) error {
	for try := 1; ; try++ {
		ports, err := freePorts(n)
		if err != nil {
			return err
		}
		if err := start(ports); !errors.Is(err, errPortTaken) || try == portAttempts {
			return err
		}
	}
}

// freePorts picks n different ports by holding all of them at once.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp4", loopback(0))
		if err != nil {
			return nil, fmt.Errorf("pick a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// taken returns the first port that cannot be listened on, or 0.
func taken(ports []int) int {
	for _, port := range ports {
		l, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			return port
		}
		l.Close()
	}
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
