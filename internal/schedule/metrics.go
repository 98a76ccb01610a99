package schedule

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// metrics are those of promotion. Their labels are the closed sets of the state machine.
type metrics struct {
	promoted, ended *prometheus.CounterVec
	lost, failures  prometheus.Counter
	delay           prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		promoted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "duly", Name: "promoted_total", Help: "Generations made ready, by what they had waited for.",
		}, []string{"waiting"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "duly", Name: "promotion_ended_total", Help: "Generations that had expired when they were to be made ready, by where they ended.",
		}, []string{"state", "reason"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "duly", Name: "lost_delayed_emissions_total", Help: "Retries that the scheduler had to make ready, since their delayed emission did not come. About 0 when all is well.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "duly", Name: "promotion_failures_total", Help: "Looks for due generations that failed; the next follows.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "duly", Name: "promotion_delay_seconds", Help: "How late the latest of each promoted batch was.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 12),
		}),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.promoted, m.ended, m.lost, m.failures, m.delay} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the metrics of promotion: %w", err)
	}
	return m, nil
}

func (m *metrics) count(p machine.Promotion) {
	for waiting, n := range p.Promoted {
		m.promoted.WithLabelValues(string(waiting)).Add(float64(n))
	}
	m.lost.Add(float64(p.Promoted[job.WaitingRetry]))
	for e, n := range p.Ended {
		m.ended.WithLabelValues(string(e.State), string(e.Reason)).Add(float64(n))
	}
	if len(p.Promoted) > 0 {
		m.delay.Observe(p.Delay.Seconds())
	}
}
