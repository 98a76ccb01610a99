package natsbus

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count by topic, which is "work.<lane>", "dead", or "none" for what no topic
// takes: as many series as there are lanes.
type metrics struct {
	published, publishErrors, duplicates, redelivered, recreated *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "duly", Subsystem: "bus", Name: name, Help: help,
		}, []string{"topic"})
		if r == nil {
			return c
		}
		err := r.Register(c)
		if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok { // by another connection of this process
			return there.ExistingCollector.(*prometheus.CounterVec)
		}
		if err != nil {
			panic(err) // the registerer has another metric of this name: a mistake in the program
		}
		return c
	}
	return &metrics{
		published:     counter("published_messages_total", "Messages that the broker acknowledged as stored."),
		publishErrors: counter("publish_errors_total", "Messages that the broker did not acknowledge; the outbox sends them again."),
		duplicates:    counter("duplicate_messages_total", "Published messages that the broker already had."),
		redelivered:   counter("redelivered_messages_total", "Messages received for a second time or more."),
		recreated:     counter("recreated_total", "Streams and consumers that were gone and were made anew; what was in them is judged lost."),
	}
}
