package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
	"duly.dev/duly/test/wire"
)

// verb is what somebody asked for, or saw.
type verb string

const (
	enqueues verb = "enqueue"
	cancels  verb = "cancel"
	redrives verb = "redrive"
	resolves verb = "resolve"
	reads    verb = "read"
	effects  verb = "effect" // by the receiver
)

// answered is what is known of a request.
type answered string

const (
	ok      answered = "ok"
	failed  answered = "failed"  // it was refused, or nothing of it happened
	unclear answered = "unknown" // nobody answered
)

// request is a line of the driver's log: who asked for what about which job, when, and what
// came of it.
type request struct {
	Verb   verb      `json:"verb"`
	Kind   string    `json:"kind"`
	Key    string    `json:"key"`
	Called time.Time `json:"called"`
	// Answered is when the answer was there.
	Answered time.Time `json:"answered"`
	As       answered  `json:"as"`
	// Created: the enqueue made the job; it found it otherwise.
	Created bool `json:"created,omitempty"`
	// Deadline is the job's.
	Deadline time.Time `json:"deadline,omitzero"`
	// Generation is that of a read, of a redrive's predecessor, and Successor what that made.
	Generation int32 `json:"generation,omitempty"`
	Successor  int32 `json:"successor,omitempty"`
	Again      bool  `json:"again,omitempty"`
	// State is what a read saw, or where a cancellation led.
	State job.State `json:"state,omitempty"`
	// Requested: a cancellation waits for an attempt.
	Requested bool   `json:"requested,omitempty"`
	Why       string `json:"why,omitempty"`
}

func (r request) name() string { return r.Kind + "/" + r.Key }

// driver asks for jobs and for what is done with them, and writes everything down.
type driver struct {
	world *world
	wire  *wire.Wire
	pool  *pgxpool.Pool // over the wire
	duly  *duly.Client
	log   *os.File

	mu       sync.Mutex
	requests []request
	keys     []request // those that were enqueued, or may have been
	errs     []error
}

func newDriver(ctx context.Context, w *world) (*driver, error) {
	d := &driver{world: w}
	var err error
	if d.wire, err = wire.New(w.postgres.URL(), wire.Anywhere); err != nil {
		return nil, err
	}
	url, err := d.wire.Through(w.postgres.URL())
	if err != nil {
		return nil, err
	}
	if d.pool, err = pgxpool.New(ctx, url); err != nil {
		return nil, err
	}
	d.duly = duly.NewClient(d.pool)
	d.log, err = os.Create(filepath.Join(w.logs(), "driver.log"))
	return d, err
}

func (d *driver) close() {
	d.pool.Close()
	d.wire.Close()
	_ = d.log.Close()
}

// write notes requests that were answered, or never will be.
func (d *driver) write(all ...request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range all {
		d.requests = append(d.requests, r)
		line, err := json.Marshal(r)
		if err == nil {
			_, err = d.log.Write(append(line, '\n'))
		}
		if err != nil {
			d.errs = append(d.errs, err)
		}
		if r.Verb == enqueues && r.As != failed {
			d.keys = append(d.keys, r)
		}
	}
}

// known is a job that was enqueued, by chance; false before the first.
func (d *driver) known(dice *rand.Rand) (request, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.keys) == 0 {
		return request{}, false
	}
	return d.keys[dice.IntN(len(d.keys))], true
}

// work does everything that a driver does until ctx ends.
func (d *driver) work(ctx context.Context, seed uint64) {
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() { d.produce(ctx, n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	all.Go(func() { d.observe(ctx, rand.New(rand.NewPCG(seed, 100))) })
	all.Go(func() { d.operate(ctx, rand.New(rand.NewPCG(seed, 200))) })
	all.Wait()
}

// produce enqueues jobs, a few a transaction, and asks again for what was not answered.
func (d *driver) produce(ctx context.Context, n int, dice *rand.Rand) {
	for i := 0; pause.For(ctx, 40*time.Millisecond+time.Duration(dice.Int64N(int64(80*time.Millisecond)))); i++ {
		specs := make([]job.Spec, 1+dice.IntN(4))
		for j := range specs {
			specs[j] = d.spec([]string{plain, plain, deduped, deduped, askable}[dice.IntN(5)], fmt.Sprintf("p%d-%d-%d", n, i, j), dice)
		}
		for try := 0; try < 5 && ctx.Err() == nil; try++ {
			as := d.enqueue(ctx, specs)
			if as == ok || as == unclear && dice.IntN(4) == 0 {
				break // one in four is left as it is: nobody will ever know
			}
			pause.For(ctx, 300*time.Millisecond)
		}
		if dice.IntN(12) == 0 {
			d.cancel(ctx, specs[0].Kind, specs[0].Key)
		}
	}
}

// spec is a job: most are due at once, some later, and some have a deadline.
func (d *driver) spec(kind, key string, dice *rand.Rand) job.Spec {
	s := job.Spec{
		Kind: kind, Key: key, Destination: "http://" + d.world.receiverAt + "/", Payload: []byte(`{"of":"` + key + `"}`),
	}
	if dice == nil {
		return s
	}
	switch n := dice.IntN(20); {
	case n < 5:
		s.Due = time.Now().Add(time.Duration(dice.Int64N(int64(8 * time.Second))))
	case n < 7:
		s.Deadline = time.Now().Add(3*time.Second + time.Duration(dice.Int64N(int64(10*time.Second))))
	}
	return s
}

// requestLimit bounds a request: then nobody knows what came of it.
const requestLimit = 8 * time.Second

// enqueue asks for jobs in one transaction.
func (d *driver) enqueue(ctx context.Context, specs []job.Spec) answered {
	all := make([]request, len(specs))
	for i, s := range specs {
		all[i] = request{Verb: enqueues, Kind: s.Kind, Key: s.Key, Called: time.Now(), Deadline: s.Deadline}
	}
	refused := 0
	as, why := d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		made, err := d.duly.ScheduleMany(ctx, tx, specs)
		for i, m := range made {
			all[i].Created = m.Status == duly.Created
			if m.Status == duly.Refused {
				all[i].As, all[i].Why = failed, m.Reason.Error()
				refused++
			}
		}
		return err
	})
	for i := range all {
		if all[i].Answered = time.Now(); all[i].As == "" {
			all[i].As, all[i].Why = as, why
		}
	}
	d.write(all...)
	if refused == len(all) {
		return ok // and so it will be
	}
	return as
}

// transact does something in a transaction, and says what is known of it: only a commit
// that nobody answered leaves it open.
func (d *driver) transact(ctx context.Context, do func(context.Context, pgx.Tx) error) (answered, string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit)
	defer cancel()
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return failed, err.Error()
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit this does nothing
	if err := do(ctx, tx); err != nil {
		return failed, err.Error()
	}
	err = tx.Commit(ctx)
	var answer *pgconn.PgError
	switch {
	case err == nil:
		return ok, ""
	case errors.As(err, &answer), errors.Is(err, pgx.ErrTxCommitRollback):
		return failed, err.Error()
	}
	return unclear, err.Error()
}

func (d *driver) cancel(ctx context.Context, kind, key string) {
	r := request{Verb: cancels, Kind: kind, Key: key, Called: time.Now()}
	r.As, r.Why = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c, err := d.duly.Cancel(ctx, tx, kind, key, "driver", "no longer wanted")
		r.State, r.Requested = c.State, c.Requested
		return err
	})
	if r.As == ok && r.State != job.Cancelled {
		r.Requested = true
	}
	r.Answered = time.Now()
	d.write(r)
}

const selectStates = `SELECT k.name, j.key, j.generation, j.state
	FROM duly.job j JOIN duly.kind k ON k.id = j.kind
	JOIN unnest($1::text[], $2::text[]) AS t (kind, key) ON t.kind = k.name AND t.key = j.key
	WHERE j.successor IS NULL`

// observe looks at jobs, over and over.
func (d *driver) observe(ctx context.Context, dice *rand.Rand) {
	for pause.For(ctx, 700*time.Millisecond) {
		var kinds, keys []string
		for range 25 {
			if r, there := d.known(dice); there {
				kinds, keys = append(kinds, r.Kind), append(keys, r.Key)
			}
		}
		d.read(ctx, kinds, keys)
	}
}

// read notes where jobs stand. What is not found is not noted: the request for it may still
// be on its way.
func (d *driver) read(ctx context.Context, kinds, keys []string) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	called := time.Now()
	rows, err := d.world.pool.Query(ctx, selectStates, kinds, keys)
	if err != nil {
		return
	}
	seen, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (request, error) {
		r := request{Verb: reads, Called: called, As: ok}
		return r, row.Scan(&r.Kind, &r.Key, &r.Generation, &r.State)
	})
	if err != nil {
		return
	}
	for i := range seen {
		seen[i].Answered = time.Now()
	}
	slices.SortFunc(seen, func(a, b request) int { return strings.Compare(a.name(), b.name()) })
	d.write(slices.CompactFunc(seen, func(a, b request) bool { return a.name() == b.name() })...)
}

// operate redrives what is quarantined and resolves what is unknown, as a person does, with
// dlq; now and then twice at once.
func (d *driver) operate(ctx context.Context, dice *rand.Rand) {
	for pause.For(ctx, 800*time.Millisecond) {
		if dice.IntN(3) > 0 {
			d.redriveOne(ctx, dice)
		} else {
			d.resolveOne(ctx)
		}
	}
}

// standing is a job as an operator finds it.
type standing struct {
	Kind, Key  string
	Generation int32
	Fence      int64
}

func (d *driver) find(ctx context.Context, where string) (standing, bool) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var s standing
	err := d.world.pool.QueryRow(ctx, `SELECT k.name, j.key, j.generation, j.fence FROM duly.job j JOIN duly.kind k ON k.id = j.kind
		WHERE j.successor IS NULL AND `+where+` ORDER BY random() LIMIT 1`).Scan(&s.Kind, &s.Key, &s.Generation, &s.Fence)
	return s, err == nil
}

func (d *driver) redriveOne(ctx context.Context, dice *rand.Rand) {
	s, found := d.find(ctx, "j.state = 'quarantined' AND j.deadline IS NULL AND j.generation < 4")
	if !found {
		return
	}
	var both sync.WaitGroup
	for range 1 + dice.IntN(2) {
		both.Go(func() { d.redrive(ctx, s) })
	}
	both.Wait()
}

func (d *driver) redrive(ctx context.Context, s standing) {
	r := request{Verb: redrives, Kind: s.Kind, Key: s.Key, Generation: s.Generation, Called: time.Now()}
	said, code, err := d.dlq(ctx, "redrive", s.Kind+"/"+s.Key, "--generation", strconv.Itoa(int(s.Generation)),
		"--recovery-key", fmt.Sprintf("chaos-%d", s.Generation), "--approver", "ann", "--reason", "mended", "--json")
	var made struct {
		Generation int32 `json:"generation"`
		Again      bool  `json:"again"`
	}
	switch {
	case code == 0 && json.Unmarshal(said, &made) == nil:
		r.As, r.Successor, r.Again = ok, made.Generation, made.Again
	case code == 4: // refused
		r.As, r.Why = failed, string(bytes.TrimSpace(said))
	default:
		r.As, r.Why = unclear, fmt.Sprint(err)
	}
	r.Answered = time.Now()
	d.write(r)
}

// resolveOne looks at the receiver and says what became of an effect that nobody knows of.
func (d *driver) resolveOne(ctx context.Context) {
	s, found := d.find(ctx, "j.state = 'unknown' AND k.name = '"+plain+"'")
	if !found {
		return
	}
	looked := time.Now()
	entries, err := readJournal(d.world.journal())
	if err != nil {
		return
	}
	key, as := job.WireEffectKey(s.Kind, s.Key, s.Generation, "http"), "not-delivered"
	for _, e := range entries {
		if e.Key == key && e.Acted {
			as = "delivered"
		}
	}
	r := request{Verb: resolves, Kind: s.Kind, Key: s.Key, Generation: s.Generation, Called: time.Now()}
	said, code, err := d.dlq(ctx, "resolve", s.Kind+"/"+s.Key, "--fence", strconv.FormatInt(s.Fence, 10), "--as", as,
		"--evidence", "the receiver's journal", "--looked-at", looked.UTC().Format(time.RFC3339Nano))
	switch code {
	case 0:
		r.As = ok
	case 4:
		r.As, r.Why = failed, string(bytes.TrimSpace(said))
	default:
		r.As, r.Why = unclear, fmt.Sprint(err)
	}
	r.Answered = time.Now()
	d.write(r)
}

// dlq runs the operator's tool, on the same way as the producers.
func (d *driver) dlq(ctx context.Context, args ...string) (said []byte, code int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	url, err := d.wire.Through(d.world.postgres.URL())
	if err != nil {
		return nil, -1, err
	}
	command := exec.CommandContext(ctx, d.world.programs.path(dlq), args...)
	command.Env = []string{"DULY_DATABASE_URL=" + url, "HOME=" + d.world.home, "PATH=" + os.Getenv("PATH"), "USER=operator"}
	var problems bytes.Buffer
	command.Stderr = &problems
	said, err = command.Output()
	code = -1
	if command.ProcessState != nil {
		code = command.ProcessState.ExitCode()
	}
	if err != nil {
		return append(said, problems.Bytes()...), code, fmt.Errorf("%w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return said, code, nil
}
