package sim

import (
	"sync"
	"time"

	"duly.dev/duly/docs/model"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// history holds what the ledger decides, as it decides it, against what the receiver really
// did. What it finds wrong breaks a guarantee.
type history struct {
	w *world

	mu       sync.Mutex
	lives    map[string]*life // by worker id
	jobs     map[string]int64 // by kind and key, as the ledger accepted them
	rows     map[generation]machine.Row
	heard    map[string]time.Duration // the last heartbeat by worker id
	attempts map[machine.Attempt]*attempt
	tries    map[try]*attempt
	owners   map[string]generation // by effect key
	keys     map[generation]string
	acts     map[string]int // by effect key
	jobActs  map[int64]int
	forced   map[int64]bool
	doubted  map[generation]bool
	recovery map[string]int32 // successors by job and recovery key
	cleanups map[int64]int
	// steps are what happened to each generation, for the formal model. What the model does
	// not have begins another sequence.
	steps map[generation][][]model.Step
}

// generation is a generation of a job.
type generation struct {
	job    int64
	number int32
}

// try is an attempt as its worker knows it.
type try struct {
	generation

	attempt int32
	life    *life
}

// attempt is a lease.
type attempt struct {
	id     machine.Attempt
	life   *life
	leased time.Duration
	begun  bool
	over   bool // its lease was ended
	// ambiguous: nobody at the worker's end can know how it ended.
	ambiguous bool
}

func newHistory(w *world) *history {
	return &history{
		w: w, lives: map[string]*life{}, heard: map[string]time.Duration{}, jobs: map[string]int64{}, rows: map[generation]machine.Row{},
		attempts: map[machine.Attempt]*attempt{}, tries: map[try]*attempt{}, owners: map[string]generation{}, keys: map[generation]string{},
		acts: map[string]int{}, jobActs: map[int64]int{}, forced: map[int64]bool{}, doubted: map[generation]bool{},
		recovery: map[string]int32{}, cleanups: map[int64]int{}, steps: map[generation][][]model.Step{},
	}
}

// born notes whose a worker id is.
func (h *history) born(id string, l *life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives[id] = l
}

// beats notes a heartbeat of a worker that the ledger has heard.
func (h *history) beats(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[id] = h.w.elapsed()
}

// buried holds the end of a worker against its heartbeats. Nobody may end it who could not
// have heard one for a whole lease time, when that was decided.
func (h *history) buried(by *life, id string, decided time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.w.elapsed()
	h.w.sayf("%s ends %s", by.name, id)
	if silent := now - h.heard[id]; silent < leaseTime {
		h.w.breaksf("G5", "%s ends %s, which was heard of %s ago", by.name, id, silent)
	}
	if h.w.wasAway(decided-leaseTime, decided, contactGap) {
		h.w.breaksf("G5", "%s ends %s, and the ledger has been away", by.name, id)
	}
}

// accepts notes a job that the ledger has.
func (h *history) accepts(s job.Spec, e machine.Enqueued) {
	if e.Refused != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := s.Kind + "/" + s.Key
	if id, known := h.jobs[name]; known && id != e.Job {
		h.w.breaksf("G2", "%s is job %d and job %d", name, id, e.Job)
	}
	if e.Created {
		h.w.sayf("job %d is %s", e.Job, name)
	}
	h.jobs[name] = e.Job
}

func stand(r machine.Row) string {
	if !r.Current() {
		return model.Superseded
	}
	return model.Stand(r.State, r.Waiting, r.InDoubt(), r.Closed)
}

// decided takes a decision of the ledger.
func (h *history) decided(d memledger.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := generation{d.Before.Job, d.Before.Generation}
	h.rows[g] = d.After
	h.w.sayf("job %d.%d %s: %s -> %s (fence %d, emission %d, %s)", g.job, g.number, d.Event.Name, stand(d.Before), stand(d.After), d.After.Fence, d.After.Emission, d.Event.Actor)
	h.step(g, d)
	switch d.Event.Name {
	case machine.Lease:
		h.leased(g, d)
	case machine.LeaseEnded:
		h.leaseEnded(d)
	case machine.MayBeDone:
		h.mayBeDone(d)
	case machine.HandedBack:
		if a := h.attempts[idOf(d)]; a != nil && a.begun {
			h.w.breaksf("G8", "job %d.%d fence %d began, and is handed back as if it had not", g.job, g.number, d.Event.Fence)
		}
	case machine.Redriven:
		if d.Event.Forced {
			h.forced[g.job] = true
		}
	default:
	}
	h.doubt(g, d)
	h.ends(g, d)
}

func idOf(d memledger.Decision) machine.Attempt {
	return machine.Attempt{Job: d.Before.Job, Generation: d.Before.Generation, Fence: d.Event.Fence}
}

// step keeps the decision for the formal model.
func (h *history) step(g generation, d memledger.Decision) {
	all := h.steps[g]
	if d.Event.Name == machine.Replaced {
		h.steps[g] = append(all, nil)
		return
	}
	if len(all) == 0 {
		all = append(all, nil)
	}
	last := len(all) - 1
	all[last] = append(all[last], model.Step{Event: string(d.Event.Name), From: stand(d.Before), To: stand(d.After)})
	h.steps[g] = all
}

func (h *history) leased(g generation, d memledger.Decision) {
	r := d.After
	if r.State != job.Leased {
		return
	}
	a := &attempt{id: machine.Attempt{Job: g.job, Generation: g.number, Fence: r.Fence}, life: h.lives[r.Worker], leased: h.w.elapsed()}
	if h.attempts[a.id] != nil {
		h.w.breaksf("G5", "job %d.%d is leased twice under fence %d", g.job, g.number, r.Fence)
	}
	h.attempts[a.id] = a
	h.tries[try{g, r.Attempt, a.life}] = a
	if d.At.Before(d.Before.WakeAt) {
		h.w.breaksf("G7", "job %d.%d is leased before it may be tried again", g.job, g.number)
	}
	if r.Attempt > r.Kind.Policy.MaxAttempts {
		h.w.breaksf("G7", "job %d.%d is leased for the %d. time", g.job, g.number, r.Attempt)
	}
}

// leaseEnded holds the end of a lease against what its worker went through: without any
// trouble none is left to be found by a sweep.
func (h *history) leaseEnded(d memledger.Decision) {
	a := h.attempts[idOf(d)]
	if a == nil {
		h.w.breaksf("G5", "job %d.%d: a lease is ended under fence %d, which nobody has", d.Before.Job, d.Before.Generation, d.Event.Fence)
		return
	}
	a.over = true
	if !h.w.excuses(a) {
		h.w.breaksf("unknown", "the lease of job %d.%d under fence %d is ended, and nothing was wrong with %s", a.id.Job, a.id.Generation, a.id.Fence, a.life.name)
	}
}

// mayBeDone holds a doubt against what the receiver did: there must be a cause for it.
func (h *history) mayBeDone(d memledger.Decision) {
	a := h.attempts[idOf(d)]
	if a == nil || d.Change.Record == nil || d.Change.Record.Late {
		return
	}
	if !a.ambiguous && !h.w.excuses(a) {
		h.w.breaksf("unknown", "job %d.%d under fence %d may have happened, says %s, and nothing was wrong", a.id.Job, a.id.Generation, a.id.Fence, a.life.name)
	}
}

// excuses reports whether something went wrong with the attempt's worker, or with the
// ledger's clock, that may leave it in doubt.
func (w *world) excuses(a *attempt) bool {
	since := a.leased - leaseTime
	return a.life.troubledSince(since) || w.steppedSince(since)
}

// doubt holds the decision against G8: what may have happened is settled by evidence alone.
func (h *history) doubt(g generation, d memledger.Decision) {
	if d.After.InDoubt() {
		h.doubted[g] = true
	}
	if !d.Before.InDoubt() || d.After.InDoubt() {
		return
	}
	switch d.Event.Name {
	case machine.Done, machine.AnswerYes, machine.AnswerNo:
	default:
		h.w.breaksf("G8", "job %d.%d is in doubt no more, by %s", g.job, g.number, d.Event.Name)
	}
}

// ends holds the end of a generation against what the receiver did.
func (h *history) ends(g generation, d memledger.Decision) {
	acts := h.acts[h.keys[g]]
	switch r := d.After; {
	case r.State == d.Before.State:
	case r.State == job.Delivered && acts == 0:
		h.w.breaksf("G1", "job %d.%d is delivered, and nothing has happened", g.job, g.number)
	case (r.State == job.Quarantined || r.State == job.Cancelled) && acts > 0:
		h.w.breaksf("G8", "job %d.%d is %s, and it has happened", g.job, g.number, r.State)
	}
}

// begins holds an effect that begins against its lease, its deadline and its window.
func (h *history) begins(l *life, e channel.Effect, k machine.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.jobs[e.Kind+"/"+e.Key]
	g := generation{id, e.Generation}
	a := h.tries[try{g, e.Attempt, l}]
	h.w.sayf("%s begins %s, attempt %d", l.name, e.EffectKey, e.Attempt)
	if a == nil {
		h.w.breaksf("G4", "%s begins %s without a lease", l.name, e.EffectKey)
		return
	}
	a.begun = true
	h.owners[e.EffectKey], h.keys[g] = g, e.EffectKey
	r, now, slack := h.rows[g], h.w.now(), time.Duration(0)
	if h.w.plan.clockSteps() {
		slack = swing
	}
	switch {
	case a.over:
		h.w.breaksf("G1", "%s begins %s under a lease that was ended", l.name, e.EffectKey)
	case r.Fence != a.id.Fence:
		h.w.breaksf("G5", "%s begins %s under fence %d, and the newest is %d", l.name, e.EffectKey, a.id.Fence, r.Fence)
	case !r.Deadline.IsZero() && !now.Before(r.Deadline.Add(slack)):
		h.w.breaksf("G7", "%s begins %s after its deadline", l.name, e.EffectKey)
	case r.InDoubt() && now.Add(k.Policy.Limit+pauseBound+settle).After(r.DoubtSince.Add(k.Promises.Window+slack)):
		h.w.breaksf("G8", "%s repeats %s although the receiver may have forgotten it by then", l.name, e.EffectKey)
	}
}

// ambiguous notes that nobody will know how the attempt ended.
func (h *history) ambiguous(l *life, e channel.Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tries[try{generation{h.jobs[e.Kind+"/"+e.Key], e.Generation}, e.Attempt, l}]; a != nil {
		a.ambiguous = true
	}
}

// acted holds an effect against all that was said about it before.
func (h *history) acted(effectKey string, times int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.owners[effectKey]
	h.acts[effectKey] = times
	h.jobActs[g.job]++
	r := h.rows[g]
	switch {
	case times > 1:
		h.w.breaksf("G1", "%s has happened %d times", effectKey, times)
	case h.jobActs[g.job] > 1 && !h.forced[g.job]:
		h.w.breaksf("G1", "job %d has %d effects, and nobody has forced that", g.job, h.jobActs[g.job])
	case !r.Current() && !h.forced[g.job]:
		h.w.breaksf("G6", "%s happens although it has a successor", effectKey)
	case r.State == job.Quarantined || r.State == job.Cancelled:
		h.w.breaksf("G8", "%s happens after it was %s", effectKey, r.State)
	}
}

// redriven holds a decision to redrive against those before.
func (h *history) redriven(r machine.RedriveRequest, made machine.Successor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := r.Kind + "/" + r.Key + " " + r.RecoveryKey
	if before, known := h.recovery[name]; known && before != made.Generation {
		h.w.breaksf("G9", "recovery key %s made generation %d and generation %d", name, before, made.Generation)
	}
	h.recovery[name] = made.Generation
	if !made.Again && h.cleanups[made.Job] > 0 && !r.Forced {
		h.w.breaksf("G11", "job %d is redriven without force, and its rows are gone", made.Job)
	}
}

// reported holds what the ledger made of a report: a success makes its generation delivered,
// however late it comes.
func (h *history) reported(r machine.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row, known := h.rows[generation{r.Job, r.Generation}]
	if known && r.Result.Outcome == job.OutcomeDelivered && row.Current() && row.State != job.Delivered && row.State != job.Cancelled {
		h.w.breaksf("G5", "job %d.%d was delivered under fence %d, says its worker, and is %s", r.Job, r.Generation, r.Fence, stand(row))
	}
}

// over reports whether a generation has come to an end that nothing leaves by itself.
func over(r machine.Row) bool {
	ended := r.State == job.Delivered || r.State == job.Quarantined || r.State == job.Cancelled || r.State == job.Unknown && r.Closed
	return ended && r.Current()
}

// cleans holds a cleanup that was taken against its job.
func (h *history) cleans(t machine.CleanupTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rows[generation{t.Job, t.Generation}]; !over(r) {
		h.w.breaksf("G11", "job %d.%d is cleaned up, and is %s", t.Job, t.Generation, stand(r))
	}
}

// cleaned counts cleanups that are done.
func (h *history) cleaned(t machine.CleanupTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.w.sayf("job %d.%d is cleaned up", t.Job, t.Generation)
	if h.cleanups[t.Job]++; h.cleanups[t.Job] > 1 {
		h.w.breaksf("G11", "job %d is cleaned up %d times", t.Job, h.cleanups[t.Job])
	}
}
