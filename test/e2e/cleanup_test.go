package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// G11: what was generated for jobs is removed once, behind their delivery, while one of
// two schedulers is killed in the middle of it. What was rejected keeps its rows.
func TestG11WhatWasGeneratedIsRemovedOnceBehindItsDelivery(t *testing.T) {
	t.Parallel()
	const good, bad = 60, 5
	s := calm
	s.Cleanup = `{statement: "DELETE FROM draft WHERE operation_key = $1", when: receipt, timeout: 1s}`
	r := newRig(t, s, servers{})
	ctx := t.Context()
	exec := func(sql string, args ...any) {
		_, err := r.pool.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE draft (operation_key text, n int)`)
	exec(`CREATE TABLE removed (operation_key text, n int, state text)`)
	exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_sleep(0.01); INSERT INTO removed SELECT OLD.operation_key, OLD.n, (SELECT state FROM duly.job WHERE key = OLD.operation_key); RETURN OLD; END $$`)
	exec(`CREATE TRIGGER note AFTER DELETE ON draft FOR EACH ROW EXECUTE FUNCTION note()`)
	specs := append(r.jobs(deduped, "good", good), r.jobs(deduped, "bad", bad)...)
	for _, spec := range specs {
		exec(`INSERT INTO draft SELECT $1, n FROM generate_series(1, 2) n`, spec.Key)
	}
	exec(`INSERT INTO draft VALUES ('of nobody', 1)`)

	r.web.plans(func(v *visit) {
		if strings.Contains(v.key, "/bad-") {
			v.answer(http.StatusNotAcceptable)
			return
		}
		v.act()
		v.answer(http.StatusOK)
	})
	victim := r.startWith(scheduler)
	r.start(scheduler, dispatcher, worker)
	r.enqueue(specs...)
	count := func(sql string) (n int) {
		require.NoError(t, r.pool.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	r.await("cleanups are done", func() bool { return count(`SELECT count(*) FROM duly.cleanup WHERE done_at IS NOT NULL`) > good/6 })
	victim.kill()
	r.await("all are done", func() bool { return count(`SELECT count(*) FROM duly.cleanup WHERE done_at IS NOT NULL`) == good })

	require.Equal(t, map[job.State]int{job.Delivered: good, job.Quarantined: bad}, r.account())
	require.Equal(t, 2*good, count(`SELECT count(*) FROM removed WHERE state = 'delivered'`), "each row once, and behind its delivery")
	require.Zero(t, count(`SELECT count(*) FROM removed WHERE state <> 'delivered'`))
	require.Equal(t, 2*bad+1, count(`SELECT count(*) FROM draft`), "what was rejected waits for 30 days, and nobody's is nobody's business")
	require.Equal(t, bad, count(`SELECT count(*) FROM duly.cleanup WHERE NOT accepted AND due_at > now() + interval '29 days'`))
	stdout, stderr, code := r.dlq("explain", deduped+"/good-0000")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "delivered and cleaned")
}
