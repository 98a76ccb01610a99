package main

import (
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// edge is a change of state.
type edge struct{ from, to job.State }

// now is the instant at which the machine is asked.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// edges asks the machine about every event in every state, under every condition
// that the rules speak of, and returns which events change which state to which.
func edges() map[edge][]string {
	found := make(map[edge][]string)
	for _, state := range job.States() {
		for condition := range conditions {
			row := probe(state, condition)
			for _, ev := range eventsOf(row) {
				after, _ := machine.Next(row, ev, now)
				if after.State == state {
					continue
				}
				e := edge{state, after.State}
				if name := string(ev.Name); !slices.Contains(found[e], name) {
					found[e] = append(found[e], name)
				}
			}
		}
	}
	for _, names := range found {
		order := machine.Names()
		slices.SortFunc(names, func(a, b string) int {
			return slices.Index(order, machine.Name(a)) - slices.Index(order, machine.Name(b))
		})
	}
	return found
}

// The conditions that the rules speak of, one bit each.
const (
	retry = 1 << iota
	inDoubt
	windowOpen
	cancelRequested
	closed
	expired
	lastAttempt
	conditions
)

// probe makes a row in the state under the conditions.
func probe(state job.State, condition int) machine.Row {
	is := func(bit int) bool { return condition&bit != 0 }
	kind := machine.Kind{Name: "k", Lane: "l", Channel: "http", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	r := machine.Row{
		Job: 1, Generation: 1, Kind: kind, State: state, Attempt: 1, Fence: 1, Emission: 1,
		Created: now.Add(-time.Hour), Due: now.Add(-time.Hour), FirstReady: now.Add(-time.Hour), Origin: now.Add(-time.Hour),
		LeasedAt: now.Add(-time.Minute), Limit: kind.Policy.Limit, Fixed: true, Channel: kind.Channel, Promises: kind.Promises,
		CancelRequested: is(cancelRequested) && !state.Pending() || is(cancelRequested) && state == job.Leased, Closed: is(closed) && state == job.Unknown,
	}
	if state == job.Scheduled {
		r.Waiting, r.WakeAt = job.WaitingDue, now
		if is(retry) {
			r.Waiting, r.WakeAt = job.WaitingRetry, now.Add(-machine.RetryGrace)
		}
	}
	if state == job.Unknown || (is(inDoubt) && state.Pending()) {
		r.DoubtSince, r.DoubtUntil = now.Add(-30*time.Minute), now.Add(-29*time.Minute)
	}
	if is(windowOpen) {
		r.Promises.Window = 24 * time.Hour
	}
	if is(expired) {
		r.Deadline = now
	}
	if is(lastAttempt) {
		r.Attempt = kind.Policy.MaxAttempts
	}
	return r
}

// eventsOf are the events that speak of the row as it is.
func eventsOf(r machine.Row) []machine.Event {
	var all []machine.Event
	for _, n := range machine.Names() {
		ev := machine.Event{Name: n, Fence: r.Fence, Emission: r.Emission, Worker: "w", Hold: job.HoldPaused, AskedAt: now}
		if n == machine.NotDone {
			for _, c := range job.Classes() {
				ev.Result = job.NotDone(c, job.CodeReceiverBusy, "")
				all = append(all, ev)
			}
			continue
		}
		all = append(all, ev)
	}
	return all
}
