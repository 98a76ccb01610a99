package kafkabus

import (
	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/bus/meter"
)

// metrics count by topic: "work.<lane>", "retry" for all delay topics, "dead", or "none".
type metrics struct {
	published, publishErrors, redelivered, recreated *prometheus.CounterVec
	late, dropped, moved, unmovable, truncated       *prometheus.CounterVec
	damaged                                          *prometheus.CounterVec
	holes, paused                                    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		published:     meter.Published(r),
		publishErrors: meter.PublishErrors(r),
		redelivered:   meter.Redelivered(r),
		recreated:     meter.Recreated(r),
		late:          meter.Counter(r, "late_settlements_total", "Messages that were acknowledged or given back after their partition had gone to another consumer: without effect, they come again there."),
		dropped:       meter.Counter(r, "dropped_backlog_messages_total", "Messages that waited here for a free slot when their partition went to another consumer, which receives them."),
		moved:         meter.Counter(r, "moved_messages_total", "Delayed messages that were moved on to the next delay or to their lane."),
		unmovable:     meter.Counter(r, "unmovable_messages_total", "Records on a delay topic that belong to no lane, or are too large for it: they were set aside; the scheduler promotes what they may have stood for."),
		truncated:     meter.Counter(r, "truncated_messages_total", "Acknowledged messages that were removed from the broker."),
		damaged:       meter.Counter(r, "damaged_batches_total", "Batches of records that could not be decoded. Each is handed out as one message, for its receiver to set aside; the ledger finds what was lost with it."),
		holes:         meter.Gauge(r, "watermark_holes", "Messages that are acknowledged here, but not to the broker, since one before them in their partition is not."),
		paused:        meter.Gauge(r, "paused_partitions", "Partitions that are not fetched from since enough of their messages wait here."),
	}
}
