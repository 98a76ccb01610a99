package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// The memory ledger is machine.Next and a map. Whatever is asked of both ledgers,
// in whatever order, both must answer the same and hold the same afterwards: then
// the hot statements decide as the machine does.

// twins are the two ledgers under one sequence of operations.
type twins struct {
	t     *rapid.T
	clock *clock
	pg    *ledger.Ledger
	mem   *memledger.Ledger

	keys    []string         // of jobs that exist, in order
	ids     map[string]int64 // of jobs in the real ledger
	memIDs  map[string]int64
	workers []machine.Worker
	held    []held
	marks   []marks
	claimed string // holder of the topic
	asked   []question
	// cleaning are cleanups that were taken.
	cleaning []cleaning
	// doubtful: receivers can be asked, and outcomes are unknown as a rule.
	doubtful bool
	// registered counts the workers, which have the same ids in every walk.
	registered int
	// happened counts transitions, to show what the walks have seen.
	happened map[string]int
}

// held is an attempt that a worker had, or has.
type held struct {
	key        string
	generation int32
	fence      int64
	kind       machine.Kind
	worker     machine.Worker
}

// marks are a mark of both ledgers, which number differently.
type marks struct{ pg, mem int64 }

// modelKinds promise everything that a receiver can promise. Their durations are
// whole minutes, so that the clock's steps never meet a bound exactly.
func modelKinds() []machine.Kind {
	policy := machine.Policy{
		Limit: time.Minute, MaxAttempts: 3, MaxAge: 45 * time.Minute, MaxLifetime: 90 * time.Minute, Base: time.Minute, Cap: 4 * time.Minute,
		UnclassifiedCap: 2, MaxHold: time.Hour, LeaseTime: time.Minute, PauseBound: time.Minute,
	}
	var kinds []machine.Kind
	for name, p := range map[string]machine.Promises{
		"neither": {}, "window": {Window: 20 * time.Minute}, "lookup": {Lookup: machine.MeansSQL}, "both": {Window: 20 * time.Minute, Lookup: machine.MeansSQL},
	} {
		p.Settle, p.ResolveWithin = 2*time.Minute, 30*time.Minute
		k := machine.Kind{Name: name, Lane: lane, Channel: "go", Policy: policy, Promises: p, RedriveBy: machine.RoleOperator}
		if rule, gated := modelGates[name]; gated {
			k.Cleanup = &rule
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// modelGates are the cleanup gates of the kinds that have one. Whole rounds of the clock
// lie between their bounds, and two of them open at once.
var modelGates = map[string]machine.CleanupRule{
	"neither": {By: machine.MeansSQL, When: machine.CleanupReceipt, From: 2 * time.Minute, After: 10 * time.Minute, MaxTries: 2, MaxAge: 20 * time.Minute},
	"lookup":  {By: machine.MeansGo, When: machine.CleanupDelivered, After: 2 * time.Minute, MaxTries: 3, MaxAge: 5 * time.Minute},
	"both":    {By: machine.MeansSQL, When: machine.CleanupDelivered, After: 0, MaxTries: 2, MaxAge: 20 * time.Minute},
}

func newTwins(t *rapid.T, clock *clock, pg *ledger.Ledger, happened map[string]int) *twins {
	tw := &twins{t: t, clock: clock, pg: pg, happened: happened, ids: make(map[string]int64), memIDs: make(map[string]int64), claimed: "00000000-0000-4000-8000-00000000d15b"}
	tw.mem = memledger.New(memledger.Clock(clock.now))
	require.NoError(t, tw.pg.SyncKinds(clock.ctx, modelKinds()))
	require.NoError(t, tw.mem.SyncKinds(clock.ctx, modelKinds()))
	for range 2 {
		tw.register()
	}
	return tw
}

// both runs an operation on the real ledger and then on the other, whose clock
// stands where PostgreSQL's stood, and compares their answers.
func both[R, M any](tw *twins, doing string, pg func() (R, error), mem func() (M, error)) (R, M) {
	tw.t.Helper()
	tw.clock.begin()
	r, errReal := pg()
	tw.clock.end()
	m, errMem := mem()
	require.Equal(tw.t, told(errMem), told(errReal), "%s: memory and PostgreSQL answer with different errors", doing)
	return r, m
}

// told is what an error says to whoever acts on it.
func told(err error) string {
	if err == nil {
		return ""
	}
	return refusalOf(err)
}

// alike compares answers; instants may differ by what the real ledger's statement took.
func (tw *twins) alike(doing string, pg, mem any) {
	tw.t.Helper()
	if diff := cmp.Diff(mem, pg, tw.clock.about()); diff != "" {
		tw.t.Fatalf("%s: memory (-) and PostgreSQL (+) differ:\n%s", doing, diff)
	}
}

func (tw *twins) register() {
	tw.registered++
	w := machine.Worker{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", tw.registered), Label: "model", Version: "v1", LeaseTime: time.Minute}
	require.NoError(tw.t, tw.pg.RegisterWorker(tw.clock.ctx, w))
	require.NoError(tw.t, tw.mem.RegisterWorker(tw.clock.ctx, w))
	tw.workers = append(tw.workers, w)
}

func (tw *twins) kind() machine.Kind {
	kinds := modelKinds()
	if tw.doubtful {
		kinds = slices.DeleteFunc(kinds, func(k machine.Kind) bool { return k.Promises.Lookup == "" })
	}
	return rapid.SampledFrom(kinds).Draw(tw.t, "kind")
}

// ref draws a reference: most often what a job is at now, sometimes an older copy.
func (tw *twins) ref(key string) job.Ref {
	g := tw.current(key)
	r := job.Ref{Job: tw.ids[key], Generation: g.Generation, Emission: g.Emission}
	switch rapid.IntRange(0, 9).Draw(tw.t, "copy") {
	case 0:
		r.Emission--
	case 1:
		r.Generation = max(1, r.Generation-1)
	}
	return r
}

// inMem is the reference as the memory ledger numbers its jobs.
func (tw *twins) inMem(refs []job.Ref) []job.Ref {
	all := slices.Clone(refs)
	for i := range all {
		all[i].Job = tw.memIDs[tw.keyOf(all[i].Job)]
	}
	return all
}

func (tw *twins) keyOf(id int64) string {
	for key, other := range tw.ids {
		if other == id {
			return key
		}
	}
	return ""
}

func (tw *twins) key() string {
	if len(tw.keys) == 0 {
		tw.t.Skip("no job yet")
	}
	return rapid.SampledFrom(tw.keys).Draw(tw.t, "key")
}

// kindOf and name split what the model calls a key: kind and operation key.
func kindOf(key string) string { return key[:slices.Index([]byte(key), '/')] }
func name(key string) string   { return key[slices.Index([]byte(key), '/')+1:] }

func (tw *twins) current(key string) machine.Row {
	story, err := tw.mem.Find(tw.clock.ctx, kindOf(key), name(key))
	require.NoError(tw.t, err)
	g, _ := story.Current()
	return g.Row
}

func TestBothLedgersAreTheSame(t *testing.T) {
	t.Parallel()
	pool := ledgertest.New(t)
	pg := ledger.New(pool)
	budget := newBudget(15 * time.Second)
	happened := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		if budget.spent() {
			return
		}
		defer budget.watch(rt)
		tw := newTwins(rt, newClock(t, rt, pool), pg, happened)
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": tw.with((*twins).enqueue), "replace": tw.with((*twins).replace),
			"lease": tw.with((*twins).lease), "lease again": tw.with((*twins).lease), "lease more": tw.with((*twins).lease),
			"settle": tw.with((*twins).settle), "settle again": tw.with((*twins).settle), "settle more": tw.with((*twins).settle),
			"hold": tw.with((*twins).hold), "end worker": tw.with((*twins).endWorker), "end leases": tw.with((*twins).endLeases),
			"promote": tw.with((*twins).promote), "expire": tw.with((*twins).expire), "close": tw.with((*twins).closeUnknown),
			"ask": tw.with((*twins).ask), "ask again": tw.with((*twins).ask), "answer": tw.with((*twins).answer), "answer again": tw.with((*twins).answer),
			"cancel": tw.with((*twins).cancel), "resolve": tw.with((*twins).resolve), "redrive": tw.with((*twins).redrive),
			"clean": tw.with((*twins).clean), "clean again": tw.with((*twins).clean), "cleaned": tw.with((*twins).cleaned), "retry a cleanup": tw.with((*twins).retryCleanup),
			"give up a cleanup": tw.with((*twins).giveUpCleanup),
			"relay":             tw.with((*twins).relay), "mark": tw.with((*twins).mark), "judge": tw.with((*twins).judge), "judge again": tw.with((*twins).judge),
			"patrol": tw.with((*twins).patrol), "heartbeat": tw.with((*twins).heartbeat), "list": tw.with((*twins).list),
			"time": tw.with((*twins).pass),
			"":     tw.with((*twins).check),
		})
		tw.with((*twins).checkAll)(rt)
	})
	t.Logf("%d walks: %v", budget.walks, happened)
}

// The same where what counts are the answers of receivers: most outcomes are unknown.
func TestBothLedgersAskAlike(t *testing.T) {
	t.Parallel()
	pool := ledgertest.New(t)
	pg := ledger.New(pool)
	budget := newBudget(10 * time.Second)
	happened := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		if budget.spent() {
			return
		}
		defer budget.watch(rt)
		tw := newTwins(rt, newClock(t, rt, pool), pg, happened)
		tw.doubtful = true
		tw.with((*twins).doubts)(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": tw.with((*twins).enqueue), "lease": tw.with((*twins).lease), "lease again": tw.with((*twins).lease),
			"settle": tw.with((*twins).settle), "settle again": tw.with((*twins).settle),
			"ask": tw.with((*twins).ask), "ask again": tw.with((*twins).ask), "ask more": tw.with((*twins).ask),
			"answer": tw.with((*twins).answer), "answer again": tw.with((*twins).answer), "answer more": tw.with((*twins).answer),
			"promote": tw.with((*twins).promote), "close": tw.with((*twins).closeUnknown), "cancel": tw.with((*twins).cancel),
			"resolve": tw.with((*twins).resolve), "redrive": tw.with((*twins).redrive), "list": tw.with((*twins).list),
			"clean": tw.with((*twins).clean), "cleaned": tw.with((*twins).cleaned),
			"time": tw.with((*twins).pass), "time again": tw.with((*twins).pass),
			"": tw.with((*twins).check),
		})
		tw.with((*twins).checkAll)(rt)
	})
	t.Logf("%d walks: %v", budget.walks, happened)
}

// with makes an action of the state machine of an operation. Once the machine was too
// busy for one of them, nothing more is compared in this walk.
func (tw *twins) with(op func(*twins)) func(*rapid.T) {
	return func(t *rapid.T) {
		tw.t, tw.clock.t = t, t
		if tw.clock.stalled {
			return
		}
		defer func() {
			failure := recover()
			if err, ok := failure.(error); failure != nil && (!ok || !errors.Is(err, errStalled)) {
				panic(failure)
			}
		}()
		op(tw)
	}
}
