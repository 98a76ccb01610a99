// Package bus is the seam to the message bus: NATS JetStream, Kafka or memory.
//
// The bus carries hints, never truth. A message says "this emission of this
// generation of this job may be leased now", and nothing else: no payload, no
// destination, no state. Whoever receives it asks the ledger, which may answer
// that the hint is stale. So the bus may lose, repeat, delay and reorder what it
// carries, or be deleted as a whole, and no job is lost and no effect repeated;
// all that a bad bus can cost is time. What the design asks of it is small:
//
//   - Publish returns only after the broker stored the message durably, so that the
//     dispatcher's cursor may move on;
//   - a message stays with the consumer until it is acknowledged, which happens
//     only after the ledger committed what became of each of its references;
//   - a message that was not acknowledged comes again;
//   - in one partition, a mark is delivered after everything published before it, so
//     that what it has passed was delivered or lost.
//
// Every adapter (natsbus, kafkabus, membus) proves itself with the one suite in
// bustest.
package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Type says what a message carries.
type Type string

const (
	// TypeWork carries references of one kind and lane (Envelope).
	TypeWork Type = "duly.work"
	// TypeMark carries a mark (Mark).
	TypeMark Type = "duly.mark"
	// TypeDead carries the notice of a generation that needs a person.
	TypeDead Type = "duly.dead"
	// TypeDamaged is never sent. An adapter hands out with it what the broker has stored and
	// nobody can decode, byte by byte.
	TypeDamaged Type = "duly.damaged"
)

// Message is what a publisher sends and a consumer gets.
type Message struct {
	// Type says how Body is to be decoded.
	Type Type
	// Lane is the lane of work and marks; empty for notices.
	Lane string
	// ID lets the broker swallow true copies; empty for marks, which need none. At
	// most MaxID bytes.
	ID string
	// At delays the delivery of work until then; zero, or a time that has passed,
	// means now. A broker may be late, and may lose the delay: the scheduler promotes
	// what did not come. Of a received message it says until when it was delayed.
	At time.Time
	// Partition is where a mark goes; ignored for other types.
	Partition int32
	// Kind and TraceParent travel as headers, for people and tracing.
	Kind, TraceParent string
	// Body is the encoded Envelope, Mark or notice.
	Body []byte
}

// Publisher sends messages. It is safe for concurrent use.
type Publisher interface {
	// Publish sends all messages and waits for the broker's acknowledgements. It
	// returns one error a message, nil where the broker stored it durably. A
	// message that can never be stored (too large) fails with ErrUnsendable; every
	// other error may pass with time.
	Publish(ctx context.Context, messages []Message) []error
	// Partitions are the partitions of the lane's topic that the client knows now.
	Partitions(ctx context.Context, lane string) ([]int32, error)
}

// Delivery is one message in the hands of a consumer. Until Ack or Release the
// adapter tells the broker that it is in progress. Its methods are safe for
// concurrent use; of Ack and Release only the first has an effect.
type Delivery interface {
	// Message is the message as it was received; Message.Partition is where from. A
	// foreign or damaged one has the Type that it came with, or none: whoever receives
	// it sets it aside and acknowledges it.
	Message() Message
	// Ack settles the message for good. Called only after the ledger committed.
	Ack() error
	// Release gives the message back to be delivered again soon, to anyone.
	Release() error
}

// Consumer receives the messages of one lane, shared with every other consumer
// of the lane in the fleet.
type Consumer interface {
	// Receive waits for at least one message and returns those that are there, at
	// most max. It asks the broker for no more than max, so that what a busy worker
	// cannot start stays with the broker. It returns ctx's error when ctx ends, and
	// ErrClosed after Close. Broker trouble is retried inside, with backoff. Calls wait
	// for one another: a consumer is for one loop.
	Receive(ctx context.Context, max int) ([]Delivery, error)
	// Close stops receiving. Deliveries that are out can still be acknowledged for a
	// moment. Where a broker gives the messages behind them to nobody else meanwhile, no
	// longer than that: what is acknowledged later comes again, and is stale.
	Close() error
}

// Bus is one connection to a broker.
type Bus interface {
	Publisher
	// Ensure creates the topics of the lanes and of the notices, or verifies those
	// that exist, and refuses settings that could drop unacknowledged work
	// (ErrUnsafe, naming the setting).
	Ensure(ctx context.Context, lanes []string) error
	// Consume starts receiving the lane's messages.
	Consume(ctx context.Context, lane string) (Consumer, error)
	// ConsumeDead starts receiving the notices of the dead topic, for tools and tests.
	ConsumeDead(ctx context.Context) (Consumer, error)
	// MaxMessage is the largest body, in bytes, that the broker takes with the headers
	// that Duly adds to it.
	MaxMessage() int
	// Healthy reports whether the connection is up, as an error that says why not.
	Healthy() error
	// Close ends the connection; consumers end with ErrClosed, and what was neither
	// acknowledged nor released goes back to the broker.
	Close() error
}

// Mover is what a bus implements whose broker does not deliver a delayed message by itself
// when its time has come.
type Mover interface {
	// Move moves delayed messages on in their time, and removes from the broker what was
	// acknowledged, until ctx ends, whose error it returns; ErrClosed after Close. Any
	// number may run at once, in any process, and share the work; where none runs, delays
	// do not end. What can never be moved on is given to aside, and acknowledged once that
	// succeeds. What goes wrong meanwhile is logged and tried again.
	Move(ctx context.Context, aside SetAside) error
}

// SetAside keeps a message that nobody understands, for a person to look at. Source says
// where it was; a copy of one that is kept already is none.
type SetAside func(ctx context.Context, source string, m Message, cause error) error

// Identity is what a message is known by among those that are set aside: its id, or a hash
// of its body where it has none.
func (m Message) Identity() string {
	if m.ID != "" {
		return m.ID
	}
	sum := sha256.Sum256(m.Body)
	return hex.EncodeToString(sum[:])
}

var (
	// ErrUnsendable: the broker will never take this message, such as one over its size limit.
	ErrUnsendable = errors.New("the broker can never take this message")
	// ErrUnsafe: a topic exists with settings that could lose unacknowledged work.
	ErrUnsafe = errors.New("unsafe topic settings")
	// ErrClosed: the consumer or bus was closed.
	ErrClosed = errors.New("closed")
)
