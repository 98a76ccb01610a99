package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/pkg/job"
)

// judgement bounds how long the loss of a bus takes to be noticed and repaired: marks
// every 10 s, and 60 s of certainty after one has passed.
const judgement = 4 * time.Minute

// G2, C70: the bus forgets everything that it had acknowledged. The ledger notices, and
// announces what was lost, and only that.
func TestG2LossOfTheBusLosesNothing(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	server, err := devstack.StartNATS(devstack.NATSOptions{StoreDir: store})
	require.NoError(t, err)
	port := server.Port()
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	r := newRig(t, calm, servers{bus: server.URL()})
	r.start(scheduler, dispatcher)
	first := r.one(worker)
	r.enqueue(r.jobs(deduped, "before", 5)...)
	r.await("jobs flow", r.in(job.Delivered, 5))
	first.stop()
	r.enqueue(append(r.jobs(plain, "p", 40), r.jobs(deduped, "d", 40)...)...)
	r.await("everything is on the bus", func() bool { return r.relayed(plain) && r.relayed(deduped) })
	require.Positive(t, r.waitingOnBus())

	require.NoError(t, server.Stop())
	entries, err := os.ReadDir(store)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(store, e.Name())))
	}
	server, err = devstack.StartNATS(devstack.NATSOptions{StoreDir: store, Port: port})
	require.NoError(t, err)
	require.Equal(t, 80, r.states()[job.Ready], "what was lost waits, and nobody knows yet")

	r.start(worker)
	await(t, "what was lost is announced anew", judgement, r.settled)
	require.Equal(t, map[job.State]int{job.Delivered: 85}, r.account())
	asked, _ := r.web.seen()
	for key, n := range asked {
		require.Equal(t, 1, n, "%s was sent again", key)
	}
}

// relayed reports whether everything that the lane's outbox holds was announced.
func (r *rig) relayed(lane string) bool {
	r.t.Helper()
	depth, err := r.ledger.OutboxDepth(r.t.Context(), lane, 1)
	require.NoError(r.t, err)
	return depth == 0
}

// G2: the bus is restarted, with what it has stored, while jobs flow.
func TestG2RestartOfTheBusLosesNothing(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	server, err := devstack.StartNATS(devstack.NATSOptions{StoreDir: store})
	require.NoError(t, err)
	port := server.Port()
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	r := newRig(t, calm, servers{bus: server.URL()})
	r.web.plans(func(v *visit) {
		v.act()
		elapse(10 * time.Millisecond)
		v.answer(http.StatusOK)
	})
	r.start(scheduler, dispatcher, worker)
	for round := range 3 {
		before := r.web.total()
		name := strconv.Itoa(round)
		r.enqueue(append(r.jobs(plain, "p"+name, 60), r.jobs(deduped, "d"+name, 60)...)...)
		r.await("jobs flow", func() bool { return r.web.total() > before+10 })
		require.NoError(t, server.Stop())
		r.enqueue(append(r.jobs(plain, "away-p"+name, 20), r.jobs(deduped, "away-d"+name, 20)...)...)
		server, err = devstack.StartNATS(devstack.NATSOptions{StoreDir: store, Port: port})
		require.NoError(t, err)
	}
	require.Equal(t, map[job.State]int{job.Delivered: 480}, r.account())
	for _, g := range r.generations() {
		require.Equal(t, int32(1), g.Attempt, "%s: the trouble of the bus burned an attempt", g)
	}
}

// waitingOnBus counts the messages that wait on the rig's lanes.
func (r *rig) waitingOnBus() (n uint64) {
	r.t.Helper()
	conn, err := nats.Connect(r.bus)
	require.NoError(r.t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(r.t, err)
	for _, lane := range r.config.LaneNames() {
		stream, err := js.Stream(r.t.Context(), r.streamOf(lane))
		if err != nil {
			continue // not made yet
		}
		info, err := stream.Info(r.t.Context(), jetstream.WithSubjectFilter(r.config.Prefix+".work."+lane))
		require.NoError(r.t, err)
		n += info.State.Subjects[r.config.Prefix+".work."+lane]
	}
	return n
}

// streamOf is the name of a lane's stream, as operators see it.
func (r *rig) streamOf(lane string) string { return r.config.Prefix + "_work_" + lane }

// C71: a stream that would drop unacknowledged work is refused at the start, by the name
// of the setting.
func TestC71UnsafeStreamIsRefused(t *testing.T) {
	t.Parallel()
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"max_msgs":  func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"max_bytes": func(c *jetstream.StreamConfig) { c.MaxBytes = 100 << 10 },
		"max_age":   func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"retention": func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy },
		"storage":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, calm, servers{})
			conn, err := nats.Connect(r.bus)
			require.NoError(t, err)
			t.Cleanup(conn.Close)
			js, err := jetstream.New(conn)
			require.NoError(t, err)
			config := jetstream.StreamConfig{
				Name: r.streamOf(plain), Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true, AllowRollup: true,
				Subjects: []string{r.config.Prefix + ".work." + plain, r.config.Prefix + ".retry." + plain + ".*"},
			}
			change(&config)
			_, err = js.CreateStream(t.Context(), config)
			require.NoError(t, err)
			for _, name := range []string{dispatcher, worker} {
				p := r.startWith(name)
				p.expendable = true
				require.NotZero(t, p.exit(), "%s", name)
				require.Contains(t, p.log.String(), setting, "%s", name)
				require.Contains(t, p.log.String(), r.streamOf(plain), "%s", name)
			}
		})
	}
}

// C48: what a killed dispatcher was relaying is taken over within seconds.
func TestC48KilledDispatchersTopicsAreTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.start(scheduler, worker)
	first := r.one(dispatcher)
	first.says("relaying the topic from now on")
	second := r.one(dispatcher)
	stop, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			name := strconv.Itoa(n)
			if err := r.tryEnqueue(t.Context(), append(r.jobs(plain, "p"+name, 3), r.jobs(deduped, "d"+name, 3)...)...); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	r.await("jobs flow", func() bool { return r.web.total() > 100 })
	first.kill()
	killed := r.web.total()
	second.says("relaying the topic from now on")
	r.await("jobs flow again", func() bool { return r.web.total() > killed+100 })
	close(stop)
	<-produced
	states := r.account()
	require.Equal(t, map[job.State]int{job.Delivered: len(r.generations())}, states)
}
