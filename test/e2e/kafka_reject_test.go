package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// rejects counts what was set aside.
func (r *rig) rejects() (n int) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(context.Background(), `SELECT count(*) FROM duly.reject`).Scan(&n))
	return n
}

// foreign is a message as somebody else sends it on the topic of a lane.
type foreign struct {
	headers map[string]string // of CloudEvents, by their names without a prefix
	body    []byte
}

// foreigners are what may lie on a bus that others can write to.
func foreigners() []foreign {
	event := func(kind, id string) map[string]string {
		return map[string]string{"specversion": "1.0", "source": "elsewhere", "type": kind, "id": id}
	}
	var many strings.Builder
	for n := range bus.MaxRefs {
		fmt.Fprintf(&many, "[%d,1,1],", n+1)
	}
	const cut = `{"kind":"deduped","lane":"deduped","refs":[[1,1`
	return []foreign{
		{nil, []byte("not even an event")},
		{nil, []byte(cut)},
		{event("com.example.order.created", "order-1842"), []byte(`{"order": 1842}`)},
		{event("duly.work", "undecodable"), []byte{0, 0xff, 0xfe}},
		{event("duly.work", "truncated"), []byte(cut)},
		{event("duly.work", "oversized"), fmt.Appendf(nil, `{"kind":"deduped","lane":"deduped","refs":[%s[1,1,1]],"outbox":1}`, many.String())},
		{event("duly.work", "large"), bytes.Repeat([]byte("x"), 900<<10)},
		{event("duly.mark", ""), []byte(`{"lane":"deduped","mark":-7}`)},
		{event("duly.mark", ""), []byte(`{"lane":"plain","mark":7}`)},
	}
}

// Bad input: what nobody understands is set aside, each with its row, and what is behind it
// moves, on every bus.
func TestWhatNobodyUnderstandsIsSetAsideOnNATSAndKafka(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string){
		"NATS":            func(*testing.T) string { return shared.bus.URL() },
		"Kafka in memory": func(t *testing.T) string { return "kafka://" + startKafkaInMemory(t) + "?partitions=1" },
		"Apache Kafka":    func(t *testing.T) string { return "kafka://" + startKafka(t, 1, 0).address() + "?partitions=1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, calm, servers{bus: start(t)})
			r.start(scheduler, dispatcher)
			r.enqueue(r.jobs(deduped, "before", 20)...)
			r.await("the topics are there", func() bool { return r.relayed(deduped) })
			all := foreigners()
			on := "work." + deduped
			for range 2 { // a copy makes no row of its own
				for _, f := range all {
					r.send(on, f)
				}
			}
			delayed := 0
			if name != "NATS" { // where delays wait in the same stream
				delayed = 1
				r.send("retry.1s", foreign{nil, []byte("not a delay")})
			}
			r.enqueue(r.jobs(deduped, "behind", 20)...)
			w := r.one(worker)
			require.Equal(t, map[job.State]int{job.Delivered: 40}, r.account())
			r.await("each is kept once", func() bool { return r.rejects() == len(all)+delayed })
			require.InDelta(t, 2*len(all), w.metric("duly_worker_rejected_messages_total"), 0)
			var unsaid int
			require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM duly.reject WHERE source <> 'lane deduped' OR error = ''`).Scan(&unsaid))
			require.Equal(t, delayed, unsaid, "where from, and why")
			for _, f := range all {
				var kept int
				require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM duly.reject WHERE body = $1`, f.body).Scan(&kept))
				require.Positive(t, kept, "byte by byte: %.60q", f.body)
			}
		})
	}
}

// send publishes a message on a topic of the rig.
func (r *rig) send(topic string, f foreign) {
	r.t.Helper()
	topic = r.config.Prefix + "." + topic
	if address, ok := strings.CutPrefix(r.bus, "kafka://"); ok {
		address, _, _ = strings.Cut(address, "?")
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...))
		require.NoError(r.t, err)
		defer client.Close()
		record := &kgo.Record{Topic: topic, Value: f.body}
		for name, value := range f.headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: "ce_" + name, Value: []byte(value)})
		}
		require.NoError(r.t, client.ProduceSync(r.t.Context(), record).FirstErr())
		return
	}
	conn, err := nats.Connect(r.bus)
	require.NoError(r.t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(r.t, err)
	msg := &nats.Msg{Subject: topic, Data: f.body, Header: nats.Header{}}
	for name, value := range f.headers {
		msg.Header["ce-"+name] = []string{value}
	}
	_, err = js.PublishMsg(r.t.Context(), msg)
	require.NoError(r.t, err)
}
