package machine

import (
	"fmt"
	"strings"
	"time"

	"duly.dev/duly/pkg/job"
)

// Rule names what a disagreement breaks. The set is closed.
type Rule string

// The rules that Fold looks at.
const (
	// RuleGenerations: generations count from 1, each names the next as its successor,
	// and the last, and no other, has none.
	RuleGenerations Rule = "generations"
	// RuleRedrive: a person's decision stands behind every generation but the first.
	RuleRedrive Rule = "redrive"
	// RuleEvent: every event is what the machine makes of what was before it.
	RuleEvent Rule = "event"
	// RuleLease: a lease row stands behind every lease.
	RuleLease Rule = "lease"
	// RuleRow: the row is what its events make of the first row.
	RuleRow Rule = "row"
)

// The rules that a ledger looks at besides, since they are about its other tables.
const (
	// RuleInstants: a scheduled row is found when it is to go on, and no row after its
	// deadline.
	RuleInstants Rule = "instants"
	// RuleQuarantine: what is quarantined is listed, and nothing else.
	RuleQuarantine Rule = "quarantine"
	// RuleUnknown: what is unknown is listed, closed or not, and nothing else.
	RuleUnknown Rule = "unknown"
	// RuleCleanup: only behind what is over, and as it ended, is something due to be
	// cleaned up.
	RuleCleanup Rule = "cleanup"
	// RuleKey: every job has its key, and every key its job or a tombstone.
	RuleKey Rule = "key"
	// RuleOutbox: what is ready is announced at its emission, and that was not judged.
	RuleOutbox Rule = "outbox"
	// RuleRun: a frozen run has the members and the refusals that it counts.
	RuleRun Rule = "run"
	// RuleMember: every member of a run is a job, or one of which is kept how it ended.
	RuleMember Rule = "member"
	// RuleOccurrence: every run has its occurrence, and what is of a run has that.
	RuleOccurrence Rule = "occurrence"
)

// Disagreement is one place where what a ledger keeps does not agree with itself.
type Disagreement struct {
	Job        int64  `json:"job"`
	Kind       string `json:"kind,omitempty"`
	Key        string `json:"key,omitempty"`
	Generation int32  `json:"generation,omitempty"`
	// Schedule and Period name a run, where it is about one and not about a job.
	Schedule string `json:"schedule,omitempty"`
	Period   string `json:"period,omitempty"`
	Rule     Rule   `json:"rule"`
	// Stored is what the ledger holds, and Folded what it should hold.
	Stored string `json:"stored"`
	Folded string `json:"folded"`
	// Note says where less than everything could be compared, and why.
	Note string `json:"note,omitempty"`
}

// String is one line for a person.
func (d Disagreement) String() string {
	about := fmt.Sprintf("job %d generation %d", d.Job, d.Generation)
	if d.Schedule != "" {
		about = fmt.Sprintf("run %s of %s", d.Period, d.Schedule)
	}
	s := fmt.Sprintf("%s, %s: stored %s; folded %s", about, d.Rule, d.Stored, d.Folded)
	if d.Note != "" {
		s += " (" + d.Note + ")"
	}
	return s
}

// History is all that is kept about one job, as Fold reads it.
type History struct {
	// Rows are its generations, the oldest first, each under its kind as it is now.
	Rows []Row
	// Events are what happened, in the order in which it was decided; leases may be
	// among them.
	Events []Logged
	// Leases are its lease rows, by fence.
	Leases []Logged
	// Redrives are the decisions that opened its generations, the oldest first.
	Redrives []RedriveNote
	// Since is the instant before which events and leases may be gone; zero when none is.
	Since time.Time
}

// Fold begins each generation as its row says that it began, lets the machine decide
// about its leases and events in their order, and returns where that differs from
// what was recorded and from the row that is stored. The first break in a generation
// is told, and no more of that generation, since everything behind it follows from it.
// partly counts the generations of which not everything could be compared.
//
// Two things are not in the events. A receiver's Retry-After is taken as what the
// recorded wait makes of it, so that only its bounds are proved. And policies are
// known as they are now: where an event was decided under another one and the machine
// would decide otherwise today, from there on only that is compared which no policy
// decides: that each change is one of the table, and the counters.
func Fold(h History) (broken []Disagreement, partly int) {
	if d := h.broken(); d != nil {
		return []Disagreement{*d}, 0
	}
	broken = h.undecided()
	var before Row
	for i := range h.Rows {
		f := newFolder(&h, i)
		f.fold(before)
		if f.broken != nil && f.stored.Created.Before(h.Since) {
			f = newFolder(&h, i)
			f.foldRest()
		}
		if f.broken != nil {
			broken = append(broken, *f.broken)
		}
		if f.depth != exactly {
			partly++
		}
		before = f.came()
	}
	return broken, partly
}

// broken tells where the generations of the job are not a chain.
func (h *History) broken() *Disagreement {
	for i, r := range h.Rows {
		generation, successor := int32(i)+1, int32(i)+2
		if i == len(h.Rows)-1 {
			successor = 0
		}
		if r.Generation != generation || r.Successor != successor {
			return &Disagreement{
				Job: r.Job, Generation: r.Generation, Rule: RuleGenerations,
				Stored: fmt.Sprintf("generation %d, successor %d", r.Generation, r.Successor),
				Folded: fmt.Sprintf("generation %d, successor %d", generation, successor),
			}
		}
	}
	return nil
}

// undecided tells which generations no decision stands behind, and which decisions
// have no generation.
func (h *History) undecided() []Disagreement {
	var all []Disagreement
	decided := make(map[int32]bool, len(h.Redrives))
	for _, n := range h.Redrives {
		decided[n.Successor] = true
		if n.Successor != n.Predecessor+1 || n.Predecessor < 1 || int(n.Successor) > len(h.Rows) {
			all = append(all, Disagreement{
				Job: h.Rows[0].Job, Generation: n.Predecessor, Rule: RuleRedrive,
				Stored: fmt.Sprintf("a decision to open generation %d", n.Successor), Folded: "no such generation",
			})
		}
	}
	for _, r := range h.Rows[1:] {
		if !decided[r.Generation] {
			all = append(all, Disagreement{
				Job: r.Job, Generation: r.Generation, Rule: RuleRedrive,
				Stored: "no decision", Folded: fmt.Sprintf("a decision to open generation %d", r.Generation),
			})
		}
	}
	return all
}

// depth is how much of a generation can be compared.
type depth int

const (
	// exactly: everything.
	exactly depth = iota
	// otherwise: not what a policy decides that is not known any more, where the outcome
	// does not show it.
	otherwise
	// loosely: only what no policy decides.
	loosely
	// rest: only state and counters, since the beginning is gone.
	rest
)

// folder folds one generation.
type folder struct {
	h      *History
	stored Row
	hash   string // of the policy that is known now
	events []Logged
	leases []Logged // that were not folded yet
	// replaced counts the replacements that were not folded yet.
	replaced int
	row      Row // as folded so far
	depth    depth
	note     string
	broken   *Disagreement
	// unsound: the fold itself broke, so that row is not all that happened.
	unsound bool
}

func newFolder(h *History, i int) *folder {
	f := &folder{h: h, stored: rounded(h.Rows[i]), hash: h.Rows[i].Kind.Hash()}
	f.events, f.leases = ofGeneration(h.Events, f.stored.Generation), ofGeneration(h.Leases, f.stored.Generation)
	for _, e := range f.events {
		if e.Name == Replaced {
			f.replaced++
		}
	}
	return f
}

func ofGeneration(all []Logged, generation int32) []Logged {
	var own []Logged
	for _, e := range all {
		if e.Generation == generation {
			own = append(own, e)
		}
	}
	return own
}

// came is what the generation came to: as it was folded, or as it is stored where it
// could not be folded to the end.
func (f *folder) came() Row {
	if f.unsound || f.depth > otherwise {
		return f.stored
	}
	return f.row
}

func (f *folder) fold(before Row) {
	f.begin(before)
	f.walk()
}

// foldRest folds from the first event that is kept.
func (f *folder) foldRest() {
	f.weaken(rest, "its first events are kept no more: only state and counters were compared")
	for len(f.events) > 0 {
		e := f.events[0]
		f.events = f.events[1:]
		if e.Late {
			continue
		}
		f.row = f.stored
		f.row.State, f.row.Attempt, f.row.Fence, f.row.Emission = e.To, e.Attempt, e.Fence, e.Emission
		for len(f.leases) > 0 && f.leases[0].Fence <= e.Fence {
			f.leases = f.leases[1:]
		}
		f.walk()
		return
	}
}

// walk folds the events and leases that are left, and compares the rows.
func (f *folder) walk() {
	for _, e := range f.events {
		f.step(e)
		if f.broken != nil {
			f.unsound = true
			return
		}
	}
	for len(f.leases) > 0 && f.broken == nil {
		f.lease(f.nextLease())
	}
	if f.broken != nil {
		f.unsound = true
		return
	}
	if s := f.stored; s.State == job.Leased && f.row.State != job.Leased && s.Fence == f.row.Fence+1 {
		f.breaks(RuleLease, fmt.Sprintf("leased under fence %d by %s at %s", s.Fence, s.Worker, instant(s.LeasedAt)), "no lease row")
		return
	}
	f.compare()
}

// begin makes the first row of the generation.
func (f *folder) begin(before Row) {
	if f.stored.Generation > 1 {
		f.succeed(before)
		return
	}
	due, deadline := f.stored.Due, f.stored.Deadline
	if f.replaced > 0 {
		// What was asked for first was overwritten; whether it was due shows in what
		// happened next.
		due, deadline = f.stored.Created, time.Time{}
		if f.events[0].From == job.Scheduled {
			due = due.Add(time.Microsecond)
		}
	}
	f.row, _ = Begin(f.stored.Kind, due, deadline, f.stored.Created)
	f.row.Job = f.stored.Job
}

// succeed begins the generation as a redrive of the one before it. Whether it was
// relevant then is the policy's, but for the deadline.
func (f *folder) succeed(before Row) {
	before.Successor, before.Kind = 0, ageless(f.stored.Kind)
	correction := Correction{Deadline: f.stored.Deadline, NotBefore: f.stored.Due}
	_, row, change := Redrive(before, Event{Forced: true, Detail: "decided"}, correction, f.stored.Created)
	if change.Refused != Applied {
		f.breaks(RuleGenerations, fmt.Sprintf("generation %d, opened at %s", f.stored.Generation, instant(f.stored.Created)),
			fmt.Sprintf("refused, since generation %d was %s: %s", before.Generation, before.State, change.Refused))
		f.unsound = true
		f.events, f.leases = nil, nil
		return
	}
	f.row = row
	f.row.Kind = f.stored.Kind
}

// ageless is the kind without bounds of age: rows keep the instant at which they
// expire, which is as the policy was when they became ready, and nothing tells that.
func ageless(k Kind) Kind {
	k.Policy.MaxAge, k.Policy.MaxLifetime = 1<<62, 1<<62
	return k
}

func (f *folder) weaken(to depth, note string) {
	if to > f.depth {
		f.depth, f.note = to, note
	}
}

// breaks notes the first disagreement of the generation.
func (f *folder) breaks(rule Rule, stored, folded string) {
	f.broken = &Disagreement{Job: f.stored.Job, Generation: f.stored.Generation, Rule: rule, Stored: stored, Folded: folded, Note: f.note}
}

// rounded cuts a row's instants to those that a ledger keeps.
func rounded(r Row) Row {
	for _, t := range []*time.Time{&r.Created, &r.Origin, &r.FirstReady, &r.Due, &r.Deadline, &r.WakeAt, &r.LeasedAt, &r.DoubtSince, &r.DoubtUntil} {
		*t = t.Truncate(time.Microsecond)
	}
	return r
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// differences are the fields in which two things differ, as text.
type differences struct{ stored, folded []string }

func (d *differences) add(name, stored, folded string) {
	if stored != folded {
		d.stored, d.folded = append(d.stored, name+"="+text(stored)), append(d.folded, name+"="+text(folded))
	}
}

func (d *differences) none() bool { return len(d.stored) == 0 }

func (d *differences) texts() (stored, folded string) {
	return strings.Join(d.stored, ", "), strings.Join(d.folded, ", ")
}

func text(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
