package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/pkg/job"
)

// many is how many jobs flow while the bus loses something; fewer where the race
// detector makes everything slow.
func many() int {
	if raceDetector {
		return 2_000
	}
	return 20_000
}

// broker is a NATS server of one test, whose storage the test may tamper with.
type broker struct {
	t      *testing.T
	store  string
	server *devstack.NATS
	most   int64
}

func startBroker(t *testing.T, most int64) *broker {
	t.Helper()
	b := &broker{t: t, store: t.TempDir(), most: most}
	b.start(0)
	t.Cleanup(func() { require.NoError(t, b.server.Stop()) })
	return b
}

func (b *broker) start(port int) {
	b.t.Helper()
	var err error
	b.server, err = devstack.StartNATS(devstack.NATSOptions{StoreDir: b.store, Port: port, MaxStore: b.most})
	require.NoError(b.t, err)
}

// restart stops the server, lets the test do to its storage what it likes, and starts it.
func (b *broker) restart(tamper func()) {
	b.t.Helper()
	port := b.server.Port()
	require.NoError(b.t, b.server.Stop())
	tamper()
	b.start(port)
}

// restore puts a copy in the place of the storage.
func (b *broker) restore(folder string) {
	b.t.Helper()
	b.empty()
	require.NoError(b.t, os.CopyFS(b.store, os.DirFS(folder)))
}

func (b *broker) empty() {
	b.t.Helper()
	entries, err := os.ReadDir(b.store)
	require.NoError(b.t, err)
	for _, e := range entries {
		require.NoError(b.t, os.RemoveAll(filepath.Join(b.store, e.Name())))
	}
}

// keep copies a folder of a server as it is now, also of a running one: as a snapshot of
// its disk has it, what was not written out is not there.
func keep(t *testing.T, storage string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	// Files come and go under a running server; a copy that met one of these is made anew.
	require.Eventually(t, func() bool {
		return os.RemoveAll(folder) == nil && os.CopyFS(folder, os.DirFS(storage)) == nil
	}, patience, 10*time.Millisecond)
	return folder
}

// fleet is who delivers many jobs.
type fleet struct {
	t                     *testing.T
	scheduler, dispatcher *process
	workers               []*process
}

// flow has a fleet deliver many jobs, and calls lose when some have arrived and most have
// not. Half of them are enqueued when lose calls rest. Meanwhile the receiver takes its
// time, so that what is on the bus stays there.
func (r *rig) flow(lose func(rest func())) fleet {
	r.t.Helper()
	var busy atomic.Bool
	busy.Store(true)
	r.web.plans(func(v *visit) {
		v.act()
		if busy.Load() {
			elapse(500 * time.Millisecond)
		}
		v.answer(http.StatusOK)
	})
	f := fleet{r.t, r.one(scheduler), r.one(dispatcher), []*process{r.one(worker), r.one(worker)}}
	n := many()
	half := func(name string) {
		for i := range 10 {
			r.enqueue(r.jobs(deduped, name+strconv.Itoa(i), n/20)...)
		}
	}
	half("d")
	r.await("jobs flow", func() bool { return r.web.total() > n/50 })
	lose(func() { half("rest") })
	require.Less(r.t, r.web.total(), n, "most of them were still to come")
	busy.Store(false)
	return f
}

// refused waits until the broker refuses announcements, which the ledger keeps, and says so
// by a metric.
func (r *rig) refused() {
	r.t.Helper()
	for _, p := range r.processes {
		if strings.HasPrefix(p.name, dispatcher) {
			r.await("the broker refuses", func() bool { return !r.relayed(deduped) && p.metric("duly_bus_publish_errors_total") > 0 })
		}
	}
}

// lost requires that it is told that the bus lost something: the metric of an alert.
func (f fleet) lost() {
	f.t.Helper()
	require.Positive(f.t, f.scheduler.metric("duly_reemitted_total"), "it is told that the bus lost something")
}

// arrived requires that every job of flow was delivered, in one attempt each, and by one
// request each: what the bus lost, and what it brought twice, cost neither.
func (r *rig) arrived() {
	r.t.Helper()
	await(r.t, "everything arrives", judgement, func() bool { return r.web.total() >= many() && r.settled() })
	require.Equal(r.t, map[job.State]int{job.Delivered: many()}, r.account())
	asked, _ := r.web.seen()
	for key, n := range asked {
		require.Equal(r.t, 1, n, "%s was sent again", key)
	}
}

// metric is the sum of a metric over its labels.
func (p *process) metric(name string) (sum float64) {
	p.t.Helper()
	code, metrics := p.admin("/metrics")
	require.Equal(p.t, http.StatusOK, code)
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		require.NoError(p.t, err)
		sum += value
	}
	return sum
}

// G2, C70: a lane's whole stream is deleted by hand while jobs flow.
func TestG2StreamDeletedWhileJobsFlowLosesNothing(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 0)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	f := r.flow(func(rest func()) {
		rest()
		r.await("everything is on the bus", func() bool { return r.relayed(deduped) })
		conn, err := nats.Connect(b.server.URL())
		require.NoError(t, err)
		defer conn.Close()
		js, err := jetstream.New(conn)
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), r.streamOf(deduped)))
	})
	r.arrived()
	f.lost()
}

// G2: the broker's storage is set back to what it was some seconds ago, as from a snapshot
// of its disk: it has forgotten what came since, and brings again what was done.
func TestG2BrokerRestoredFromASnapshotLosesNothing(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 0)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	f := r.flow(func(rest func()) {
		old := keep(t, b.store)
		before := r.web.total()
		rest()
		r.await("more was done since, and the rest is on the bus", func() bool {
			return r.web.total() > before+many()/100 && r.relayed(deduped)
		})
		b.restart(func() { b.restore(old) })
	})
	r.arrived()
	f.lost()
}

// G2, C70: the broker loses its power, and with it what it had acknowledged and not written
// out: the newer half of what the lane's stream has, cut in the middle of a message.
func TestG2BrokerWithoutItsAcknowledgedTailLosesNothing(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 0)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	f := r.flow(func(rest func()) {
		rest()
		r.await("everything is on the bus", func() bool { return r.relayed(deduped) })
		crashed := keep(t, b.store) // nothing is written out at the end that did not come
		stored, err := filepath.Glob(filepath.Join(crashed, "jetstream", "*", "streams", r.streamOf(deduped), "msgs", "*.blk"))
		require.NoError(t, err)
		require.NotEmpty(t, stored)
		for _, file := range stored {
			cutTail(t, file)
		}
		b.restart(func() { b.restore(crashed) })
	})
	r.arrived()
	f.lost()
}

// cutTail cuts a file to its older half, as if the rest had never been written out.
func cutTail(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()/2))
}

// G2: the broker's disk is full while jobs flow. Nothing more is announced, and nothing is
// dropped for it; when there is room again all of it arrives.
func TestG2FullBrokerIsBackPressure(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 64<<10)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	f := r.flow(func(rest func()) {
		rest()
		r.refused()
		b.restart(func() { b.most = 0 })
	})
	r.arrived()
	require.Zero(t, f.scheduler.metric("duly_reemitted_total"), "nothing was lost, and so nothing is announced again")
}
