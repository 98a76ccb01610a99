package natsbus_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/pkg/job"
)

const refsPerMessage = 32

func packed(first int64, n int) []bus.Message {
	out := make([]bus.Message, n)
	for i := range out {
		e := bus.Envelope{Kind: "reminder", Lane: "mail"}
		for r := range int64(refsPerMessage) {
			id := first + int64(i)*refsPerMessage + r
			e.Refs = append(e.Refs, job.Ref{Job: id, Generation: 1, Emission: 1})
			e.Outbox = append(e.Outbox, id)
		}
		out[i] = e.Message()
	}
	return out
}

func startBench(b *testing.B, server devstack.NATSOptions, options natsbus.Options) *natsbus.Bus {
	b.Helper()
	server.StoreDir = b.TempDir()
	running, err := devstack.StartNATS(server)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, running.Stop()) })
	c, err := natsbus.Connect(b.Context(), running.URL(), options)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	require.NoError(b, c.Ensure(b.Context(), []string{"mail"}))
	return c
}

// BenchmarkPublish publishes 64 messages of 32 references a call.
func BenchmarkPublish(b *testing.B) {
	for _, always := range []bool{false, true} {
		for _, atomic := range []bool{false, true} {
			b.Run(fmt.Sprintf("sync_always=%v/atomic=%v", always, atomic), func(b *testing.B) {
				c := startBench(b, devstack.NATSOptions{SyncAlways: always}, natsbus.Options{AtomicBatches: atomic})
				next := int64(1)
				for b.Loop() {
					batch := packed(next, 64)
					requireStored(b, c.Publish(b.Context(), batch))
					next += 64 * refsPerMessage
				}
				b.ReportMetric(float64(next-1)/b.Elapsed().Seconds(), "refs/s")
			})
		}
	}
}

// BenchmarkReceive receives and acknowledges messages of 32 references, at most limit a call.
func BenchmarkReceive(b *testing.B) {
	for _, limit := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			c := startBench(b, devstack.NATSOptions{}, natsbus.Options{})
			consumer, err := c.Consume(b.Context(), "mail")
			require.NoError(b, err)
			const total = 2048
			var received int
			for b.Loop() {
				b.StopTimer()
				requireStored(b, c.Publish(b.Context(), packed(int64(received*refsPerMessage+1), total)))
				b.StartTimer()
				for got := 0; got < total; {
					batch, err := consumer.Receive(b.Context(), limit)
					require.NoError(b, err)
					for _, d := range batch {
						require.NoError(b, d.Ack())
					}
					got += len(batch)
				}
				received += total
			}
			b.ReportMetric(float64(received*refsPerMessage)/b.Elapsed().Seconds(), "refs/s")
		})
	}
}

// BenchmarkRoundTrip is the time from Publish to Receive of one message to an idle worker.
func BenchmarkRoundTrip(b *testing.B) {
	c := startBench(b, devstack.NATSOptions{}, natsbus.Options{})
	consumer, err := c.Consume(b.Context(), "mail")
	require.NoError(b, err)
	sent, came := make(chan time.Time), make(chan time.Duration)
	go func() {
		defer close(came)
		for at := range sent {
			batch, err := consumer.Receive(b.Context(), 32)
			if err != nil {
				b.Errorf("receiving: %v", err)
				return
			}
			for _, d := range batch {
				_ = d.Ack()
			}
			came <- time.Since(at)
		}
	}()
	next := int64(1)
	for b.Loop() {
		sent <- time.Now()
		requireStored(b, c.Publish(b.Context(), packed(next, 1)))
		<-came
		next += refsPerMessage
	}
	close(sent)
	<-came
}

// BenchmarkDelay is how late delayed messages come: 1,000 at random times of 3 s.
func BenchmarkDelay(b *testing.B) {
	c := startBench(b, devstack.NATSOptions{}, natsbus.Options{})
	consumer, err := c.Consume(b.Context(), "mail")
	require.NoError(b, err)
	const n = 1000
	var late []time.Duration
	next := int64(1)
	for b.Loop() {
		var messages []bus.Message
		for range n {
			m := workOf(next, time.Now().Add(time.Second+rand.N(3*time.Second)))
			messages = append(messages, m)
			next++
		}
		requireStored(b, c.Publish(b.Context(), messages))
		for got := 0; got < n; {
			batch, err := consumer.Receive(b.Context(), 64)
			require.NoError(b, err)
			now := time.Now()
			for _, d := range batch {
				late = append(late, now.Sub(d.Message().At))
				require.NoError(b, d.Ack())
			}
			got += len(batch)
		}
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Milliseconds()), "ms-late-p50")
	b.ReportMetric(float64(late[len(late)*99/100].Milliseconds()), "ms-late-p99")
	b.ReportMetric(float64(late[len(late)-1].Milliseconds()), "ms-late-max")
}
