package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// cut is a way to lose a connection at the worst moment. It is armed once and acts on
// the first connection that writes after that.
type cut struct {
	// loseRequest loses the request: the server never sees it. Otherwise the request
	// arrives and the reply is lost.
	loseRequest bool
	// on is what the write must have that it acts on; empty is any.
	on       string
	armed    atomic.Bool
	happened atomic.Bool
}

// pool is a pool on the ledger's database whose connections can be cut.
func (c *cut) pool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var dialer net.Dialer
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &cuttable{Conn: conn, cut: c}, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

var errCut = errors.New("the connection was cut")

type cuttable struct {
	net.Conn
	cut  *cut
	dead atomic.Bool
}

func (c *cuttable) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte(c.cut.on)) || !c.cut.armed.CompareAndSwap(true, false) {
		return c.Conn.Write(b)
	}
	c.dead.Store(true)
	c.cut.happened.Store(true)
	if c.cut.loseRequest {
		_ = c.Close() // what matters is that the server never sees the request
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cuttable) Read(b []byte) (int, error) {
	if !c.dead.Load() {
		return c.Conn.Read(b)
	}
	if !c.cut.loseRequest {
		// The reply is read to its end before the cut, so that the server has committed.
		if _, err := c.Conn.Read(make([]byte, 1<<16)); err != nil {
			return 0, err
		}
		_ = c.Close()
	}
	return 0, errCut
}
