package kafkabus

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
)

// delivery is a message that was handed out.
type delivery struct {
	member  *member
	place   *place
	message bus.Message
	taken   int // which handing out of the place this is: an older one has no effect
}

// Message is the message as it was received.
func (d *delivery) Message() bus.Message { return d.message }

// Ack settles the message: the watermark of its partition may pass it. It is committed
// soon after, not when this returns; until then the message may come again.
func (d *delivery) Ack() error {
	return d.settle((*partition).settle)
}

// Release gives the message back to the consumers of this process.
func (d *delivery) Release() error {
	return d.settle((*partition).giveBack)
}

// settle does what is asked, once. After its partition went to another consumer it has no
// effect: the message comes again there.
func (d *delivery) settle(do func(*partition, *place) bool) error {
	if d.member.bus.ended() {
		return bus.ErrClosed
	}
	m := d.member
	m.mu.Lock()
	defer m.mu.Unlock()
	p := d.place.partition
	if d.taken != d.place.times || !do(p, d.place) {
		if p.phase == revoked && d.taken > 0 {
			m.bus.metrics.late.WithLabelValues(m.label).Inc()
		}
		d.taken = 0 // counted once
		return nil
	}
	d.taken = 0
	m.moved(p)
	return nil
}

// gone reports whether the message has gone to another consumer.
func (d *delivery) gone() bool {
	d.member.mu.Lock()
	defer d.member.mu.Unlock()
	return d.place.partition.phase == revoked
}

// isMark reports whether the record says that it is a mark.
func isMark(r *kgo.Record) bool {
	for _, h := range r.Headers {
		if h.Key == typeHeader {
			return string(h.Value) == string(bus.TypeMark)
		}
	}
	return false
}
