package dispatch

import (
	"slices"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
)

const (
	// defaultPack is the most references a message, unless the lane says otherwise.
	defaultPack = 32
	// spread is over how many messages a page is laid out before they fill up: with
	// that few references each travels alone, so that work spreads over the fleet.
	spread = 64
	// together is how far apart the instants of delayed references in one message may
	// lie; the message is delayed until the last of them.
	together = 100 * time.Millisecond
	// refBytes is the most that a reference takes in a body, and bodyBytes the rest.
	refBytes, bodyBytes = 48, 256
)

// packed is a message and what it announces: the outbox rows, each with only those
// of its references that travel in this message.
type packed struct {
	message bus.Message
	rows    []machine.OutboxRow
	// failures counts the publications at which it failed and was to blame.
	failures int
}

// refs counts the references.
func (p packed) refs() int {
	n := 0
	for _, r := range p.rows {
		n += len(r.Refs)
	}
	return n
}

// packing is how the rows of a lane become messages.
type packing struct {
	lane string
	most int // references a message
}

// newPacking bounds the messages of the lane by its pack and by what the broker takes.
func newPacking(lane string, pack, maxMessage int) packing {
	return packing{lane, max(1, min(pack, bus.MaxRefs, (maxMessage-bodyBytes)/refBytes))}
}

// pack makes messages of a page. Each carries references of one kind, in the order of
// the outbox, and, where they are delayed, of nearly the same instant.
func (p packing) pack(rows []machine.OutboxRow) []packed {
	size := min(max(1, packed{rows: rows}.refs()/spread), p.most)
	kinds := make(map[string][]machine.OutboxRow)
	var order []string
	for _, r := range rows {
		if _, seen := kinds[r.Kind]; !seen {
			order = append(order, r.Kind)
		}
		kinds[r.Kind] = append(kinds[r.Kind], r)
	}
	var all []packed
	for _, kind := range order {
		// Immediate rows come first: a zero instant is the earliest.
		slices.SortStableFunc(kinds[kind], func(a, b machine.OutboxRow) int { return a.At.Compare(b.At) })
		var next []machine.OutboxRow
		free := size
		flush := func() {
			if len(next) > 0 {
				all = append(all, p.envelope(next))
			}
			next, free = nil, size
		}
		for _, r := range kinds[kind] {
			if len(next) > 0 && r.At.Sub(next[0].At) > together {
				flush()
			}
			for len(r.Refs) > 0 {
				piece := r
				piece.Refs = r.Refs[:min(free, len(r.Refs))]
				r.Refs = r.Refs[len(piece.Refs):]
				next = append(next, piece)
				if free -= len(piece.Refs); free == 0 {
					flush()
				}
			}
		}
		flush()
	}
	return all
}

// envelope makes one message of rows of one kind, in order of their instants.
func (p packing) envelope(rows []machine.OutboxRow) packed {
	e := bus.Envelope{Kind: rows[0].Kind, Lane: p.lane, At: rows[len(rows)-1].At, TraceParent: rows[0].TraceParent}
	for _, r := range rows {
		e.Refs = append(e.Refs, r.Refs...)
		e.Outbox = append(e.Outbox, r.ID)
		if r.TraceParent != e.TraceParent {
			e.TraceParent = "" // it would name one of several
		}
	}
	return packed{message: e.Message(), rows: rows}
}

// halve splits a message of several references in two, to find the one to blame.
func (p packing) halve(whole packed) []packed {
	half := whole.refs() / 2
	var first, second []machine.OutboxRow
	for _, r := range whole.rows {
		cut := min(half, len(r.Refs))
		half -= cut
		if head := r; cut > 0 {
			head.Refs = r.Refs[:cut]
			first = append(first, head)
		}
		if tail := r; cut < len(r.Refs) {
			tail.Refs = r.Refs[cut:]
			second = append(second, tail)
		}
	}
	a, b := p.envelope(first), p.envelope(second)
	a.failures, b.failures = whole.failures, whole.failures
	return []packed{a, b}
}
