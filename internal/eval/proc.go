package eval

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/ledger"
)

// proc stands for a process of the fleet. What a real one would share with nobody it has of
// its own: its connections to the ledger and to the bus.
type proc struct {
	world *world
	name  string
	view  *view
	// ledger is its own on PostgreSQL; nil in memory.
	ledger *ledger.Ledger
	link   *link
	wires  wires

	order  context.CancelFunc // the order to stop
	ended  chan struct{}      // closed when its loops have ended
	err    error              // what they ended with; set by then
	kills  sync.Once
	living context.Context //nolint:containedctx // it is the life of the process, which everything that it does hangs on
	die    context.CancelFunc

	mu     sync.Mutex
	frozen chan struct{} // closed when it goes on; nil while it runs
	last   []func()      // what is closed at its end
}

// start makes a process and runs what loops makes on it.
func (w *world) start(ctx context.Context, name string, loops func(ctx context.Context, p *proc) (func(context.Context) error, error)) (*proc, error) {
	p := &proc{world: w, name: name, ended: make(chan struct{})}
	p.living, p.die = context.WithCancel(context.WithoutCancel(ctx))
	if err := p.connect(ctx); err != nil {
		return nil, fmt.Errorf("starting a %s: %w", name, err)
	}
	running, order := context.WithCancel(context.WithoutCancel(ctx))
	p.order = order
	w.mu.Lock()
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	run, err := loops(running, p)
	if err != nil {
		close(p.ended)
		return nil, fmt.Errorf("starting a %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		p.err = run(running)
	}()
	return p, nil
}

// connect connects to the ledger and to the bus.
func (p *proc) connect(ctx context.Context) error {
	w := p.world
	p.view = &view{store: w.store, heart: w.memory, proc: p}
	if w.databaseURL != "" {
		pool, err := p.wires.pool(ctx, w.databaseURL, procConns)
		if err != nil {
			return err
		}
		heart, err := p.wires.pool(ctx, w.databaseURL, 1)
		if err != nil {
			return err
		}
		l := ledger.New(pool)
		p.ledger, p.view.store, p.view.heart = l, l, l.Heart(heart)
		if err := l.LoadKinds(ctx); err != nil {
			return err
		}
	}
	b, err := w.connect(ctx, p.name)
	if err != nil {
		return err
	}
	p.link = &link{Bus: b, proc: p}
	return nil
}

// procConns are the connections of one process, its heart's own not counted.
const procConns = 8

// at passes a moment: it holds a process that was stopped, and ends one that was ended.
func (p *proc) at(m moment) error {
	m.proc = p
	p.wait()
	if p.dead() {
		return errDead
	}
	err := p.world.act(m)
	p.wait()
	if p.dead() {
		return errDead
	}
	return err
}

// call makes one call of the ledger between two moments. The second sees what came of it.
func (p *proc) call(before point, do func() (moment, error)) error {
	if err := p.at(moment{point: beforeAny}); err != nil {
		return err
	}
	if before != "" {
		if err := p.at(moment{point: before}); err != nil {
			return err
		}
	}
	after, err := do()
	if err != nil || after.point == "" {
		if p.dead() {
			return errDead
		}
		return err
	}
	return p.at(after)
}

func (p *proc) dead() bool { return p.living.Err() != nil }

// kill ends the process, as SIGKILL would.
func (p *proc) kill() {
	p.kills.Do(func() {
		p.die()
		p.thaw()
		p.wires.cut()
		p.link.crash()
		p.order()
	})
}

// stop orders the process to stop, and waits until it has.
func (p *proc) stop() error {
	p.order()
	select {
	case <-p.ended:
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			return fmt.Errorf("the %s did not stop in peace: %w", p.name, p.err)
		}
		return nil
	case <-time.After(stopBound):
		return fmt.Errorf("the %s did not stop within %s", p.name, stopBound)
	}
}

// close closes what the process had, once its loops have ended.
func (p *proc) close() {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	for _, one := range last {
		one()
	}
	p.wires.close()
	if p.link != nil {
		_ = p.link.Close()
	}
}

// closing has something closed at the end of the process.
func (p *proc) closing(one func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, one)
}

// stopBound is what a process has to stop.
const stopBound = 20 * time.Second

// freeze stops the process in its tracks, as SIGSTOP would: it deals with nothing outside
// until thaw.
func (p *proc) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// thaw lets it go on.
func (p *proc) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// wait waits while the process is frozen.
func (p *proc) wait() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-p.world.over:
	}
}

// wires are the connections of a process to PostgreSQL, which can be cut.
type wires struct {
	mu     sync.Mutex
	gone   bool
	conns  map[net.Conn]struct{}
	pools  []*pgxpool.Pool
	dialer net.Dialer
}

// pool makes a pool whose connections are these wires.
func (w *wires) pool(ctx context.Context, url string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.DialFunc = w.dial
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pools = append(w.pools, pool)
	return pool, nil
}

var errCut = errors.New("the wire was cut")

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	gone := w.gone
	w.mu.Unlock()
	if gone {
		return nil, errCut
	}
	c, err := w.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, errors.Join(errCut, c.Close())
	}
	if w.conns == nil {
		w.conns = make(map[net.Conn]struct{})
	}
	w.conns[c] = struct{}{}
	return c, nil
}

// cut ends all connections without a word, for good.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for c := range w.conns {
		_ = c.Close() // as its process's end would
	}
}

// close closes the pools once nobody uses them any more.
func (w *wires) close() {
	w.mu.Lock()
	pools := w.pools
	w.mu.Unlock()
	for _, p := range pools {
		p.Close()
	}
}

// link is the bus as a process sees it.
type link struct {
	bus.Bus

	proc *proc
}

// crash ends the connection as the end of a process does.
func (l *link) crash() {
	if b, ok := l.Bus.(*membus.Bus); ok {
		b.Crash()
		return
	}
	go func() { _ = l.Close() }() // it says goodbye for up to some seconds
}
