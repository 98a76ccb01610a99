package compose_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/compose"
)

func TestBusOnKafka(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	url := "kafka://" + cluster.ListenAddrs()[0]
	c := config(t, "lanes:\n  mail: {}\nkinds:\n  call: {channel: http, lane: mail}\n")
	buses, err := compose.OpenBuses(t.Context(), service(t, &bytes.Buffer{}), app.BusSettings{BusURL: url + "?partitions=3"}, c)
	require.NoError(t, err)
	require.Equal(t, url, buses.Address)
	b := buses.Bus
	partitions, err := b.Partitions(t.Context(), "mail")
	require.NoError(t, err)
	require.Len(t, partitions, 3)
	require.Implements(t, (*bus.Mover)(nil), b, "delays are moved on by the dispatcher")

	_, err = compose.OpenBuses(t.Context(), service(t, &bytes.Buffer{}), app.BusSettings{BusURL: url + "?partition=3"}, c)
	require.ErrorContains(t, err, `no setting "partition"`)
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}

func TestUnsafeTopicIsRefused(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	require.NoError(t, cluster.CreateTopic("duly.work.default", 1, nil)) // kept for a week
	_, err = compose.OpenBuses(t.Context(), service(t, &bytes.Buffer{}), app.BusSettings{BusURL: "kafka://" + cluster.ListenAddrs()[0]}, config(t, "kinds:\n  call: {channel: http}\n"))
	require.ErrorIs(t, err, bus.ErrUnsafe)
	require.ErrorContains(t, err, "topic duly.work.default: retention.ms is 604800000")
}

// A second bus is one only while lanes move to it.
func TestNextBusIsAnother(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	url := "kafka://" + cluster.ListenAddrs()[0]
	c := config(t, "kinds:\n  call: {channel: http}\n")
	_, err = compose.OpenBuses(t.Context(), service(t, &bytes.Buffer{}), app.BusSettings{BusURL: url, NextURL: url}, c)
	require.ErrorContains(t, err, "the next bus is the bus itself")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))

	other, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(other.Close)
	buses, err := compose.OpenBuses(t.Context(), service(t, &bytes.Buffer{}), app.BusSettings{BusURL: url, NextURL: "kafka://" + other.ListenAddrs()[0]}, c)
	require.NoError(t, err, "their metrics do not collide")
	require.NotEqual(t, buses.Address, buses.NextAddress)
	require.NotNil(t, buses.Next)
}
