package gochan

import (
	"context"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// Lookup asks by a function of the worker's own program.
type Lookup struct{ lookup handler.Lookup }

var _ channel.Lookup = (*Lookup)(nil)

// NewLookup makes the lookup of a function.
func NewLookup(l handler.Lookup) *Lookup { return &Lookup{l} }

// Ask calls the function. An error says nothing, whatever comes with it; its text is kept
// for operators, as that of a handler's is.
func (l *Lookup) Ask(ctx context.Context, q channel.Inquiry) channel.Answer {
	answer, err := l.lookup(ctx, handler.Question{
		EffectKey: q.EffectKey, Kind: q.Kind, Key: q.Key, Subject: q.Subject, Period: q.Period, Destination: q.Destination, Generation: q.Generation,
	})
	if err != nil {
		return channel.NoAnswer(err.Error())
	}
	said, id := answer.Said()
	a := channel.Answer{Said: said}
	if said == job.SaidYes {
		a.Receipt = &job.Receipt{ID: id, At: time.Now().UTC()}
	}
	return a
}

// Close has nothing to end.
func (l *Lookup) Close() error { return nil }
