package machine

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// now is the instant at which the exhaustive test decides.
var now = epoch.Add(time.Hour)

func testKind(p Promises) Kind {
	k := Kind{Name: "k", Lane: "l", Channel: "http", Policy: DefaultPolicy(), Promises: p}
	k.Policy.MaxAttempts, k.Policy.UnclassifiedCap = 3, 2
	return k
}

// promiseSets are neither, either and both promises, by name.
func promiseSets() map[string]Promises {
	base := DefaultPromises(10 * time.Second)
	with := func(window time.Duration, lookup Means) Promises {
		p := base
		p.Window, p.Lookup = window, lookup
		return p
	}
	return map[string]Promises{
		"none": base, "window": with(30*time.Minute, ""), "lookup": with(0, MeansHTTP), "both": with(30*time.Minute, MeansGo),
	}
}

// rows yields every row that can exist, out of all combinations of what decisions
// are made from: state, doubt (none, window open, window over), promises, expiry,
// cancel request, closed, attempts, last class, successor.
func rows(yield func(Row) bool) {
	for _, promises := range promiseSets() {
		for _, stand := range stands() {
			for _, doubt := range []time.Duration{0, 10 * time.Minute, 40 * time.Minute} {
				for _, expiry := range expiries() {
					for _, attempt := range []int32{0, 2, 3} {
						for _, last := range lasts() {
							for bits := range 5 {
								r := stand(Row{
									Job: 7, Generation: 2, Kind: testKind(promises), Attempt: attempt, Fence: 10 + int64(attempt), Emission: 20,
									Created: epoch, Due: epoch, FirstReady: epoch, Origin: epoch, LastClass: last.class, Unclassified: last.unclassified,
									CancelRequested: bits&1 != 0, Closed: bits&2 != 0,
								})
								expiry(&r)
								lease(&r)
								if doubt > 0 {
									r.DoubtSince, r.DoubtUntil = now.Add(-doubt), now.Add(-doubt).Add(15*time.Second)
								}
								if bits&4 != 0 {
									r.Successor = 3
								}
								announced(&r)
								// A class was reported; a delivered row has none, and stands for both.
								r.Reported = !r.LeasedAt.IsZero() && r.State != job.Leased && (r.LastClass != "" || (r.State == job.Delivered && attempt == 2))
								if possible(r) && !yield(r) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

// lasts are the ways in which the newest attempt ended, and how often one of the
// generation was unclassified.
func lasts() []struct {
	class        job.Class
	unclassified int32
} {
	return []struct {
		class        job.Class
		unclassified int32
	}{{"", 1}, {job.ClassTransient, 0}, {job.ClassPermanent, 0}, {job.ClassUnclassified, 2}}
}

// stands put a row into each state.
func stands() []func(Row) Row {
	in := func(s job.State, w job.Waiting, h job.Hold, wake time.Duration, reason job.Reason) func(Row) Row {
		return func(r Row) Row {
			r.State, r.Waiting, r.Hold, r.Reason = s, w, h, reason
			if s == job.Scheduled {
				r.WakeAt = now.Add(wake)
			}
			if w == job.WaitingDue {
				r.FirstReady, r.Due = time.Time{}, r.WakeAt
			}
			return r
		}
	}
	return []func(Row) Row{
		in(job.Scheduled, job.WaitingDue, "", 0, ""), in(job.Scheduled, job.WaitingDue, "", time.Minute, ""),
		in(job.Scheduled, job.WaitingRetry, "", -RetryGrace, ""), in(job.Scheduled, job.WaitingRetry, "", -time.Second, ""),
		in(job.Scheduled, job.WaitingRetry, "", time.Minute, ""),
		in(job.Scheduled, job.WaitingHeld, job.HoldPaused, 0, ""), in(job.Scheduled, job.WaitingHeld, job.HoldRate, time.Minute, ""),
		in(job.Ready, "", "", 0, ""), in(job.Leased, "", "", 0, ""), in(job.Delivered, "", "", 0, ""), in(job.Cancelled, "", "", 0, ""),
		in(job.Quarantined, "", "", 0, job.ReasonAttempts), in(job.Unknown, "", "", 0, ""), in(job.Unknown, "", "", 0, job.ReasonPermanent),
	}
}

// expiries let a row expire in each way, or not, or soon.
func expiries() []func(*Row) {
	return []func(*Row){
		func(*Row) {},
		func(r *Row) { r.Deadline = now },
		func(r *Row) { r.Deadline = now.Add(5 * time.Second) },
		func(r *Row) { r.Deadline = now.Add(time.Minute) },
		func(r *Row) { r.Kind.Policy.MaxAge = time.Hour },
		func(r *Row) { r.Kind.Policy.MaxLifetime = time.Hour },
	}
}

// lease gives a row with attempts the marks of its newest lease.
func lease(r *Row) {
	if r.Attempt == 0 && r.State != job.Leased {
		return
	}
	r.LeasedAt, r.Limit, r.Worker = now.Add(-20*time.Second), r.Kind.Policy.Limit, "w"
	r.Fixed, r.Channel, r.Promises = true, r.Kind.Channel, r.Kind.Promises
}

// announced marks what must have been announced already.
func announced(r *Row) {
	r.Announced = r.State == job.Quarantined || (r.State == job.Unknown && r.PersonOnly())
}

// possible reports whether the machine can bring a row about.
func possible(r Row) bool {
	leased, waits := !r.LeasedAt.IsZero(), r.State == job.Scheduled || r.State == job.Ready
	switch {
	case r.State == job.Leased && r.Attempt == 0,
		r.State == job.Unknown && !r.InDoubt(),
		r.InDoubt() && (!leased || (!r.State.Pending() && r.State != job.Unknown)),
		r.InDoubt() && r.State == job.Leased && r.Attempt < 2,
		r.InDoubt() && waits && r.Promises.Window == 0,
		r.CancelRequested && waits,
		r.Closed && r.State != job.Unknown,
		!r.Current() && r.State != job.Quarantined && r.State != job.Unknown && r.State != job.Delivered,
		r.Waiting == job.WaitingDue && leased,
		r.Waiting == job.WaitingRetry && (!leased || r.Attempt >= r.Kind.Policy.MaxAttempts),
		r.State == job.Ready && r.Attempt >= r.Kind.Policy.MaxAttempts,
		r.State == job.Delivered && (!leased || r.LastClass != ""),
		r.LastClass != "" && !leased,
		r.LastClass == job.ClassPermanent && r.State.Pending():
		return false
	}
	return true
}

// eventsFor yields every event with every value of its fields that matters to the row.
func eventsFor(r Row, yield func(Event)) {
	for _, n := range Names() {
		switch n {
		case Due, Expire, Cancel:
			yield(Event{Name: n})
		case Lost, Lease:
			for _, e := range []int32{r.Emission, r.Emission - 1, r.Emission + 1} {
				yield(Event{Name: n, Emission: e, Worker: "x"})
			}
		case Hold:
			for _, e := range []int32{0, r.Emission, r.Emission - 1} {
				for _, until := range []time.Time{{}, now.Add(30 * time.Second), now.Add(2 * time.Hour)} {
					yield(Event{Name: n, Emission: e, Hold: job.HoldPaused, Until: until})
				}
			}
		case HandedBack, Done, MayBeDone, LeaseEnded, NotDone:
			for _, f := range fencesFor(r) {
				for i, res := range resultsFor(n) {
					if i == 0 || f == r.Fence {
						yield(Event{Name: n, Fence: f, Result: res, Worker: "x"})
					}
				}
			}
		case AnswerYes, AnswerNo:
			for _, f := range fencesFor(r) {
				for _, asked := range []time.Time{{}, r.DoubtUntil.Add(r.Promises.Settle - 1), r.DoubtUntil.Add(r.Promises.Settle), now.Add(time.Hour)} {
					yield(Event{Name: n, Fence: f, AskedAt: asked})
				}
			}
		case Close:
			for _, f := range fencesFor(r) {
				yield(Event{Name: n, Fence: f})
			}
		case Redriven:
			yield(Event{Name: n})
			yield(Event{Name: n, Forced: true})
			yield(Event{Name: n, Forced: true, Detail: "the receiver's log shows nothing"})
		case Replaced: // has no cell
		}
	}
}

// fencesFor are none, an older one, the newest one, and one that was never given.
func fencesFor(r Row) []int64 { return []int64{0, r.Fence - 1, r.Fence, r.Fence + 1} }

func resultsFor(n Name) []job.Result {
	switch n {
	case Done:
		return []job.Result{job.Done(&job.Receipt{ID: "r"})}
	case MayBeDone:
		late := job.MayBeDone(job.CodeServerError, "503")
		late.RetryAfter = time.Hour
		return []job.Result{job.MayBeDone(job.CodeTimeout, "slow"), late}
	case NotDone:
		var all []job.Result
		for _, c := range job.Classes() {
			for _, after := range []time.Duration{0, 20 * time.Second, 2 * time.Hour, 250 * 365 * 24 * time.Hour} {
				res := job.NotDone(c, job.CodeThrottled, "later")
				res.RetryAfter = after
				all = append(all, res)
			}
		}
		return all
	case HandedBack:
		return []job.Result{job.NotBegun("draining")}
	default:
		return []job.Result{{}}
	}
}

// No event may break an invariant of a row that can exist, nor leave one without a way on.
func TestEveryRowAndEventKeepsEveryInvariant(t *testing.T) {
	t.Parallel()
	decided := 0
	for r := range rows {
		require.Empty(t, stuck(Next, r, now), show(r))
		eventsFor(r, func(ev Event) {
			s := take(Next, r, ev, now)
			decided++
			if broken := s.broken(Next); len(broken) > 0 {
				require.Empty(t, broken, s.String())
			}
		})
	}
	t.Logf("%d decisions", decided)
	require.Greater(t, decided, 400_000, "the combinations have shrunk")
}

func TestRowsAreComparedInEveryField(t *testing.T) {
	t.Parallel()
	row := reflect.TypeFor[Row]()
	for i := range row.NumField() {
		name := row.Field(i).Name
		if name == "Kind" {
			continue
		}
		var r Row
		change(reflect.ValueOf(&r).Elem().Field(i))
		require.False(t, same(Row{}, r), name)
	}
}

// change gives a field another value than its zero.
func change(v reflect.Value) {
	switch f := v.Addr().Interface().(type) {
	case *time.Time:
		*f = epoch
	case *Promises:
		f.Lookup = MeansHTTP
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetInt(1)
		}
	}
}
