package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// The cells as the contract has them, written by hand. A line is an event, a column
// a state of the row:
//
//	.           changes nothing and is refused
//	recorded    changes nothing and is kept as evidence
//	+e  +late   with an emission for now; with a delayed one
//	+dead       with the notice that a person is needed
//
// Every table begins with what is special about its rows.
const cells = `
calm             | due       | retry     | held      | ready     | leased                  | unknown     | quarantined | delivered | cancelled
due              | ready+e   | ready+e   | ready+e   | .         | .                       | .           | .           | .         | .
lost             | .         | .         | .         | ready+e   | .                       | .           | .           | .         | .
lost, older      | .         | .         | .         | .         | .                       | .           | .           | .         | .
lease            | .         | leased    | .         | leased    | .                       | .           | .           | .         | .
lease, older     | .         | .         | .         | .         | .                       | .           | .           | .         | .
hold             | held      | held      | held      | held      | .                       | .           | .           | .         | .
hold, older      | .         | .         | .         | .         | .                       | .           | .           | .         | .
handed back      | .         | .         | .         | .         | ready+e                 | .           | .           | .         | .
done             | .         | delivered | delivered | delivered | delivered               | delivered   | delivered   | recorded  | recorded
done, late       | .         | delivered | delivered | delivered | delivered               | delivered   | delivered   | recorded  | recorded
transient        | .         | recorded  | recorded  | recorded  | retry+late              | recorded    | recorded    | recorded  | recorded
transient, late  | .         | recorded  | recorded  | recorded  | recorded                | recorded    | recorded    | recorded  | recorded
permanent        | .         | recorded  | recorded  | recorded  | quarantined(permanent)+dead | recorded | recorded   | recorded  | recorded
unclassified     | .         | recorded  | recorded  | recorded  | quarantined(unclassified)+dead | recorded | recorded | recorded  | recorded
retry after all  | .         | recorded  | recorded  | recorded  | quarantined(deadline_passed)+dead | recorded | recorded | recorded | recorded
may be done      | .         | recorded  | recorded  | recorded  | unknown+dead            | recorded    | recorded    | recorded  | recorded
may be done, late| .         | recorded  | recorded  | recorded  | recorded                | recorded    | recorded    | recorded  | recorded
lease ended      | .         | .         | .         | .         | unknown+dead            | .           | .           | .         | .
lease ended, late| .         | .         | .         | .         | .                       | .           | .           | .         | .
yes              | .         | delivered | delivered | delivered | delivered               | delivered   | delivered   | recorded  | recorded
yes, older fence | .         | .         | .         | .         | .                       | .           | .           | .         | .
no               | .         | .         | .         | .         | .                       | retry+late  | .           | .         | .
no, too soon     | .         | .         | .         | .         | .                       | .           | .           | .         | .
no, older fence  | .         | .         | .         | .         | .                       | .           | .           | .         | .
expire           | .         | .         | .         | .         | .                       | .           | .           | .         | .
close            | .         | .         | .         | .         | .                       | .           | .           | .         | .
close, in time   | .         | .         | .         | .         | .                       | closed      | .           | .         | .
give up          | .         | .         | .         | .         | .                       | closed      | .           | .         | .
cancel           | cancelled | cancelled | cancelled | cancelled | leased, asked to cancel | unknown, asked to cancel | cancelled | . | .
redrive          | .         | .         | .         | .         | .                       | .           | successor   | .         | .
forced           | .         | .         | .         | .         | .                       | successor   | successor   | .         | .

expired          | due                               | retry                             | held                              | ready                             | leased                            | unknown
due              | quarantined(deadline_passed)+dead | quarantined(deadline_passed)+dead | quarantined(deadline_passed)+dead | .                                 | .                                 | .
lost             | .                                 | .                                 | .                                 | quarantined(deadline_passed)+dead | .                                 | .
lease            | .                                 | quarantined(deadline_passed)+dead | .                                 | quarantined(deadline_passed)+dead | .                                 | .
handed back      | .                                 | .                                 | .                                 | .                                 | quarantined(deadline_passed)+dead | .
done             | .                                 | delivered                         | delivered                         | delivered                         | delivered                         | delivered
transient        | .                                 | recorded                          | recorded                          | recorded                          | quarantined(deadline_passed)+dead | recorded
permanent        | .                                 | recorded                          | recorded                          | recorded                          | quarantined(deadline_passed)+dead | recorded
may be done      | .                                 | recorded                          | recorded                          | recorded                          | unknown(deadline_passed)+dead     | recorded
lease ended      | .                                 | .                                 | .                                 | .                                 | unknown(deadline_passed)+dead     | .
no               | .                                 | .                                 | .                                 | .                                 | .                                 | quarantined(deadline_passed)
expire           | quarantined(deadline_passed)+dead | quarantined(deadline_passed)+dead | quarantined(deadline_passed)+dead | quarantined(deadline_passed)+dead | .                                 | .
cancel           | cancelled                         | cancelled                         | cancelled                         | cancelled                         | leased, asked to cancel           | unknown, asked to cancel

too old          | retry                     | ready                     | leased
due              | quarantined(too_old)+dead | .                         | .
lease            | quarantined(too_old)+dead | quarantined(too_old)+dead | .
transient        | recorded                  | recorded                  | quarantined(too_old)+dead
expire           | quarantined(too_old)+dead | quarantined(too_old)+dead | .

last attempt     | leased                               | unknown
handed back      | ready+e                              | .
transient        | quarantined(attempts_exhausted)+dead | recorded
may be done      | unknown(attempts_exhausted)+dead     | recorded
no               | .                                    | quarantined(attempts_exhausted)

cancel requested | leased       | unknown
handed back      | cancelled    | .
done             | delivered    | delivered
transient        | cancelled    | recorded
permanent        | cancelled    | recorded
may be done      | unknown+dead | recorded
lease ended      | unknown+dead | .
yes              | delivered    | delivered
no               | .            | cancelled

in doubt, window open | retry        | held         | ready        | leased                   | unknown
due                   | ready+e      | ready+e      | .            | .                        | .
lease                 | leased       | .            | leased       | .                        | .
handed back           | .            | .            | .            | ready+e                  | .
done                  | delivered    | delivered    | delivered    | delivered                | delivered
transient             | recorded     | recorded     | recorded     | retry+late               | recorded
permanent             | recorded     | recorded     | recorded     | unknown(permanent)+dead  | recorded
unclassified          | recorded     | recorded     | recorded     | unknown(unclassified)+dead | recorded
may be done           | recorded     | recorded     | recorded     | retry+late               | recorded
lease ended           | .            | .            | .            | retry+late               | .
yes                   | delivered    | delivered    | delivered    | delivered                | delivered
no                    | .            | .            | .            | .                        | retry+late
expire                | .            | .            | .            | .                        | .
cancel                | unknown, asked to cancel+dead | unknown, asked to cancel+dead | unknown, asked to cancel+dead | leased, asked to cancel | unknown, asked to cancel

in doubt, window over | retry        | held         | ready        | leased
due                   | unknown+dead | unknown+dead | .            | .
lost                  | .            | .            | unknown+dead | .
lease                 | unknown+dead | .            | unknown+dead | .
handed back           | .            | .            | .            | unknown+dead
transient             | recorded     | recorded     | recorded     | unknown+dead
may be done           | recorded     | recorded     | recorded     | unknown+dead
expire                | unknown+dead | unknown+dead | unknown+dead | .

in doubt, askable     | leased                 | unknown
transient             | unknown                | recorded
permanent             | unknown(permanent)     | recorded
may be done           | unknown                | recorded
lease ended           | unknown                | .
no                    | .                      | retry+late
close, in time        | .                      | closed+dead
give up               | .                      | closed+dead

noted permanent       | unknown
no                    | quarantined(permanent)

closed                | unknown
done                  | delivered
yes                   | delivered
no                    | quarantined(too_old)
close, in time        | .
give up               | .
forced                | successor

closed, cancel requested | unknown
no                       | cancelled

reported         | retry     | unknown   | delivered
handed back      | .         | .         | .
done             | delivered | delivered | .
done, late       | delivered | delivered | recorded
transient        | .         | .         | .
transient, late  | recorded  | recorded  | recorded
may be done      | .         | .         | .
yes              | delivered | delivered | recorded

superseded       | unknown  | quarantined
done             | recorded | recorded
done, late       | recorded | recorded
transient        | recorded | recorded
yes              | recorded | recorded
no               | .        | .
cancel           | .        | .
redrive          | .        | .
forced           | .        | .
`

// special is what each table says about its rows.
var special = map[string]func(*Row){
	"calm":             func(*Row) {},
	"expired":          func(r *Row) { r.Deadline = now },
	"too old":          func(r *Row) { r.Kind.Policy.MaxLifetime = time.Hour },
	"last attempt":     func(r *Row) { r.Attempt = r.Kind.Policy.MaxAttempts },
	"cancel requested": func(r *Row) { r.CancelRequested = true },
	"in doubt, window open": func(r *Row) {
		inDoubt(r, 10*time.Minute)
		r.Promises.Window = 30 * time.Minute
	},
	"in doubt, window over": func(r *Row) {
		inDoubt(r, 40*time.Minute)
		r.Promises.Window = 30 * time.Minute
	},
	"in doubt, askable":        func(r *Row) { inDoubt(r, 10*time.Minute); r.Promises.Lookup, r.Announced = MeansHTTP, false },
	"noted permanent":          func(r *Row) { r.Reason = job.ReasonPermanent },
	"closed":                   func(r *Row) { r.Closed = true },
	"closed, cancel requested": func(r *Row) { r.Closed, r.CancelRequested = true, true },
	"reported":                 func(r *Row) { r.Reported = true },
	"superseded":               func(r *Row) { r.Successor = 3 },
}

func inDoubt(r *Row, since time.Duration) {
	r.DoubtSince, r.DoubtUntil = now.Add(-since), now.Add(-since).Add(25*time.Second)
}

// columns are the rows by the name of their column.
var columns = map[string]func(*Row){
	"due":         func(r *Row) { waits(r, job.WaitingDue, ""); r.Attempt, r.LeasedAt = 0, time.Time{} },
	"retry":       func(r *Row) { waits(r, job.WaitingRetry, ""); r.WakeAt = now.Add(-RetryGrace) },
	"held":        func(r *Row) { waits(r, job.WaitingHeld, job.HoldRate) },
	"ready":       func(r *Row) { r.State = job.Ready },
	"leased":      func(r *Row) { r.State = job.Leased },
	"unknown":     func(r *Row) { r.State, r.Announced = job.Unknown, true; inDoubt(r, 10*time.Minute) },
	"quarantined": func(r *Row) { r.State, r.Reason, r.Announced = job.Quarantined, job.ReasonAttempts, true },
	"delivered":   func(r *Row) { r.State = job.Delivered },
	"cancelled":   func(r *Row) { r.State = job.Cancelled },
}

func waits(r *Row, why job.Waiting, hold job.Hold) {
	r.State, r.Waiting, r.Hold, r.WakeAt = job.Scheduled, why, hold, now
}

// happenings are the events by the name of their line.
var happenings = map[string]func(Row) Event{
	"due":             func(Row) Event { return Event{Name: Due} },
	"lost":            func(r Row) Event { return Event{Name: Lost, Emission: r.Emission} },
	"lost, older":     func(r Row) Event { return Event{Name: Lost, Emission: r.Emission - 1} },
	"lease":           func(r Row) Event { return Event{Name: Lease, Emission: r.Emission, Worker: "x"} },
	"lease, older":    func(r Row) Event { return Event{Name: Lease, Emission: r.Emission - 1, Worker: "x"} },
	"hold":            func(r Row) Event { return Event{Name: Hold, Emission: r.Emission, Hold: job.HoldPaused} },
	"hold, older":     func(r Row) Event { return Event{Name: Hold, Emission: r.Emission - 1, Hold: job.HoldPaused} },
	"handed back":     func(r Row) Event { return ended(HandedBack, r.Fence, job.NotBegun("")) },
	"done":            func(r Row) Event { return ended(Done, r.Fence, job.Done(nil)) },
	"done, late":      func(r Row) Event { return ended(Done, r.Fence-1, job.Done(nil)) },
	"transient":       func(r Row) Event { return ended(NotDone, r.Fence, job.NotDone(job.ClassTransient, "", "")) },
	"transient, late": func(r Row) Event { return ended(NotDone, r.Fence-1, job.NotDone(job.ClassTransient, "", "")) },
	"permanent":       func(r Row) Event { return ended(NotDone, r.Fence, job.NotDone(job.ClassPermanent, "", "")) },
	"unclassified":    func(r Row) Event { return ended(NotDone, r.Fence, job.NotDone(job.ClassUnclassified, "", "")) },
	"retry after all": func(r Row) Event {
		return ended(NotDone, r.Fence, job.Result{Class: job.ClassTransient, RetryAfter: 2 * time.Hour})
	},
	"may be done":       func(r Row) Event { return ended(MayBeDone, r.Fence, job.MayBeDone(job.CodeTimeout, "")) },
	"may be done, late": func(r Row) Event { return ended(MayBeDone, r.Fence-1, job.MayBeDone(job.CodeTimeout, "")) },
	"lease ended":       func(r Row) Event { return Event{Name: LeaseEnded, Fence: r.Fence} },
	"lease ended, late": func(r Row) Event { return Event{Name: LeaseEnded, Fence: r.Fence - 1} },
	"yes":               func(r Row) Event { return Event{Name: AnswerYes, Fence: r.Fence, AskedAt: now} },
	"yes, older fence":  func(r Row) Event { return Event{Name: AnswerYes, Fence: r.Fence - 1, AskedAt: now} },
	"no": func(r Row) Event {
		return Event{Name: AnswerNo, Fence: r.Fence, AskedAt: r.DoubtUntil.Add(20 * time.Second)}
	},
	"no, too soon": func(r Row) Event {
		return Event{Name: AnswerNo, Fence: r.Fence, AskedAt: r.DoubtUntil.Add(20*time.Second - 1)}
	},
	"no, older fence": func(r Row) Event { return Event{Name: AnswerNo, Fence: r.Fence - 1, AskedAt: now} },
	"expire":          func(Row) Event { return Event{Name: Expire} },
	"close":           func(Row) Event { return Event{Name: Close} },
	"close, in time":  func(Row) Event { return Event{Name: Close, AskedAt: now} },
	"give up":         func(r Row) Event { return Event{Name: Close, Fence: r.Fence} },
	"cancel":          func(Row) Event { return Event{Name: Cancel} },
	"redrive":         func(Row) Event { return Event{Name: Redriven} },
	"forced":          func(Row) Event { return Event{Name: Redriven, Forced: true, Detail: "their log shows nothing"} },
}

func ended(n Name, fence int64, res job.Result) Event {
	return Event{Name: n, Fence: fence, Result: res, Worker: "x"}
}

// tell writes a step in the words of the tables.
func (s *step) tell() string {
	r := s.after
	var said string
	switch {
	case !s.applied():
		return "."
	case !s.moved:
		return "recorded"
	case r.Successor != s.before.Successor:
		said = "successor"
	case r.Closed && !s.before.Closed:
		said = "closed"
	case r.State == job.Scheduled:
		said = string(r.Waiting)
	default:
		said = string(r.State)
	}
	if r.Reason != "" && said == string(r.State) {
		said += "(" + string(r.Reason) + ")"
	}
	if r.CancelRequested && !s.before.CancelRequested && r.State != job.Cancelled {
		said += ", asked to cancel"
	}
	for _, e := range s.work {
		if e.At.IsZero() {
			said += "+e"
			continue
		}
		said += "+late"
	}
	return said + strings.Repeat("+dead", s.notices)
}

func TestEveryCellIsAsTheContractHasIt(t *testing.T) {
	t.Parallel()
	for text := range strings.SplitSeq(strings.TrimSpace(cells), "\n\n") {
		lines := strings.Split(text, "\n")
		head := fields(lines[0])
		t.Run(head[0], func(t *testing.T) {
			t.Parallel()
			for _, line := range lines[1:] {
				f := fields(line)
				require.Len(t, f, len(head), line)
				for i, column := range head[1:] {
					checkCell(t, head[0], column, f[0], f[i+1])
				}
			}
		})
	}
}

func fields(line string) []string {
	f := strings.Split(line, "|")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return f
}

func checkCell(t *testing.T, table, column, event, want string) {
	t.Helper()
	r := Row{
		Job: 7, Generation: 2, Kind: testKind(DefaultPromises(10 * time.Second)), Attempt: 1, Fence: 11, Emission: 20,
		Created: epoch, Due: epoch, FirstReady: epoch, Origin: epoch, Deadline: now.Add(time.Hour),
		LeasedAt: now.Add(-20 * time.Second), Limit: 10 * time.Second,
	}
	r.Kind.Policy.UnclassifiedCap = 1
	require.Contains(t, columns, column)
	require.Contains(t, special, table)
	require.Contains(t, happenings, event)
	columns[column](&r)
	if !r.LeasedAt.IsZero() {
		r.Fixed, r.Channel, r.Promises = true, r.Kind.Channel, r.Kind.Promises
	}
	special[table](&r)
	at := now
	if event == "close, in time" && r.InDoubt() {
		at = r.ClosesAt()
	}
	ev := happenings[event](r)
	require.Equal(t, want, take(Next, r, ev, at).tell(), "%s, %s: %s\n%s", table, column, event, take(Next, r, ev, at))
}
