package compose

import (
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/dispatch"
)

// staleDispatch is how old the last successful look at the outbox may be before the
// process counts as not ready.
const staleDispatch = 15 * time.Second

// Dispatcher adds a dispatcher of every lane to the service.
func Dispatcher(s *app.Service, config *app.Config, ledger dispatch.Ledger, buses Buses) error {
	packs := config.Packs()
	var next *dispatch.Route
	if buses.Next != nil {
		next = &dispatch.Route{Address: buses.NextAddress, Bus: buses.Next}
	}
	d, err := dispatch.New(dispatch.Options{
		Ledger: ledger, Bus: buses.Bus, Address: buses.Address, Next: next, Pack: func(lane string) int { return packs[lane] },
		Log: app.Component(s.Log, "dispatch"), Metrics: s.Registry,
		Succeeded: s.Readiness.Loop("dispatch", staleDispatch),
	})
	if err != nil {
		return err
	}
	s.Group.Add("dispatch", d.Run)
	return nil
}
