package machine

import (
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/pkg/job"
)

// The world is one job in a small universe: its generations, the attempts that
// processes hold or have lost, and a receiver that really acts. The exploration
// walks every order of events in it. Time goes in units; a receiver may act as long
// as the assumptions of the contract let it, and no longer.

// unit is one step of the world's clock; as long as RetryGrace, so that promotion of
// a retry is one step behind its delayed emission.
const unit = RetryGrace

// universe is what does not change in a world.
type universe struct {
	promises            Promises
	deadline            int // in units; 0 is none
	generations, leases int // at most
	mayForce            bool
	// calm: nobody holds or cancels.
	calm bool
	// suspicious: every step is checked, not only those to a world that is new.
	suspicious bool
	machine    subject
}

// subject is the machine under exploration: the real one, or a mutant.
type subject struct {
	next    func(Row, Event, time.Time) (Row, Change)
	redrive func(Row, Event, Correction, time.Time) (Row, Row, Change)
}

// world is one state of the universe. The zero answer is none.
type world struct {
	t      int
	rows   []Row
	held   []attempt
	acts   []act // by generation
	answer answer
	forced bool
	// step is the machine's decision that led here, and amiss what else went wrong.
	step  *step
	amiss string
}

// attempt is a lease in the hands of a process, from its lease to its report, and
// beyond that as long as the receiver may act on it.
type attempt struct {
	generation int
	fence      int64
	beginBy    int // the worker begins no later
	begun      bool
	actBefore  int // the receiver may act before this instant; once begun
	acted      bool
	over       bool // the ledger has ended the lease
	reported   bool
}

// act is what the receiver did for a generation's effect key.
type act struct {
	count int
	last  int
}

// answer is a lookup's or a person's, on its way.
type answer struct {
	generation int
	fence      int64
	asked      int
	yes        bool
	// settled: it was asked once settle had passed.
	settled bool
}

func at(t int) time.Time { return epoch.Add(time.Duration(t) * unit) }

func (u universe) kind() Kind {
	return Kind{Name: "k", Lane: "l", Channel: "http", Promises: u.promises, Policy: Policy{
		Limit: unit, MaxAttempts: int32(u.leases),
		MaxAge: 1000 * unit, MaxLifetime: 1000 * unit, Base: unit, Cap: unit,
		UnclassifiedCap: 1, LeaseTime: unit, PauseBound: unit,
	}}
}

func (u universe) start() world {
	var deadline time.Time
	if u.deadline > 0 {
		deadline = at(u.deadline)
	}
	row, _ := Begin(u.kind(), epoch, deadline, epoch)
	row.Job = 1
	return world{rows: []Row{row}, acts: []act{{}}}
}

func (w world) clone() world {
	w.rows, w.held, w.acts = slices.Clone(w.rows), slices.Clone(w.held), slices.Clone(w.acts)
	w.step, w.amiss = nil, ""
	return w
}

func (w world) current() Row { return w.rows[len(w.rows)-1] }

// apply lets the machine decide an event about a generation. What it refuses is
// the world as it was.
func (u universe) apply(w world, generation int, ev Event) (world, bool) {
	s := &step{before: w.rows[generation-1], ev: ev, now: at(w.t)}
	s.after, s.change = u.machine.next(s.before, ev, s.now)
	if s.change.Refused != Applied {
		return w, false
	}
	w = w.clone()
	w.step, w.rows[generation-1] = s, s.after
	return w, true
}

// move is one thing that may happen in a world.
type move struct {
	name string
	to   world
}

// moves yields everything that may happen next.
func (u universe) moves(w world, yield func(move)) {
	next := w.clone()
	next.t++
	yield(move{"time passes", next})
	u.ledgerMoves(w, yield)
	u.answerMoves(w, yield)
	for i := range w.held {
		u.attemptMoves(w, i, yield)
	}
}

// ledgerMoves are what scheduler, producer and person do to the current generation.
func (u universe) ledgerMoves(w world, yield func(move)) {
	r, n := w.current(), len(w.rows)
	tell := func(ev Event) {
		if to, ok := u.apply(w, n, ev); ok {
			yield(move{string(ev.Name), to})
		}
	}
	tell(Event{Name: Due})
	tell(Event{Name: Expire})
	tell(Event{Name: Close})
	tell(Event{Name: Close, Fence: r.Fence})
	if !u.calm {
		tell(Event{Name: Cancel})
		tell(Event{Name: Hold, Emission: r.Emission, Hold: job.HoldRate, Until: at(w.t + 1)})
	}
	if r.State == job.Leased {
		if to, ok := u.apply(w, n, Event{Name: LeaseEnded, Fence: r.Fence}); ok {
			for i := range to.held {
				to.held[i].end(r.Fence, w.t)
			}
			yield(move{"lease ended", to})
		}
	}
	u.lease(w, r, yield)
	u.redrive(w, r, yield)
}

// end is the ledger's end of the lease with the fence: its process begins nothing
// any more, and what it had begun writes its last byte within the pause bound.
func (a *attempt) end(fence int64, t int) {
	if a.fence == fence {
		a.over = true
		a.cut(t)
	}
}

// cut bounds the last byte of what was begun: pause bound after t; the receiver may
// go on for settle.
func (a *attempt) cut(t int) {
	if a.begun {
		a.actBefore = min(a.actBefore, t+2)
	}
}

func (u universe) lease(w world, r Row, yield func(move)) {
	if r.Fence >= int64(u.leases) {
		return
	}
	to, ok := u.apply(w, len(w.rows), Event{Name: Lease, Emission: r.Emission, Worker: "w"})
	if !ok {
		return
	}
	if leased := to.current(); leased.State == job.Leased {
		a := attempt{generation: len(w.rows), fence: leased.Fence, beginBy: w.t + 1}
		if leased.InDoubt() {
			a.beginBy = min(a.beginBy, int(leased.latestRepeat().Sub(epoch)/unit))
		}
		if u.deadline > 0 {
			a.beginBy = min(a.beginBy, u.deadline-1)
		}
		to.held = append(to.held, a)
	}
	yield(move{"lease", to})
}

func (u universe) redrive(w world, r Row, yield func(move)) {
	if len(w.rows) >= u.generations {
		return
	}
	for _, forced := range []bool{false, true} {
		if forced && !u.mayForce {
			continue
		}
		ev := Event{Forced: forced}
		if forced {
			ev.Detail = "their log shows nothing"
		}
		pred, succ, c := u.machine.redrive(r, ev, Correction{}, at(w.t))
		if c.Refused != Applied {
			continue
		}
		to := w.clone()
		to.rows[len(to.rows)-1] = pred
		to.rows = append(to.rows, succ)
		to.acts = append(to.acts, act{})
		to.forced = to.forced || (forced && r.State == job.Unknown)
		if why := wrongSuccessor(r, pred, succ); why != "" {
			to.amiss = why
		}
		yield(move{fmt.Sprintf("redrive, forced=%t", forced), to})
	}
}

// wrongSuccessor says what is wrong with the next generation of a row.
func wrongSuccessor(before, pred, succ Row) string {
	evidence := pred
	evidence.Successor = 0
	switch {
	case before.Successor != 0:
		return "G9: a second successor"
	case !same(before, evidence):
		return "G9: a redrive changed the evidence"
	case succ.Generation != before.Generation+1 || pred.Successor != succ.Generation:
		return "G9: the successor is not the next generation"
	case succ.Attempt != 0 || succ.InDoubt() || succ.Fixed || succ.Fence != before.Fence || succ.Emission <= before.Emission:
		return "G9: the successor does not begin anew, or its numbers do not continue"
	}
	return ""
}

// answerMoves ask about an unknown outcome, and bring the answer later.
func (u universe) answerMoves(w world, yield func(move)) {
	r, n := w.current(), len(w.rows)
	if a := w.answer; a.generation != 0 {
		name := AnswerNo
		if a.yes {
			name = AnswerYes
		}
		to, ok := u.apply(w, a.generation, Event{Name: name, Fence: a.fence, AskedAt: at(a.asked)})
		if !ok {
			to = w.clone()
		}
		to.answer = answer{}
		yield(move{string(name), to})
		return
	}
	if r.State == job.Unknown {
		to := w.clone()
		settled := !at(w.t).Before(r.DoubtUntil.Add(r.Promises.Settle))
		to.answer = answer{n, r.Fence, w.t, w.acts[n-1].count > 0, settled}
		yield(move{"ask", to})
	}
}

// attemptMoves are what the process that holds an attempt, and the receiver, do.
func (u universe) attemptMoves(w world, i int, yield func(move)) {
	a := w.held[i]
	if !a.begun && !a.over && w.t <= a.beginBy {
		to := w.clone()
		to.held[i].begun, to.held[i].actBefore = true, w.t+3 // limit, pause bound, settle
		if u.deadline > 0 && w.t >= u.deadline {
			to.amiss = "G7: an effect began after the deadline"
		}
		yield(move{"begin", to})
	}
	if a.begun && !a.acted && w.t < a.actBefore {
		to := w.clone()
		to.held[i].acted = true
		u.act(&to, a.generation)
		yield(move{"receiver acts", to})
	}
	if !a.reported {
		u.reportMoves(w, i, yield)
	}
}

// act is the receiver's: it dedupes for its window after it acted.
func (u universe) act(w *world, generation int) {
	c := &w.acts[generation-1]
	if c.count > 0 && w.t < c.last+int(u.promises.Window/unit) {
		return
	}
	c.count++
	c.last = w.t
}

// reportMoves are the truthful ends of an attempt.
func (u universe) reportMoves(w world, i int, yield func(move)) {
	a := w.held[i]
	report := func(name string, n Name, res job.Result, goesOn bool) {
		to, ok := u.apply(w, a.generation, Event{Name: n, Fence: a.fence, Result: res, Worker: "w"})
		if !ok {
			to = w.clone()
		}
		to.held[i].reported = true
		to.held[i].cut(w.t)
		if !goesOn {
			to.held = slices.Delete(to.held, i, i+1)
		}
		yield(move{name, to})
	}
	if !a.begun {
		report("handed back", HandedBack, job.NotBegun(""), false)
		return
	}
	if a.acted {
		report("done", Done, job.Done(nil), false)
	} else {
		report("not done, transient", NotDone, job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""), false)
		report("not done, permanent", NotDone, job.NotDone(job.ClassPermanent, job.CodeRejected, ""), false)
	}
	report("may be done", MayBeDone, job.MayBeDone(job.CodeTimeout, ""), true)
}

// wrong says what the world, or the step that led here, breaks.
func (u universe) wrong(w world) []string {
	var all []string
	if w.amiss != "" {
		all = append(all, w.amiss)
	}
	if w.step != nil {
		all = append(all, complete(w.step).broken(u.machine.next)...)
	}
	total := 0
	for i, c := range w.acts {
		total += c.count
		r := w.rows[i]
		switch {
		case c.count > 1:
			all = append(all, "G1: two effects under one key")
		case c.count > 0 && (r.State == job.Quarantined || r.State == job.Cancelled):
			all = append(all, fmt.Sprintf("G8: %s, and yet it happened", r.State))
		case c.count == 0 && r.State == job.Delivered:
			all = append(all, "G1: delivered, and yet it did not happen")
		}
	}
	if total > 1 && !w.forced {
		all = append(all, "G1: two effects of one job that nobody forced")
	}
	return all
}

// settle forgets what can make no difference any more, so that worlds that go on
// alike are one.
func (w *world) settle() {
	w.held = slices.DeleteFunc(w.held, func(a attempt) bool {
		mayAct, mayBegin := a.begun && !a.acted && w.t < a.actBefore, !a.begun && !a.over
		return !mayAct && !mayBegin && (a.reported || !a.acted)
	})
	for i := range w.held {
		a := &w.held[i]
		if a.begun {
			a.beginBy = 0
		}
		if a.acted {
			a.actBefore = 0
		}
	}
}

// remembered is as long as an instant in the past tells worlds apart: the window and
// resolve_within are no longer.
const remembered = 5

// fingerprint is everything that tells two worlds apart. Instants count from now,
// so that time may go on for ever. Emission numbers are left out: only the newest
// counts, whatever it is.
type fingerprint [80]byte

func (u universe) fingerprint(w world) fingerprint {
	p := printer{t: w.t}
	for i, r := range w.rows {
		p.row(r)
		p.act(u, w.acts[i])
	}
	for _, a := range w.held {
		p.attempt(a)
	}
	p.put(w.answer.generation<<4 | int(w.answer.fence))
	p.flags(w.answer.yes, w.forced, w.answer.settled)
	if u.deadline > 0 {
		p.when(u.deadline, 1)
	}
	return p.f
}

// printer writes a fingerprint.
type printer struct {
	f fingerprint
	n int
	t int
}

func (p *printer) put(v int) {
	p.f[p.n] = byte(v)
	p.n++
}

// when puts an instant of the world, which is forgotten so many units later.
func (p *printer) when(t, forgotten int) { p.put(max(t-p.t, -forgotten)) }

// instant puts an instant of a row, as when; waits may end at halves of units.
func (p *printer) instant(t time.Time, forgotten int) {
	if t.IsZero() {
		p.put(-2*remembered - 1)
		return
	}
	p.put(int(max(t.Sub(at(p.t))*2/unit, time.Duration(-2*forgotten))))
}

func (p *printer) flags(bits ...bool) {
	v := 0
	for i, b := range bits {
		if b {
			v |= 1 << i
		}
	}
	p.put(v)
}

func (p *printer) row(r Row) {
	p.put(slices.Index(job.States(), r.State)<<4 | len(r.Waiting))
	p.put(len(r.Reason)<<2 ^ len(r.LastClass))
	p.put(int(r.Attempt)<<4 | int(r.Fence))
	p.flags(r.CancelRequested, r.Closed, r.Announced, r.Fixed, r.Successor != 0, !r.LeasedAt.IsZero(), r.Reported)
	p.instant(r.WakeAt, 1)     // RetryGrace
	if r.State == job.Leased { // else it only tells that there was a lease
		p.instant(r.LeasedAt, remembered)
	}
	p.instant(r.DoubtSince, remembered)
	p.instant(r.DoubtUntil, 1) // settle
}

func (p *printer) act(u universe, a act) {
	p.put(a.count)
	if a.count > 0 && u.promises.Window > 0 {
		p.when(a.last, remembered)
	}
}

func (p *printer) attempt(a attempt) {
	p.put(0x80 | a.generation<<4 | int(a.fence))
	p.flags(a.begun, a.acted, a.over, a.reported)
	if a.begun {
		p.when(a.actBefore, 0)
	} else {
		p.when(a.beginBy, 1)
	}
}
