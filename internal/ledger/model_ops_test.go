package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// The operations of the model.

// refusalOf names the reason in an error that loops or persons act on.
func refusalOf(err error) string {
	var denied *machine.Denied
	var refusal *job.Refusal
	switch {
	case errors.As(err, &denied):
		return fmt.Sprintf("denied: %s, generation %d, state %s, fence %d, successor %d, reason %s", denied.Why, denied.Generation, denied.State, denied.Fence, denied.Successor, denied.Reason)
	case errors.As(err, &refusal):
		return fmt.Sprintf("refused: %s, %s", refusal.Field, refusal.Rule)
	case errors.Is(err, job.ErrNotFound):
		return "not found"
	case errors.Is(err, machine.ErrWorkerEnded):
		return "worker ended"
	case errors.Is(err, machine.ErrLostTopic):
		return "lost topic"
	}
	return err.Error()
}

// accepted is what an enqueue came to, without its id.
type accepted struct {
	Created, Replaced bool
	Refused           string
}

func (tw *twins) specs() []job.Spec {
	n := rapid.IntRange(1, 3).Draw(tw.t, "jobs")
	specs := make([]job.Spec, n)
	now := tw.clock.now()
	minutes := func(label string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(tw.t, label)) * time.Minute
	}
	for i := range specs {
		specs[i] = job.Spec{
			Kind: tw.kind().Name, Key: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(tw.t, "name"),
			Destination: "d", Payload: []byte(rapid.SampledFrom([]string{`{}`, `{"n":1}`}).Draw(tw.t, "payload")),
		}
		if rapid.IntRange(0, 2).Draw(tw.t, "later") == 0 {
			specs[i].Due = now.Add(minutes("due in", 1, 20))
		}
		if rapid.Bool().Draw(tw.t, "has deadline") {
			specs[i].Deadline = now.Add(minutes("deadline in", 21, 60))
		}
	}
	return specs
}

// frame moves the instants of requests into the real ledger's time.
func (tw *twins) frame(specs []job.Spec) []job.Spec {
	moved := slices.Clone(specs)
	for i := range moved {
		moved[i].Due, moved[i].Deadline = tw.clock.toReal(moved[i].Due), tw.clock.toReal(moved[i].Deadline)
	}
	return moved
}

func (tw *twins) enqueue() {
	specs := tw.specs()
	pg, mem := both(tw, "enqueue",
		func() ([]machine.Enqueued, error) {
			return tw.pg.Enqueue(tw.clock.ctx, tw.clock.pool, tw.frame(specs))
		},
		func() ([]machine.Enqueued, error) { return tw.mem.Enqueue(tw.clock.ctx, specs) })
	tw.accepted("enqueue", specs, pg, mem)
}

// replace gives each key one body: which of two in one call holds is the caller's to say.
func (tw *twins) replace() {
	specs := tw.specs()
	seen := make(map[string]bool)
	specs = slices.DeleteFunc(specs, func(s job.Spec) bool {
		again := seen[s.Kind+"/"+s.Key]
		seen[s.Kind+"/"+s.Key] = true
		return again
	})
	pg, mem := both(tw, "replace",
		func() ([]machine.Enqueued, error) {
			tx, err := tw.clock.pool.Begin(tw.clock.ctx)
			if err != nil {
				return nil, err
			}
			made, err := tw.pg.Replace(tw.clock.ctx, tx, tw.frame(specs))
			if err != nil {
				return nil, errors.Join(err, tx.Rollback(tw.clock.ctx))
			}
			return made, tx.Commit(tw.clock.ctx)
		},
		func() ([]machine.Enqueued, error) { return tw.mem.Replace(tw.clock.ctx, specs) })
	tw.accepted("replace", specs, pg, mem)
}

func (tw *twins) accepted(doing string, specs []job.Spec, pg, mem []machine.Enqueued) {
	var r, m []accepted
	for i, s := range specs {
		r = append(r, accepted{pg[i].Created, pg[i].Replaced, told(pg[i].Refused)})
		m = append(m, accepted{mem[i].Created, mem[i].Replaced, told(mem[i].Refused)})
		key := s.Kind + "/" + s.Key
		if pg[i].Created && mem[i].Created {
			tw.keys = append(tw.keys, key)
			tw.ids[key], tw.memIDs[key] = pg[i].Job, mem[i].Job
		}
	}
	tw.alike(doing, r, m)
}

// leased is what a lease call came to, by key.
type leased struct {
	Granted      []string
	Early, Stale []string
}

func (tw *twins) lease() {
	key := tw.key()
	kind := kindNamed(kindOf(key))
	if rapid.IntRange(0, 9).Draw(tw.t, "forged") == 0 {
		kind = tw.kind() // an envelope may say anything
	}
	refs := []job.Ref{tw.ref(key)}
	for _, other := range tw.keys {
		if other != key && kindOf(other) == kind.Name && rapid.Bool().Draw(tw.t, "together") {
			refs = append(refs, tw.ref(other))
		}
	}
	req := machine.LeaseRequest{Worker: rapid.SampledFrom(tw.workers).Draw(tw.t, "worker"), Kind: kind, Refs: refs}
	memReq := req
	memReq.Refs = tw.inMem(refs)
	pg, mem := both(tw, "lease",
		func() (machine.Leases, error) { return tw.pg.Lease(tw.clock.ctx, req) },
		func() (machine.Leases, error) { return tw.mem.Lease(tw.clock.ctx, memReq) })
	tw.alike("lease", tw.leases(pg, tw.ids), tw.leases(mem, tw.memIDs))
	for _, g := range pg.Grants {
		tw.held = append(tw.held, held{tw.keyOf(g.Row.Job), g.Row.Generation, g.Row.Fence, kind, req.Worker})
	}
}

func kindNamed(name string) machine.Kind {
	kinds := modelKinds()
	return kinds[slices.IndexFunc(kinds, func(k machine.Kind) bool { return k.Name == name })]
}

func (tw *twins) leases(l machine.Leases, ids map[string]int64) leased {
	var out leased
	show := func(r job.Ref) string {
		for key, id := range ids {
			if id == r.Job {
				return fmt.Sprintf("%s g%d e%d", key, r.Generation, r.Emission)
			}
		}
		return "?"
	}
	for _, g := range l.Grants {
		at := show(job.Ref{Job: g.Row.Job, Generation: g.Row.Generation, Emission: g.Row.Emission})
		out.Granted = append(out.Granted, fmt.Sprintf("%s attempt %d fence %d doubt %t channel %s promises %+v %s %s", at, g.Row.Attempt, g.Row.Fence, g.Row.InDoubt(), g.Row.Channel, g.Row.Promises, g.Destination, g.Payload))
	}
	for _, e := range l.Early {
		out.Early = append(out.Early, show(e.Ref))
	}
	for _, r := range l.Stale {
		out.Stale = append(out.Stale, show(r))
	}
	slices.Sort(out.Granted)
	slices.Sort(out.Early)
	slices.Sort(out.Stale)
	return out
}

// settle reports the ends of some attempts that a worker had; some again, some
// with another word than before.
func (tw *twins) settle() {
	if len(tw.held) == 0 {
		tw.t.Skip("nothing was leased yet")
	}
	var mine []held
	first := rapid.SampledFrom(tw.held).Draw(tw.t, "attempt")
	for _, h := range tw.held {
		if (h.key == first.key && h.fence == first.fence) || (h.worker == first.worker && rapid.IntRange(0, 3).Draw(tw.t, "together") == 0) {
			mine = append(mine, h)
		}
	}
	var reports, memReports []machine.Report
	for _, h := range mine {
		r := machine.Report{
			Attempt: machine.Attempt{Job: tw.ids[h.key], Generation: h.generation, Fence: h.fence},
			Result:  tw.result(), Classifier: "rules-1", Kind: &h.kind,
		}
		reports = append(reports, r)
		r.Job = tw.memIDs[h.key]
		memReports = append(memReports, r)
	}
	pg, mem := both(tw, "settle",
		func() ([]machine.Settled, error) { return tw.pg.Settle(tw.clock.ctx, first.worker, reports) },
		func() ([]machine.Settled, error) { return tw.mem.Settle(tw.clock.ctx, first.worker, memReports) })
	for i := range pg {
		pg[i].WakeAt = tw.clock.toVirtual(pg[i].WakeAt)
		pg[i].Job, mem[i].Job = 0, 0
	}
	tw.alike("settle", pg, mem)
}

func (tw *twins) result() job.Result {
	if tw.doubtful && rapid.IntRange(0, 4).Draw(tw.t, "doubt") > 0 {
		return job.MayBeDone(job.CodeTimeout, "no answer in 60 s")
	}
	switch rapid.IntRange(0, 6).Draw(tw.t, "result") {
	case 0, 1:
		return job.Done(&job.Receipt{ID: "r", Status: "200"})
	case 2:
		return job.NotBegun("draining")
	case 3, 4:
		return job.MayBeDone(job.CodeTimeout, "no answer in 60 s")
	}
	r := job.NotDone(rapid.SampledFrom(job.Classes()).Draw(tw.t, "class"), job.CodeReceiverBusy, "busy")
	r.RetryAfter = time.Duration(rapid.SampledFrom([]int{0, 0, 3, 50}).Draw(tw.t, "retry after")) * time.Minute
	return r
}

func (tw *twins) hold() {
	refs := []job.Ref{tw.ref(tw.key())}
	d := time.Duration(rapid.IntRange(1, 10).Draw(tw.t, "hold")) * time.Minute
	both(tw, "hold",
		func() (any, error) { return tw.pg.HoldRefs(tw.clock.ctx, refs, job.HoldPaused, d) },
		func() (any, error) { return tw.mem.HoldRefs(tw.clock.ctx, tw.inMem(refs), job.HoldPaused, d) })
}

func (tw *twins) endWorker() {
	w := rapid.SampledFrom(tw.workers).Draw(tw.t, "worker")
	both(tw, "end worker",
		func() (any, error) { return nil, tw.pg.EndWorker(tw.clock.ctx, w.ID) },
		func() (any, error) { return nil, tw.mem.EndWorker(tw.clock.ctx, w.ID) })
	tw.workers = slices.DeleteFunc(tw.workers, func(o machine.Worker) bool { return o == w })
	tw.register()
	tw.sweep("end the leases of a worker",
		func() (machine.LeaseSweep, error) { return tw.pg.EndLeasesOf(tw.clock.ctx, w.ID, time.Time{}, 100) },
		func() (machine.LeaseSweep, error) { return tw.mem.EndLeasesOf(tw.clock.ctx, w.ID, time.Time{}, 100) })
}

func (tw *twins) endLeases() {
	tw.sweep("end leases that are over",
		func() (machine.LeaseSweep, error) { return tw.pg.EndOverrun(tw.clock.ctx, 100) },
		func() (machine.LeaseSweep, error) { return tw.mem.EndOverrun(tw.clock.ctx, 100) })
}

func (tw *twins) sweep(doing string, pg, mem func() (machine.LeaseSweep, error)) {
	r, m := both(tw, doing, pg, mem)
	tw.alike(doing, r.Ended, m.Ended)
}

func (tw *twins) promote() {
	pg, mem := both(tw, "promote",
		func() (machine.Promotion, error) { return tw.pg.Promote(tw.clock.ctx, machine.Position{}, 100) },
		func() (machine.Promotion, error) { return tw.mem.Promote(tw.clock.ctx, machine.Position{}, 100) })
	tw.alike("promote", pg.Promoted, mem.Promoted)
	tw.alike("promote: what had expired", pg.Ended, mem.Ended)
}

func (tw *twins) expire() {
	pg, mem := both(tw, "expire",
		func() (machine.Tally, error) { t, _, err := tw.pg.Expire(tw.clock.ctx, 100); return t, err },
		func() (machine.Tally, error) { t, _, err := tw.mem.Expire(tw.clock.ctx, 100); return t, err })
	if len(pg)+len(mem) > 0 {
		tw.alike("expire", pg, mem)
	}
}

func (tw *twins) closeUnknown() {
	pg, mem := both(tw, "close",
		func() (int, error) { n, _, err := tw.pg.CloseUnknown(tw.clock.ctx, 100); return n, err },
		func() (int, error) { n, _, err := tw.mem.CloseUnknown(tw.clock.ctx, 100); return n, err })
	tw.alike("close", pg, mem)
}

// question is an unknown outcome that was taken from both ledgers, each with its own number
// of the job, and instants of the model's time.
type question struct{ pg, mem machine.Question }

// doubts makes some jobs unknown, and lets time pass.
func (tw *twins) doubts() {
	kind := kindNamed("lookup")
	var specs []job.Spec
	for _, key := range []string{"a", "b", "c"} {
		specs = append(specs, job.Spec{Kind: kind.Name, Key: key, Destination: "d", Payload: []byte(`{}`)})
	}
	pg, mem := both(tw, "enqueue",
		func() ([]machine.Enqueued, error) { return tw.pg.Enqueue(tw.clock.ctx, tw.clock.pool, specs) },
		func() ([]machine.Enqueued, error) { return tw.mem.Enqueue(tw.clock.ctx, specs) })
	tw.accepted("enqueue", specs, pg, mem)
	w := tw.workers[0]
	for _, key := range tw.keys {
		ref := job.Ref{Job: tw.ids[key], Generation: 1, Emission: 1}
		both(tw, "lease",
			func() (machine.Leases, error) {
				return tw.pg.Lease(tw.clock.ctx, machine.LeaseRequest{Worker: w, Kind: kind, Refs: []job.Ref{ref}})
			},
			func() (machine.Leases, error) {
				return tw.mem.Lease(tw.clock.ctx, machine.LeaseRequest{Worker: w, Kind: kind, Refs: tw.inMem([]job.Ref{ref})})
			})
		tw.held = append(tw.held, held{key, 1, 1, kind, w})
		report := machine.Report{
			Attempt: machine.Attempt{Job: tw.ids[key], Generation: 1, Fence: 1}, Result: job.MayBeDone(job.CodeTimeout, "no answer in 60 s"), Kind: &kind,
		}
		inMem := report
		inMem.Job = tw.memIDs[key]
		both(tw, "settle",
			func() ([]machine.Settled, error) { return tw.pg.Settle(tw.clock.ctx, w, []machine.Report{report}) },
			func() ([]machine.Settled, error) { return tw.mem.Settle(tw.clock.ctx, w, []machine.Report{inMem}) })
	}
	tw.pass()
}

// ask takes everything that is to be asked about, as an asker does that may be lost.
func (tw *twins) ask() {
	kind := tw.kind()
	pg, mem := both(tw, "take questions",
		func() ([]machine.Question, error) {
			return tw.pg.TakeQuestions(tw.clock.ctx, kind.Name, machine.MeansSQL, 100, time.Minute)
		},
		func() ([]machine.Question, error) {
			return tw.mem.TakeQuestions(tw.clock.ctx, kind.Name, machine.MeansSQL, 100, time.Minute)
		})
	byKey := func(a, b machine.Question) int { return strings.Compare(a.Key, b.Key) }
	slices.SortFunc(pg, byKey)
	slices.SortFunc(mem, byKey)
	var shown, wanted []machine.Question
	for _, q := range pg {
		q.Job, q.AskedAt, q.Next = 0, tw.clock.toVirtual(q.AskedAt), tw.clock.toVirtual(q.Next)
		shown = append(shown, q)
	}
	for _, q := range mem {
		q.Job = 0
		wanted = append(wanted, q)
	}
	tw.alike("questions", shown, wanted)
	for i := range pg {
		q := question{pg[i], mem[i]}
		q.pg.AskedAt, q.pg.Next = shown[i].AskedAt, shown[i].Next
		tw.asked = append(tw.asked, q)
		tw.happened["asked"]++
	}
}

// answer brings answers to what was asked: some again, some late, some with another word
// than before.
func (tw *twins) answer() {
	if len(tw.asked) == 0 {
		tw.t.Skip("nothing was asked yet")
	}
	var pgReplies, memReplies []machine.Reply
	seen := make(map[int64]bool)
	for range rapid.IntRange(1, 3).Draw(tw.t, "answers") {
		q := rapid.SampledFrom(tw.asked[max(0, len(tw.asked)-4):]).Draw(tw.t, "question")
		if seen[q.pg.Job] {
			continue
		}
		seen[q.pg.Job] = true
		r := machine.Reply{Said: rapid.SampledFrom(job.Sayings()).Draw(tw.t, "said"), Detail: "HTTP 200"}
		if r.Said == job.SaidYes {
			r.Receipt = &job.Receipt{ID: "m-1"}
		}
		r.Question = q.pg
		r.AskedAt, r.Next = tw.clock.toReal(q.pg.AskedAt), tw.clock.toReal(q.pg.Next)
		pgReplies = append(pgReplies, r)
		r.Question = q.mem
		memReplies = append(memReplies, r)
	}
	pg, mem := both(tw, "answer",
		func() ([]machine.Answered, error) { return tw.pg.Answer(tw.clock.ctx, pgReplies) },
		func() ([]machine.Answered, error) { return tw.mem.Answer(tw.clock.ctx, memReplies) })
	tw.alike("answers", pg, mem)
}

// patrol looks at everything, or ends its walk, and removes what is old.
func (tw *twins) patrol() {
	const retention = 40 * time.Minute
	pg, mem := both(tw, "patrol",
		func() (machine.Patrol, error) { return tw.pg.Patrol(tw.clock.ctx, 1000, 0, retention) },
		func() (machine.Patrol, error) { return tw.mem.Patrol(tw.clock.ctx, 1000, 0, retention) })
	found := func(p machine.Patrol) any {
		maps.DeleteFunc(p.Acted, func(_ machine.Finding, n int) bool { return n == 0 })
		return struct {
			Rows  int
			Mine  bool
			Acted string
		}{p.Rows, p.Mine, fmt.Sprint(p.Acted)}
	}
	tw.alike("patrol", found(pg), found(mem))
}

// heartbeat renews a worker, which may have been ended.
func (tw *twins) heartbeat() {
	w := rapid.SampledFrom(tw.workers).Draw(tw.t, "worker")
	if rapid.IntRange(0, 3).Draw(tw.t, "an ended one") == 0 {
		w.ID = "00000000-0000-4000-8000-00000000dead"
	}
	both(tw, "heartbeat",
		func() (any, error) { _, err := tw.pg.Heartbeat(tw.clock.ctx, w.ID); return nil, err },
		func() (any, error) { _, err := tw.mem.Heartbeat(tw.clock.ctx, w.ID); return nil, err })
}

// list compares a list of everything that there is, and of what needs a person.
func (tw *twins) list() {
	req := machine.ListRequest{Limit: 2}
	req.State = rapid.SampledFrom(append(job.States(), "")).Draw(tw.t, "state")
	if rapid.Bool().Draw(tw.t, "one kind") {
		req.Kind = tw.kind().Name
	}
	pg, mem := both(tw, "list",
		func() ([]machine.Entry, error) { return listed(tw.clock.ctx, tw.pg, req) },
		func() ([]machine.Entry, error) { return listed(tw.clock.ctx, tw.mem, req) })
	for i := range pg {
		e := &pg[i]
		for _, at := range []*time.Time{&e.At, &e.WakeAt, &e.ClosesAt, &e.AskAt, &e.AskedAt} {
			*at = tw.clock.toVirtual(*at)
		}
	}
	alike := func(all []machine.Entry) []machine.Entry {
		for i := range all {
			all[i].Job = 0
		}
		slices.SortFunc(all, func(a, b machine.Entry) int { return strings.Compare(a.Kind+"/"+a.Key, b.Kind+"/"+b.Key) })
		return all
	}
	tw.alike("list", alike(pg), alike(mem))
}

// listed reads a list to its end, page by page.
func listed(c ctx, l interface {
	List(ctx ctx, req machine.ListRequest) (machine.Listed, error)
}, req machine.ListRequest,
) ([]machine.Entry, error) {
	var all []machine.Entry
	for {
		page, err := l.List(c, req)
		if all = append(all, page.Entries...); err != nil || page.Next == (machine.ListPlace{}) {
			return all, err
		}
		req.After = page.Next
	}
}

// standing is where a job stands, without its id, in the model's time.
func (tw *twins) standing(s machine.Standing, wake time.Time) machine.Standing {
	s.Job, s.WakeAt = 0, wake
	return s
}

func (tw *twins) cancel() {
	key := tw.key()
	if rapid.IntRange(0, 3).Draw(tw.t, "often") > 0 {
		tw.t.Skip("what is cancelled has no story any more")
	}
	c := machine.Cancellation{Kind: kindOf(key), Key: name(key), Actor: "ann", Reason: "moved"}
	pg, mem := both(tw, "cancel",
		func() (machine.Standing, error) { return tw.pg.Cancel(tw.clock.ctx, c) },
		func() (machine.Standing, error) { return tw.mem.Cancel(tw.clock.ctx, c) })
	tw.alike("cancel", tw.standing(pg, tw.clock.toVirtual(pg.WakeAt)), tw.standing(mem, mem.WakeAt))
}

func (tw *twins) resolve() {
	key := tw.key()
	a := machine.Answer{
		Kind: kindOf(key), Key: name(key), Actor: "ann", Evidence: "their log", Fence: tw.current(key).Fence,
		Verdict: rapid.SampledFrom(machine.Verdicts()).Draw(tw.t, "verdict"),
	}
	if rapid.IntRange(0, 4).Draw(tw.t, "older fence") == 0 {
		a.Fence--
	}
	pg, mem := both(tw, "resolve",
		func() (machine.Standing, error) { return tw.pg.Resolve(tw.clock.ctx, a) },
		func() (machine.Standing, error) { return tw.mem.Resolve(tw.clock.ctx, a) })
	tw.alike("resolve", tw.standing(pg, tw.clock.toVirtual(pg.WakeAt)), tw.standing(mem, mem.WakeAt))
}

func (tw *twins) redrive() {
	key := tw.key()
	req := machine.RedriveRequest{
		Kind: kindOf(key), Key: name(key), Generation: tw.current(key).Generation, Approver: "bob", Actor: "ann", Reason: "corrected",
		RecoveryKey: rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(tw.t, "recovery key"),
		Destination: rapid.SampledFrom([]string{"", "e"}).Draw(tw.t, "destination"),
	}
	if req.Forced = rapid.Bool().Draw(tw.t, "forced"); req.Forced {
		req.Evidence = "nothing arrived"
	}
	if rapid.IntRange(0, 4).Draw(tw.t, "older generation") == 0 {
		req.Generation--
	}
	realReq := req
	if rapid.IntRange(0, 2).Draw(tw.t, "later") == 0 {
		req.NotBefore = tw.clock.now().Add(7 * time.Minute)
		realReq.NotBefore = tw.clock.toReal(req.NotBefore)
	}
	if rapid.IntRange(0, 2).Draw(tw.t, "later deadline") == 0 {
		req.Deadline = tw.clock.now().Add(50 * time.Minute)
		realReq.Deadline = tw.clock.toReal(req.Deadline)
	}
	pg, mem := both(tw, "redrive",
		func() (machine.Successor, error) { return tw.pg.Redrive(tw.clock.ctx, realReq) },
		func() (machine.Successor, error) { return tw.mem.Redrive(tw.clock.ctx, req) })
	pg.Starts = tw.clock.toVirtual(pg.Starts)
	pg.Job, mem.Job = 0, 0
	tw.alike("redrive", pg, mem)
}

// relay takes everything that both outboxes hold, as a dispatcher does, and compares
// what they announce.
func (tw *twins) relay() {
	for _, topic := range []string{lane, machine.DeadTopic} {
		pg, mem := both(tw, "relay",
			func() ([]string, error) { return tw.drain(tw.pg, topic, tw.ids, tw.clock.toVirtual) },
			func() ([]string, error) {
				return tw.drain(tw.mem, topic, tw.memIDs, func(t time.Time) time.Time { return t })
			})
		tw.alike("relay of "+topic, pg, mem)
	}
}

// outbox is what a dispatcher reads.
type outbox interface {
	ClaimTopic(ctx ctx, topic, holder string, d time.Duration) (bool, error)
	ReadOutbox(ctx ctx, topic, holder string, limit int) (machine.Page, error)
	Advance(ctx ctx, topic, holder string, page machine.Page) error
	Notices(ctx ctx, refs []job.Ref) ([]machine.Notice, error)
}

func (tw *twins) drain(o outbox, topic string, ids map[string]int64, virtual func(time.Time) time.Time) ([]string, error) {
	if ok, err := o.ClaimTopic(tw.clock.ctx, topic, tw.claimed, time.Minute); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("claimed: %t", ok))
	}
	var all []string
	for {
		page, err := o.ReadOutbox(tw.clock.ctx, topic, tw.claimed, 3)
		if err != nil || len(page.Rows) == 0 {
			slices.Sort(all)
			return all, err
		}
		for _, r := range page.Rows {
			said, err := tw.announcement(o, topic, r, ids, virtual)
			if err != nil {
				return nil, err
			}
			all = append(all, said...)
		}
		if err := o.Advance(tw.clock.ctx, topic, tw.claimed, page); err != nil {
			return nil, err
		}
	}
}

// announcement writes an outbox row, a line a reference. A delay is told to the minute.
func (tw *twins) announcement(o outbox, topic string, r machine.OutboxRow, ids map[string]int64, virtual func(time.Time) time.Time) ([]string, error) {
	var all []string
	for _, ref := range r.Refs {
		key := "?"
		for k, id := range ids {
			if id == ref.Job {
				key = k
			}
		}
		line := fmt.Sprintf("%s g%d e%d %s", key, ref.Generation, ref.Emission, r.Kind)
		if !r.At.IsZero() {
			line += " at " + virtual(r.At).Round(10*time.Second).Format(time.TimeOnly)
		}
		if topic == machine.DeadTopic {
			notices, err := o.Notices(tw.clock.ctx, []job.Ref{ref})
			if err != nil {
				return nil, err
			}
			n := notices[0]
			line += fmt.Sprintf(" %s %s %s %s %s %s %d", n.Kind, n.Key, n.State, n.Reason, n.LastClass, n.LastCode, n.Attempts)
		}
		all = append(all, line)
	}
	return all, nil
}

func (tw *twins) mark() {
	tw.relay()
	pg, mem := both(tw, "mark",
		func() (machine.Mark, error) { return tw.pg.IssueMark(tw.clock.ctx, lane, tw.claimed, []int32{0, 1}) },
		func() (machine.Mark, error) { return tw.mem.IssueMark(tw.clock.ctx, lane, tw.claimed, []int32{0, 1}) })
	tw.marks = append(tw.marks, marks{pg.Number, mem.Number})
}

// judge lets a mark pass, and judges what marks cover.
func (tw *twins) judge() {
	if len(tw.marks) == 0 {
		tw.t.Skip("no mark yet")
	}
	m := rapid.SampledFrom(tw.marks[max(0, len(tw.marks)-2):]).Draw(tw.t, "mark")
	for partition := range rapid.Int32Range(0, 2).Draw(tw.t, "partitions") {
		both(tw, "pass a mark",
			func() (any, error) { return nil, tw.pg.PassMark(tw.clock.ctx, lane, partition, m.pg) },
			func() (any, error) { return nil, tw.mem.PassMark(tw.clock.ctx, lane, partition, m.mem) })
	}
	pg, mem := both(tw, "judge",
		func() (int, error) { n, _, err := tw.pg.Judge(tw.clock.ctx, lane, time.Hour, 100); return n, err },
		func() (int, error) { n, _, err := tw.mem.Judge(tw.clock.ctx, lane, time.Hour, 100); return n, err })
	tw.alike("judge", pg, mem)
	realStands, memStands := both(tw, "look at marks",
		func() (bool, error) { return tw.pg.MarkStands(tw.clock.ctx, lane) },
		func() (bool, error) { return tw.mem.MarkStands(tw.clock.ctx, lane) })
	tw.alike("marks", realStands, memStands)
}

func (tw *twins) pass() {
	tw.clock.pass(time.Duration(rapid.SampledFrom([]int{0, 1, 2, 5, 10, 20}).Draw(tw.t, "minutes")) * time.Minute)
}

// check compares everything that both ledgers keep about one job.
func (tw *twins) check() {
	if len(tw.keys) > 0 {
		tw.compare(rapid.SampledFrom(tw.keys).Draw(tw.t, "looked at"))
	}
}

// checkAll compares every job, counts what had happened to it, and holds the real
// ledger's rows against their events.
func (tw *twins) checkAll() {
	ledgertest.Agrees(tw.t, tw.clock.pool)
	for _, key := range tw.keys {
		for _, e := range tw.compare(key).Events {
			tw.happened[string(e.Name)+" "+string(e.From)+"→"+string(e.To)]++
		}
	}
}

func (tw *twins) compare(key string) machine.Story {
	pg, mem := both(tw, "show",
		func() (machine.Story, error) { return tw.pg.Show(tw.clock.ctx, kindOf(key), name(key)) },
		func() (machine.Story, error) { return tw.mem.Show(tw.clock.ctx, kindOf(key), name(key)) })
	tw.alike(key, tw.told(pg, tw.clock.toVirtual), tw.told(mem, func(t time.Time) time.Time { return t }))
	tw.gates(key, pg)
	return mem
}
