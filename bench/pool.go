package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// countingPool is a pool of connections that counts round trips: every time that
// something is sent is one, since nobody here sends without waiting for the answer.
type countingPool struct {
	*pgxpool.Pool
	sent *atomic.Int64
}

// conns is how many connections a contestant has: more than there are clients.
const conns = 40

// openPool connects with exactly so many connections, all open from the beginning, so
// that nothing measured opens one.
func openPool(ctx context.Context, url string) (*countingPool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database's URL: %w", err)
	}
	p := &countingPool{sent: new(atomic.Int64)}
	config.MaxConns, config.MinConns = conns, conns
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countingConn{conn, p.sent}, nil
	}
	if p.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	for p.Stat().TotalConns() < conns {
		if err := waitFor(ctx, 5*time.Millisecond); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// countingConn counts what is sent.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

// Write sends.
func (c countingConn) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// singles measures transactions that enqueue one job each, from so many clients at once.
// Every client has done one before, so that statements are prepared.
func (p *countingPool) singles(ctx context.Context, m *Meter, clients int, d time.Duration, enqueue func(ctx context.Context, tx pgx.Tx, client, i int) error) error {
	one := func(ctx context.Context, client, i int) error {
		return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error { return enqueue(ctx, tx, client, i) })
	}
	if err := together(ctx, clients, func(ctx context.Context, client int) error { return one(ctx, client, -1) }); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	before := p.sent.Load()
	n, err := hammer(ctx, clients, d, one)
	if err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	m.Count(n)
	m.Trips(float64(p.sent.Load()-before) / float64(max(1, n)))
	return nil
}

// latency measures jobs that are enqueued at a rate, one a transaction, until the last is
// durably done. enqueue returns the job's number, which the stopwatches are stopped by.
func (p *countingPool) latency(ctx context.Context, m *Meter, rate int, d time.Duration, watches *stopwatches, enqueue func(ctx context.Context, tx pgx.Tx, i int) (int64, error)) error {
	if err := m.Begin(ctx); err != nil {
		return err
	}
	n, err := drip(ctx, rate, d, func(ctx context.Context, i int, began time.Time) error {
		return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
			id, err := enqueue(ctx, tx, i)
			if err == nil {
				watches.start(id, began)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := watches.tally.wait(ctx, n); err != nil {
		return err
	}
	m.Count(n)
	return m.Done(ctx)
}

// idle watches what runs do nothing.
func idle(ctx context.Context, m *Meter, d time.Duration) error {
	if err := waitFor(ctx, 2*warmUp); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, d); err != nil {
		return err
	}
	return m.Done(ctx)
}
