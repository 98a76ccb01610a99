package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"duly.dev/duly/internal/pause"
	"duly.dev/duly/test/wire"
)

// fault is a way in which things break. strike breaks them, waits for as long as they are
// to be broken, and mends them; it says whether it had an effect. Its error is one of the
// machinery: something that could not be mended.
type fault struct {
	name string
	does string // in the report
	// aside: it is of the processes; else of the servers and the ways to them. One of each
	// goes on at a time.
	aside  bool
	strike func(s *strike) (struck bool, note string, err error)
	// only is the bus that it is for; empty: any.
	only string
	// rare: once a run at most, and only where the plan says so.
	rare bool
}

// fits reports whether the fault can be asked for in a run.
func (f fault) fits(p plan) bool {
	return (f.only == "" || f.only == p.bus) && (!f.rare || p.wipes)
}

// strike is one use of a fault.
type strike struct {
	ctx   context.Context // of one call
	world *world
	dice  *rand.Rand
	// target is what it was used on, for the report and the checker.
	target string
	begin  func(target string)
}

// on names the target, with which the incident begins.
func (s *strike) on(target string) { s.target = target; s.begin(target) }

// missed is what becomes of a fault that could not be brought about, because something else
// is broken: it has not struck, and the machinery is in order.
func missed(why error) (struck bool, note string, err error) { return false, why.Error(), nil }

// between waits for a time by chance.
func (s *strike) between(least, most time.Duration) {
	pause.For(s.ctx, least+time.Duration(s.dice.Int64N(int64(most-least))))
}

// allFaults are those that there are.
var allFaults = []fault{
	{name: "kill-worker", does: "SIGKILL to a worker, which is started again after up to 3 s", aside: true, strike: killOne(worker)},
	{name: "pause-worker", does: "SIGSTOP to a worker, for up to 11 s, and then SIGCONT", aside: true, strike: pauseOne(worker, pauseBound-time.Second)},
	{name: "stop-worker", does: "SIGTERM to a worker, as a deploy does", aside: true, strike: stopOne(worker)},
	{name: "kill-scheduler", does: "SIGKILL to a scheduler", aside: true, strike: killOne(scheduler)},
	{name: "pause-scheduler", does: "SIGSTOP to a scheduler, for up to 8 s", aside: true, strike: pauseOne(scheduler, 8*time.Second)},
	{name: "kill-schedulers", does: "SIGKILL to all schedulers and a worker at once", aside: true, strike: killSchedulers},
	{name: "kill-dispatcher", does: "SIGKILL to a dispatcher", aside: true, strike: killOne(dispatcher)},
	{name: "pause-dispatcher", does: "SIGSTOP to a dispatcher, for up to 8 s", aside: true, strike: pauseOne(dispatcher, 8*time.Second)},
	{name: "kill-receiver", does: "SIGKILL to the receiver in the middle of its requests", aside: true, strike: killReceiver},

	{name: "restart-database", does: "PostgreSQL is shut down and started", strike: restartDatabase(false)},
	{name: "kill-database", does: "PostgreSQL ends as in a crash, and recovers after up to 3 s", strike: restartDatabase(true)},
	{name: "exhaust-connections", does: "all connections that the server allows are taken for up to 4 s", strike: exhaustConnections},
	{name: "lock-ledger", does: "the table of jobs is locked for up to 3 s: every pool is used up", strike: lockLedger},
	{name: "read-only-database", does: "every transaction is read-only for up to 4 s, as on a standby", strike: readOnly},
	{name: "step-clock", does: "the database's clock is 20 s ahead or behind for up to 4 s", strike: stepClock},
	{name: "restart-broker", does: "the broker is stopped and started", strike: restartBroker},
	{name: "kill-broker", does: "SIGKILL to the broker, which is started again after up to 2 s", strike: killBroker},
	{name: "pause-broker", does: "SIGSTOP to the broker, for up to 6 s", strike: pauseBroker},
	{name: "wipe-broker", does: "the broker loses everything that it has stored", strike: wipeBroker, rare: true},
	{name: "fill-broker", does: "the broker's disk is full for up to 5 s", strike: fillBroker, only: busNATS},
	{name: "cut-network", does: "a process cannot reach the ledger, the bus or both for up to 5 s: its connections break, and no new ones are made", strike: cutNetwork},
	{name: "hold-network", does: "what a process sends to the ledger or the bus goes nowhere for up to 8 s, and then arrives", strike: holdNetwork},
	{name: "slow-network", does: "everything between a process and a server takes up to 400 ms longer, each way", strike: slowNetwork},
	{name: "lose-replies", does: "the ledger does what a process asks, and its reply is lost: of leases, results, commits, cursors", strike: loseReplies},
}

// isKill reports whether a fault ends workers without warning.
func isKill(name string) bool { return name == "kill-worker" || name == "kill-schedulers" }

func killOne(program string) func(*strike) (bool, string, error) {
	return func(s *strike) (bool, string, error) {
		m := s.world.one(program, s.dice)
		s.on(m.name)
		struck := m.kill()
		s.between(500*time.Millisecond, 3*time.Second)
		return struck, "", m.start()
	}
}

func pauseOne(program string, most time.Duration) func(*strike) (bool, string, error) {
	return func(s *strike) (bool, string, error) {
		m := s.world.one(program, s.dice)
		s.on(m.name)
		struck := m.signal(syscall.SIGSTOP, false)
		s.between(time.Second, most)
		if !m.signal(syscall.SIGCONT, false) && struck {
			return struck, "", errors.New(m.name + " cannot be continued")
		}
		return struck, "", nil
	}
}

func stopOne(program string) func(*strike) (bool, string, error) {
	return func(s *strike) (bool, string, error) {
		m := s.world.one(program, s.dice)
		s.on(m.name)
		struck := m.signal(syscall.SIGTERM, true)
		if !m.await(30 * time.Second) {
			m.kill()
			return struck, "it did not stop", m.start()
		}
		return struck, "", m.start()
	}
}

func killSchedulers(s *strike) (bool, string, error) {
	victims := append(s.world.of(scheduler), s.world.one(worker, s.dice))
	var names []string
	for _, m := range victims {
		names = append(names, m.name)
	}
	s.on(strings.Join(names, ","))
	struck := true
	for _, m := range victims {
		struck = m.kill() && struck
	}
	s.between(500*time.Millisecond, 3*time.Second)
	var errs []error
	for _, m := range victims {
		errs = append(errs, m.start())
	}
	return struck, "", errors.Join(errs...)
}

func killReceiver(s *strike) (bool, string, error) {
	s.on("receiver")
	struck := s.world.receiver.kill()
	s.between(200*time.Millisecond, 2*time.Second)
	return struck, "", s.world.receiver.start()
}

func restartDatabase(crash bool) func(*strike) (bool, string, error) {
	return func(s *strike) (bool, string, error) {
		s.on("postgres")
		if crash {
			s.world.postgres.Kill()
			s.between(100*time.Millisecond, 3*time.Second)
		}
		// A run that is ended must not leave it down.
		return true, "", s.world.postgres.Restart(context.WithoutCancel(s.ctx))
	}
}

func exhaustConnections(s *strike) (bool, string, error) {
	s.on("postgres")
	var held []*pgx.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close(context.WithoutCancel(s.ctx))
		}
	}()
	full := false
	for range 300 {
		c, err := pgx.Connect(s.ctx, s.world.postgres.URL())
		if err != nil {
			answered, ok := errors.AsType[*pgconn.PgError](err)
			full = ok && answered.Code == "53300"
			break
		}
		held = append(held, c)
	}
	s.between(time.Second, 4*time.Second)
	return full, fmt.Sprintf("%d connections were taken", len(held)), nil
}

func lockLedger(s *strike) (bool, string, error) {
	s.on("postgres")
	struck := false
	err := pgx.BeginFunc(s.ctx, s.world.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(s.ctx, "LOCK TABLE duly.job IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		s.between(time.Second, 3*time.Second)
		return tx.QueryRow(s.ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&struck)
	})
	if err != nil {
		return missed(fmt.Errorf("it could not be locked: %w", err))
	}
	return struck, "", nil
}

func readOnly(s *strike) (bool, string, error) {
	s.on("postgres")
	set := func(ctx context.Context, statement string) error {
		return onServer(ctx, s.world.postgres.URL(), func(c *pgx.Conn) error {
			if _, err := c.Exec(ctx, statement); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "SELECT pg_reload_conf()")
			return err
		})
	}
	if err := set(s.ctx, "ALTER SYSTEM SET default_transaction_read_only = on"); err != nil {
		return missed(err)
	}
	s.between(500*time.Millisecond, 2*time.Second)
	refused := onServer(s.ctx, s.world.postgres.URL(), func(c *pgx.Conn) error {
		_, err := c.Exec(s.ctx, "CREATE TABLE chaos_clock.written ()")
		return err
	})
	answered, ok := errors.AsType[*pgconn.PgError](refused)
	s.between(500*time.Millisecond, 2*time.Second)
	return ok && answered.Code == "25006", "", set(context.WithoutCancel(s.ctx), "ALTER SYSTEM RESET default_transaction_read_only")
}

// clockStep is how far the clock is stepped; more than what counts as a step, and less than
// the ages of anything.
const clockStep = 20 * time.Second

func stepClock(s *strike) (bool, string, error) {
	by := clockStep
	if s.dice.IntN(2) == 0 {
		by = -by
	}
	s.on("postgres")
	says, err := step(s.ctx, s.world.postgres.URL(), by)
	struck := err == nil && time.Until(says.Add(-by)).Abs() < 5*time.Second
	s.between(time.Second, 4*time.Second)
	_, back := step(context.WithoutCancel(s.ctx), s.world.postgres.URL(), 0)
	return struck, fmt.Sprintf("by %s", by), back
}

func restartBroker(s *strike) (bool, string, error) {
	s.on("broker")
	if err := s.world.broker.stop(s.ctx); err != nil {
		return false, "", err
	}
	return true, "", s.world.broker.start(context.WithoutCancel(s.ctx))
}

func killBroker(s *strike) (bool, string, error) {
	s.on("broker")
	if err := s.world.broker.kill(); err != nil {
		return false, "", err
	}
	s.between(100*time.Millisecond, 2*time.Second)
	return true, "", s.world.broker.start(context.WithoutCancel(s.ctx))
}

func pauseBroker(s *strike) (bool, string, error) {
	s.on("broker")
	struck := s.world.broker.pause(true)
	s.between(time.Second, 6*time.Second)
	if !s.world.broker.pause(false) {
		return struck, "", errors.New("the broker cannot be continued")
	}
	return struck, "", nil
}

func wipeBroker(s *strike) (bool, string, error) {
	s.on("broker")
	err := s.world.broker.kill()
	if err == nil {
		err = s.world.broker.wipe()
	}
	if err != nil {
		return false, "", err
	}
	return true, "", s.world.broker.start(context.WithoutCancel(s.ctx))
}

func fillBroker(s *strike) (bool, string, error) {
	s.on("broker")
	b, ok := s.world.broker.(*natsBroker)
	if !ok {
		return false, "it is not NATS", nil
	}
	full, empty, err := b.fill(s.ctx)
	if empty == nil {
		return false, err.Error(), nil
	}
	note := ""
	if err != nil {
		note = err.Error()
	}
	s.between(2*time.Second, 5*time.Second)
	return full, note, empty()
}

// ways are one or both ways of a process to the servers, by chance.
func (s *strike) ways() (names string, ways []*wire.Wire) {
	m := s.world.members[s.dice.IntN(len(s.world.members))]
	which := 1 + s.dice.IntN(3)
	if m.buses == nil {
		which = 1
	}
	var to []string
	if which&1 != 0 {
		ways, to = append(ways, m.ledger), append(to, "ledger")
	}
	if which&2 != 0 {
		ways, to = append(ways, m.buses), append(to, "bus")
	}
	return m.name + " to " + strings.Join(to, "+"), ways
}

func cutNetwork(s *strike) (bool, string, error) {
	names, ways := s.ways()
	s.on(names)
	cut := 0
	for _, w := range ways {
		w.Bar(true)
		cut += w.Cut()
	}
	s.between(500*time.Millisecond, 5*time.Second)
	refused := 0
	for _, w := range ways {
		w.Bar(false)
		refused += w.Refused()
	}
	return cut > 0 || refused > 0, fmt.Sprintf("%d connections broke, %d were refused", cut, refused), nil
}

func holdNetwork(s *strike) (bool, string, error) {
	names, ways := s.ways()
	s.on(names)
	for _, w := range ways {
		w.Hold()
	}
	s.between(time.Second, 8*time.Second)
	held := 0
	for _, w := range ways {
		held += w.Release()
	}
	return held > 0, fmt.Sprintf("%d links were held", held), nil
}

func slowNetwork(s *strike) (bool, string, error) {
	names, ways := s.ways()
	s.on(names)
	by := 50*time.Millisecond + time.Duration(s.dice.Int64N(int64(350*time.Millisecond)))
	for _, w := range ways {
		w.Delay(by)
	}
	s.between(2*time.Second, 8*time.Second)
	for _, w := range ways {
		w.Delay(0)
	}
	return true, "by " + by.Round(time.Millisecond).String(), nil
}

// telling are the statements whose replies matter.
var telling = []string{"duly.lease", "duly.job", "duly.topic", "commit", "duly.mark"}

func loseReplies(s *strike) (bool, string, error) {
	m := s.world.members[s.dice.IntN(len(s.world.members))]
	s.on(m.name + " from ledger")
	var lost atomic.Int32
	odds := 1 + s.dice.IntN(4)
	var count atomic.Int32
	m.ledger.Lose(func(statement string) wire.Loss {
		statement = strings.ToLower(statement)
		for _, t := range telling {
			if strings.Contains(statement, t) && int(count.Add(1))%odds == 0 {
				lost.Add(1)
				return wire.LoseReply
			}
		}
		return wire.LoseNothing
	})
	s.between(time.Second, 4*time.Second)
	m.ledger.Lose(nil)
	return lost.Load() > 0, fmt.Sprintf("%d replies were lost", lost.Load()), nil
}

// nemesis strikes one fault after the other until ctx ends, in an order that is shuffled
// anew whenever all have come.
func nemesis(ctx context.Context, w *world, faults []fault, dice *rand.Rand) error {
	var deck []fault
	rareDone := map[string]bool{}
	for len(faults) > 0 && pause.For(ctx, 200*time.Millisecond+time.Duration(dice.Int64N(int64(time.Second)))) {
		if len(deck) == 0 {
			deck = append(deck, faults...)
			dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		if f.rare && rareDone[f.name] {
			continue
		}
		rareDone[f.name] = true
		var i *incident
		s := &strike{ctx: ctx, world: w, dice: dice, begin: func(target string) { i = w.note(f.name, target) }}
		struck, note, err := f.strike(s)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", f.name, s.target, err)
		}
		w.over(i, struck, note)
	}
	return nil
}
