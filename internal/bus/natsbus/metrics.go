package natsbus

import (
	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/bus/meter"
)

// metrics count by topic, which is "work.<lane>", "dead", or "none" for what no topic
// takes: as many series as there are lanes.
type metrics struct {
	published, publishErrors, duplicates, redelivered, recreated *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		published:     meter.Published(r),
		publishErrors: meter.PublishErrors(r),
		duplicates:    meter.Counter(r, "duplicate_messages_total", "Published messages that the broker already had."),
		redelivered:   meter.Redelivered(r),
		recreated:     meter.Recreated(r),
	}
}
