package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/test/wire"
)

// The kinds of every run, each on a lane of its own.
const (
	plain   = "plain"   // nothing is promised: what may have happened is never repeated
	deduped = "deduped" // its receiver dedupes
	askable = "askable" // its receiver can be asked
)

// How the workers lease. A pause is never longer than the pause bound, which is what the
// guarantees assume.
const (
	leaseTime  = 6 * time.Second
	pauseBound = 12 * time.Second
)

var configuration = template.Must(template.New("duly.yaml").Parse(`
prefix: {{.Prefix}}
worker: {slots: 24, lease_time: 6s, heartbeat: 1s, drain: 10s, pause_bound: 12s}
lanes:
  plain: {pack: 4}
  deduped: {pack: 4}
  askable: {pack: 4}
kinds:
  plain: &hook
    lane: plain
    channel: http
    limit: 3s
    base: 100ms
    cap: 2s
    max_attempts: 100
    http: {allow_networks: [127.0.0.0/8], receipt_header: X-Receipt}
  deduped:
    <<: *hook
    lane: deduped
    promises: {window: 1h, settle: 3s}
  askable:
    <<: *hook
    lane: askable
    promises:
      settle: 3s
      lookup:
        at_once: 8
        timeout: 5s
        http:
          url: '{{"{{.Origin}}/effects/{{.EffectKey}}"}}'
          answers:
            - {status: 200, pointer: /state, equals: [done], means: yes}
            - {status: 202, means: working}
            - {status: 404, means: no}
          receipt_pointer: /id
          allow_networks: [127.0.0.0/8]
`))

// member is a process of Duly with its own ways to the servers.
type member struct {
	*process

	program       string
	ledger, buses *wire.Wire
}

// world is everything of one run.
type world struct {
	plan       plan
	home       string
	programs   programs
	postgres   *devstack.Postgres
	broker     broker
	receiver   *process
	receiverAt string // host:port
	members    []*member
	// pool is the checker's and the operator's own: no fault is on its way.
	pool   *pgxpool.Pool
	ledger *ledger.Ledger

	mu        sync.Mutex
	incidents []*incident
	began     time.Time
}

// incident is one strike of a fault.
type incident struct {
	Fault, Target string
	From, To      time.Time // To is zero while it goes on
	// Struck: it has been seen to have an effect.
	Struck bool
	Note   string `json:",omitempty"`
}

func (w *world) logs() string    { return filepath.Join(w.home, "logs") }
func (w *world) journal() string { return filepath.Join(w.logs(), "receiver.journal") }
func (w *world) config() string  { return filepath.Join(w.home, "duly.yaml") }

// newWorld starts the servers, the receiver and Duly, and waits until all are ready.
func newWorld(ctx context.Context, p plan, home string, programs programs) (w *world, err error) {
	w = &world{plan: p, home: home, programs: programs, began: time.Now()}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := os.MkdirAll(w.logs(), 0o755); err != nil {
		return w, err
	}
	if err := w.startServers(ctx); err != nil {
		return w, err
	}
	if err := w.startReceiver(ctx); err != nil {
		return w, err
	}
	for _, program := range []string{scheduler, scheduler, dispatcher, dispatcher, worker, worker, worker} {
		if err := w.add(program); err != nil {
			return w, err
		}
	}
	for _, m := range w.members {
		if err := m.says(ctx, `"msg":"running"`, time.Minute); err != nil {
			return w, err
		}
	}
	return w, w.ledger.LoadKinds(ctx)
}

func (w *world) startServers(ctx context.Context) (err error) {
	var text bytes.Buffer
	if err := configuration.Execute(&text, map[string]string{"Prefix": fmt.Sprintf("chaos-%d", w.plan.number)}); err != nil {
		return err
	}
	if err := os.WriteFile(w.config(), text.Bytes(), 0o600); err != nil {
		return err
	}
	w.postgres, err = devstack.StartPostgres(ctx, devstack.PostgresOptions{
		UnsafeNoSync: true, // the machine does not crash; the server does
		Settings:     map[string]string{"max_connections": "160", "shared_buffers": "64MB"},
	})
	if err != nil {
		return err
	}
	if err := makeClock(ctx, w.postgres.URL()); err != nil {
		return err
	}
	if err := ledger.MigrateUp(ctx, w.postgres.URL()); err != nil {
		return err
	}
	if w.pool, err = pgxpool.New(ctx, w.postgres.URL()); err != nil {
		return err
	}
	w.ledger = ledger.New(w.pool)
	if w.plan.bus == busKafka {
		w.broker, err = newKafka(w.plan, w.home)
	} else {
		w.broker, err = newNATS(w.home, w.programs)
	}
	if err != nil {
		return err
	}
	if err := w.broker.start(ctx); err != nil {
		return err
	}
	return w.remindSoon(ctx)
}

// remindSoon makes NATS give the messages of a worker that died to another one soon.
func (w *world) remindSoon(ctx context.Context) error {
	if w.plan.bus == busKafka {
		return nil
	}
	b, err := natsbus.Connect(ctx, w.broker.url(), natsbus.Options{Prefix: fmt.Sprintf("chaos-%d", w.plan.number), AckWait: 4 * time.Second})
	if err != nil {
		return err
	}
	return errors.Join(b.Ensure(ctx, []string{plain, deduped, askable}), b.Close())
}

func (w *world) startReceiver(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	w.receiverAt = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	w.receiver = &process{
		name: "receiver", path: w.programs.self, logs: w.logs(),
		args: []string{"receiver", "-address", w.receiverAt, "-journal", w.journal(), "-seed", strconv.FormatUint(w.plan.seed, 10)},
	}
	if err := w.receiver.start(); err != nil {
		return err
	}
	return awaitPort(ctx, port)
}

// add starts a process of Duly.
func (w *world) add(program string) error {
	m := &member{program: program}
	var err error
	if m.ledger, err = wire.New(w.postgres.URL(), wire.Anywhere); err != nil {
		return err
	}
	database, err := m.ledger.Through(w.postgres.URL())
	if err != nil {
		return err
	}
	busURL := w.broker.url()
	if w.plan.bus != busKafka { // whose brokers tell their clients where to connect
		if m.buses, err = wire.New(busURL, wire.Anywhere); err != nil {
			return err
		}
		if busURL, err = m.buses.Through(busURL); err != nil {
			return err
		}
	}
	m.process = &process{
		name: fmt.Sprintf("%s%d", program, len(w.members)+1), path: w.programs.path(program), logs: w.logs(),
		env: append(w.environment(database, busURL), "DULY_ADMIN_ADDR=127.0.0.1:0", "DULY_LOG_LEVEL=info"),
	}
	w.members = append(w.members, m)
	return m.start()
}

func (w *world) environment(database, busURL string) []string {
	return []string{"DULY_DATABASE_URL=" + database, "DULY_BUS_URL=" + busURL, "DULY_CONFIG=" + w.config()}
}

// of are the members of a program.
func (w *world) of(program string) (all []*member) {
	for _, m := range w.members {
		if m.program == program {
			all = append(all, m)
		}
	}
	return all
}

// one is a member of a program, by chance.
func (w *world) one(program string, dice *rand.Rand) *member {
	all := w.of(program)
	return all[dice.IntN(len(all))]
}

// note begins an incident.
func (w *world) note(fault, target string) *incident {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := &incident{Fault: fault, Target: target, From: time.Now()}
	w.incidents = append(w.incidents, i)
	return i
}

// over ends an incident.
func (w *world) over(i *incident, struck bool, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i.To, i.Struck, i.Note = time.Now(), struck, note
}

// close ends everything.
func (w *world) close() {
	var ending sync.WaitGroup
	for _, m := range w.members {
		if m.process != nil {
			ending.Go(func() { m.retire(20 * time.Second) })
		}
	}
	ending.Wait()
	for _, m := range w.members {
		for _, way := range []*wire.Wire{m.ledger, m.buses} {
			if way != nil {
				way.Close()
			}
		}
	}
	if w.receiver != nil {
		w.receiver.signal(syscall.SIGKILL, true)
		w.receiver.retire(time.Second)
	}
	if w.broker != nil {
		w.broker.close()
	}
	if w.pool != nil {
		w.pool.Close()
	}
	if w.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = w.postgres.Stop(ctx) // its data is thrown away
	}
}
