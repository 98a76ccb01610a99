package eval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
)

// The adapters: pairs of a ledger and a bus.
const (
	// Memory is the ledger and the bus in memory.
	Memory = "memory"
	// NATS is PostgreSQL and NATS JetStream.
	NATS = "nats"
	// Kafka is PostgreSQL and Kafka.
	Kafka = "kafka"
)

// Adapters lists all of them.
func Adapters() []string { return []string{Memory, NATS, Kafka} }

// messagesAgain is how soon messages come again that a process which was ended had in hand.
const messagesAgain = 2 * time.Second

// site is where the worlds of one adapter are: its servers.
type site struct {
	adapter   string
	databases *devstack.Databases // nil in memory
	busURL    string              // empty in memory
	// what says in words what the servers are.
	what string
}

// sites starts the servers of the adapters, whose ends are pushed on the stack. Those of
// PostgreSQL are shared.
func sites(ctx context.Context, o Options, stack *app.Stack, log *slog.Logger, notice func(string)) ([]*site, error) {
	var all []*site
	var postgres *devstack.Databases
	var version string
	for _, adapter := range o.Buses {
		s := &site{adapter: adapter, what: "the ledger and the bus in memory"}
		all = append(all, s)
		if adapter == Memory {
			continue
		}
		if postgres == nil {
			var err error
			if postgres, version, err = startPostgres(ctx, o, stack, notice); err != nil {
				return nil, err
			}
		}
		s.databases = postgres
		what, err := s.startBus(o, stack, log)
		if err != nil {
			return nil, err
		}
		s.what = version + ", " + what
	}
	return all, nil
}

// startPostgres makes the databases that worlds copy theirs from.
func startPostgres(ctx context.Context, o Options, stack *app.Stack, notice func(string)) (*devstack.Databases, string, error) {
	address, version := o.DatabaseURL, "PostgreSQL at "+app.Where(o.DatabaseURL)
	if address == "" {
		server, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{
			DataDir: o.dataDir, Notice: notice, UnsafeNoSync: !o.durable,
			Settings: map[string]string{"max_connections": "600"}, // many worlds at once, each with several processes
		})
		if err != nil {
			return nil, "", fmt.Errorf("starting PostgreSQL: %w", err)
		}
		stack.Push("PostgreSQL", serverBound, server.Stop)
		address, version = server.URL(), "PostgreSQL "+server.Version()
	}
	databases, err := devstack.OpenDatabases(ctx, address, "duly_eval", ledger.MigrateUp)
	if err != nil {
		return nil, "", fmt.Errorf("making databases (the role must be allowed to): %w", err)
	}
	stack.Push("the prepared database", serverBound, databases.Close)
	return databases, version, nil
}

// serverBound is what an embedded server has to stop.
const serverBound = 30 * time.Second

// startBus takes the broker of the options where it is one of this adapter's, or starts one.
func (s *site) startBus(o Options, stack *app.Stack, log *slog.Logger) (what string, err error) {
	if o.BusURL != "" {
		address, err := bus.Address(o.BusURL)
		if err != nil {
			return "", app.Exit(app.ExitUsage, err)
		}
		if strings.HasPrefix(address, s.adapter+"://") {
			s.busURL = o.BusURL
			return "the broker at " + address, nil
		}
	}
	if s.adapter == Kafka {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return "", fmt.Errorf("starting a broker that speaks Kafka's protocol: %w", err)
		}
		stack.Push("Kafka", serverBound, func(context.Context) error { cluster.Close(); return nil })
		s.busURL = "kafka://" + cluster.ListenAddrs()[0]
		return "a broker in memory that speaks Kafka's protocol", nil
	}
	server, err := devstack.StartNATS(devstack.NATSOptions{Log: log})
	if err != nil {
		return "", fmt.Errorf("starting NATS: %w", err)
	}
	stack.Push("NATS", serverBound, func(context.Context) error { return server.Stop() })
	s.busURL = server.URL()
	return "NATS JetStream", nil
}

// connect opens a connection to the broker for one process.
func (s *site) connect(ctx context.Context, prefix, name string, ackWait time.Duration, log *slog.Logger) (bus.Bus, error) {
	switch s.adapter {
	case NATS:
		return natsbus.Connect(ctx, s.busURL, natsbus.Options{Prefix: prefix, Name: name, AckWait: ackWait, Log: log})
	case Kafka:
		return kafkabus.Connect(ctx, s.busURL, kafkabus.Options{
			Prefix: prefix, Name: name, Partitions: 2, SessionTimeout: max(ackWait, kafkaSession), Log: log,
		})
	}
	return nil, errors.New("the bus in memory is the world's own")
}

// kafkaSession is the shortest that brokers allow a consumer to be silent.
const kafkaSession = 6 * time.Second
