package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Questions is where unknown outcomes are found that are to be asked about.
type Questions interface {
	// TakeQuestions takes some of a kind. Each is asked about again after hold at the
	// earliest, by whomever.
	TakeQuestions(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) ([]machine.Question, error)
	// Answer takes what came of them.
	Answer(ctx context.Context, replies []machine.Reply) ([]machine.Answered, error)
}

// Askable is a kind whose receiver this process can ask.
type Askable struct {
	Kind string
	// Means are those of the lookup: what a generation's first attempt fixed as another is
	// not asked by it.
	Means  machine.Means
	Lookup channel.Lookup
	// Timeout is the longest that one answer may take, at most 30 s. Default 10 s.
	Timeout time.Duration
	// AtOnce is how many are asked about at the same time. Default 8.
	AtOnce int
}

// AskerOptions are what an Asker needs. Ledger, Watch and Kinds are required.
type AskerOptions struct {
	Ledger Questions
	Watch  Steady
	Kinds  []Askable
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them. Those that are registered already are
	// shared.
	Metrics prometheus.Registerer
}

// Asker asks receivers what became of effects that may have happened.
//
// Any number may run at once: a question is taken in the ledger, by moving the instant at
// which it is asked next, so that an asker that dies costs one delay. Asking changes
// nothing at the receiver, so that asking twice costs no more than a request. An answer is
// as old as its question, by the ledger's clock; whether it counts is decided there.
type Asker struct {
	runner

	options AskerOptions
	lookups *prometheus.CounterVec
	kinds   []*askable
}

// askable is an Askable with the places of those that are being asked.
type askable struct {
	Askable

	places chan struct{}
}

const (
	defaultAskTimeout = 10 * time.Second
	maxAskTimeout     = 30 * time.Second
	defaultAtOnce     = 8

	// askEvery is how often a kind is looked at whose questions are all answered.
	askEvery = time.Second
	// askGrace is what lies between the end of an ask and its answer in the ledger.
	askGrace = 5 * time.Second
)

// NewAsker makes an Asker; the error is one of its options, or of registering its metrics.
func NewAsker(o AskerOptions) (*Asker, error) {
	a := &Asker{options: o}
	a.watch, a.log = o.Watch, cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	var errs []error
	for _, k := range o.Kinds {
		k.Timeout, k.AtOnce = cmp.Or(k.Timeout, defaultAskTimeout), cmp.Or(k.AtOnce, defaultAtOnce)
		if k.Lookup == nil || k.Means == "" {
			errs = append(errs, fmt.Errorf("kind %s: it needs a lookup, and its means", k.Kind))
		}
		if k.Timeout < 0 || k.Timeout > maxAskTimeout || k.AtOnce < 0 {
			errs = append(errs, fmt.Errorf("kind %s: timeout %s and at_once %d: they must be above 0, the timeout at most %s", k.Kind, k.Timeout, k.AtOnce, maxAskTimeout))
			continue
		}
		a.kinds = append(a.kinds, &askable{k, make(chan struct{}, k.AtOnce)})
	}
	var err error
	a.lookups, err = shared(o.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "duly", Name: "lookups_total",
		Help: "Answers of receivers about effects that may have happened: yes, no, working, nothing; too_soon where a no was asked for too early to count, stale where something else had settled it before.",
	}, []string{"kind", "answer"}))
	errs = append(errs, err)
	a.failures, err = shared(o.Metrics, newFailures())
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("making the asker: %w", err)
	}
	return a, nil
}

// shared registers a vector, or returns the one that is registered as this already.
func shared(r prometheus.Registerer, v *prometheus.CounterVec) (*prometheus.CounterVec, error) {
	if r == nil {
		return v, nil
	}
	err := r.Register(v)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			return same, nil
		}
	}
	return v, err
}

// Run asks until ctx ends, and returns its error.
func (a *Asker) Run(ctx context.Context) error {
	loops := make([]loop, len(a.kinds))
	for i, k := range a.kinds {
		loops[i] = loop{name: "asking", every: askEvery, round: func(ctx context.Context) (bool, error) { return a.round(ctx, k) }}
	}
	return a.all(ctx, loops)
}

// round takes as many questions of the kind as there are free places, asks about all of
// them at once, and brings the answers.
func (a *Asker) round(ctx context.Context, k *askable) (more bool, err error) {
	free := cap(k.places) - len(k.places)
	if free == 0 {
		return false, fmt.Errorf("kind %s: none of the %d lookups that were begun has returned, although their time is over", k.Kind, cap(k.places))
	}
	questions, err := a.options.Ledger.TakeQuestions(ctx, k.Kind, k.Means, free, k.Timeout+askGrace)
	if err != nil || len(questions) == 0 {
		return false, err
	}
	if err := failpoint.At(failpoint.LookupTaken); err != nil {
		return false, err
	}
	replies := k.ask(ctx, questions)
	if err := failpoint.At(failpoint.LookupAsked); err != nil {
		return false, err
	}
	if ctx.Err() != nil { // whoever was cut short said nothing
		replies = said(replies)
	}
	if len(replies) == 0 {
		return false, ctx.Err()
	}
	// What was answered is brought even if this process is to stop.
	bringing, cancel := context.WithTimeout(context.WithoutCancel(ctx), askGrace)
	defer cancel()
	answered, err := a.options.Ledger.Answer(bringing, replies)
	if err != nil {
		return false, err
	}
	for i, r := range replies {
		a.lookups.WithLabelValues(k.Kind, label(r, answered[i])).Inc()
	}
	return len(questions) == free, nil
}

// ask asks all questions at once.
func (k *askable) ask(ctx context.Context, questions []machine.Question) []machine.Reply {
	answers := atOnce(ctx, k.Timeout, k.places, questions, k.one, channel.NoAnswer("no answer in time"), channel.NoAnswer("the lookup panicked"))
	replies := make([]machine.Reply, len(questions))
	for i, a := range answers {
		replies[i] = machine.Reply{Question: questions[i], Said: a.Said, Receipt: a.Receipt, Detail: a.Detail}
	}
	return replies
}

// one asks one question.
func (k *askable) one(ctx context.Context, q machine.Question) channel.Answer {
	return k.Lookup.Ask(ctx, channel.Inquiry{
		Kind: q.Kind, Key: q.Key, Subject: q.Subject, Period: q.Period, Destination: q.Destination,
		Generation: q.Generation, EffectKey: q.EffectKey(),
	})
}

// said leaves out the replies that say nothing.
func said(replies []machine.Reply) []machine.Reply {
	var all []machine.Reply
	for _, r := range replies {
		if r.Said != job.SaidNothing {
			all = append(all, r)
		}
	}
	return all
}

// label is what an answer is counted as.
func label(r machine.Reply, a machine.Answered) string {
	switch {
	case a.Refused == machine.TooSoon:
		return "too_soon"
	case a.Refused != machine.Applied, (r.Said == job.SaidYes || r.Said == job.SaidNo) && !a.Found:
		return "stale"
	}
	return string(r.Said)
}
