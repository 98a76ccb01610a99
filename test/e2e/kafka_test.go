package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// realKafka says that an Apache Kafka can be run here, as make loss does.
const realKafka = "DULY_TEST_KAFKA"

// needsRealKafka skips a test where none can be run.
func needsRealKafka(t *testing.T) {
	t.Helper()
	if os.Getenv(realKafka) == "" {
		t.Skip("it runs an Apache Kafka of its own: set " + realKafka + ", and have Java and Maven") //nolint:forbidigo // CI sets it, and runs them
	}
}

// kafkaScript runs brokers.
const kafkaScript = "../../scripts/kafka"

// fetchKafka fetches what they need, once a run.
var fetchKafka = sync.OnceValue(func() error {
	if output, err := exec.Command(kafkaScript, "fetch").CombinedOutput(); err != nil {
		return fmt.Errorf("fetching Kafka: %w\n%s", err, output)
	}
	return nil
})

// kafka is an Apache Kafka of one test, which may kill its brokers and tamper with their
// storage.
type kafka struct {
	t       *testing.T
	folder  string
	port    int
	brokers []*process // by their numbers, from 1; the first is the controller too
	most    int        // the largest that a file may grow, in KiB; 0 for no bound
	started int
}

// startKafka starts a Kafka that ends with the test.
func startKafka(t *testing.T, brokers, most int) *kafka {
	t.Helper()
	needsRealKafka(t)
	require.NoError(t, fetchKafka())
	k := &kafka{t: t, folder: t.TempDir(), port: freePorts(t), brokers: make([]*process, brokers+1), most: most}
	t.Cleanup(func() {
		for n := brokers; n > 0; n-- { // the controller last
			k.brokers[n].expendable = true
			k.brokers[n].kill() // nobody needs what it has
		}
	})
	for n := 1; n <= brokers; n++ {
		k.start(n)
	}
	k.answers()
	return k
}

// freePorts finds a port whose neighbours are free too: each broker has one, and the
// controller.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20_000 + 10*rand.IntN(1000) // below those that connections get
		free := true
		for _, one := range []int{port, port + 1, port + 2, port + 100} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(one)))
			if err != nil {
				free = false
				break
			}
			require.NoError(t, l.Close())
		}
		if free {
			return port
		}
	}
	require.FailNow(t, "no ports are free")
	return 0
}

// start starts a broker on the data that it has.
func (k *kafka) start(n int) {
	k.t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(k.t, err)
	script, err := filepath.Abs(kafkaScript)
	require.NoError(k.t, err)
	args := []string{"serve", "--dir", k.folder, "--port", strconv.Itoa(k.port), "--brokers", strconv.Itoa(len(k.brokers) - 1), "--broker", strconv.Itoa(n)}
	if k.most > 0 {
		args = append(args, "--most-file", strconv.Itoa(k.most))
	}
	k.started++
	k.brokers[n] = launch(k.t, fmt.Sprintf("kafka %d, start %d", n, k.started), []string{"XDG_CACHE_HOME=" + cache}, script, args...)
}

// address is where all brokers are.
func (k *kafka) address() string {
	var all []string
	for n := 1; n < len(k.brokers); n++ {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", k.port+n-1))
	}
	return strings.Join(all, ",")
}

// url is the bus's URL.
func (k *kafka) url() string { return "kafka://" + k.address() + "?partitions=4" }

// admin is a client with which an operator works.
func (k *kafka) admin() *kadm.Client { return kafkaAdmin(k.t, k.address()) }

func kafkaAdmin(t *testing.T, address string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// answers waits until all brokers have joined.
func (k *kafka) answers() {
	k.t.Helper()
	admin := k.admin()
	await(k.t, "Kafka answers", judgement, func() bool {
		for n, p := range k.brokers[1:] {
			require.True(k.t, p.running(), "broker %d ended: %s", n+1, p.log.last(20))
		}
		ctx, cancel := context.WithTimeout(k.t.Context(), 5*time.Second)
		defer cancel()
		joined, err := admin.ListBrokers(ctx)
		return err == nil && len(joined) == len(k.brokers)-1
	})
}

// again ends the only broker, lets the test do to its storage what it likes, and starts it.
// A signal that it hears lets it write everything out, another is a loss of power.
func (k *kafka) again(how syscall.Signal, tamper func(storage string)) {
	k.t.Helper()
	p := k.brokers[1]
	p.expendable = true
	p.signal(how)
	<-p.done
	tamper(filepath.Join(k.folder, "1"))
	k.start(1)
	k.answers()
}

// logsOf are the files that hold the records of partitions, by a pattern of their names.
func logsOf(t *testing.T, storage, partitions string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(storage, partitions, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// deleteTopics deletes all topics of the prefix by hand.
func deleteTopics(t *testing.T, address, prefix string) {
	t.Helper()
	admin := kafkaAdmin(t, address)
	topics, err := admin.ListTopics(t.Context())
	require.NoError(t, err)
	var ours []string
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, prefix+".") {
			ours = append(ours, name)
		}
	}
	require.NotEmpty(t, ours)
	gone, err := admin.DeleteTopics(t.Context(), ours...)
	require.NoError(t, err)
	require.NoError(t, gone.Error())
}

// startKafkaInMemory starts what speaks Kafka's protocol in this process, and returns its
// address.
func startKafkaInMemory(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// listenToKafka writes down what is published on topics of the rig's prefix.
func (r *rig) listenToKafka() {
	r.t.Helper()
	address, _, _ := strings.Cut(strings.TrimPrefix(r.bus, "kafka://"), "?")
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(address, ",")...), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+r.config.Prefix+"\\..*"),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(time.Second))
	require.NoError(r.t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) {
				_, _ = fmt.Fprintf(r.tap, "%s %v %s\n", record.Topic, record.Headers, record.Value)
			})
		}
	}()
	r.t.Cleanup(func() { client.Close(); <-ended })
}
