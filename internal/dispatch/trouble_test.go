package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/memledger"
)

// seen is what a dispatcher tells those who look after it.
type seen struct {
	*prometheus.Registry
	t     *testing.T
	looks atomic.Int64 // calls of Succeeded
}

func (w *world) seen() *seen { return &seen{Registry: prometheus.NewRegistry(), t: w.T} }

func (s *seen) by(o *Options) {
	o.Metrics, o.Succeeded = s.Registry, func() { s.looks.Add(1) }
}

// value of the metric of the topic; there is false where it is not shown.
func (s *seen) value(name, topic string) (value float64, there bool) {
	s.t.Helper()
	families, err := s.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == topic {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

// ready reports whether every topic succeeds within the time.
func (s *seen) ready(w *world, d time.Duration) bool {
	s.looks.Store(0)
	w.wait(d)
	return s.looks.Load() > 0
}

var errFull = errors.New("the disk is full")

// full has the broker take nothing while its function returns true.
func (w *world) full(now func() bool) {
	w.broker.SetFaults(membus.Faults{Refuse: func(bus.Message) error {
		if now() {
			return errFull
		}
		return nil
	}})
}

// Workers are healthy and idle then: nobody else would tell.
func TestBrokerThatTakesNothingIsToldOfThoughOtherTopicsAreIdle(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var full atomic.Bool
		w.full(full.Load)
		all := []*seen{w.seen(), w.seen()}
		for _, s := range all {
			defer w.dispatcher(s.by)()
			require.True(w, s.ready(w, 5*time.Second))
		}
		full.Store(true)
		w.enqueue("main", 3)
		w.wait(40 * time.Second) // until both have tried
		for _, s := range all {
			s.looks.Store(0)
		}
		w.wait(3 * time.Minute)
		lag, depth := 0.0, 0.0
		for _, s := range all {
			require.Zero(w, s.looks.Load(), "not ready")
			l, _ := s.value("duly_outbox_lag_seconds", "main")
			d, _ := s.value("duly_outbox_depth", "main")
			lag, depth = max(lag, l), max(depth, d)
		}
		require.Greater(w, lag, 60.0)
		require.InDelta(w, 3, depth, 0)

		full.Store(false)
		w.wait(40 * time.Second)
		for _, s := range all {
			require.True(w, s.ready(w, 5*time.Second))
			lag, _ := s.value("duly_outbox_lag_seconds", "main")
			require.InDelta(w, 0, lag, 0.2)
		}
	})
}

// A broker that cannot be reached is not even asked to take anything.
func TestBrokerThatIsDownIsToldOf(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		b := &deletable{Bus: w.broker.Connect()}
		s := w.seen()
		defer w.dispatcher(s.by, func(o *Options) { o.Bus = b })()
		require.True(w, s.ready(w, 5*time.Second))
		b.away.Store(true)
		w.enqueue("main", 1)
		w.wait(5 * time.Second)
		require.False(w, s.ready(w, 3*time.Minute))
		lag, _ := s.value("duly_outbox_lag_seconds", "main")
		require.Greater(w, lag, 60.0)
		b.away.Store(false)
		require.True(w, s.ready(w, 10*time.Second))
	})
}

// What only one of them cannot reach is relayed by the other, and who cannot says nothing
// about it any more.
func TestTopicThatAnotherRelaysIsNoLagOfWhoGaveItUp(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cut := &deletable{Bus: w.broker.Connect()}
		cutOff, other := w.seen(), w.seen()
		defer w.dispatcher(cutOff.by, func(o *Options) { o.Bus = cut })()
		w.wait(5 * time.Second)
		cut.away.Store(true)
		w.enqueue("main", 1)
		w.wait(10 * time.Second)
		_, there := cutOff.value("duly_outbox_lag_seconds", "main")
		require.True(w, there)
		defer w.dispatcher(other.by)()
		w.wait(time.Minute)
		w.enqueue("main", 1)
		_, there = cutOff.value("duly_outbox_lag_seconds", "main")
		require.False(w, there)
		lag, there := other.value("duly_outbox_lag_seconds", "main")
		require.True(w, there)
		require.InDelta(w, 0, lag, 0.2)
		require.True(w, other.ready(w, 5*time.Second))
		require.False(w, cutOff.ready(w, time.Minute), "nor could it take the topic over")
	})
}

// Loss is looked for just when the broker misbehaves.
func TestFlakyBrokerGetsItsMarks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		began := time.Now()
		w.full(func() bool { return time.Since(began)%(8*time.Second) < 4*time.Second })
		s := w.seen()
		defer w.dispatcher(s.by)()
		for range 120 {
			w.enqueue("main", 1)
			w.wait(time.Second)
		}
		failures, _ := s.value("duly_dispatcher_failures_total", "main")
		require.Greater(w, failures, 10.0)
		marks, _ := s.value("duly_marks_sent_total", "main")
		require.GreaterOrEqual(w, marks, 5.0)
	})
}

// deletable is a bus whose lane main can be deleted by hand: it is there again once
// somebody has made it ready.
type deletable struct {
	*membus.Bus
	gone, away atomic.Bool
	made       atomic.Int32
}

var errGone = errors.New("there is no such topic")

func (b *deletable) Ensure(ctx context.Context, lanes []string) error {
	if b.away.Load() {
		return errGone
	}
	if slices.Contains(lanes, "main") {
		b.gone.Store(false)
		b.made.Add(1)
	}
	return b.Bus.Ensure(ctx, lanes)
}

func (b *deletable) Publish(ctx context.Context, messages []bus.Message) []error {
	if b.away.Load() {
		return slices.Repeat([]error{errGone}, len(messages))
	}
	return b.Bus.Publish(ctx, messages)
}

func (b *deletable) Partitions(ctx context.Context, lane string) ([]int32, error) {
	if b.gone.Load() && lane == "main" {
		return nil, errGone
	}
	return b.Bus.Partitions(ctx, lane)
}

// Nothing is published and no worker is up: nobody else would make it anew, and without a
// mark nothing that was in it would be announced again.
func TestTopicOfAnIdleLaneThatIsDeletedIsMadeAnew(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		b := &deletable{Bus: w.broker.Connect()}
		s := w.seen()
		defer w.dispatcher(s.by, func(o *Options) { o.Bus = b })()
		w.wait(15 * time.Second)
		require.EqualValues(w, 1, b.made.Load())
		b.gone.Store(true)
		w.wait(time.Minute)
		require.EqualValues(w, 2, b.made.Load())
		marks, _ := s.value("duly_marks_sent_total", "main")
		require.GreaterOrEqual(w, marks, 2.0)
		require.True(w, s.ready(w, 5*time.Second))
	})
}

func TestFigureThatCannotBeReadStopsNoRelay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.ledger.Faults(func(method string) memledger.Fault {
			if method == "CountUnsendable" || method == "StandingMarks" || method == "OutboxDepth" {
				return memledger.Fail
			}
			return memledger.None
		})
		s := w.seen()
		defer w.dispatcher(s.by)()
		want := w.enqueue("main", 3)
		w.wait(time.Minute)
		require.Equal(w, want, w.received("main"))
		_, failed := s.value("duly_dispatcher_failures_total", "main")
		require.False(w, failed)
		blind, _ := s.value("duly_dispatcher_figure_failures_total", "main")
		require.InDelta(w, 6, blind, 1)
		require.True(w, s.ready(w, 5*time.Second))
	})
}
