package e2e_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	network "duly.dev/duly/test/wire"
)

// wire is the way between a process and a server, which a test can cut or hold.
type wire = network.Wire

// loss is what is lost of one exchange with PostgreSQL.
type loss = network.Loss

// The losses.
const (
	loseNothing = network.LoseNothing
	loseRequest = network.LoseRequest
	loseReply   = network.LoseReply
)

// anywhere is an address that the system chooses.
const anywhere = network.Anywhere

// reserve returns an address on which nobody listens yet.
func reserve(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", anywhere)
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// way makes a way, at the address, to the server at the URL. It ends with the rig.
func (r *rig) way(serverURL, address string) *wire {
	r.t.Helper()
	w, err := network.New(serverURL, address)
	require.NoError(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wires = append(r.wires, w)
	return w
}

// through returns the server's URL with another address in place of its own.
func through(t *testing.T, serverURL, address string) string {
	t.Helper()
	url, err := network.Through(serverURL, address)
	require.NoError(t, err)
	return url
}
