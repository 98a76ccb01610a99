package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// SyncKinds writes the configuration's kinds, and a topic for each of their
// lanes, into the ledger. Schedulers call it at start; a kind that the
// configuration no longer has stays, since jobs may refer to it.
func (l *Ledger) SyncKinds(ctx context.Context, kinds []machine.Kind) error {
	kinds = slices.SortedFunc(slices.Values(kinds), func(a, b machine.Kind) int { return strings.Compare(a.Name, b.Name) })
	var names, lanes, hashes, configs []string
	for _, k := range kinds {
		config, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("encoding kind %s: %w", k.Name, err)
		}
		names, lanes, hashes, configs = append(names, k.Name), append(lanes, k.Lane), append(hashes, k.Hash()), append(configs, string(config))
	}
	err := l.inTx(ctx, "writing the kinds", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("kinds_sync"), names, lanes, configs, hashes); err != nil {
			return err
		}
		slices.Sort(lanes)
		_, err := tx.Exec(ctx, stmt("topics_sync"), slices.Compact(lanes))
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if _, err := l.termsID(ctx, terms{k.Channel, k.Promises}); err != nil {
			return err
		}
	}
	return l.LoadKinds(ctx)
}

// LoadKinds reads the ledger's kinds again. Methods that meet an unknown kind call
// it themselves; schedulers call it now and then to see changed policies.
func (l *Ledger) LoadKinds(ctx context.Context) error { return l.loadKinds(ctx, l.pool) }

func (l *Ledger) loadKinds(ctx context.Context, q Querier) error {
	type entry struct {
		ID     int16
		Config machine.Kind
	}
	rows, err := q.Query(ctx, stmt("kinds_load"))
	if err != nil {
		return fmt.Errorf("reading the kinds: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return fmt.Errorf("reading the kinds: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kindsRead = time.Now()
	for _, e := range entries {
		l.kinds[e.ID], l.ids[e.Config.Name] = e.Config, e.ID
	}
	return nil
}

// Kinds lists the ledger's kinds by name.
func (l *Ledger) Kinds(ctx context.Context) ([]machine.Kind, error) {
	if err := l.LoadKinds(ctx); err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]machine.Kind, 0, len(l.kinds))
	for _, k := range l.kinds {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b machine.Kind) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// kindID finds the ledger's id of a kind by name; an unknown one is a refusal.
func (l *Ledger) kindID(ctx context.Context, name string) (int16, error) {
	find := func() (int16, bool) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		id, ok := l.ids[name]
		return id, ok
	}
	if id, ok := find(); ok {
		return id, nil
	}
	if err := l.LoadKinds(ctx); err != nil {
		return 0, err
	}
	if id, ok := find(); ok {
		return id, nil
	}
	return 0, job.Refuse("kind", name, job.RuleUnknownKind, "")
}

// kindByID returns the kind of an id that the ledger gave out.
func (l *Ledger) kindByID(ctx context.Context, id int16) (machine.Kind, error) {
	find := func() (machine.Kind, bool) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		k, ok := l.kinds[id]
		return k, ok
	}
	if k, ok := find(); ok {
		return k, nil
	}
	if err := l.LoadKinds(ctx); err != nil {
		return machine.Kind{}, err
	}
	if k, ok := find(); ok {
		return k, nil
	}
	return machine.Kind{}, fmt.Errorf("the ledger has no kind with id %d", id)
}

// termsID finds the number of terms, and gives them one where they have none.
func (l *Ledger) termsID(ctx context.Context, t terms) (int16, error) {
	find := func() (int16, bool) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		id, ok := l.termIDs[t]
		return id, ok
	}
	if id, ok := find(); ok {
		return id, nil
	}
	promises, err := json.Marshal(t.promises)
	if err != nil {
		return 0, fmt.Errorf("encoding promises: %w", err)
	}
	if _, err := l.pool.Exec(ctx, stmt("terms_add"), t.channel, string(promises)); err != nil {
		return 0, fmt.Errorf("adding terms: %w", err)
	}
	if err := l.loadTerms(ctx, l.pool); err != nil {
		return 0, err
	}
	if id, ok := find(); ok {
		return id, nil
	}
	return 0, fmt.Errorf("the ledger lost the terms of channel %s", t.channel)
}

// termsByID returns the terms of a number that the ledger gave out.
func (l *Ledger) termsByID(ctx context.Context, id int16) (terms, error) {
	find := func() (terms, bool) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		t, ok := l.terms[id]
		return t, ok
	}
	if t, ok := find(); ok {
		return t, nil
	}
	if err := l.loadTerms(ctx, l.pool); err != nil {
		return terms{}, err
	}
	if t, ok := find(); ok {
		return t, nil
	}
	return terms{}, fmt.Errorf("the ledger has no terms with id %d", id)
}

func (l *Ledger) loadTerms(ctx context.Context, q Querier) error {
	type entry struct {
		ID       int16
		Channel  string
		Promises machine.Promises
	}
	rows, err := q.Query(ctx, stmt("terms_load"))
	if err != nil {
		return fmt.Errorf("reading the terms: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return fmt.Errorf("reading the terms: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		t := terms{e.Channel, e.Promises}
		l.terms[e.ID], l.termIDs[t] = t, e.ID
	}
	return nil
}
