package compose

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// ResolverOpener opens statements that say, in the ledger's own database, where effects go.
type ResolverOpener interface {
	OpenResolver(o ledger.ResolverOptions) (*ledger.Resolver, error)
}

// maxResolveConns bounds the connections of a resolve; what is asked at once beyond them
// waits, within its timeout.
const maxResolveConns = 4

// resolveOf is how the destinations of a kind are asked for; nil where they are those that
// its jobs were given. A function beside a handler must be declared, and what is declared
// must be there.
func resolveOf(s *app.Service, config *app.Config, parts WorkerParts, k app.Kind) (*execute.Resolve, error) {
	beside, r := handler.Resolve(nil), k.Resolve
	if h := parts.Handlers[k.Name]; h != nil {
		beside = handler.ResolveOf(h)
	}
	declared := r != nil && r.Go != nil
	switch {
	case declared && beside == nil:
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s declares kinds.%s.resolve.go, and there is no resolve beside the kind's handler: add one with handler.WithResolve", config.File, k.Name))
	case beside != nil && !declared:
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("there is a resolve beside the handler of kind %s, and %s does not declare it: add `resolve: {go: {}}` there", k.Name, config.File))
	case r == nil:
		return nil, nil //nolint:nilnil // as said
	}
	resolve := &execute.Resolve{Timeout: r.Timeout, Plain: r.Receipt == app.ReceiptPlain}
	var err error
	switch {
	case r.Go != nil:
		resolve.Resolver = gochan.NewResolver(beside)
	case r.HTTP != nil:
		resolve.Resolver, err = resolveByHTTP(s, k)
	default:
		resolve.Resolver, err = resolveBySQL(s, config, parts.Resolving, k)
	}
	return resolve, err
}

func resolveByHTTP(s *app.Service, k app.Kind) (channel.Resolver, error) {
	opened, err := httpchan.NewResolver(*k.Resolve.HTTP)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("opening the resolve of kind %s: resolve.http.%w", k.Name, err))
	}
	s.Stack.Push("resolve of kind "+k.Name, closeBound, func(context.Context) error { return opened.Close() })
	return opened, nil
}

// resolveBySQL opens the statement of a kind. It is tried beside the worker: a source that is
// away, or a table that was changed, keeps no other kind from its work.
func resolveBySQL(s *app.Service, config *app.Config, own ResolverOpener, k app.Kind) (channel.Resolver, error) {
	sql := k.Resolve.SQL
	o := ledger.ResolverOptions{Statement: sql.Statement, Timeout: k.Resolve.Timeout, Conns: maxResolveConns}
	url, err := config.Source(sql.Source)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	var opened *ledger.Resolver
	switch {
	case url != "":
		at, err := sourceConfig(s, sql.Source, url)
		if err != nil {
			return nil, err
		}
		if opened, err = ledger.OpenResolver(at, o); err != nil {
			return nil, err
		}
	case own == nil:
		return nil, fmt.Errorf("kind %s: its destinations are asked for in the ledger's database, and this ledger has none", k.Name)
	default:
		if opened, err = own.OpenResolver(o); err != nil {
			return nil, err
		}
	}
	s.Stack.Push("resolve of kind "+k.Name, closeBound, func(context.Context) error { opened.Close(); return nil })
	s.Group.Add("resolve of "+k.Name, func(ctx context.Context) error {
		// One that can never work is told when a process starts, and not at its first job.
		if err := openBeside(ctx, app.Component(s.Log, "worker"), "resolve", k.Name, opened.Try); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return sqlResolver{opened}, nil
}

// sqlResolver asks a statement where effects go.
type sqlResolver struct{ statement *ledger.Resolver }

// Resolve asks about all jobs at once. What the statement has nothing or more than one thing
// to say about has no address, and would have none again; where it could not be asked, that
// may change.
func (r sqlResolver) Resolve(ctx context.Context, jobs []channel.Addressee) []channel.Address {
	asked := make([]ledger.Asked, len(jobs))
	for i, j := range jobs {
		asked[i] = ledger.Asked{Key: j.Key, Subject: j.Subject, Destination: j.Destination}
	}
	found, err := r.statement.Ask(ctx, asked)
	if err != nil {
		code := job.CodeUnreachable
		switch {
		case ledger.ResolveWrong(err):
			code = job.CodeMisconfigured
		case ctx.Err() != nil || ledger.ResolveLate(err):
			code = job.CodeTimeout
		}
		return channel.Unresolved(len(jobs), job.NotDone(job.ClassTransient, code, ledger.ResolveFailure(err)))
	}
	all := make([]channel.Address, len(jobs))
	for i, f := range found {
		switch {
		case f.Rows == 0:
			all[i] = channel.NoAddress("the statement has no row for it")
		case f.Rows > 1:
			all[i] = channel.NoAddress(fmt.Sprintf("the statement has %d rows for it, and nobody knows which one is meant", f.Rows))
		case f.Destination == nil || *f.Destination == "":
			all[i] = channel.NoAddress("the statement has a row without a destination for it")
		default:
			all[i].Destination = *f.Destination
		}
	}
	return all
}
