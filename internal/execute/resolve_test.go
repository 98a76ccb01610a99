package execute

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// directory is a resolver that knows an address for each key.
type directory struct {
	mu    sync.Mutex
	asked [][]channel.Addressee
	// answer, where it is set, is asked in place of the addresses.
	answer func(ctx context.Context, jobs []channel.Addressee) []channel.Address
	known  map[string]string
}

func (d *directory) Resolve(ctx context.Context, jobs []channel.Addressee) []channel.Address {
	d.mu.Lock()
	d.asked = append(d.asked, jobs)
	answer, known := d.answer, d.known
	d.mu.Unlock()
	if answer != nil {
		return answer(ctx, jobs)
	}
	all := make([]channel.Address, len(jobs))
	for i, j := range jobs {
		if all[i].Destination = known[j.Key]; known[j.Key] == "" {
			all[i] = channel.NoAddress("unknown")
		}
	}
	return all
}

func (d *directory) move(key, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := map[string]string{key: address}
	for k, a := range d.known {
		if k != key {
			known[k] = a
		}
	}
	d.known = known
}

func (d *directory) times() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

// deaf has the directory answer when the rig opens, whatever happens before.
func (d *directory) deaf(r *rig) {
	d.answer = func(context.Context, []channel.Addressee) []channel.Address {
		<-r.open
		return []channel.Address{{Destination: "late"}}
	}
}

// late makes the rig's kind one whose destinations are asked for; its receiver dedupes.
func late(d *directory, edits ...func(*rig)) func(*rig) {
	return func(r *rig) {
		r.kind.Promises.Resolve, r.kind.Promises.Window = machine.MeansGo, 24*time.Hour
		r.kind.Policy.Jitter = 0
		r.kind.Resolve = &Resolve{Resolver: d}
		for _, edit := range edits {
			edit(r)
		}
	}
}

// again lets the next attempt of a job begin.
func (r *rig) again(id int64) {
	r.pass(time.Until(r.books.row(id).WakeAt) + machine.RetryGrace)
	r.books.promote()
	r.settle()
}

func TestDestinationsOfABatchAreAskedForAtOnceAndStoredBeforeTheEffect(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{"a": "a@new", "b": "b@new", "c": "c@new"}}
	inBubble(t, late(d), func(t *testing.T, r *rig) {
		r.performer.perform(func(ctx context.Context, e channel.Effect) job.Result {
			story, err := r.books.Show(ctx, e.Kind, e.Key)
			require.NoError(t, err)
			g, _ := story.Current()
			require.Equal(t, e.Destination, g.Bound.Address, "it is in the ledger before the first byte")
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			return job.Done(&job.Receipt{ID: "m-" + e.Key})
		})
		r.put("a", "b", "c")
		r.settle()
		require.Equal(t, 1, d.times())
		require.Len(t, d.asked[0], 3)
		require.ElementsMatch(t, []string{"a@new", "b@new", "c@new"}, r.performer.went())
		story, err := r.books.Show(t.Context(), "greeting", "a")
		require.NoError(t, err)
		g, _ := story.Current()
		require.Equal(t, job.Delivered, g.State)
		require.Equal(t, "m-a", g.Receipt.ID)
		require.Equal(t, job.ToHash("greeting/a:1:test", "a@new"), g.Receipt.To, "the receipt says where it went, and not in plain words")
		require.NotContains(t, g.Receipt.To, "new")
	})
}

func TestAReceiptKeepsTheAddressWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{"a": "a@new"}}
	inBubble(t, late(d, func(r *rig) { r.kind.Resolve.Plain = true }), func(t *testing.T, r *rig) {
		r.performer.perform(script(map[string]job.Result{"a": job.Done(&job.Receipt{ID: "m"})}))
		r.put("a")
		r.settle()
		story, err := r.books.Show(t.Context(), "greeting", "a")
		require.NoError(t, err)
		g, _ := story.Current()
		require.Equal(t, "a@new", g.Receipt.To)
	})
}

// G1: an attempt that may have happened is repeated where it went, however often the
// customer moves meanwhile.
func TestG1WhatIsInDoubtIsRepeatedAtTheSamePlace(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{"a": "old"}}
	inBubble(t, late(d), func(t *testing.T, r *rig) {
		r.performer.perform(script(map[string]job.Result{"a": job.MayBeDone(job.CodeTimeout, "no answer")}))
		r.put("a")
		r.settle()
		d.move("a", "new")
		r.again(1)
		r.performer.perform(nil)
		r.again(1)
		require.Equal(t, []string{"old", "old", "old"}, r.performer.went())
		require.Equal(t, 1, d.times())
		r.requireState(1, job.Delivered, 3)
	})
}

func TestWhatSurelyFailedGoesToTheNewPlace(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{"a": "old"}}
	inBubble(t, late(d), func(t *testing.T, r *rig) {
		r.performer.perform(script(map[string]job.Result{"a": job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused")}))
		r.put("a")
		r.settle()
		d.move("a", "new")
		r.performer.perform(nil)
		r.again(1)
		require.Equal(t, []string{"old", "new"}, r.performer.went())
		r.requireState(1, job.Delivered, 2)
	})
}

// Whatever a resolver does that is no address, nothing is sent, and nobody is in doubt.
func TestWithoutAnAddressNothingIsSent(t *testing.T) {
	t.Parallel()
	down := job.NotDone(job.ClassTransient, job.CodeUnreachable, "no connection")
	one := func(a channel.Address) func(context.Context, []channel.Addressee) []channel.Address {
		return func(context.Context, []channel.Addressee) []channel.Address { return []channel.Address{a} }
	}
	for name, c := range map[string]struct {
		answer func(context.Context, []channel.Addressee) []channel.Address
		state  job.State
		code   job.Code
		detail string
	}{
		"there is none": {one(channel.NoAddress("no row")), job.Quarantined, job.CodeDestinationInvalid, "its destination: no row"},
		"of no use":     {one(channel.Address{Destination: "useless"}), job.Quarantined, job.CodeDestinationInvalid, "what was found cannot be used"},
		"no text":       {one(channel.Address{Destination: "a\x00b"}), job.Quarantined, job.CodeDestinationInvalid, "what was found is no destination"},
		"too long":      {one(channel.Address{Destination: strings.Repeat("a", job.MaxDestination+1)}), job.Quarantined, job.CodeDestinationInvalid, "longer than allowed"},
		"nobody knows":  {one(channel.Address{Why: down}), job.Scheduled, job.CodeUnreachable, "its destination: no connection"},
		"it panics":     {func(context.Context, []channel.Addressee) []channel.Address { panic("a@example.com") }, job.Scheduled, job.CodeHandlerPanic, "the resolve panicked (string) in"},
		"it exits":      {func(context.Context, []channel.Addressee) []channel.Address { runtime.Goexit(); return nil }, job.Scheduled, job.CodeHandlerError, "ended its goroutine"},
		"it is slow": {func(ctx context.Context, _ []channel.Addressee) []channel.Address {
			<-ctx.Done()
			return channel.Unresolved(1, job.NotDone(job.ClassTransient, job.CodeTimeout, "gave up"))
		}, job.Scheduled, job.CodeTimeout, "its destination: gave up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, late(&directory{answer: c.answer}, func(r *rig) {
				r.performer.check = func(d string) *job.Refusal {
					if d == "useless" {
						return job.Refuse("destination", d, job.RuleDestination, "")
					}
					return nil
				}
			}), func(t *testing.T, r *rig) {
				r.put("a")
				r.pass(defaultResolveTimeout + time.Second)
				require.Empty(t, r.performer.began())
				row := r.requireState(1, c.state, 1)
				require.False(t, row.InDoubt())
				require.Equal(t, c.code, row.LastCode)
				story, err := r.books.Show(t.Context(), "greeting", "a")
				require.NoError(t, err)
				last := story.Events[len(story.Events)-1]
				require.Equal(t, job.OutcomeFailed, last.Outcome)
				require.Contains(t, last.Detail, c.detail)
				require.NotContains(t, last.Detail, "useless")
				require.NotContains(t, last.Detail, "@")
				acked, _ := r.counts()
				require.Equal(t, 1, acked)
			})
		})
	}
}

// A resolver that hears of nothing is left alone: its jobs are tried again, its slots are
// free, and what it says in the end counts no more.
func TestAResolverThatNeverReturnsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	d := &directory{}
	inBubble(t, late(d, d.deaf), func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(defaultResolveTimeout + time.Second)
		require.Equal(t, job.CodeTimeout, r.requireState(1, job.Scheduled, 1).LastCode)
		require.Equal(t, 8, r.worker.lanes[0].slots.available())
		close(r.open)
		r.settle()
		require.Empty(t, r.performer.began())
	})
}

// While the addresses of some are asked for, their lane goes on with others.
func TestAskingHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	d := &directory{}
	inBubble(t, late(d, func(r *rig) {
		plain := r.kind
		plain.Name, plain.Promises.Resolve, plain.Resolve, plain.Performer = "plain", "", nil, r.performer
		r.kind.Performer = r.performer
		r.options.Kinds = []Kind{r.kind, plain}
		d.answer = func(ctx context.Context, _ []channel.Addressee) []channel.Address {
			select {
			case <-r.open:
			case <-ctx.Done():
			}
			return []channel.Address{{Destination: "new"}}
		}
	}), func(t *testing.T, r *rig) {
		r.put("asked")
		r.settle()
		r.putOf(r.options.Kinds[1].Kind, "plain")
		r.settle()
		require.Equal(t, []string{"plain"}, r.performer.began())
		close(r.open)
		r.settle()
		require.Equal(t, []string{"plain", "asked"}, r.performer.began())
	})
}

// C66: where it is not known whether it was stored where an effect goes, that is done again,
// and the effect begins once.
func TestC66ABindingWhoseReplyIsLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	for name, done := range map[string]bool{"it was stored": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &directory{known: map[string]string{"a": "new"}}
			inBubble(t, late(d, func(r *rig) {
				r.books.onBind = func(n int) fault {
					if n == 1 {
						return fault{fail: errReply, done: done}
					}
					return fault{}
				}
			}), func(t *testing.T, r *rig) {
				r.put("a")
				r.settle()
				require.Empty(t, r.performer.began(), "nothing begins before it is known")
				r.pass(2 * time.Second)
				require.Equal(t, []string{"new"}, r.performer.went())
				require.Equal(t, 1, d.times())
				r.requireState(1, job.Delivered, 1)
			})
		})
	}
}

// A ledger that does not answer for long has it handed back uncounted: nothing was sent.
func TestWhatCannotBeStoredIsHandedBack(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{"a": "new"}}
	inBubble(t, late(d, func(r *rig) {
		r.books.onBind = func(n int) fault {
			if n < 5 {
				return fault{fail: errDown}
			}
			return fault{}
		}
	}), func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(2 * time.Minute)
		require.Equal(t, []string{"new"}, r.performer.went())
		r.requireState(1, job.Delivered, 1)
	})
}

// G1: a worker that lost its lease while it asked sends nothing, whatever it has found.
func TestG1AnAttemptWhoseLeaseEndedMeanwhileIsNotBegun(t *testing.T) {
	t.Parallel()
	d := &directory{}
	inBubble(t, late(d, func(r *rig) {
		d.answer = func(context.Context, []channel.Addressee) []channel.Address {
			r.books.endWorker(r.books.alive()[0], true)
			return []channel.Address{{Destination: fmt.Sprintf("place %d", d.times())}}
		}
	}), func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.Empty(t, r.performer.began())
		row := r.books.row(1)
		require.True(t, row.InDoubt(), "a lease that ended says nothing else")
		d.mu.Lock()
		d.answer, d.known = nil, map[string]string{"a": "new"}
		d.mu.Unlock()
		r.pass(time.Minute)
		r.again(1)
		require.Equal(t, []string{"new"}, r.performer.went(), "nothing was stored, so that nothing was sent, and it is asked again")
		require.Equal(t, 2, d.times())
	})
}

// G14: a shutdown waits for who is asked, and hands back what did not begin, uncounted.
func TestG14ShutdownHandsBackWhatIsStillAskedFor(t *testing.T) {
	t.Parallel()
	d := &directory{}
	inBubble(t, late(d, d.deaf, func(r *rig) { r.options.Drain = time.Second }), func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.NoError(t, r.shutdown())
		row := r.books.row(1)
		require.Equal(t, job.Ready, row.State)
		require.Zero(t, row.Attempt)
		require.False(t, row.InDoubt())
		require.Empty(t, r.performer.began())
		close(r.open)
		r.settle()
		require.Empty(t, r.performer.began())
	})
}

// A kind that asks no more goes where the jobs were given to go, also those that were bound
// late; what is in doubt goes where it went.
func TestAKindThatAsksNoMoreUsesWhatItsJobsWereGiven(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		before := r.kind.Kind
		before.Promises.Resolve, before.Promises.Window = machine.MeansSQL, 24*time.Hour
		before.Policy.Jitter = 0
		given := job.Spec{Kind: "greeting", Key: "given", Destination: "given", Payload: []byte(`1`)}
		nothing := job.Spec{Kind: "greeting", Key: "nothing", Payload: []byte(`1`)}
		for _, spec := range []job.Spec{given, nothing} {
			ref := r.books.tried(before, spec, job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused"))
			r.again(ref.Job)
		}
		require.Equal(t, []string{"given"}, r.performer.went())
		r.requireState(1, job.Delivered, 2)
		require.Equal(t, job.CodeDestinationInvalid, r.requireState(2, job.Quarantined, 2).LastCode)
	})
}

func TestWhatAPersonGaveIsNotAskedFor(t *testing.T) {
	t.Parallel()
	d := &directory{known: map[string]string{}}
	inBubble(t, late(d), func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.requireState(1, job.Quarantined, 1)
		_, err := r.books.Redrive(t.Context(), machine.RedriveRequest{
			Kind: "greeting", Key: "a", Generation: 1, RecoveryKey: "r-1", Destination: "by a person", Approver: "ann", Actor: "bob", Reason: "she called",
		})
		require.NoError(t, err)
		r.books.relay()
		r.settle()
		require.Equal(t, []string{"by a person"}, r.performer.went())
		require.Equal(t, 1, d.times())
	})
}

func TestAResolveThatLeavesNoRoomForTheEffectIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, c := range map[string]struct {
		kind func(*Kind)
		want string
	}{
		"no resolver": {func(k *Kind) { k.Resolve = &Resolve{} }, "its resolve needs a resolver"},
		"no time":     {func(k *Kind) { k.Resolve = &Resolve{Resolver: &directory{}, Timeout: -1} }, "a timeout above 0"},
		"too long":    {func(k *Kind) { k.Resolve = &Resolve{Resolver: &directory{}, Timeout: 15 * time.Second} }, "together they must be below"},
		"too long a handler": {func(k *Kind) {
			k.Handler, k.Resolve = true, &Resolve{Resolver: &directory{}, Timeout: 13 * time.Second}
		}, "must be below half"},
	} {
		o := r.options
		k := o.Kinds[0]
		c.kind(&k)
		o.Kinds = []Kind{k}
		_, err := New(o)
		require.ErrorContains(t, err, c.want, name)
	}
}
