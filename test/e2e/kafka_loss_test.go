package e2e_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/pkg/job"
)

// What a Kafka can lose while jobs flow. Each of these Kafkas is a test's own.

// G2, C70: every topic is deleted by hand while jobs flow.
func TestG2EveryTopicOfKafkaDeletedWhileJobsFlowLosesNothing(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (address string){
		"in memory":    startKafkaInMemory,
		"Apache Kafka": func(t *testing.T) string { return startKafka(t, 1, 0).address() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := start(t)
			r := newRig(t, calm, servers{bus: "kafka://" + address + "?partitions=4"})
			f := r.flow(func(rest func()) {
				rest()
				r.await("everything is on the bus", func() bool { return r.relayed(deduped) })
				deleteTopics(t, address, r.config.Prefix)
			})
			r.arrived()
			f.lost()
			await(t, "it is told that topics were made anew", patience, func() bool {
				return f.dispatcher.metric("duly_bus_recreated_total")+f.workers[0].metric("duly_bus_recreated_total") > 0
			})
		})
	}
}

// G2: the broker's storage is set back to what it was some seconds ago, as from a snapshot
// of its disk: it has forgotten what came since, and brings again what was done.
func TestG2KafkaRestoredFromASnapshotLosesNothing(t *testing.T) {
	t.Parallel()
	k := startKafka(t, 1, 0)
	r := newRig(t, calm, servers{bus: k.url()})
	f := r.flow(func(rest func()) {
		old := keep(t, filepath.Join(k.folder, "1"))
		before := r.web.total()
		rest()
		r.await("more was done since, and the rest is on the bus", func() bool {
			return r.web.total() > before+many()/100 && r.relayed(deduped)
		})
		k.again(syscall.SIGKILL, func(storage string) {
			require.NoError(t, os.RemoveAll(storage))
			require.NoError(t, os.CopyFS(storage, os.DirFS(old)))
		})
	})
	r.arrived()
	f.lost()
}

// G2, C70: the broker loses its power, and with it what it had acknowledged and not written
// out: the newer half of every partition, cut in the middle of a record.
func TestG2KafkaWithoutItsAcknowledgedTailLosesNothing(t *testing.T) {
	t.Parallel()
	k := startKafka(t, 1, 0)
	r := newRig(t, calm, servers{bus: k.url()})
	f := r.flow(func(rest func()) {
		rest()
		r.await("everything is on the bus", func() bool { return r.relayed(deduped) })
		k.again(syscall.SIGKILL, func(storage string) {
			for _, file := range logsOf(t, storage, r.config.Prefix+".*") {
				cutTail(t, file)
			}
		})
	})
	r.arrived()
	f.lost()
}

// G2, C71: the broker's disk is full, so that it gives up, while jobs flow. What is
// announced meanwhile waits in the ledger; when there is room again all of it arrives.
func TestG2FullKafkaIsBackPressure(t *testing.T) {
	t.Parallel()
	const mostKiB = 16 << 10 // a bit more than what Kafka makes a file of before it has a record
	k := startKafka(t, 1, mostKiB)
	r := newRig(t, calm, servers{bus: k.url()})
	f := r.flow(func(rest func()) {
		k.fill()
		rest()
		r.refused()
		k.most = 0
		k.again(syscall.SIGKILL, func(string) {})
	})
	r.arrived()
	require.Zero(t, f.scheduler.metric("duly_reemitted_total"), "nothing was lost, and so nothing is announced again")
}

// fill writes on a topic of somebody else's until the broker has no room.
func (k *kafka) fill() {
	k.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.address()), kgo.RecordDeliveryTimeout(10*time.Second), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(k.t, err)
	defer client.Close()
	_, err = k.admin().CreateTopic(k.t.Context(), 1, 1, nil, "ballast")
	require.NoError(k.t, err)
	await(k.t, "there is no room", patience, func() bool {
		ctx, cancel := context.WithTimeout(k.t.Context(), 10*time.Second)
		defer cancel()
		return client.ProduceSync(ctx, &kgo.Record{Topic: "ballast", Value: make([]byte, 900<<10)}).FirstErr() != nil
	})
}

// G2: of three brokers the one is killed that leads, and another once the first is back.
// What has two copies is lost with neither.
func TestG2LeaderOfThreeKafkasKilledLosesNothing(t *testing.T) {
	t.Parallel()
	k := startKafka(t, 3, 0)
	r := newRig(t, calm, servers{bus: k.url()})
	f := r.flow(func(rest func()) {
		admin, topic := k.admin(), r.config.Prefix+".work."+deduped
		leaders := func() (led [4]int) { // partitions, by the number of the broker
			topics, err := admin.ListTopics(t.Context(), topic)
			if err == nil {
				for _, p := range topics[topic].Partitions {
					require.Len(t, p.Replicas, 3)
					if p.Leader > 0 {
						led[p.Leader]++
					}
				}
			}
			return led
		}
		kill := func(n int) {
			require.Positive(t, leaders()[n], "it leads")
			before := r.web.total()
			k.brokers[n].kill()
			r.await("others lead, and jobs flow", func() bool {
				led := leaders()
				return led[n] == 0 && led[1]+led[2]+led[3] == 4 && r.web.total() > before+many()/50
			})
		}
		kill(2)
		rest()
		k.start(2)
		r.await("it has caught up", func() bool {
			topics, err := admin.ListTopics(t.Context(), topic)
			if err != nil {
				return false
			}
			for _, p := range topics[topic].Partitions {
				if len(p.ISR) < 3 {
					return false
				}
			}
			return true
		})
		kill(3)
	})
	r.arrived()
	require.Zero(t, f.scheduler.metric("duly_reemitted_total"), "nothing was lost, and so nothing is announced again")
}

// G2: a disk has damaged what was stored: the batches are set aside, and the ledger finds
// out which jobs were in them.
func TestG2DamagedBatchesOfKafkaAreSetAsideAndTheirJobsArrive(t *testing.T) {
	t.Parallel()
	k := startKafka(t, 1, 0)
	r := newRig(t, calm, servers{bus: k.url()})
	r.start(scheduler, dispatcher)
	r.enqueue(r.jobs(deduped, "d", 400)...)
	r.await("everything is on the bus", func() bool { return r.relayed(deduped) })
	damaged := 0
	k.again(syscall.SIGTERM, func(storage string) { // or it would find the damage when it starts
		for _, file := range logsOf(t, storage, r.config.Prefix+".work."+deduped+"-*") {
			damaged += damage(t, file)
		}
	})
	require.Positive(t, damaged)
	w := r.one(worker)
	await(t, "everything arrives", judgement, r.settled)
	require.Equal(t, map[job.State]int{job.Delivered: 400}, r.account())
	require.Equal(t, damaged, r.rejects())
	require.InDelta(t, damaged, w.metric("duly_worker_rejected_messages_total"), 0)
	require.InDelta(t, damaged, w.metric("duly_bus_damaged_batches_total"), 0)
	require.Positive(t, r.processes[0].metric("duly_reemitted_total"))
}

// damage changes a byte of each batch of references in a file of records, and returns how
// many there were.
func damage(t *testing.T, file string) (n int) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	const lengthAt, bodyAt = 8, 12 // of a batch
	for rest := content; len(rest) > bodyAt; {
		size := min(len(rest), bodyAt+int(binary.BigEndian.Uint32(rest[lengthAt:])))
		if at := bytes.Index(rest[:size], []byte("refs")); at >= 0 { // as it is, also where the batch is compressed
			rest[at] ^= 1
			n++
		}
		rest = rest[size:]
	}
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return n
}
