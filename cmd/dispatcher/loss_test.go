package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

// C70: a real stream is purged, and another time deleted, with acknowledged messages
// in it. The next mark comes through, what nobody took is judged lost, and every job
// arrives.
func TestC70PurgedAndDeletedStreamsLoseNoJob(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	pool := ledgertest.New(t)
	l := ledger.New(pool)
	parsed, err := app.ParseConfig("duly.yaml", []byte(config))
	require.NoError(t, err)
	require.NoError(t, l.SyncKinds(t.Context(), parsed.Kinds()))
	b, err := natsbus.Connect(t.Context(), server.URL(), natsbus.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })

	d, err := dispatch.New(dispatch.Options{
		Ledger: l, Bus: b,
		MarkEvery: 50 * time.Millisecond, MarkMost: time.Second, // or a slow machine lets a lost mark stand for a minute
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = d.Run(ctx) }() // ctx's error
	t.Cleanup(func() { cancel(); <-ended })

	for name, lose := range map[string]func(*testing.T, jetstream.JetStream, string){
		"purged": func(t *testing.T, js jetstream.JetStream, stream string) {
			t.Helper()
			s, err := js.Stream(ctx, stream)
			require.NoError(t, err)
			require.NoError(t, s.Purge(ctx))
		},
		"deleted": func(t *testing.T, js jetstream.JetStream, stream string) {
			t.Helper()
			require.NoError(t, js.DeleteStream(ctx, stream))
		},
	} {
		made, err := l.Enqueue(ctx, pool, []job.Spec{
			{Kind: "reminder", Key: name + "-1", Payload: []byte(`{}`)},
			{Kind: "reminder", Key: name + "-2", Payload: []byte(`{}`)},
		})
		require.NoError(t, err)
		relayed(ctx, t, l)
		js := jetStream(t, server.URL())
		for _, stream := range workStreams(ctx, t, js) {
			lose(t, js, stream)
		}
		arrive(ctx, t, l, b, []int64{made[0].Job, made[1].Job}, func() {
			_, err := pool.Exec(ctx, `UPDATE duly.mark SET passed_at = passed_at - interval '2 min' WHERE passed_at IS NOT NULL`)
			require.NoError(t, err)
		})
	}
	ledgertest.Agrees(t, pool)
}

// relayed waits until the outbox is empty.
func relayed(ctx context.Context, t *testing.T, l *ledger.Ledger) {
	t.Helper()
	require.Eventually(t, func() bool {
		depth, err := l.OutboxDepth(ctx, app.DefaultLane, 1)
		return err == nil && depth == 0
	}, time.Minute, 10*time.Millisecond)
}

// arrive plays the worker and the judge until the jobs came, at an emission that is not
// their first.
func arrive(ctx context.Context, t *testing.T, l *ledger.Ledger, b bus.Bus, missing []int64, ripen func()) {
	t.Helper()
	consumer, err := b.Consume(ctx, app.DefaultLane)
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	for len(missing) > 0 {
		got, err := consumer.Receive(ctx, 10)
		require.NoError(t, err)
		for _, d := range got {
			m := d.Message()
			if m.Type == bus.TypeMark {
				mark, err := bus.DecodeMark(m.Body)
				require.NoError(t, err)
				require.NoError(t, l.PassMark(ctx, mark.Lane, m.Partition, mark.Number))
				ripen()
				_, _, err = l.Judge(ctx, app.DefaultLane, time.Hour, 100)
				require.NoError(t, err)
			} else {
				envelope, err := bus.DecodeEnvelope(m.Body)
				require.NoError(t, err)
				for _, r := range envelope.Refs {
					missing = slices.DeleteFunc(missing, func(id int64) bool { return r.Emission > 1 && r.Job == id })
				}
			}
			require.NoError(t, d.Ack())
		}
	}
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// workStreams are the streams that hold messages of lanes.
func workStreams(ctx context.Context, t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	var names []string
	listed := js.ListStreams(ctx)
	for info := range listed.Info() {
		if slices.ContainsFunc(info.Config.Subjects, func(s string) bool { return s == "duly.work."+app.DefaultLane }) {
			names = append(names, info.Config.Name)
		}
	}
	require.NoError(t, listed.Err())
	require.NotEmpty(t, names)
	return names
}
