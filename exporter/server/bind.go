package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// firstSocket is the descriptor of the first socket systemd hands over.
const firstSocket = 3

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err == nil {
		return nil
	}
	return ConfigError(fmt.Sprintf("DOCGAUGE_LISTEN_ADDRESS %.100q: want host:port with a port from 0 to 65535, such as 127.0.0.1:9817, or :9817 for every address", address))
}

// bind takes the socket. Its errors are of the machine, but for a process that
// systemd did not start with exactly one socket.
func bind(cfg Config) (net.Listener, error) {
	if cfg.SystemdSocket {
		return activated()
	}
	l, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("DOCGAUGE_LISTEN_ADDRESS %s: %w: %s", cfg.Address, err, remedy(err))
	}
	return l, nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process has the port; stop it, or set another port"
	case errors.Is(err, os.ErrPermission):
		return "this user may not take the port; set one above 1023"
	}
	return "the host must be an address of this machine; 127.0.0.1 always is"
}

// activated returns the socket that systemd opened for this process, by the
// protocol of sd_listen_fds(3).
func activated() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, ConfigError("systemd socket activation: systemd handed over no socket: start docgauge by a .socket unit, or let it listen on DOCGAUGE_LISTEN_ADDRESS")
	}
	if count != "1" {
		return nil, ConfigError(fmt.Sprintf("systemd socket activation: systemd handed over %.10s sockets: want exactly one ListenStream= in the .socket unit", count))
	}
	file := os.NewFile(firstSocket, "LISTEN_FD_3")
	defer file.Close() // FileListener makes a copy
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("systemd socket activation: %w", err)
	}
	if _, ok := l.(*net.TCPListener); !ok {
		return nil, errors.Join(ConfigError(fmt.Sprintf("systemd socket activation: the socket is %s: want a TCP port in ListenStream=", l.Addr().Network())), l.Close())
	}
	return l, nil
}
