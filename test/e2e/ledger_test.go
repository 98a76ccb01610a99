package e2e_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

// G2, C34: PostgreSQL is shut down, crashes, and stays away for longer than a lease,
// while jobs flow. Nothing is lost, no worker counts as dead, and no attempt is burned.
func TestC34LedgerRestartsCostNothing(t *testing.T) {
	t.Parallel()
	server := ledgertest.OwnServer(t)
	s := settings{LeaseTime: "15s", Heartbeat: "1s", Limit: "13s", Drain: "30s", Slots: 60, Sessions: 4}
	r := newRig(t, s, servers{database: server.URL()})
	r.start(scheduler, dispatcher, worker)

	var acknowledged atomic.Int32
	ctx, stop := context.WithCancel(t.Context())
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for n := 0; ctx.Err() == nil; {
			specs := append(r.jobs(plain, "p"+time.Duration(n).String(), 3), r.jobs(deduped, "d"+time.Duration(n).String(), 3)...)
			// A transaction without an acknowledgement is repeated as it was: the keys make
			// that harmless.
			if err := r.tryEnqueue(context.WithoutCancel(ctx), specs...); err == nil {
				acknowledged.Add(int32(len(specs)))
				n++
			}
			elapse(30 * time.Millisecond)
		}
	}()
	flows := func() {
		t.Helper()
		before := r.web.total()
		r.await("jobs flow", func() bool { return r.web.total() > before+30 })
	}
	flows()
	require.NoError(t, server.Restart(context.Background()))
	flows()
	server.Kill()
	require.NoError(t, server.Restart(context.Background()))
	flows()
	server.Kill()
	elapse(16 * time.Second) // longer than the lease time
	require.NoError(t, server.Restart(context.Background()))
	flows()
	stop()
	<-produced

	states := r.account()
	require.Equal(t, map[job.State]int{job.Delivered: int(acknowledged.Load())}, states)
	for _, g := range r.generations() {
		require.Equal(t, int32(1), g.Attempt, "%s: the trouble of the ledger burned an attempt", g)
	}
	var workers, ended int
	require.NoError(t, r.pool.QueryRow(context.Background(), "SELECT count(*), count(ended_at) FROM duly.worker").Scan(&workers, &ended))
	require.Equal(t, []int{1, 0}, []int{workers, ended}, "nobody was killed as dead")
}

// C66: the reply to a lease, or the request itself, is lost while the worker lives on. It
// reads back what it holds and goes on; nothing is sent twice and no attempt is burned.
func TestC66LeaseWhoseReplyIsLostIsReadBack(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]loss{"the reply": loseReply, "the request": loseRequest} {
		t.Run(name+" is lost", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, calm, servers{})
			way := r.way(r.database, anywhere)
			lost := losesOnce(way, what, "INSERT INTO duly.lease")
			r.start(scheduler, dispatcher)
			p := r.startWith(worker, "DULY_DATABASE_URL="+through(t, r.database, way.Address()))
			r.enqueue(r.jobs(plain, "p", 4)...)
			r.enqueue(r.jobs(deduped, "d", 4)...)
			require.Equal(t, map[job.State]int{job.Delivered: 8}, r.account())
			require.True(t, lost())
			p.says("reading back what it did")
			for _, g := range r.generations() {
				require.Equal(t, int32(1), g.Attempt, "%s", g)
				asked, _ := r.web.count(g.effectKey())
				require.Equal(t, 1, asked, "%s", g)
			}
		})
	}
}

// C66: the reply to a result is lost. It is sent again, and is the same result.
func TestC66ResultWhoseReplyIsLostIsSettledOnce(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]loss{"the reply": loseReply, "the request": loseRequest} {
		t.Run(name+" is lost", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, calm, servers{})
			way := r.way(r.database, anywhere)
			lost := losesOnce(way, what, "SET state = 'delivered'")
			r.start(scheduler, dispatcher)
			r.startWith(worker, "DULY_DATABASE_URL="+through(t, r.database, way.Address()))
			r.enqueue(r.jobs(plain, "p", 8)...)
			require.Equal(t, map[job.State]int{job.Delivered: 8}, r.account())
			require.True(t, lost())
			for _, g := range r.generations() {
				require.Equal(t, int32(1), g.Attempt, "%s", g)
			}
		})
	}
}

// losesOnce loses one exchange whose statement has the text in it, and returns whether
// it has done so.
func losesOnce(w *wire, what loss, text string) (lost func() bool) {
	var done atomic.Bool
	w.Lose(func(statement string) loss {
		if strings.Contains(statement, text) && done.CompareAndSwap(false, true) {
			return what
		}
		return loseNothing
	})
	return done.Load
}

// A ledger or a bus that is away at the start is waited for, and the log says so.
func TestProcessesWaitForTheirServers(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	ledgerAt, busAt := reserve(t), reserve(t)
	var waiting []*process
	for _, name := range []string{scheduler, dispatcher, worker} {
		waiting = append(waiting, r.startWith(name,
			"DULY_DATABASE_URL="+through(t, r.database, ledgerAt), "DULY_BUS_URL="+through(t, r.bus, busAt)))
	}
	for _, p := range waiting {
		p.says("cannot be reached, trying again")
		p.says("the ledger at " + ledgerAt)
	}
	r.way(r.database, ledgerAt)
	for _, p := range waiting[1:] {
		p.says(`"hosts":"` + busAt)
	}
	r.way(r.bus, busAt)
	for _, p := range waiting {
		p.ready()
	}
	r.enqueue(r.job(plain, "patient"))
	require.Equal(t, map[job.State]int{job.Delivered: 1}, r.account())
}

// A schema that is not the program's is refused, with what to do about it.
func TestSchemaOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, advice string }{
		"older": {"DELETE FROM public.duly_migrations WHERE version_id > 0", "run `duly migrate up`"},
		"newer": {"INSERT INTO public.duly_migrations (version_id, is_applied) VALUES (99999, true)", "start a newer program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, calm, servers{})
			_, err := r.pool.Exec(t.Context(), c.statement)
			require.NoError(t, err)
			for _, name := range []string{scheduler, dispatcher, worker} {
				p := r.startWith(name)
				p.expendable = true
				require.NotZero(t, p.exit(), "%s", name)
				require.Contains(t, p.log.String(), c.advice, "%s", name)
			}
			_, said, code := r.dlq("list")
			require.NotZero(t, code)
			require.Contains(t, said, c.advice)
		})
	}
}
