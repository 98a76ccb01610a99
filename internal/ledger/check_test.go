package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// broken is what a check says about a job.
type broken struct {
	Key        string
	Generation int32
	Rule       machine.Rule
}

// check checks everything, or one job, and returns what is broken.
func (b *bench) check(req ledger.CheckRequest) ([]broken, machine.Checked) {
	b.t.Helper()
	var all []broken
	done, err := b.Check(b.t.Context(), req, func(d machine.Disagreement) error {
		b.t.Log(d)
		all = append(all, broken{d.Key, d.Generation, d.Rule})
		return nil
	})
	require.NoError(b.t, err)
	require.Equal(b.t, len(all), done.Disagreements)
	return all, done
}

// hasty is a policy under which things happen while a test runs.
func hasty(k *machine.Kind) {
	k.Policy.Base, k.Policy.Cap, k.Policy.MaxAttempts, k.Policy.UnclassifiedCap = time.Millisecond, 4*time.Millisecond, 3, 2
	k.Policy.Limit, k.Policy.LeaseTime, k.Policy.PauseBound = 20*time.Millisecond, 20*time.Millisecond, time.Millisecond
	k.Policy.MaxAge, k.Policy.MaxLifetime = 2*time.Second, 4*time.Second
	k.Promises.Settle, k.Promises.ResolveWithin = time.Millisecond, 500*time.Millisecond
}

// mob is one of many who do as they like with the same jobs.
type mob struct {
	*crew
	rand   *rand.Rand
	name   int
	made   int
	grants []machine.Grant
}

func (m *mob) result() job.Result {
	switch m.rand.IntN(7) {
	case 0:
		return job.NotBegun("draining")
	case 1, 2:
		return job.MayBeDone(job.CodeTimeout, "slow")
	case 3, 4:
		r := job.NotDone(job.Classes()[m.rand.IntN(3)], job.CodeReceiverBusy, "busy")
		r.RetryAfter = time.Duration(m.rand.IntN(3)) * time.Millisecond
		return r
	}
	return job.Done(&job.Receipt{Status: "200"})
}

// refs are some jobs as they are now.
func (m *mob) refs(n int) ([]job.Ref, []string) {
	rows, err := m.pool.Query(m.t.Context(), `SELECT id, generation, emission, key FROM duly.job
		WHERE successor IS NULL AND id >= (SELECT floor(random() * max(id)) FROM duly.job) ORDER BY id LIMIT $1`, n)
	if err != nil {
		m.t.Error(err)
		return nil, nil
	}
	var refs []job.Ref
	var keys []string
	var r job.Ref
	var key string
	if _, err := pgx.ForEachRow(rows, []any{&r.Job, &r.Generation, &r.Emission, &key}, func() error {
		refs, keys = append(refs, r), append(keys, key)
		return nil
	}); err != nil {
		m.t.Error(err)
	}
	return refs, keys
}

// act does one thing. What the ledger refuses is as good as what it does.
func (m *mob) act() {
	ctx := m.t.Context()
	refs, keys := m.refs(1 + m.rand.IntN(5))
	var err error
	switch m.rand.IntN(21) {
	case 0, 1:
		err = m.enqueueSome()
	case 2, 3, 4, 5, 6:
		var leases machine.Leases
		leases, err = m.Lease(ctx, machine.LeaseRequest{Worker: m.worker, Kind: m.kind, Refs: refs})
		m.grants = append(m.grants, leases.Grants...)
	case 7, 8, 9, 10, 11:
		err = m.report()
	case 20:
		err = m.inquire()
	case 12:
		_, err = m.HoldRefs(ctx, refs, job.HoldRate, time.Duration(m.rand.IntN(5))*time.Millisecond)
	case 13, 14:
		_, err = m.Promote(ctx, machine.Position{}, 50)
	case 15:
		err = m.sweep()
	case 16:
		if len(keys) > 0 {
			_, err = m.Cancel(ctx, machine.Cancellation{Kind: kind, Key: keys[0], Actor: "ann", Reason: "moved"})
		}
	case 17:
		for i := range keys {
			_, e := m.Redrive(ctx, machine.RedriveRequest{
				Kind: kind, Key: keys[i], Generation: refs[i].Generation, RecoveryKey: fmt.Sprint("r", refs[i].Generation, m.rand.IntN(2)),
				Approver: "bob", Actor: "ann", Reason: "again", Forced: m.rand.IntN(2) == 0, Evidence: "nothing arrived",
			})
			err = errors.Join(err, unless(e))
		}
	case 18:
		for i := range keys {
			story, e := m.Find(ctx, kind, keys[i])
			g, _ := story.Current()
			if e == nil {
				_, e = m.Resolve(ctx, machine.Answer{
					Kind: kind, Key: keys[i], Fence: g.Fence, Verdict: machine.Verdicts()[m.rand.IntN(3)], Evidence: "their log", Actor: "ann",
				})
			}
			err = errors.Join(err, unless(e))
		}
	default:
		if n := len(m.grants); n > 20 {
			m.grants = m.grants[n-20:]
		}
	}
	if err = unless(err); err != nil {
		m.t.Error(err)
	}
}

// unless forgets a refusal.
func unless(err error) error {
	if errors.Is(err, job.ErrRefused) {
		return nil
	}
	return err
}

func (m *mob) enqueueSome() error {
	specs := make([]job.Spec, 1+m.rand.IntN(4))
	for i := range specs {
		m.made++
		specs[i] = job.Spec{Kind: kind, Key: fmt.Sprintf("m%d-%d", m.name, m.made), Payload: []byte(`{}`)}
		if m.rand.IntN(3) == 0 {
			specs[i].Due = time.Now().Add(time.Duration(m.rand.IntN(40)) * time.Millisecond)
		}
		if m.rand.IntN(3) == 0 {
			specs[i].Deadline = time.Now().Add(time.Duration(50+m.rand.IntN(900)) * time.Millisecond)
		}
	}
	return pgx.BeginFunc(m.t.Context(), m.pool, func(tx pgx.Tx) error {
		if _, err := m.Enqueue(m.t.Context(), tx, specs); err != nil {
			return err
		}
		specs[0].Payload = []byte(`{"n":1}`)
		specs[0].Due = time.Now().Add(time.Duration(m.rand.IntN(20)) * time.Millisecond)
		specs[0].Deadline = time.Time{}
		_, err := m.Replace(m.t.Context(), tx, specs[:1])
		return err
	})
}

// report ends some attempts, now and then again or late.
func (m *mob) report() error {
	var reports []machine.Report
	for range min(len(m.grants), 1+m.rand.IntN(4)) {
		reports = append(reports, report(m.grants[m.rand.IntN(len(m.grants))], m.result()))
	}
	reports = slices.CompactFunc(reports, func(a, b machine.Report) bool { return a.Job == b.Job })
	_, err := m.Settle(m.t.Context(), m.worker, reports)
	return err
}

// inquire asks about what is unknown; now and then nobody answers.
func (m *mob) inquire() error {
	questions, err := m.TakeQuestions(m.t.Context(), kind, machine.MeansHTTP, 1+m.rand.IntN(4), time.Duration(m.rand.IntN(3))*time.Millisecond)
	var replies []machine.Reply
	for _, q := range questions {
		if m.rand.IntN(4) > 0 {
			replies = append(replies, machine.Reply{Question: q, Said: job.Sayings()[m.rand.IntN(4)]})
		}
	}
	if err == nil && len(replies) > 0 {
		_, err = m.Answer(m.t.Context(), replies)
	}
	return err
}

func (m *mob) sweep() error {
	ctx := m.t.Context()
	_, _, err := m.Expire(ctx, 50)
	_, _, closing := m.CloseUnknown(ctx, 50)
	err = errors.Join(err, closing)
	if m.rand.IntN(3) == 0 {
		old := m.worker
		m.worker = m.register()
		err = errors.Join(err, m.EndWorker(ctx, old.ID))
		_, ending := m.EndLeasesOf(ctx, old.ID, time.Time{}, 50)
		err = errors.Join(err, ending)
	}
	return err
}

func TestG12RowsAgreeWithTheirEventsAfterAnyConcurrentTraffic(t *testing.T) {
	t.Parallel()
	for name, promise := range map[string]func(*machine.Kind){
		"no promises": func(*machine.Kind) {},
		"window":      func(k *machine.Kind) { k.Promises.Window = 300 * time.Millisecond },
		"lookup":      func(k *machine.Kind) { k.Promises.Lookup = machine.MeansHTTP },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, hasty, promise)
			c.enqueue("first", 10)
			var all sync.WaitGroup
			for n := range 4 {
				m := &mob{crew: &crew{bench: c.bench, kind: c.kind, worker: c.register()}, rand: rand.New(rand.NewPCG(uint64(n), 7)), name: n}
				all.Go(func() {
					for range 250 {
						m.act()
					}
				})
			}
			all.Wait()
			found, done := c.check(ledger.CheckRequest{Page: 17})
			require.Empty(t, found)
			require.Zero(t, done.Partly)
			require.Equal(t, c.count(`SELECT count(*)::int FROM duly.job`), done.Generations)
			require.Equal(t, c.count(`SELECT count(*)::int FROM duly.job WHERE generation = 1`), done.Jobs)
			require.Equal(t, done.Jobs, done.Keys)
			require.Equal(t, c.count(`SELECT count(*)::int + (SELECT coalesce(sum(cardinality(jobs)), 0)::int FROM duly.done) FROM duly.event`), done.Events, "every event was found")
			require.Equal(t, c.count(`SELECT coalesce(sum(cardinality(jobs)), 0)::int FROM duly.lease`), done.Leases, "every lease was found")
		})
	}
}

// gallery makes one job of every sort, called as they are.
func gallery(t *testing.T) *crew {
	t.Helper()
	c := newCrew(t)
	c.ended("done", job.Done(&job.Receipt{Status: "200"}))
	again := c.ended("again", job.NotBegun("draining"))
	c.settle(c.ask(c.worker, job.Ref{Job: again.Job, Generation: 1, Emission: 2}).Grants[0], job.NotDone(job.ClassTransient, job.CodeUnreachable, "no route"))
	twice := c.ended("twice", job.NotBegun("draining"))
	c.settle(c.ask(c.worker, job.Ref{Job: twice.Job, Generation: 1, Emission: 2}).Grants[0], job.Done(&job.Receipt{Status: "201"}))
	c.poison("poison")
	c.ended("unknown", job.MayBeDone(job.CodeTimeout, "slow"))
	c.ask(c.worker, c.enqueue("leased", 1)...)
	c.enqueue("ready", 1)
	_, err := c.Enqueue(t.Context(), c.pool, []job.Spec{{
		Kind: kind, Key: "later-0", Payload: []byte(`{}`), Due: time.Now().Add(time.Hour), Deadline: time.Now().Add(2 * time.Hour),
	}})
	require.NoError(t, err)
	c.poison("redriven")
	c.redrive(redriveOf("redriven", "fix", 1))
	return c
}

// of puts the id of a job in the place of its name.
func of(key string) string {
	return `(SELECT id FROM duly.job WHERE key = '` + key + `' AND generation = 1)`
}

func TestCheckTellsEveryCorruptionAndNothingElse(t *testing.T) {
	t.Parallel()
	forged := func(key, name, from, to string) string {
		return fmt.Sprintf(`INSERT INTO duly.event (job, fence, generation, attempt, emission, name, from_state, to_state)
			VALUES (%s, 0, 1, 0, 1, '%s', '%s', '%s')`, of(key), name, from, to)
	}
	result := of("done-0") + ` = ANY (jobs)`
	for name, c := range map[string]struct {
		corrupt string
		found   []broken
	}{
		"nothing": {`SELECT`, nil},

		"another state":    {`UPDATE duly.job SET state = 'cancelled' WHERE key = 'done-0'`, []broken{{"done-0", 1, machine.RuleRow}}},
		"another attempt":  {`UPDATE duly.job SET attempt = attempt + 1 WHERE key = 'again-0'`, []broken{{"again-0", 1, machine.RuleRow}}},
		"another fence":    {`UPDATE duly.job SET fence = 5 WHERE key = 'leased-0'`, []broken{{"leased-0", 1, machine.RuleRow}}},
		"another emission": {`UPDATE duly.job SET emission = 7 WHERE key = 'done-0'`, []broken{{"done-0", 1, machine.RuleRow}}},
		"a flag":           {`UPDATE duly.job SET flags = flags | 1 WHERE key = 'ready-0'`, []broken{{"ready-0", 1, machine.RuleRow}}},
		"no doubt":         {`UPDATE duly.job SET doubt_since = doubt_since - interval '1 s' WHERE key = 'unknown-0'`, []broken{{"unknown-0", 1, machine.RuleRow}, {"unknown-0", 1, machine.RuleUnknown}}},

		"a missing last event": {`DELETE FROM duly.event WHERE name = 'not_done' AND job = ` + of("poison-0"), []broken{{"poison-0", 1, machine.RuleRow}}},
		"a missing event":      {`DELETE FROM duly.event WHERE name = 'handed_back' AND job = ` + of("again-0"), []broken{{"again-0", 1, machine.RuleEvent}}},
		"a forged event":       {forged("ready-0", "cancel", "ready", "cancelled"), []broken{{"ready-0", 1, machine.RuleEvent}}},
		"an impossible event":  {forged("ready-0", "close", "ready", "unknown"), []broken{{"ready-0", 1, machine.RuleEvent}}},
		"an unknown event":     {forged("ready-0", "blessed", "ready", "delivered"), []broken{{"ready-0", 1, machine.RuleEvent}}},
		"a rewritten event":    {`UPDATE duly.event SET why = 'unclassified' WHERE name = 'not_done' AND job = ` + of("poison-0"), []broken{{"poison-0", 1, machine.RuleEvent}}},

		"no lease row of a lease that runs": {`DELETE FROM duly.lease WHERE ` + of("leased-0") + ` = ANY (jobs)`, []broken{{"leased-0", 1, machine.RuleLease}}},
		"no lease row of one that ended":    {`DELETE FROM duly.lease WHERE ` + of("done-0") + ` = ANY (jobs)`, []broken{{"done-0", 1, machine.RuleLease}}},
		"no lease row of an earlier one":    {`DELETE FROM duly.lease WHERE fences = '{1}' AND ` + of("again-0") + ` = ANY (jobs)`, []broken{{"again-0", 1, machine.RuleLease}}},

		"no result":                      {`DELETE FROM duly.done WHERE ` + result, []broken{{"done-0", 1, machine.RuleRow}}},
		"another's result":               {`UPDATE duly.done SET worker = gen_random_uuid() WHERE ` + result, []broken{{"done-0", 1, machine.RuleRow}, {"done-0", 1, machine.RuleEvent}}},
		"a result at another time":       {`UPDATE duly.done SET at = at + interval '1 us' WHERE ` + result, []broken{{"done-0", 1, machine.RuleRow}, {"done-0", 1, machine.RuleEvent}}},
		"a result of another job":        {`UPDATE duly.done SET jobs = ARRAY[` + of("ready-0") + `] WHERE ` + result, []broken{{"done-0", 1, machine.RuleRow}, {"ready-0", 1, machine.RuleEvent}}},
		"of another generation":          {`UPDATE duly.done SET generations = '{2}' WHERE ` + result, []broken{{"done-0", 1, machine.RuleRow}, {"done-0", 2, machine.RuleEvent}}},
		"under another fence":            {`UPDATE duly.done SET fences = '{2}' WHERE ` + result, []broken{{"done-0", 1, machine.RuleLease}}},
		"in another attempt":             {`UPDATE duly.done SET attempts = '{2}' WHERE ` + result, []broken{{"done-0", 1, machine.RuleEvent}}},
		"at another emission":            {`UPDATE duly.done SET emissions = '{2}' WHERE ` + result, []broken{{"done-0", 1, machine.RuleEvent}}},
		"a result twice":                 {`INSERT INTO duly.done (at, worker, worker_version, policy_hash, jobs) SELECT at, worker, worker_version, policy_hash, jobs FROM duly.done WHERE ` + result, []broken{{"done-0", 1, machine.RuleLease}}},
		"a result twice, later":          {`INSERT INTO duly.done (at, worker, worker_version, policy_hash, jobs) SELECT at + interval '1 s', worker, worker_version, policy_hash, jobs FROM duly.done WHERE ` + result, []broken{{"done-0", 1, machine.RuleEvent}}},
		"a result before what led to it": {`UPDATE duly.done SET id = 0 WHERE ` + of("twice-0") + ` = ANY (jobs)`, []broken{{"twice-0", 1, machine.RuleEvent}}},

		"a cleanup of what is not over": {due("ready-0", 1, false), []broken{{"ready-0", 1, machine.RuleCleanup}}},
		"of what was redriven":          {due("redriven-0", 1, false), []broken{{"redriven-0", 1, machine.RuleCleanup}}},
		"of nothing":                    {due("done-0", 2, true), []broken{{"done-0", 2, machine.RuleCleanup}}},
		"as if it were delivered":       {due("poison-0", 1, true), []broken{{"poison-0", 1, machine.RuleCleanup}}},
		"of what is over":               {due("poison-0", 1, false), nil},

		"not listed as quarantined": {`DELETE FROM duly.quarantine WHERE job = ` + of("poison-0"), []broken{{"poison-0", 1, machine.RuleQuarantine}}},
		"not listed as unknown":     {`DELETE FROM duly.unknown`, []broken{{"unknown-0", 1, machine.RuleUnknown}}},
		"listed as closed":          {`UPDATE duly.unknown SET closed = true`, []broken{{"unknown-0", 1, machine.RuleUnknown}}},
		"asked by other means":      {`UPDATE duly.unknown SET lookup = 'sql', ask_at = now()`, []broken{{"unknown-0", 1, machine.RuleUnknown}}},
		"listed as closing later":   {`UPDATE duly.unknown SET closes_at = closes_at + interval '1 d'`, []broken{{"unknown-0", 1, machine.RuleUnknown}}},
		"listed and delivered": {`INSERT INTO duly.quarantine (job, generation, kind, at, reason, fingerprint)
			SELECT id, 1, kind, now(), 'permanent', 'f' FROM duly.job WHERE key = 'done-0'`, []broken{{"done-0", 1, machine.RuleQuarantine}}},
		"listed and not there": {`INSERT INTO duly.unknown (job, generation, kind, at, fingerprint, closes_at) VALUES (1 << 40, 1, 1, now(), 'f', now())`, []broken{{"", 1, machine.RuleUnknown}}},

		"no key":                             {`DELETE FROM duly.job_key WHERE job = ` + of("done-0"), []broken{{"done-0", 0, machine.RuleKey}}},
		"a key to elsewhere":                 {`UPDATE duly.job_key SET job = 1 << 40, state = 'delivered' WHERE job = ` + of("done-0"), []broken{{"done-0", 0, machine.RuleKey}}},
		"a tombstone of a job that is there": {`UPDATE duly.job_key SET state = 'delivered' WHERE job = ` + of("done-0"), []broken{{"done-0", 0, machine.RuleKey}}},
		"two keys":                           {`INSERT INTO duly.job_key (hash, body, job) VALUES (gen_random_uuid(), gen_random_uuid(), ` + of("done-0") + `)`, []broken{{"done-0", 0, machine.RuleKey}}},
		"a key without a job":                {`DELETE FROM duly.job WHERE key = 'done-0'`, []broken{{"", 0, machine.RuleKey}}},

		"promoted too late":       {`UPDATE duly.job SET promote_at = promote_at + interval '1 h' WHERE key = 'later-0'`, []broken{{"later-0", 1, machine.RuleInstants}}},
		"found after its end":     {`UPDATE duly.job SET expires_at = NULL WHERE key = 'later-0'`, []broken{{"later-0", 1, machine.RuleInstants}}},
		"ended and without end":   {`UPDATE duly.job SET ended_at = NULL WHERE key = 'done-0'`, []broken{{"done-0", 1, machine.RuleRow}, {"done-0", 1, machine.RuleInstants}, {"done-0", 1, machine.RuleEvent}}},
		"ready and never told of": {`DELETE FROM duly.outbox WHERE ` + of("ready-0") + ` = ANY (jobs)`, []broken{{"ready-0", 1, machine.RuleOutbox}}},
		"ready and judged": {
			`INSERT INTO duly.judge (topic, judged) SELECT topic, pg_current_snapshot() FROM duly.outbox WHERE topic <> '.dead' LIMIT 1`,
			[]broken{{"ready-0", 1, machine.RuleOutbox}, {"redriven-0", 2, machine.RuleOutbox}},
		},

		"no decision":      {`DELETE FROM duly.redrive`, []broken{{"redriven-0", 2, machine.RuleRedrive}}},
		"no successor":     {`DELETE FROM duly.job WHERE generation = 2`, []broken{{"redriven-0", 1, machine.RuleGenerations}}},
		"two current ones": {`UPDATE duly.job SET successor = NULL WHERE key = 'redriven-0'`, []broken{{"redriven-0", 1, machine.RuleGenerations}, {"redriven-0", 1, machine.RuleQuarantine}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gallery(t)
			b.exec(c.corrupt)
			found, _ := b.check(ledger.CheckRequest{Page: 2})
			require.Equal(t, c.found, found)
		})
	}
}

// due forges a cleanup.
func due(key string, generation int, accepted bool) string {
	return fmt.Sprintf(`INSERT INTO duly.cleanup (job, generation, kind, by, accepted, due_at, next_at)
		SELECT id, %d, kind, 'sql', %t, now(), now() FROM duly.job WHERE key = '%s' AND generation = 1`, generation, accepted, key)
}

func TestCheckOfOneJobLooksAtNoOther(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	c.exec(`UPDATE duly.job SET attempt = attempt + 1 WHERE key IN ('done-0', 'poison-0')`)
	found, done := c.check(ledger.CheckRequest{Kind: kind, Key: "poison-0"})
	require.Equal(t, []broken{{"poison-0", 1, machine.RuleRow}}, found)
	require.Equal(t, 1, done.Jobs)

	c.exec(`DELETE FROM duly.outbox WHERE ` + of("ready-0") + ` = ANY (jobs)`)
	found, _ = c.check(ledger.CheckRequest{Kind: kind, Key: "ready-0"})
	require.Equal(t, []broken{{"ready-0", 1, machine.RuleOutbox}}, found)

	_, err := c.Check(t.Context(), ledger.CheckRequest{Kind: kind, Key: "nobody"}, nil)
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestCheckEndsWhereItsReaderDoes(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	c.exec(`UPDATE duly.job SET attempt = attempt + 1`)
	enough := errors.New("enough")
	done, err := c.Check(t.Context(), ledger.CheckRequest{}, func(machine.Disagreement) error { return enough })
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, done.Disagreements)
}

func TestCheckBeginsBehindAJob(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	c.exec(`UPDATE duly.job SET attempt = attempt + 1 WHERE key IN ('done-0', 'poison-0')`)
	var after int64
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT `+of("done-0")).Scan(&after))
	found, _ := c.check(ledger.CheckRequest{After: after})
	require.Equal(t, []broken{{"poison-0", 1, machine.RuleRow}}, found)
}

func TestCheckJudgesNoDecisionOfAPolicyThatIsGone(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	k := c.kind
	k.Policy.MaxAttempts, k.Policy.Base, k.Policy.Limit, k.Channel = 1, time.Hour, time.Minute, "http"
	require.NoError(t, c.SyncKinds(t.Context(), []machine.Kind{k}))
	found, done := c.check(ledger.CheckRequest{})
	require.Empty(t, found)
	require.Positive(t, done.Partly)

	c.exec(`UPDATE duly.job SET attempt = attempt + 1 WHERE key = 'again-0'`)
	found, _ = c.check(ledger.CheckRequest{})
	require.Equal(t, []broken{{"again-0", 1, machine.RuleRow}}, found, "what no policy decides is compared all the same")
}

func TestCheckFoldsTheEventsThatAreKept(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	_, err := c.KeepPartitions(t.Context(), 30*24*time.Hour)
	require.NoError(t, err)
	c.exec(`DELETE FROM duly.event WHERE name = 'handed_back' AND job = ` + of("again-0"))
	c.exec(`DELETE FROM duly.lease WHERE fences = '{1}' AND ` + of("again-0") + ` = ANY (jobs)`)
	found, _ := c.check(ledger.CheckRequest{})
	require.Equal(t, []broken{{"again-0", 1, machine.RuleEvent}}, found, "the job is younger than all that was dropped")

	c.exec(`UPDATE duly.job SET created_at = created_at - interval '40 d', due_at = due_at - interval '40 d' WHERE key = 'again-0'`)
	found, done := c.check(ledger.CheckRequest{})
	require.Empty(t, found, "they may have left with their partition")
	require.Equal(t, 1, done.Partly)
	ledgertest.Agrees(t, c.pool)

	c.exec(`UPDATE duly.job SET attempt = attempt + 1 WHERE key = 'again-0'`)
	found, _ = c.check(ledger.CheckRequest{})
	require.Equal(t, []broken{{"again-0", 1, machine.RuleRow}}, found)
}
