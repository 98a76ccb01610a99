package importer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

// door is a ledger's door in memory: a key is taken once.
type door struct {
	mu     sync.Mutex
	taken  map[job.Hash]job.Hash
	jobs   []job.Spec
	calls  int
	before func(call int) error
}

func (d *door) Enqueue(ctx context.Context, specs []job.Spec) ([]importer.Accepted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.before != nil {
		if err := d.before(d.calls); err != nil {
			return nil, err
		}
	}
	if d.taken == nil {
		d.taken = map[job.Hash]job.Hash{}
	}
	answers := make([]importer.Accepted, len(specs))
	for i, s := range specs {
		key, body := job.KeyHash(s.Kind, s.Key), s.BodyHash()
		switch has, ok := d.taken[key]; {
		case !ok:
			d.taken[key] = body
			d.jobs = append(d.jobs, s)
			answers[i].Created = true
		case has != body:
			answers[i].Refused = job.Refuse("key", s.Key, job.RuleConflict, "")
		}
	}
	return answers, nil
}

func (d *door) keys() []string {
	keys := make([]string, len(d.jobs))
	for i, s := range d.jobs {
		keys[i] = s.Key
	}
	return keys
}

// noSpace is the checker of a channel that takes no destination with a space.
type noSpace struct{}

func (noSpace) Check(destination string, _ []byte) *job.Refusal {
	if strings.Contains(destination, " ") {
		return job.Refuse("destination", destination, job.RuleDestination, "it has a space")
	}
	return nil
}

// imported is what an import of a text came to.
type imported struct {
	importer.Counts
	door    *door
	refused []importer.Refused
}

// rules lists "line field rule" of all refusals.
func (i imported) rules() []string {
	var all []string
	for _, r := range i.refused {
		all = append(all, strings.Join([]string{itoa(r.Line), r.Field, string(r.Rule)}, " "))
	}
	return all
}

func options(format importer.Format, d importer.Door) importer.Options {
	return importer.Options{
		Format: format, Door: d,
		Limits:   job.Limits{MaxPayload: 1024, KnownKind: func(kind string) bool { return slices.Contains([]string{"mail", "hook"}, kind) }},
		Checkers: map[string]app.Checker{"mail": noSpace{}},
	}
}

// importText imports a text through a door of its own.
func importText(t *testing.T, format importer.Format, text string) imported {
	t.Helper()
	got, err := tryText(format, text)
	require.NoError(t, err)
	require.True(t, got.Balanced(), "%+v", got.Counts)
	return got
}

func tryText(format importer.Format, text string) (imported, error) {
	got := imported{door: &door{}}
	o := options(format, got.door)
	o.Refused = func(r importer.Refused) error { got.refused = append(got.refused, r); return nil }
	var err error
	got.Counts, err = importer.Run(context.Background(), strings.NewReader(text), o)
	return got, err
}
