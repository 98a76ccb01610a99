package devstack

import (
	"fmt"
	"net"
)

// loopback is the only address that the servers listen on.
const loopback = "127.0.0.1"

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
