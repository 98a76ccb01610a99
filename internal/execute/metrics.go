package execute

import (
	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// metrics are what the worker counts. Their label sets are closed: kinds, outcomes,
// classes and codes of the configuration, reasons of this package.
type metrics struct {
	attempts      *prometheus.CounterVec
	stale         *prometheus.CounterVec
	early         *prometheus.CounterVec
	locked        *prometheus.CounterVec
	held          *prometheus.CounterVec
	refused       *prometheus.CounterVec
	resolutions   *prometheus.CounterVec
	late          *prometheus.CounterVec
	duplicates    *prometheus.CounterVec
	leaseDelay    *prometheus.HistogramVec
	leaseBatch    prometheus.Histogram
	settleBatch   prometheus.Histogram
	running       prometheus.Gauge
	oldest        prometheus.Gauge
	registrations prometheus.Counter
	rejected      prometheus.Counter
	marks         prometheus.Counter
	overdue       prometheus.Counter
	givenUp       prometheus.Counter
	trouble       prometheus.Counter
}

const namespace, subsystem = "duly", "worker"

// newMetrics makes the metrics and registers them, unless registerer is nil.
func newMetrics(registerer prometheus.Registerer) *metrics {
	var all []prometheus.Collector
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
		all = append(all, g)
		return g
	}
	batch := func(name, help string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		})
		all = append(all, h)
		return h
	}
	m := &metrics{
		attempts: counters("attempts_total", "Attempts that ended, hand-backs (not_begun) among them, once the ledger has committed their end.",
			"kind", "outcome", "class", "code"),
		stale:   counters("stale_references_total", "References that could not be leased any more and were dropped.", "kind"),
		early:   counters("early_references_total", "References of retries that came before their time.", "kind"),
		locked:  counters("locked_references_total", "References whose rows somebody else had locked when they were asked for, each time; they are asked for again.", "kind"),
		held:    counters("held_references_total", "References whose jobs were held, by reason.", "reason"),
		refused: counters("refused_begins_total", "Attempts that were leased and not begun, by reason.", "reason"),
		resolutions: counters("resolutions_total",
			"Destinations that were asked for right before an attempt: resolved, or not, by the class of the failure. Nothing was sent of the latter.", "kind", "result"),
		late: counters("late_reports_total", "Reports that came after their lease was over and were kept as evidence.", "outcome"),
		duplicates: counters("duplicate_effects_total",
			"Successes of generations that were delivered by another attempt, cancelled or redriven before. Where the receiver did not dedupe them, each is an effect too many.", "kind"),
		leaseBatch:  batch("lease_batch_references", "References in one lease call."),
		settleBatch: batch("settle_batch_reports", "Reports in one settling call."),
		running:     gauge("running_attempts", "Attempts that run now."),
		oldest:      gauge("oldest_attempt_seconds", "For how long the oldest attempt that is not committed has been leased; 0 where there is none."),
		leaseDelay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "lease_delay_seconds",
			Help:    "From the instant at which a job was due to the lease of its first attempt, by the ledger's clock.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 14),
		}, []string{"kind"}),
		registrations: counter("registrations_total", "Registrations of the process in the ledger; more than one means that the ledger ended it."),
		rejected:      counter("rejected_messages_total", "Messages that nobody understood and that were set aside."),
		marks:         counter("marks_total", "Marks that were passed on."),
		overdue:       counter("overdue_attempts_total", "Attempts that did not return although their limit was over."),
		givenUp:       counter("given_up_reports_total", "Reports that the ledger never took; their leases end as unknown."),
		trouble:       counter("ledger_trouble_total", "Calls of the ledger that failed and were repeated."),
	}
	all = append(all, m.leaseDelay)
	if registerer != nil {
		registerer.MustRegister(all...)
	}
	return m
}

// kind is the kind with its own series, which are there from the start.
func (m *metrics) kind(k Kind) *kind {
	return &kind{
		Kind:  k,
		delay: m.leaseDelay.WithLabelValues(k.Name), stale: m.stale.WithLabelValues(k.Name), early: m.early.WithLabelValues(k.Name),
		locked: m.locked.WithLabelValues(k.Name),
	}
}

// watchSlots shows the lane's free slots, those of both buses together.
func (m *metrics) watchSlots(registerer prometheus.Registerer, lane string, all []*slots) {
	if registerer == nil {
		return
	}
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "free_slots", Help: "Slots that are free now.",
		ConstLabels: prometheus.Labels{"lane": lane},
	}, func() float64 {
		free := 0
		for _, s := range all {
			free += s.available()
		}
		return float64(free)
	}))
}

// observeLease notes how long a first attempt has waited since it was due.
func (m *metrics) observeLease(k *kind, row *machine.Row) {
	if row.Attempt != 1 {
		return
	}
	from := row.Due
	if from.Before(row.Created) {
		from = row.Created
	}
	k.delay.Observe(row.LeasedAt.Sub(from).Seconds())
}

// end is what attempts are counted by.
type end struct {
	kind    string
	outcome job.Outcome
	class   job.Class
	code    job.Code
}

// count counts the committed ends of attempts, once for each set of labels.
func (m *metrics) count(part []*ending) {
	counts := make(map[end]int, 4)
	var last end
	same := 0 // of the last, which most are like
	for _, e := range part {
		if e.attempt == nil {
			continue // a hand-back of a stranger
		}
		k, r := e.attempt.kind, &e.result
		if now := (end{k.Name, r.Outcome, r.Class, r.Code.Label(k.Codes...)}); now != last {
			counts[last] += same
			last, same = now, 0
		}
		same++
	}
	counts[last] += same
	delete(counts, end{})
	for e, n := range counts {
		m.attempts.WithLabelValues(e.kind, string(e.outcome), string(e.class), string(e.code)).Add(float64(n))
	}
}
