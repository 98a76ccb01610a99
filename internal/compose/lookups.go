package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// Inquirer opens statements that ask the ledger's own database.
type Inquirer interface {
	OpenLookup(ctx context.Context, o ledger.LookupOptions) (*ledger.Lookup, error)
}

// addLookups adds what asks the receivers that a scheduler can ask: one asker for those
// that are asked by HTTP, and one beside it for each kind that a database is asked about.
func addLookups(s *app.Service, config *app.Config, ledger SchedulerLedger, watch sweep.Steady) error {
	byHTTP, err := config.OpenHTTPLookups(s.Stack)
	if err != nil {
		return err
	}
	var all []sweep.Askable
	for _, kind := range config.Kinds() {
		k, _ := config.Kind(kind.Name)
		if k.Lookup == nil {
			continue
		}
		if k.Lookup.SQL != nil {
			if err := addSQLLookup(s, k, ledger, watch); err != nil {
				return err
			}
		}
		if lookup := byHTTP[k.Name]; lookup != nil {
			all = append(all, askable(k, lookup))
		}
	}
	return addAsker(s, ledger, watch, all)
}

func askable(k app.Kind, lookup channel.Lookup) sweep.Askable {
	return sweep.Askable{Kind: k.Name, Means: k.Promises.Lookup, Lookup: lookup, Timeout: k.Lookup.Timeout, AtOnce: k.Lookup.AtOnce}
}

// addSQLLookup adds the asker of a kind by SQL, at the ledger's database or at another one.
func addSQLLookup(s *app.Service, k app.Kind, own SchedulerLedger, watch sweep.Steady) error {
	open := own.OpenLookup
	if k.Lookup.SQL.DSN != nil {
		config, err := otherDatabase(s, k.Lookup.SQL)
		if err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("opening the lookup of kind %s: promises.lookup.sql.dsn: %w", k.Name, err))
		}
		open = func(ctx context.Context, o ledger.LookupOptions) (*ledger.Lookup, error) {
			return ledger.OpenLookup(ctx, config, o)
		}
	}
	name := "lookup of kind " + k.Name
	s.Group.Add(name, func(ctx context.Context) error {
		var opened *ledger.Lookup
		err := openBeside(ctx, app.Component(s.Log, "asking"), "promises.lookup.sql", k.Name, func(ctx context.Context) (err error) {
			opened, err = open(ctx, ledger.LookupOptions{
				Statement: k.Lookup.SQL.Statement, Timeout: k.Lookup.Timeout,
				Conns: int32(k.Lookup.AtOnce), //nolint:gosec // the configuration bounds it
			})
			return err
		})
		if err != nil {
			return err
		}
		s.Stack.Push(name, closeBound, func(context.Context) error { opened.Close(); return nil })
		asker, err := newAsker(s, own, watch, []sweep.Askable{askable(k, sqlLookup{opened})})
		if err != nil {
			return err
		}
		return asker.Run(ctx)
	})
	return nil
}

// otherDatabase is where a lookup's secret says that its database is. What it says, which
// may hold a password, is in no error.
func otherDatabase(s *app.Service, c *app.SQLLookup) (*pgxpool.Config, error) {
	dsn, err := c.DSN.Load()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the secret is no connection string of PostgreSQL")
	}
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], s.Process.Name)
	return config, nil
}

// sqlLookup asks by a statement.
type sqlLookup struct{ statement *ledger.Lookup }

// Ask asks the database. A row that does not say whether it happened says that it is
// still being worked on; no row says that it did not happen.
func (l sqlLookup) Ask(ctx context.Context, q channel.Inquiry) channel.Answer {
	found, err := l.statement.Ask(ctx, q.EffectKey)
	switch {
	case err != nil:
		return channel.NoAnswer(ledger.LookupFailure(err))
	case !found.Found:
		return channel.Answer{Said: job.SaidNo, Detail: "no row"}
	case found.Happened == nil:
		return channel.Answer{Said: job.SaidWorking, Detail: "a row that does not say yet"}
	case !*found.Happened:
		return channel.Answer{Said: job.SaidNo, Detail: "a row that says so"}
	}
	at := found.At
	if at.IsZero() {
		at = time.Now()
	}
	return channel.Answer{Said: job.SaidYes, Detail: "a row that says so", Receipt: &job.Receipt{ID: found.Receipt, At: at.UTC()}}
}

// Close ends the connections.
func (l sqlLookup) Close() error {
	l.statement.Close()
	return nil
}

// workerLookups are the kinds whose receivers a worker can ask, by functions beside their
// handlers. Such a function must be declared, and what is declared must be there.
func workerLookups(config *app.Config, handlers map[string]handler.Handler) ([]sweep.Askable, error) {
	var all []sweep.Askable
	for _, kind := range config.Kinds() {
		k, _ := config.Kind(kind.Name)
		h := handlers[k.Name]
		if h == nil {
			continue
		}
		lookup, declared := handler.LookupOf(h), k.Promises.Lookup == machine.MeansGo
		switch {
		case declared && lookup == nil:
			return nil, fmt.Errorf("%s declares kinds.%s.promises.lookup.go, and there is no lookup beside the kind's handler: add one with handler.WithLookup", config.File, k.Name)
		case lookup != nil && !declared:
			return nil, fmt.Errorf("there is a lookup beside the handler of kind %s, and %s does not declare it: add `promises: {lookup: {go: {}}}` there", k.Name, config.File)
		case declared:
			all = append(all, askable(k, gochan.NewLookup(lookup)))
		}
	}
	return all, nil
}

// addAsker adds an asker for the kinds to the service, if there are any.
func addAsker(s *app.Service, questions sweep.Questions, watch sweep.Steady, kinds []sweep.Askable) error {
	if len(kinds) == 0 {
		return nil
	}
	asker, err := newAsker(s, questions, watch, kinds)
	if err != nil {
		return err
	}
	s.Group.Add("asking", asker.Run)
	return nil
}

// newAsker makes an asker; those of one process share their metrics.
func newAsker(s *app.Service, questions sweep.Questions, watch sweep.Steady, kinds []sweep.Askable) (*sweep.Asker, error) {
	return sweep.NewAsker(sweep.AskerOptions{
		Ledger: questions, Watch: watch, Kinds: kinds, Log: app.Component(s.Log, "asking"), Metrics: s.Registry,
	})
}

// Asking is the ledger as what stands beside a worker's handlers knows it.
type Asking interface {
	sweep.Questions
	sweep.Cleanups
	contact.Ledger
}
