package sweep

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/machine"
)

// metrics are those of the sweeps. Their labels are the sweeps' names, the closed sets of
// the state machine, and lanes, of which there are as many as the configuration has.
type metrics struct {
	failures, leasesEnded, expired, reemitted, patrolActed *prometheus.CounterVec
	workersEnded, closed, leaves, patrolRows, patrolWalks  prometheus.Counter

	patrolSeconds, patrolLease, patrolReady         prometheus.Gauge
	unknownOpen, quarantined, workers, strays, held prometheus.Gauge
	oldestUnknown, oldestQuarantined, oldestLease   prometheus.Gauge
	oldestDue                                       prometheus.Gauge

	cleanupsDue, cleanupsOverdue, cleanupsFailing, cleanupsParked, cleanupsGateless, oldestCleanup prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var all []prometheus.Collector
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "duly", Name: name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "duly", Name: name, Help: help})
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "duly", Name: name, Help: help})
		all = append(all, g)
		return g
	}
	m := &metrics{
		leasesEnded:  counters("leases_ended_total", "Leases that a sweep ended, by why and by what became of their generations.", "why", "state", "reason"),
		expired:      counters("jobs_expired_total", "Generations that were ended while they waited, by where they ended and why.", "state", "reason"),
		reemitted:    counters("reemitted_total", "References that the bus had lost and that were announced anew. About 0 when all is well.", "lane"),
		patrolActed:  counters("patrol_acted_total", "What the patrol set right. About 0 but for what is old.", "finding"),
		workersEnded: counter("workers_ended_total", "Workers that this scheduler ended because they were not heard of."),
		closed:       counter("unknown_closed_total", "Unknown outcomes that nobody answered in time."),
		leaves:       counter("outbox_leaves_emptied_total", "Leaves of the outbox that had done their work and were emptied."),
		patrolRows:   counter("patrol_rows_total", "Rows that this scheduler's part of the patrol has looked at."),
		patrolWalks:  counter("patrol_walks_total", "Walks of the patrol over the whole ledger that ended here."),

		patrolSeconds: gauge("patrol_walk_seconds", "How long the patrol's last walk over the whole ledger took."),
		patrolLease:   gauge("patrol_oldest_leased_seconds", "Age of the oldest lease that this scheduler's part of the last walk saw."),
		patrolReady:   gauge("patrol_oldest_ready_seconds", "How long the generation had been ready that had been so longest, of what this scheduler's part of the last walk saw."),

		unknownOpen:       gauge("unknown_open", "Unknown outcomes that are not closed, counted no further than 10000."),
		quarantined:       gauge("quarantined", "Quarantined generations, counted no further than 10000."),
		workers:           gauge("workers", "Workers that were not ended."),
		strays:            gauge("partition_strays", "Events and leases that lie in no daily partition, counted no further than 10000 each. 0 when all is well."),
		held:              gauge("ledger_held_transactions", "Age, in transactions, of the oldest snapshot that keeps the ledger from cleaning up. Long transactions and stale replication slots raise it and slow everything down."),
		oldestUnknown:     gauge("unknown_oldest_seconds", "Age of the oldest unknown outcome that is not closed."),
		oldestQuarantined: gauge("quarantine_oldest_seconds", "Age of the oldest quarantined generation."),
		oldestLease:       gauge("leased_oldest_seconds", "Age of the oldest lease that runs and is not over; where there are too many to look at, none is older."),
		cleanupsDue:       gauge("cleanups_due", "Cleanups whose gate is open and that are not done, those aside that wait for a person, counted no further than 10000."),
		cleanupsOverdue:   gauge("cleanups_overdue", "Those of duly_cleanups_due whose gate has been open for 10 minutes."),
		cleanupsFailing:   gauge("cleanups_failing", "Cleanups that failed and are not done, counted no further than 10000."),
		cleanupsParked:    gauge("cleanups_parked", "Those of duly_cleanups_failing that wait for a person."),
		cleanupsGateless:  gauge("cleanups_gateless", "Cleanups that are not done and that nobody does: their kind has no cleanup any more. Counted no further than 10000."),
		oldestCleanup:     gauge("cleanup_oldest_seconds", "For how long the gate of the first of duly_cleanups_due has been open."),
		oldestDue:         gauge("due_oldest_seconds", "How long the generation that is first in line has been due without being promoted."),
	}
	var err error
	if m.failures, err = shared(r, newFailures()); err != nil {
		return nil, fmt.Errorf("registering the metrics of the sweeps: %w", err)
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, r.Register(c))
	}
	if err = errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the metrics of the sweeps: %w", err)
	}
	return m, nil
}

// newFailures counts the rounds that failed, by the name of the sweep.
func newFailures() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "duly", Name: "sweep_failures_total", Help: "Rounds of a sweep that failed; the next follows.",
	}, []string{"sweep"})
}

func (m *metrics) leases(why string, ended machine.Tally) {
	for e, n := range ended {
		m.leasesEnded.WithLabelValues(why, string(e.State), string(e.Reason)).Add(float64(n))
	}
}

func (m *metrics) expirations(ended machine.Tally) {
	for e, n := range ended {
		m.expired.WithLabelValues(string(e.State), string(e.Reason)).Add(float64(n))
	}
}

func (m *metrics) walked(took, lease, ready time.Duration) {
	m.patrolWalks.Inc()
	m.patrolSeconds.Set(took.Seconds())
	m.patrolLease.Set(lease.Seconds())
	m.patrolReady.Set(ready.Seconds())
}

func (m *metrics) show(f machine.Figures) {
	m.unknownOpen.Set(float64(f.UnknownOpen))
	m.quarantined.Set(float64(f.Quarantined))
	m.workers.Set(float64(f.Workers))
	m.strays.Set(float64(f.Strays))
	m.held.Set(float64(f.HeldXIDs))
	m.oldestUnknown.Set(f.OldestUnknown.Seconds())
	m.oldestQuarantined.Set(f.OldestQuarantined.Seconds())
	m.oldestLease.Set(f.OldestLease.Seconds())
	m.oldestDue.Set(f.OldestDue.Seconds())
	m.cleanupsDue.Set(float64(f.CleanupsDue))
	m.cleanupsOverdue.Set(float64(f.CleanupsOverdue))
	m.cleanupsFailing.Set(float64(f.CleanupsFailing))
	m.cleanupsParked.Set(float64(f.CleanupsParked))
	m.cleanupsGateless.Set(float64(f.CleanupsGateless))
	m.oldestCleanup.Set(f.OldestCleanup.Seconds())
}
