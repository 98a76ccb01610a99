package kafkabus

import (
	"container/list"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// phase is how far the end of an assignment has come.
type phase int

const (
	held    phase = iota // by this consumer: its messages are handed out
	leaving              // it is being revoked: what is settled still counts, nothing is handed out
	revoked              // it is, or may be, somebody else's: nothing counts any more
)

// maxWaiting is how many bytes of messages of a partition wait here, above which it is
// paused.
const maxWaiting = 4 << 20

// partition is a partition from its assignment to its revocation. If it comes back, that
// is another one: what is still out of this has no effect on it. Its fields are guarded by
// the lock of the member.
type partition struct {
	session *session
	topic   string
	id      int32
	phase   phase

	backlog []*kgo.Record // polled and not handed out, in order
	size    int           // of the backlog, in bytes
	paused  bool
	polled  int64 // the offset behind the last record that was polled, -1 before the first
	looked  int64 // polled at the last look for partitions that stand

	again []*place   // given back, in order; they come before the backlog
	open  *list.List // of *place: handed out or given back, not settled, in order
	out   int        // of these, how many somebody has

	passed    kgo.EpochOffset // behind the last record that was handed out, offset -1 before any came
	count     int64           // records handed out
	committed int64           // the offset that the broker has, -1 before the first commit
	shown     int64           // holes that the metric counts
}

// place is the place of a record that was handed out, until it is settled.
type place struct {
	partition *partition
	record    *kgo.Record
	element   *list.Element // of partition.open; nil once settled
	before    int32         // the leader epoch of the record before it
	number    int64         // in order of the first handing out
	holder    *consumer     // who has it; nil while it waits in again
	times     int           // it was handed out
}

func newPartition(s *session, topic string, id int32) *partition {
	return &partition{
		session: s, topic: topic, id: id, open: list.New(), polled: -1, looked: -2,
		passed: kgo.EpochOffset{Epoch: -1, Offset: -1}, committed: -1,
	}
}

// add takes in what was polled. It reports false, and takes nothing, if the records begin
// before what was polled already: the log was cut, and these are other records.
func (p *partition) add(records []*kgo.Record) bool {
	if len(records) == 0 {
		return true
	}
	if records[0].Offset < p.polled {
		return false
	}
	if p.polled < 0 {
		p.passed.Offset = records[0].Offset
	}
	for _, r := range records {
		p.size += sizeOf(r)
	}
	p.backlog = append(p.backlog, records...)
	p.polled = records[len(records)-1].Offset + 1
	return true
}

func sizeOf(r *kgo.Record) int { return frame + len(r.Key) + len(r.Value) }

// crowded reports whether so much waits that the partition is to be paused, and roomy
// whether so little that it may go on.
func (p *partition) crowded(most int) bool { return len(p.backlog) >= most || p.size >= maxWaiting }

func (p *partition) roomy(most int) bool { return len(p.backlog) <= most/2 && p.size <= maxWaiting/2 }

// take hands out one message, what was given back first; nil if there is none for the
// consumer. Whoever gets a mark must have had all that came before it: a mark that
// overtakes a message on its way to another would say that the message was dealt with.
func (p *partition) take(to *consumer) *place {
	if p.phase != held {
		return nil
	}
	if len(p.again) > 0 {
		pl := p.again[0]
		if isMark(pl.record) && !p.allBefore(pl, to) {
			return nil
		}
		p.again = slices.Delete(p.again, 0, 1)
		pl.holder = to
		pl.times++
		p.out++
		return pl
	}
	if len(p.backlog) == 0 || isMark(p.backlog[0]) && !p.allBefore(nil, to) {
		return nil
	}
	r := p.backlog[0]
	p.backlog[0] = nil
	p.backlog = p.backlog[1:]
	p.size -= sizeOf(r)
	pl := &place{partition: p, record: r, before: p.passed.Epoch, number: p.count, holder: to, times: 1}
	pl.element = p.open.PushBack(pl)
	p.count++
	p.out++
	p.passed = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	return pl
}

// allBefore reports whether the consumer has all that is not settled before the place;
// nil stands for the first of the backlog.
func (p *partition) allBefore(pl *place, to *consumer) bool {
	for e := p.open.Front(); e != nil; e = e.Next() {
		other := e.Value.(*place)
		if other == pl {
			return true
		}
		if other.holder != to {
			return false
		}
	}
	return true
}

// settle closes a place. It reports false if that has no effect any more: it was settled
// or given back before, or the partition is gone.
func (p *partition) settle(pl *place) bool {
	if p.phase == revoked || pl.element == nil || pl.holder == nil {
		return false
	}
	p.open.Remove(pl.element)
	p.out--
	pl.element, pl.holder, pl.record = nil, nil, nil
	return true
}

// giveBack puts a place where it is handed out from again, in order.
func (p *partition) giveBack(pl *place) bool {
	if p.phase == revoked || pl.element == nil || pl.holder == nil {
		return false
	}
	pl.holder = nil
	p.out--
	at, _ := slices.BinarySearchFunc(p.again, pl, func(a, b *place) int { return int(a.number - b.number) })
	p.again = slices.Insert(p.again, at, pl)
	return true
}

// watermark is what may be committed: everything before it is settled. Its offset is -1
// while nothing came. The first is where the partition began, which is committed too: it
// may be before what the group had committed, if the log lost that.
func (p *partition) watermark() kgo.EpochOffset {
	if front := p.open.Front(); front != nil {
		first := front.Value.(*place)
		return kgo.EpochOffset{Epoch: first.before, Offset: first.record.Offset}
	}
	return p.passed
}

// holes is how many messages are settled behind one that is not.
func (p *partition) holes() int64 {
	front := p.open.Front()
	if front == nil {
		return 0
	}
	return p.count - front.Value.(*place).number - int64(p.open.Len())
}

// drop forgets what waits, and returns how much was never handed out.
func (p *partition) drop() int {
	n := len(p.backlog)
	p.backlog, p.size, p.again = nil, 0, nil
	return n
}
