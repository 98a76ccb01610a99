package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the dispatcher's. A topic is a lane or ".dead", so the series are as
// many as the configuration has lanes.
type metrics struct {
	held, depth, lag, unsendable, standing             *prometheus.GaugeVec
	messages, references, failures, blind, aside, sent *prometheus.CounterVec
	seconds                                            *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "duly", Name: name, Help: help}, []string{label})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "duly", Name: name, Help: help}, labels)
	}
	m := &metrics{
		held:       gauge("dispatcher_topic_held", "1 while this process relays the topic.", "topic"),
		depth:      gauge("outbox_depth", "Outbox rows of the topic that are not relayed, counted no further than 100000; by its holder, or who held it last and knows of no other.", "topic"),
		lag:        gauge("outbox_lag_seconds", "Everything committed longer ago than this was relayed; by the topic's holder, or who held it last and knows of no other.", "topic"),
		unsendable: gauge("outbox_unsendable", "Rows that the broker will not take, set aside and tried again.", "topic"),
		standing:   gauge("mark_standing_seconds", "Age of the lane's oldest mark that has not passed; 0 when none stands.", "lane"),
		messages:   counter("dispatcher_publishes_total", "Publications of a page or of what was left of one.", "topic"),
		references: counter("dispatcher_references_total", "References that the broker acknowledged.", "topic"),
		failures:   counter("dispatcher_failures_total", "Looks at a topic that failed; it is looked at again.", "topic"),
		blind:      counter("dispatcher_figure_failures_total", "Readings of a topic's figures that failed; the figures stayed as they were.", "topic"),
		aside:      counter("dispatcher_unsendable_total", "Rows, or parts of rows, that were set aside.", "topic"),
		sent:       counter("marks_sent_total", "Marks that were issued and published.", "lane"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "duly", Name: "dispatcher_publish_seconds", Help: "From publishing a page to the last acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"topic"}),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.held, m.depth, m.lag, m.unsendable, m.standing, m.messages, m.references, m.failures, m.blind, m.aside, m.sent, m.seconds,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the dispatcher's metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) published(topic string, took time.Duration) {
	m.messages.WithLabelValues(topic).Inc()
	m.seconds.WithLabelValues(topic).Observe(took.Seconds())
}

func (m *metrics) relayed(topic string, refs int) {
	m.references.WithLabelValues(topic).Add(float64(refs))
}

func (m *metrics) setAside(topic string, rows int) {
	m.aside.WithLabelValues(topic).Add(float64(rows))
}

func (m *metrics) failed(topic string) { m.failures.WithLabelValues(topic).Inc() }

func (m *metrics) marked(lane string) { m.sent.WithLabelValues(lane).Inc() }

func (m *metrics) behind(topic string, d time.Duration) {
	m.lag.WithLabelValues(topic).Set(d.Seconds())
}

// holds notes whether this process relays the topic.
func (m *metrics) holds(topic string, held bool) {
	value := 0.0
	if held {
		value = 1
	}
	m.held.WithLabelValues(topic).Set(value)
}

// leave leaves what there is to say of the topic to another, who holds it.
func (m *metrics) leave(topic string) {
	for _, g := range []*prometheus.GaugeVec{m.depth, m.lag, m.unsendable, m.standing} {
		g.DeleteLabelValues(topic)
	}
}
