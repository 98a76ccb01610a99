package kafkabus

import (
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// anyPartition leaves the partition of a record to the partitioner.
const anyPartition int32 = -1

// spread sends a record that names a partition there, and deals out the others, so that
// what is published together is worked on by the whole fleet.
type spread struct {
	mu   sync.Mutex
	most map[string]int // partitions that were seen of a topic
}

func newSpread() *spread { return &spread{most: map[string]int{}} }

// ForTopic makes the partitioner of a topic.
func (s *spread) ForTopic(name string) kgo.TopicPartitioner {
	return &dealer{spread: s, topic: name, next: rand.IntN(maxPartitions)}
}

// saw notes how many partitions of a topic the client knows.
func (s *spread) saw(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most[name] = max(s.most[name], n)
}

// known is the most partitions of a topic that were seen.
func (s *spread) known(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[name]
}

// forget forgets a topic that is gone.
func (s *spread) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.most, name)
}

type dealer struct {
	spread *spread
	topic  string
	next   int
}

// RequiresConsistency is true of a mark, whose partition is what it speaks of; what else
// there is may go to a partition that can be written to now.
func (d *dealer) RequiresConsistency(r *kgo.Record) bool { return r.Partition != anyPartition }

// Partition returns the partition of the record; one that does not exist fails it.
func (d *dealer) Partition(r *kgo.Record, n int) int {
	d.spread.saw(d.topic, n)
	if r.Partition != anyPartition {
		return int(r.Partition)
	}
	d.next++
	return d.next % n
}
