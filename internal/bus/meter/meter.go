// Package meter has the metrics that every bus on a broker counts, under one name and
// with one description, so that a process with two of them, and a dashboard, need not
// tell them apart. The label "topic" is "work.<lane>", "retry", "dead", or "none" for
// what no topic takes: as many series as there are lanes.
package meter

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Published counts messages that the broker stored.
func Published(r prometheus.Registerer) *prometheus.CounterVec {
	return Counter(r, "published_messages_total", "Messages that the broker acknowledged as stored.")
}

// PublishErrors counts messages that the broker did not store, or did not say so.
func PublishErrors(r prometheus.Registerer) *prometheus.CounterVec {
	return Counter(r, "publish_errors_total", "Messages that the broker did not acknowledge; the outbox sends them again.")
}

// Redelivered counts messages that came before.
func Redelivered(r prometheus.Registerer) *prometheus.CounterVec {
	return Counter(r, "redelivered_messages_total", "Messages received for a second time or more. Of Kafka, only those that this process had given back: its brokers do not say what others have had.")
}

// Recreated counts what was gone from the broker.
func Recreated(r prometheus.Registerer) *prometheus.CounterVec {
	return Counter(r, "recreated_total", "Streams, topics and consumers that were gone and were made anew, and partitions whose log had lost its end, once others stand there; what was in them is judged lost.")
}

// Counter makes or finds a counter by topic; a nil registerer drops it.
func Counter(r prometheus.Registerer, name, help string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "duly", Subsystem: "bus", Name: name, Help: help,
	}, []string{"topic"}))
}

// Gauge makes or finds a gauge by topic; a nil registerer drops it.
func Gauge(r prometheus.Registerer, name, help string) *prometheus.GaugeVec {
	return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "duly", Subsystem: "bus", Name: name, Help: help,
	}, []string{"topic"}))
}

func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	err := r.Register(c)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok { // by another connection of this process
		return there.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // the registerer has another metric of this name: a mistake in the program
	}
	return c
}
