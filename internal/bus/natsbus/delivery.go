package natsbus

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"duly.dev/duly/internal/bus"
)

// What a consumer tells the server about a message, as JetStream's protocol has it.
var (
	ackDone     = []byte("+ACK")
	ackAgain    = []byte("-NAK")
	ackProgress = []byte("+WPI")
)

// delivery is a message that the server handed out to us.
type delivery struct {
	message bus.Message
	reply   string // where the server listens for what becomes of it
	keeper  *keeper
}

// Message is the message as it was received.
func (d *delivery) Message() bus.Message { return d.message }

// Ack settles the message. It is sent, not confirmed: if the server does not hear
// it, the message comes again, and its references are stale.
func (d *delivery) Ack() error { return d.keeper.settle(d, ackDone) }

// Release gives the message back for delivery at once.
func (d *delivery) Release() error { return d.keeper.settle(d, ackAgain) }

// keeper tells the server of every delivery that is out that it is in progress.
type keeper struct {
	conn    *nats.Conn
	changed chan time.Duration // a shorter interval
	done    chan struct{}

	mu    sync.Mutex
	out   map[*delivery]struct{} // nil once stopped
	every time.Duration
}

// beatsPerWait is how many signs of life fit into an AckWait, so that one or two may
// be late or lost.
const beatsPerWait = 4

func newKeeper(conn *nats.Conn, ackWait time.Duration) *keeper {
	return &keeper{
		conn:    conn,
		changed: make(chan time.Duration, 1),
		done:    make(chan struct{}),
		out:     map[*delivery]struct{}{},
		every:   ackWait / beatsPerWait,
	}
}

// atMost shortens the interval for a consumer that waits less than is configured here.
func (k *keeper) atMost(ackWait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if every := ackWait / beatsPerWait; every > 0 && every < k.every {
		k.every = every
		select {
		case <-k.changed:
		default:
		}
		k.changed <- every
	}
}

// run beats until stop.
func (k *keeper) run() {
	k.mu.Lock()
	every := k.every
	k.mu.Unlock()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			k.beat()
		case every := <-k.changed:
			ticker.Reset(every)
		case <-k.done:
			return
		}
	}
}

func (k *keeper) beat() {
	if !k.conn.IsConnected() {
		return // the client would only store it up
	}
	k.mu.Lock()
	replies := make([]string, 0, len(k.out))
	for d := range k.out {
		replies = append(replies, d.reply)
	}
	k.mu.Unlock()
	for _, reply := range replies {
		_ = k.conn.Publish(reply, ackProgress) // the next one tries again
	}
}

// hold takes charge of a delivery.
func (k *keeper) hold(d *delivery) {
	d.keeper = k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.out != nil {
		k.out[d] = struct{}{}
	}
}

// settle sends what became of a delivery, once.
func (k *keeper) settle(d *delivery, what []byte) error {
	k.mu.Lock()
	_, out := k.out[d]
	stopped := k.out == nil
	delete(k.out, d)
	k.mu.Unlock()
	if stopped {
		return bus.ErrClosed
	}
	if !out {
		return nil
	}
	return k.conn.Publish(d.reply, what)
}

// stop ends the signs of life and gives back what is out.
func (k *keeper) stop() {
	k.mu.Lock()
	out := k.out
	k.out = nil
	k.mu.Unlock()
	close(k.done)
	if !k.conn.IsConnected() {
		return
	}
	for d := range out {
		_ = k.conn.Publish(d.reply, ackAgain) // what is not heard comes again after AckWait
	}
}
