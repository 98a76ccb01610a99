package memledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// SyncKinds writes the kinds of the configuration, and a topic for each of their
// lanes. A kind that is no longer among them stays.
func (l *Ledger) SyncKinds(ctx context.Context, kinds []machine.Kind) error {
	return l.write(ctx, "SyncKinds", func(time.Time) error {
		for _, k := range kinds {
			l.kinds[k.Name] = k
			l.topic(k.Lane)
		}
		return nil
	})
}

// Kinds lists the kinds by name.
func (l *Ledger) Kinds(ctx context.Context) ([]machine.Kind, error) {
	var all []machine.Kind
	err := l.read(ctx, "Kinds", func(time.Time) error {
		all = slices.SortedFunc(maps.Values(l.kinds), func(a, b machine.Kind) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return all, err
}

// LoadKinds reads the kinds again, which takes nothing here.
func (l *Ledger) LoadKinds(ctx context.Context) error {
	return l.read(ctx, "LoadKinds", func(time.Time) error { return nil })
}

// known refuses a kind that nobody configured.
func (l *Ledger) known(name string) *job.Refusal {
	if _, ok := l.kinds[name]; ok {
		return nil
	}
	return job.Refuse("kind", name, job.RuleUnknownKind, "")
}
