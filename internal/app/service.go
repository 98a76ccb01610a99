package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Service is a program that runs until it is told to stop: its loops and what they
// share. Serve makes it; the setup of a program fills it.
type Service struct {
	// Process is the process that the service runs in.
	Process *Process
	// Log is the process's logger; Component makes one for a part.
	Log *slog.Logger
	// Registry takes the metrics of the parts.
	Registry *prometheus.Registry
	// Tracer is where spans come from; it records nothing unless OTEL_* asks.
	Tracer trace.TracerProvider
	// Readiness takes the successes of the loops.
	Readiness *Readiness
	// Stack undoes what was acquired, the last first, after all loops returned.
	Stack *Stack
	// Group takes the loops.
	Group *Group
	// Admin is the admin server, which serves already.
	Admin *Admin
}

// teardownBound is what the kit's own parts have to stop.
const teardownBound = 5 * time.Second

// Serve runs a service: it starts the admin server (not ready before setup is), calls setup,
// which acquires what the loops need, pushing each teardown, and adds the loops, then
// runs these until ctx ends or one fails, and stops everything in reverse order,
// whatever happened. ctx's end is the order to drain, not an error. The error holds
// what failed and what could not be stopped.
func Serve(ctx context.Context, p *Process, admin AdminSettings, setup func(context.Context, *Service) error) (err error) {
	s := &Service{Process: p, Log: p.Log, Registry: NewRegistry(p.Version), Readiness: &Readiness{}, Stack: NewStack(p.Log), Group: NewGroup(p.Log)}
	defer func() { err = errors.Join(err, s.Stack.Stop(context.WithoutCancel(ctx))) }()
	s.Readiness.Starting()
	if err := s.start(ctx, admin); err != nil {
		return err
	}
	if err := setup(ctx, s); err != nil {
		return err
	}
	s.Readiness.Started()
	p.Log.InfoContext(ctx, "running", "version", p.Version, "admin", s.Admin.Addr())
	return s.run(ctx)
}

// start brings up what every service has.
func (s *Service) start(ctx context.Context, o AdminSettings) error {
	tracer, stop, err := NewTracing(ctx, s.Process)
	if err != nil {
		return Exit(ExitUsage, err)
	}
	s.Stack.Push("tracing", teardownBound, stop)
	s.Tracer = tracer
	s.Registry.MustRegister(s.Readiness)
	s.Admin, err = NewAdmin(AdminOptions{Addr: o.AdminAddr, Process: s.Process, Registry: s.Registry, Readiness: s.Readiness, Pprof: o.Pprof})
	if err != nil {
		return Exit(ExitUsage, err)
	}
	s.Stack.Push("admin server", teardownBound, s.Admin.Stop)
	s.Admin.Start()
	s.Group.Add("admin server", s.Admin.Watch)
	return nil
}

// run runs the loops; once ctx ends the service is not ready any more.
func (s *Service) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.Log.InfoContext(ctx, "stopping", "why", context.Cause(ctx))
		s.Readiness.Stopping()
	})
	defer stop()
	err := s.Group.Run(ctx)
	if err == nil {
		s.Log.InfoContext(ctx, "stopped")
	}
	return err
}
