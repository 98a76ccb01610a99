package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// expireAll ends what has expired, to the end of the order.
func (b *bench) expireAll(limit int) machine.Tally {
	b.t.Helper()
	all := machine.Tally{}
	for {
		ended, more, err := b.Expire(b.t.Context(), limit)
		require.NoError(b.t, err)
		for e, n := range ended {
			all[e] += n
		}
		if !more {
			return all
		}
	}
}

// G7: what waits is ended at its deadline, whether a message about it comes or not.
func TestG7WhatWaitsIsEndedAtItsDeadline(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("ready", 8)
	ids := c.schedule("scheduled", 4, time.Now().Add(time.Hour))
	held := c.ask(c.worker, refs[0]).Grants[0]
	c.settle(c.ask(c.worker, refs[1]).Grants[0], job.Done(nil))
	require.Empty(t, c.expireAll(3))
	// One instant for all of them: a page may end in the middle of it.
	c.exec(`UPDATE duly.job SET deadline = '2026-01-01Z', expires_at = '2026-01-01Z'`)
	require.Equal(t, machine.Tally{{State: job.Quarantined, Reason: job.ReasonDeadline}: 10}, c.expireAll(3))
	require.Equal(t, 10, c.count(`SELECT count(*)::int FROM duly.quarantine WHERE reason = 'deadline_passed'`))
	require.Equal(t, job.Quarantined, c.row(ids[0]).State)
	require.Equal(t, job.Leased, c.row(refs[0].Job).State, "what runs is ended at its end")
	require.Equal(t, job.Delivered, c.row(refs[1].Job).State)
	require.Empty(t, c.expireAll(3))

	require.Equal(t, job.Quarantined, c.settle(held, job.NotDone(job.ClassTransient, job.CodeUnreachable, "x")).State)
}

func TestG8WhatExpiresInDoubtIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCrew(t, func(k *machine.Kind) { k.Promises.Window = time.Hour })
	ref := c.enqueue("doubt", 1)[0]
	require.Equal(t, job.Scheduled, c.settle(c.ask(c.worker, ref).Grants[0], job.MayBeDone(job.CodeTimeout, "x")).State)
	c.exec(`UPDATE duly.job SET deadline = now() - interval '1 s', expires_at = now() - interval '1 s'`)
	require.Equal(t, machine.Tally{{State: job.Unknown, Reason: job.ReasonDeadline}: 1}, c.expireAll(10))
}

func TestExpiryWalksItsIndex(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.enqueue("plan", 200)
	c.exec(`ANALYZE duly.job`)
	plan := c.plan("hot", "expire_page", time.Now(), 0, 500)
	require.Contains(t, plan, "using job_expires")
	require.NotContains(t, plan, "Seq Scan on job")
}

// A clock that was ahead for a while has carried the place along the index into the
// future. Nothing that ends before then may be missed for that.
func TestPlaceThatLiesInTheFutureIsGivenUp(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	for _, at := range []string{"-1 min", "0", "1 h"} {
		id := c.schedule("place"+at, 1, time.Now().Add(time.Hour))[0]
		c.exec(`UPDATE duly.job SET deadline = now() - interval '1 s', expires_at = now() - interval '1 s' WHERE id = $1`, id)
		c.exec(`INSERT INTO duly.progress (name, instant, id) VALUES ('deadlines', now() + $1::interval, $2)
		        ON CONFLICT (name) DO UPDATE SET instant = excluded.instant, id = excluded.id`, at, 1<<40)
		ended := c.expireAll(10).Total()
		if at == "0" {
			require.Zero(t, ended, "what lies behind the place was looked at")
			continue
		}
		require.Positive(t, ended, at)
	}
}
