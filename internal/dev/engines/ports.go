package engines

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	// portAttempts bounds how often an engine is started with other ports.
	portAttempts = 5
	// firstPort and lastPort bound the ports of engines. They lie below those
	// that systems hand out to whoever asks for any: such a port, let go for the
	// engine to take, or let go by one that was killed, would soon be another's.
	firstPort, lastPort = 10_000, 32_767
	// portTries bounds how many ports are looked at for one.
	portTries = 1000
)

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

// freePorts picks n different ports, which no other process of this package is
// given before this one has ended.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := Port()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

// Port returns a port on loopback that nobody listens on. No other process of
// this package is given it before this one has ended, nor does the system hand it
// out.
func Port() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if reserve(port) && taken([]int{port}) == 0 {
			return port, nil
		}
	}
	return 0, fmt.Errorf("pick a free port: of %d from %d to %d each is taken", portTries, firstPort, lastPort)
}

// reserved are the UDP sockets that keep the ports of this process, which no
// engine needs for itself: a second process cannot bind them.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

func reserve(port int) bool {
	socket, err := net.ListenPacket("udp4", loopback(port))
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return true
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
