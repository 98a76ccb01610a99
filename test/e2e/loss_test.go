package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// keep copies the storage as it is now, also of a running server: as a snapshot of its
// disk has it, what was not written out is not there.
func (b *broker) keep() (folder string) {
	b.t.Helper()
	folder = b.t.TempDir()
	// Files come and go under a running server; a copy that met one of these is made anew.
	require.Eventually(b.t, func() bool {
		return os.RemoveAll(folder) == nil && os.CopyFS(folder, os.DirFS(b.store)) == nil
	}, patience, 10*time.Millisecond)
	return folder
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

// flow has a scheduler, a dispatcher and two workers deliver many jobs, and calls lose when
// some have arrived and most have not.
func (r *rig) flow(lose func()) (schedules *process) {
	r.t.Helper()
	r.web.plans(func(v *visit) {
		v.act()
		elapse(time.Millisecond)
		v.answer(http.StatusOK)
	})
	schedules = r.one(scheduler)
	r.start(dispatcher, worker, worker)
	n := many()
	for i := range 20 {
		r.enqueue(r.jobs(deduped, "d"+strconv.Itoa(i), n/20)...)
	}
	r.await("jobs flow", func() bool { return r.web.total() > n/50 })
	lose()
	require.Less(r.t, r.web.total(), n, "most of them were still to come")
	return schedules
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
	schedules := r.flow(func() {
		conn, err := nats.Connect(b.server.URL())
		require.NoError(t, err)
		defer conn.Close()
		js, err := jetstream.New(conn)
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), r.streamOf(deduped)))
	})
	r.arrived()
	require.Positive(t, schedules.metric("duly_reemitted_total"), "it is told that the bus lost something")
}

// G2: the broker's storage is set back to what it was some seconds ago, as from a snapshot
// of its disk: it has forgotten what came since, and brings again what was done.
func TestG2BrokerRestoredFromASnapshotLosesNothing(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 0)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	r.flow(func() {
		old := b.keep()
		before := r.web.total()
		r.await("more was done since", func() bool { return r.web.total() > before+many()/100 })
		b.restart(func() { b.restore(old) })
	})
	r.arrived()
}

// G2: the broker's disk is full while jobs flow. Nothing more is announced, and nothing is
// dropped for it; when there is room again all of it arrives.
func TestG2FullBrokerIsBackPressure(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 64<<10)
	r := newRig(t, calm, servers{bus: b.server.URL()})
	r.flow(func() {
		b.restart(func() { b.most = 0 })
	})
	r.arrived()
}
