package compose

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/handler"
)

// staleHeartbeats is after how many heartbeats without a claim a worker counts as not
// ready.
const staleHeartbeats = 3

// WorkerParts are what a worker works on.
type WorkerParts struct {
	Ledger execute.Ledger
	// Heart is the ledger again, on a connection of its own.
	Heart execute.Heart
	Buses Buses
	// Handlers perform the kinds whose channel is go, by the kind's name.
	Handlers map[string]handler.Handler
	// Asking is the ledger again, for lookups and cleanups beside handlers.
	Asking Asking
	// Resolving is the ledger again, for destinations that are asked for in its database; nil
	// where it has none.
	Resolving ResolverOpener
}

// Worker adds a worker to the service, which performs the configuration's kinds: http
// and smtp by their channels, go by the handlers. It takes work from the lanes that
// have a kind which it can perform.
func Worker(s *app.Service, config *app.Config, parts WorkerParts) error {
	kinds, err := performable(s, config, parts)
	if err != nil {
		return err
	}
	c := config.Worker
	var next execute.Source
	if parts.Buses.Next != nil {
		next = parts.Buses.Next
	}
	w, err := execute.New(execute.Options{
		Ledger: parts.Ledger, Heart: parts.Heart, Bus: parts.Buses.Bus, Next: next,
		Kinds: kinds, Lanes: lanesOf(s, config, kinds),
		Label: label(), Version: s.Process.Version,
		Slots: c.Slots, LeaseTime: c.LeaseTime, Heartbeat: c.Heartbeat, Drain: c.Drain,
		Claimed: s.Readiness.Loop("worker", staleHeartbeats*c.Heartbeat),
		Log:     app.Component(s.Log, "worker"), Metrics: s.Registry, Tracer: s.Tracer,
	})
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("making the worker: %w", err))
	}
	s.Group.Add("worker", w.Run)
	return addBeside(s, config, parts)
}

// addBeside adds the asker for kinds with a lookup beside their handler, and the janitor
// for those with a cleanup.
func addBeside(s *app.Service, config *app.Config, parts WorkerParts) error {
	lookups, err := workerLookups(config, parts.Handlers)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	cleanups, err := workerCleanups(config, parts.Handlers, parts.Asking)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if len(lookups)+len(cleanups) == 0 {
		return nil
	}
	watch, err := contact.New(contact.Options{Ledger: parts.Asking, Hold: config.Worker.LeaseTime, Log: app.Component(s.Log, "clock")})
	if err != nil {
		return err
	}
	if err := addAsker(s, parts.Asking, watch, lookups); err != nil {
		return err
	}
	return addJanitor(s, watch, cleanups)
}

// WorkerConns is how many connections to the ledger a worker of the configuration
// uses at once, its heart's own not counted: one a lane, one for results, and
// one for what is rare.
func WorkerConns(config *app.Config) int32 {
	return int32(min(len(config.Lanes), 30)) + 2
}

// performable are the kinds that the process can perform.
func performable(s *app.Service, config *app.Config, parts WorkerParts) ([]execute.Kind, error) {
	handlers := parts.Handlers
	if err := checkHandlers(config, handlers); err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	channels, err := config.OpenChannels(s.Stack)
	if err != nil {
		return nil, err
	}
	var kinds []execute.Kind
	for _, k := range config.Kinds() {
		one := execute.Kind{Kind: k}
		switch opened := channels[k.Name]; {
		case opened != nil:
			one.Performer, one.Classifier = opened, classify.Version
		case handlers[k.Name] != nil:
			one.Performer, one.Handler = gochan.New(handlers[k.Name]), true
		default:
			continue
		}
		described, _ := config.Kind(k.Name)
		if one.Resolve, err = resolveOf(s, config, parts, described); err != nil {
			return nil, err
		}
		kinds = append(kinds, one)
	}
	if len(kinds) == 0 {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: no kind is one that this worker can perform: kinds with channel go need a worker that has a handler for them", config.File))
	}
	return kinds, nil
}

// checkHandlers refuses handlers that no job could reach.
func checkHandlers(config *app.Config, handlers map[string]handler.Handler) error {
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		k, ok := config.Kind(name)
		switch {
		case handlers[name] == nil:
			return fmt.Errorf("the handler of kind %s is nil", name)
		case !ok:
			return fmt.Errorf("there is a handler for kind %s, and no such kind in %s; add it there, with channel: go", name, config.File)
		case k.Channel != app.ChannelGo:
			return fmt.Errorf("there is a handler for kind %s, whose channel in %s is %s; handlers are for channel: go", name, config.File, k.Channel)
		}
	}
	return nil
}

// lanesOf are the lanes that have one of the kinds.
func lanesOf(s *app.Service, config *app.Config, kinds []execute.Kind) []execute.Lane {
	known := make(map[string]bool, len(kinds))
	for _, k := range kinds {
		known[k.Name] = true
	}
	var lanes []execute.Lane
	for _, l := range config.Lanes {
		unknown := slices.DeleteFunc(slices.Clone(l.Kinds), func(name string) bool { return known[name] })
		if len(unknown) == len(l.Kinds) {
			continue
		}
		if len(unknown) > 0 {
			s.Log.Warn("a lane has kinds that this worker cannot perform; their jobs are held when they come here: give them a lane of their own",
				"lane", l.Name, "kinds", strings.Join(unknown, ", "))
		}
		lanes = append(lanes, execute.Lane{Name: l.Name, Pack: l.Pack})
	}
	return lanes
}

// label names the process for people.
func label() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Heart connects to the ledger a second time, with the one connection on which a
// worker's row is kept alive.
func Heart(ctx context.Context, s *app.Service, url string, l *ledger.Ledger) (execute.Heart, error) {
	pool, err := Pool(ctx, s, url, 1)
	if err != nil {
		return nil, err
	}
	return l.Heart(pool), nil
}
