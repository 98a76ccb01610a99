package execute

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestG3EffectIsPerformedOnceAndAcknowledgedAfterItsCommit(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.put("a", "b", "c")
		r.settle()
		require.ElementsMatch(t, []string{"a", "b", "c"}, r.performer.began())
		for id := range int64(3) {
			r.requireState(id+1, job.Delivered, 1)
		}
		require.Zero(t, r.broker.Depth("mail"))
		e := r.performer.effects[0]
		require.Equal(t, "greeting/"+e.Key+":1:test", e.EffectKey)
	})
}

func TestG3NothingIsAcknowledgedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(int, []machine.Report) fault { return fault{wait: r.open} }
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.Len(t, r.performer.began(), 1)
		acked, _ := r.counts()
		require.Zero(t, acked)
		close(r.open)
		r.settle()
		acked, _ = r.counts()
		require.Equal(t, 1, acked)
	})
}

func TestG4LeasePrecedesTheEffect(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(int, machine.LeaseRequest) fault { return fault{wait: r.open} }
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.Empty(t, r.performer.began())
		close(r.open)
		r.settle()
		require.Equal(t, []string{"a"}, r.performer.began())
	})
}

func TestMessagesThatAreThereShareOneRoundTrip(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.options.Slots, r.options.Lanes[0].Pack = 8, 1
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		for _, key := range []string{"b", "c", "d"} {
			r.put(key)
		}
		r.settle()
		close(r.open)
		r.settle()
		require.Len(t, r.performer.began(), 4)
		require.Len(t, r.books.leases, 2, "one call for the first message, one for the three that came meanwhile")
		require.Len(t, r.books.leases[1], 3)
	})
}

func TestNoMessageIsTakenThatCouldNotStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) { // 8 slots, 4 references a message
		for range 3 {
			r.put("a", "b", "c", "d")
		}
		r.settle()
		require.Len(t, r.performer.began(), 8)
		require.Equal(t, job.Ready, r.books.row(9).State, "the third message waits with the bus")
		close(r.open)
		r.settle()
		require.Len(t, r.performer.began(), 12)
	})
}

func TestReferencesBeyondTheSlotsAreHeldUncounted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) {
		r.put("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		r.settle()
		require.Len(t, r.performer.began(), 8)
		require.Len(t, r.books.held, 1)
		require.Equal(t, job.HoldSlots, r.books.held[0].why)
		row := r.requireState(10, job.Scheduled, 0)
		require.Equal(t, job.WaitingHeld, row.Waiting)
		close(r.open)
		r.pass(holdSlotsFor)
		r.books.promote()
		r.settle()
		r.requireState(10, job.Delivered, 1)
	})
}

func TestC65UnknownKindIsHeldEverLonger(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		newer := r.kind.Kind
		newer.Name = "greeting-v2"
		r.putOf(newer, "a")
		r.settle()
		r.requireState(1, job.Scheduled, 0)
		for range 7 {
			r.pass(30 * time.Minute)
			r.books.promote()
			r.settle()
		}
		var times []time.Duration
		for _, h := range r.books.held {
			require.Equal(t, job.HoldUnknownKind, h.why)
			times = append(times, h.d)
		}
		m := time.Minute
		require.Equal(t, []time.Duration{m, 2 * m, 4 * m, 8 * m, 16 * m, 30 * m, 30 * m, 30 * m}, times)
		require.Empty(t, r.performer.began())
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestUnknownKindsThatComeTogetherAreHeldAlike(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		newer := r.kind.Kind
		newer.Name = "greeting-v2"
		for _, key := range []string{"a", "b"} {
			r.putOf(newer, key)
			r.pass(time.Second)
		}
		require.Len(t, r.books.held, 2)
		require.Equal(t, r.books.held[0].d, r.books.held[1].d)
	})
}

func TestG6StaleReferencesAreDroppedAndAcknowledged(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		old := r.put("a")[0]
		r.settle()
		r.books.announce("greeting", "mail", old)
		r.books.announce("greeting", "mail", job.Ref{Job: 1, Generation: 7, Emission: 1}, job.Ref{Job: 99, Generation: 1, Emission: 1})
		r.settle()
		require.Equal(t, []string{"a"}, r.performer.began())
		require.Zero(t, r.broker.Depth("mail"))
		require.Equal(t, r.worker.lanes[0].slots.total, r.worker.lanes[0].slots.available())
	})
}

func TestOneReferenceInTwoMessagesIsPerformedOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.options.Lanes[0].Pack = 1
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("first")
		r.settle()
		ref := r.put("a")[0]
		r.books.announce("greeting", "mail", ref)
		r.books.announce("greeting", "mail", ref)
		r.settle()
		close(r.open)
		r.settle()
		require.ElementsMatch(t, []string{"first", "a"}, r.performer.began())
		acked, _ := r.counts()
		require.Equal(t, 4, acked)
		require.Equal(t, 8, r.worker.lanes[0].slots.available())
	})
}

// early has a job tried by another worker, and its retry announced too early by d.
func early(r *rig, d time.Duration) {
	ref := r.books.tried(r.kind.Kind, r.spec("early"), job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""))
	r.pass(time.Until(r.books.row(ref.Job).WakeAt) - d)
	r.books.announce(r.kind.Name, r.kind.Lane, ref)
	r.settle()
}

func TestRetryThatIsEarlyByLessThanASecondWaitsInTheWorker(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		early(r, 900*time.Millisecond)
		require.Empty(t, r.performer.began())
		acked, _ := r.counts()
		require.Zero(t, acked)
		r.pass(900 * time.Millisecond)
		require.Equal(t, []string{"early"}, r.performer.began())
		r.requireState(1, job.Delivered, 2)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestRetryThatIsEarlierIsLeftToItsSchedule(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		early(r, time.Second)
		require.Zero(t, r.broker.Depth("mail"))
		r.requireState(1, job.Scheduled, 1)
		r.pass(time.Second + machine.RetryGrace)
		r.books.promote()
		r.settle()
		r.requireState(1, job.Delivered, 2)
	})
}

func TestC34LedgerOutageCostsNoAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.options.Slots = 100 }, func(t *testing.T, r *rig) {
		down := time.Now().Add(800 * time.Millisecond)
		outage := func() error {
			if time.Now().Before(down) {
				return errDown
			}
			return nil
		}
		r.books.with(func() {
			r.books.onLease = func(int, machine.LeaseRequest) fault { return fault{fail: outage()} }
			r.books.onEach = func(string) error { return outage() }
		})
		for range 25 {
			r.put("a", "b", "c", "d")
		}
		r.pass(790 * time.Millisecond)
		acked, released := r.counts()
		require.Zero(t, acked+released, "the messages stay in progress")
		r.pass(10 * time.Second)
		for id := range int64(100) {
			r.requireState(id+1, job.Delivered, 1)
		}
		require.Len(t, r.performer.began(), 100)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestC66LeaseWhoseReplyWasLostIsReadBack(t *testing.T) { // C66: the commit happened
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{fail: errReply, done: true}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a", "b")
		r.settle()
		require.ElementsMatch(t, []string{"a", "b"}, r.performer.began())
		require.Len(t, r.books.leases, 1, "nothing is asked for twice")
		r.requireState(1, job.Delivered, 1)
		r.requireState(2, job.Delivered, 1)
	})
}

func TestC66LeaseThatWasNotCommittedIsTakenAgain(t *testing.T) { // C66: the commit did not happen
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{fail: errReply}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(time.Second)
		require.Equal(t, []string{"a"}, r.performer.began())
		r.requireState(1, job.Delivered, 1)
	})
}

func TestNothingBeginsBeforeTheReadBackIsAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(int, machine.LeaseRequest) fault { return fault{fail: errReply, done: true} }
		r.books.onEach = func(doing string) error {
			if doing == "leased by" {
				return errDown
			}
			return nil
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(20 * time.Second)
		require.Empty(t, r.performer.began())
		require.Len(t, r.books.leases, 1)
		r.requireState(1, job.Leased, 1) // held by a call that is still out: not handed back
		r.books.with(func() { r.books.onEach = nil })
		r.pass(10 * time.Second)
		r.requireState(1, job.Delivered, 1)
	})
}

func TestLeaseThatIsCommittedAfterTheReadBackIsHandedBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.copies = true
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{fail: errReply, later: true}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle() // read back: nothing; the worker waits before it tries again
		r.books.comeLate()
		r.requireState(1, job.Leased, 1)
		r.pass(time.Second) // the reference is stale now
		require.Empty(t, r.performer.began())
		r.pass(15 * time.Second)
		require.Equal(t, []string{"a"}, r.performer.began())
		row := r.requireState(1, job.Delivered, 1)
		require.Equal(t, int64(2), row.Fence, "the first lease was handed back and not counted")
	})
}

func TestG1ReadBackNeverRunsWhatRunsAlready(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.copies = true
		r.performer.do = r.hold
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 2 {
				return fault{fail: errReply, done: true}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		ref := r.put("a")[0]
		r.settle()
		r.books.announce("greeting", "mail", ref) // redelivered while it runs
		r.pass(time.Second)
		require.Equal(t, []string{"a"}, r.performer.began())
		close(r.open)
		r.settle()
		require.Equal(t, []string{"a"}, r.performer.began())
		r.requireState(1, job.Delivered, 1)
		require.Equal(t, 8, r.worker.lanes[0].slots.available())
	})
}

func TestG1ReadBackNeverRunsWhatIsBeingHandedBack(t *testing.T) {
	t.Parallel()
	s := newSession(machine.Worker{ID: "w", LeaseTime: defaultLeaseTime}, nil, instant{})
	id := machine.Attempt{Job: 1, Generation: 1, Fence: 3}
	require.Empty(t, s.unknownHere([]machine.Attempt{id}), "it may have been settled meanwhile")
	require.Equal(t, []machine.Attempt{id}, s.unknownHere([]machine.Attempt{id}))
	c := s.calling([]job.Ref{{Job: 1, Generation: 1, Emission: 1}})
	admitted, known := s.returned(c, []*attempt{{id: id}})
	require.Empty(t, admitted)
	require.Len(t, known, 1)
}

func TestWhatALeaseCallMayStillBringIsNotHandedBack(t *testing.T) {
	t.Parallel()
	s := newSession(machine.Worker{ID: "w", LeaseTime: defaultLeaseTime}, nil, instant{})
	id := machine.Attempt{Job: 1, Generation: 1, Fence: 3}
	c := s.calling([]job.Ref{{Job: 1, Generation: 1, Emission: 1}})
	for range 3 {
		require.Empty(t, s.unknownHere([]machine.Attempt{id}))
	}
	admitted, known := s.returned(c, []*attempt{{id: id}})
	require.Len(t, admitted, 1)
	require.Empty(t, known)
}

func TestRowThatSomebodyHasLockedIsAskedForAgainAndIsNoEarlyRetry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.books.busy = map[int64]bool{1: true} }, func(t *testing.T, r *rig) {
		r.put("locked", "free")
		r.pass(5 * time.Second)
		require.Equal(t, []string{"free"}, r.performer.began())
		require.InDelta(t, 10, testutil.ToFloat64(r.worker.kinds["greeting"].locked), 1)
		require.Zero(t, testutil.ToFloat64(r.worker.kinds["greeting"].early))
		r.books.with(func() { r.books.busy = nil })
		r.pass(time.Second)
		require.Equal(t, []string{"free", "locked"}, r.performer.began())
		require.Zero(t, r.broker.Depth("mail"))
	})
}

// slip is a message in hand that counts its acknowledgements.
type slip struct {
	bus.Delivery
	acks int
}

func (s *slip) Ack() error { s.acks++; return nil }

// Two copies of a reference that came together and were early meet a third: none of the
// three may be forgotten, whoever is first.
func TestTwinsThatAreTwinsAlreadyAllEnd(t *testing.T) {
	t.Parallel()
	ref := job.Ref{Job: 1, Generation: 1, Emission: 1}
	for name, order := range map[string][]int{"the pair first": {0, 2}, "the third first": {2, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lane{slots: newSlots(3)}
			require.Equal(t, 3, l.slots.take(3))
			slips := make([]*slip, 3)
			claims := make([]*claim, 3)
			for i := range claims {
				slips[i] = &slip{}
				claims[i] = newMessage(l, slips[i], []job.Ref{ref})[0]
			}
			require.Len(t, l.pair([]*claim{claims[0], claims[1]}), 1)
			kept := l.pair([]*claim{claims[order[0]], claims[order[1]]})
			require.Len(t, kept, 1)
			kept[0].settled()
			for i, s := range slips {
				require.Equal(t, 1, s.acks, "message %d", i)
			}
			require.Equal(t, 2, l.slots.available())
		})
	}
}
