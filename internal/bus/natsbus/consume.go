package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"duly.dev/duly/internal/bus"
)

const (
	// askExpires is how long the server keeps a request for messages. A request that was
	// lost, as by a server that died, is made again after that and askGrace.
	askExpires = 3 * time.Second
	askGrace   = 2 * time.Second
	// maxBatch bounds one request, and so what can arrive at once.
	maxBatch = 1024
	// lookEvery is how often an idle consumer looks whether its stream is as it should be.
	lookEvery = 30 * time.Second
)

// consumer asks for messages of one topic, a batch at a time.
type consumer struct {
	bus   *Bus
	topic topic
	turns *bus.Turns // of Receive

	// Owned by who holds the turn:
	line   *line // nil while it is not known where to ask
	pauses *backoff.ExponentialBackOff
}

var _ bus.Consumer = (*consumer)(nil)

// Consume starts receiving the lane's messages. Stream and consumer are looked up, or
// made, by the first Receive.
func (b *Bus) Consume(_ context.Context, lane string) (bus.Consumer, error) {
	t, err := workTopic(b.options.Prefix, lane)
	if err != nil {
		return nil, err
	}
	return b.consume(t)
}

// ConsumeDead starts receiving notices, shared with all who do.
func (b *Bus) ConsumeDead(context.Context) (bus.Consumer, error) {
	return b.consume(deadTopic(b.options.Prefix))
}

func (b *Bus) consume(t topic) (bus.Consumer, error) {
	c := &consumer{bus: b, topic: t, turns: bus.NewTurns(), pauses: newBackoff()}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return nil, bus.ErrClosed
	default:
	}
	b.consumers[c] = struct{}{}
	return c, nil
}

// Receive asks the server for at most limit messages and returns as soon as it has
// given some.
func (c *consumer) Receive(ctx context.Context, limit int) ([]bus.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receiving at most %d messages: it must be at least 1", limit)
	}
	if err := c.turns.Take(ctx, nil); err != nil {
		return nil, err
	}
	defer c.turns.Give()
	for {
		if err := c.ended(ctx); err != nil {
			c.hangUp()
			return nil, err
		}
		if c.line == nil {
			if err := c.dial(ctx); err != nil {
				continue // it has logged and waited
			}
		}
		batch, err := c.line.fetch(ctx, c, min(limit, maxBatch))
		if c.ended(ctx) != nil {
			c.line.giveBack(batch)
			continue
		}
		if err != nil {
			c.hangUp()
		}
		if len(batch) > 0 {
			c.pauses.Reset()
			return c.handOut(batch), nil
		}
		if err != nil {
			c.trouble(ctx, err)
		}
	}
}

// ended is the error with which Receive ends, if it is to end.
func (c *consumer) ended(ctx context.Context) error { return c.turns.Ended(ctx, nil) }

// dial finds, or makes, the place where to ask.
func (c *consumer) dial(ctx context.Context) error {
	reconnected := c.bus.nextReconnect() // before looking: what changes later is noticed
	place, err := c.bus.ensure(ctx, c.topic, c.turns.Closed())
	if err == nil {
		c.bus.out.atMost(place.consumer.Config.AckWait)
		c.line, err = openLine(c.bus.conn, place.consumer.Stream, place.consumer.Name, reconnected)
	}
	if err != nil {
		c.trouble(ctx, err)
	}
	return err
}

// trouble logs what went wrong, if it is more than the reason to look again, and waits
// longer each time in a row, at most until the connection is there again.
func (c *consumer) trouble(ctx context.Context, err error) {
	if c.ended(ctx) != nil || errors.Is(err, errLookAgain) {
		return
	}
	reconnected := c.bus.nextReconnect()
	wait := c.pauses.NextBackOff()
	c.bus.options.Log.WarnContext(ctx, "cannot receive; trying again", "topic", c.topic.label, "error", err, "next_in", wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-reconnected:
	case <-ctx.Done():
	case <-c.turns.Closed():
	}
}

// handOut makes deliveries of what arrived.
func (c *consumer) handOut(batch []*nats.Msg) []bus.Delivery {
	out := make([]bus.Delivery, len(batch))
	for i, msg := range batch {
		d := &delivery{message: decodeMessage(msg), reply: msg.Reply}
		c.bus.out.hold(d)
		if meta, err := msg.Metadata(); err == nil && meta.NumDelivered > 1 {
			c.bus.metrics.redelivered.WithLabelValues(c.topic.label).Inc()
		}
		out[i] = d
	}
	return out
}

// Close stops receiving.
func (c *consumer) Close() error {
	c.end()
	return nil
}

func (c *consumer) end() {
	first := c.turns.Close()
	c.turns.Await() // the Receive that runs, if one does, sees it closed and returns
	defer c.turns.Give()
	if !first {
		return
	}
	c.hangUp()
	c.bus.mu.Lock()
	delete(c.bus.consumers, c)
	c.bus.mu.Unlock()
}

// hangUp gives up the line; what still arrives on it goes back to the server.
func (c *consumer) hangUp() {
	if c.line == nil {
		return
	}
	line := c.line
	c.line = nil
	c.bus.work.Go(line.close)
}

// errLookAgain ends the use of a line for a reason that needs no word and no pause.
var errLookAgain = errors.New("time to look whether the stream is as it should be")

// line is where the server sends what a consumer asked for.
type line struct {
	conn        *nats.Conn
	ask         string // the subject to ask on
	sub         *nats.Subscription
	arrived     chan *nats.Msg
	reconnected <-chan struct{}
	opened      time.Time
}

func openLine(conn *nats.Conn, stream, consumer string, reconnected <-chan struct{}) (*line, error) {
	l := &line{
		conn: conn, reconnected: reconnected, opened: time.Now(),
		ask:     "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		arrived: make(chan *nats.Msg, maxBatch+16), // a batch and the server's remarks
	}
	var err error
	if l.sub, err = conn.ChanSubscribe(conn.NewInbox(), l.arrived); err != nil {
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return l, nil
}

// question is a request for messages as JetStream's protocol has it. With both NoWait
// and Expires the server gives what is there, or waits for the first, and then ends
// the request: what was not there stays with it.
type question struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires"`
	NoWait  bool          `json:"no_wait"`
}

// fetch asks once and returns what came until the server ended the request. An error
// means that the line is of no more use; what came is returned all the same.
func (l *line) fetch(ctx context.Context, c *consumer, limit int) ([]*nats.Msg, error) {
	body, err := json.Marshal(question{Batch: limit, Expires: askExpires, NoWait: true})
	if err != nil {
		return nil, err
	}
	if err := l.conn.PublishRequest(l.ask, l.sub.Subject, body); err != nil {
		return nil, fmt.Errorf("asking for messages: %w", err)
	}
	timer := time.NewTimer(askExpires + askGrace)
	defer timer.Stop()
	var batch []*nats.Msg
	for {
		select {
		case msg := <-l.arrived:
			if msg.Reply == "" {
				return batch, l.remark(ctx, c, msg, len(batch))
			}
			if batch = append(batch, msg); len(batch) == limit {
				return batch, nil
			}
			timer.Reset(askGrace) // the rest is on its way
		case <-ctx.Done():
			return batch, ctx.Err()
		case <-c.turns.Closed():
			return batch, bus.ErrClosed
		case <-l.reconnected:
			return batch, errLookAgain
		case <-timer.C:
			return batch, errLookAgain // the request or its end was lost
		}
	}
}

// remark says what the server's word at the end of a request means for the line.
func (l *line) remark(ctx context.Context, c *consumer, msg *nats.Msg, got int) error {
	status, text := msg.Header.Get("Status"), msg.Header.Get("Description")
	switch {
	case status == "404": // it gave what was there
		return nil
	case status == "408" && text == "Requests Pending": // others asked before and get it
		return bus.Pause(ctx, 10*time.Millisecond, c.bus.closed)
	case status == "408": // nothing came
		c.pauses.Reset()
		if got == 0 && time.Since(l.opened) > lookEvery {
			return errLookAgain
		}
		return nil
	case status == "503":
		return errors.New("the consumer is gone or has no leader")
	default:
		return fmt.Errorf("the server says %s %s", status, text)
	}
}

// close ends the subscription and gives back what came in the meantime.
func (l *line) close() {
	if err := l.sub.Drain(); err != nil {
		return // the connection is closed
	}
	if err := l.conn.FlushTimeout(flushTimeout); err != nil {
		return // what came in the meantime comes again after AckWait
	}
	for {
		select {
		case msg := <-l.arrived:
			l.giveBack([]*nats.Msg{msg})
		default:
			return
		}
	}
}

// giveBack lets others have messages that were not handed out.
func (l *line) giveBack(messages []*nats.Msg) {
	for _, msg := range messages {
		if msg.Reply != "" {
			_ = l.conn.Publish(msg.Reply, ackAgain) // what is not heard comes again after AckWait
		}
	}
}
