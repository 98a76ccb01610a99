package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/machine"
)

// runMetrics are those of runs. Schedules are as many as the configuration has.
type runMetrics struct {
	occurrences, failures           *prometheus.CounterVec
	members, refused                *prometheus.CounterVec
	eligible, open, failed, running *prometheus.GaugeVec
	oldest                          *prometheus.GaugeVec
	seconds                         *prometheus.HistogramVec
}

func newRunMetrics(r prometheus.Registerer) (*runMetrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "duly", Name: name, Help: help}, []string{"schedule"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "duly", Name: name, Help: help}, labels)
	}
	m := &runMetrics{
		occurrences: counter("occurrences_total", "Occurrences of schedules, by what became of them: fired, late, skipped, missed, or taken where the period had a run.", "schedule", "outcome"),
		failures:    counter("run_failures_total", "Decisions, freezes and looks at runs that failed; they are made again.", "doing"),
		members:     counter("run_members_total", "Members of frozen runs.", "schedule"),
		refused:     counter("run_refused_total", "Rows of selections that became no member; each is kept with its reason.", "schedule"),
		eligible:    gauge("run_eligible", "Rows that the newest run's selection yielded."),
		open:        gauge("runs_open", "Runs that wait for their freeze."),
		failed:      gauge("runs_failing", "Runs whose freeze has failed, and is tried again."),
		running:     gauge("runs_unfinished", "Frozen runs that have pending members."),
		oldest:      gauge("run_open_oldest_seconds", "How long the occurrence of the oldest open run is past; 0 when none is open."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "duly", Name: "run_freeze_seconds", Help: "From locking a run to the commit of its members.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 11),
		}, []string{"schedule"}),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.occurrences, m.failures, m.members, m.refused, m.eligible, m.open, m.failed, m.running, m.oldest, m.seconds,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the metrics of runs: %w", err)
	}
	return m, nil
}

// known shows what alerts watch the increase of from the beginning: a counter that comes
// into being with its first increase has none.
func (m *runMetrics) known(names []string) {
	m.failures.WithLabelValues("firing")
	for _, name := range names {
		m.occurrences.WithLabelValues(name, string(machine.OccurrenceMissed))
		m.refused.WithLabelValues(name)
	}
}

func (m *runMetrics) decided(schedule string, f machine.Firing, fired machine.Fired) {
	add := func(outcome string, n int64) {
		if n > 0 {
			m.occurrences.WithLabelValues(schedule, outcome).Add(float64(n))
		}
	}
	for _, run := range fired.Opened {
		add(string(run.Cause), 1)
	}
	for _, o := range f.Without {
		add(string(o.Outcome), max(o.Count, 1))
	}
	add("taken", int64(fired.Taken))
}

func (m *runMetrics) frozen(r machine.Run, took time.Duration) {
	m.members.WithLabelValues(r.Schedule).Add(float64(r.Expected()))
	m.refused.WithLabelValues(r.Schedule).Add(float64(r.Refused))
	m.eligible.WithLabelValues(r.Schedule).Set(float64(r.Selected))
	m.seconds.WithLabelValues(r.Schedule).Observe(took.Seconds())
}

// show sets the gauges of every schedule: those without figures to 0, and those too that
// the ledger knows and this configuration does not, whose open runs nobody freezes.
func (m *runMetrics) show(names []string, figures []machine.RunFigures) {
	by := make(map[string]machine.RunFigures, len(figures))
	for _, f := range figures {
		by[f.Schedule] = f
	}
	for _, g := range []*prometheus.GaugeVec{m.open, m.failed, m.running, m.oldest} {
		g.Reset()
	}
	for name := range by {
		if !slices.Contains(names, name) {
			names = append(slices.Clone(names), name)
		}
	}
	for _, name := range names {
		f := by[name]
		m.open.WithLabelValues(name).Set(float64(f.Open))
		m.failed.WithLabelValues(name).Set(float64(f.Failed))
		m.running.WithLabelValues(name).Set(float64(f.Unfinished))
		m.oldest.WithLabelValues(name).Set(max(0, f.Oldest.Seconds()))
	}
}
