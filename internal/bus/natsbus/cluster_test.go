package natsbus_test

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
)

// TestCluster: three servers, streams of three replicas, one server after the other is
// stopped and started again, each time by way of a change of leaders.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	b, err := natsbus.Connect(t.Context(), nodes.url(), natsbus.Options{Replicas: 3, AckWait: ackWait})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.Eventually(t, func() bool { return b.Ensure(t.Context(), []string{"mail"}) == nil },
		60*time.Second, 100*time.Millisecond, "the cluster gets a leader")

	publishInTime(t, b, 1, 50)
	delayed := time.Now().Add(time.Second)
	requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(51, delayed)}))
	receiveEach(t, b, numbers(1, 51))
	for i := range nodes[:2] {
		nodes[i].stop()
		first := int64(100 * (i + 1))
		publishInTime(t, b, first, 50)
		receiveEach(t, b, numbers(first, 50))
		nodes[i].start(t)
		nodes[i].waitCurrent(t)
	}
}

// receiveEach receives and acknowledges until all jobs came.
func receiveEach(t *testing.T, b bus.Bus, jobs []int64) {
	t.Helper()
	missing := map[int64]bool{}
	for _, id := range jobs {
		missing[id] = true
	}
	receiveWhile(t, b, func(id int64) bool {
		delete(missing, id)
		return len(missing) > 0
	}, 1)
}

// node is a server of a cluster, which keeps its ports and storage when it restarts.
type node struct {
	options server.Options
	running *server.Server
}

type cluster []*node

func (c cluster) url() string {
	var urls []string
	for _, n := range c {
		urls = append(urls, "nats://"+net.JoinHostPort(n.options.Host, strconv.Itoa(n.options.Port)))
	}
	return strings.Join(urls, ",")
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	ports := freePorts(t, 6)
	var routes []*url.URL
	for _, p := range ports[3:] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	var nodes cluster
	for i := range 3 {
		n := &node{options: server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[3+i]},
		}}
		n.start(t)
		nodes = append(nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.stop()
		}
	})
	for _, n := range nodes {
		n.waitCurrent(t)
	}
	return nodes
}

func (n *node) start(t *testing.T) {
	t.Helper()
	options := n.options
	var err error
	n.running, err = server.NewServer(&options)
	require.NoError(t, err)
	n.running.Start()
	require.True(t, n.running.ReadyForConnections(30*time.Second))
}

func (n *node) waitCurrent(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return n.running.JetStreamIsCurrent() }, 60*time.Second, 50*time.Millisecond)
}

func (n *node) stop() {
	n.running.Shutdown()
	n.running.WaitForShutdown()
}

// freePorts are ports that were free a moment ago; a cluster must know them beforehand.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }() //nolint:revive // all are open until all are known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
