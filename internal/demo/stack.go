package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/handler"
)

// The buses that an embedded stack can have.
const (
	BusNATS   = "nats"
	BusMemory = "memory"
	// BusKafka is the broker that DULY_BUS_URL names, where that is a kafka:// URL, else
	// one in memory that speaks Kafka's protocol.
	BusKafka = "kafka"
)

// stopServers is what an embedded server has to stop.
const stopServers = 30 * time.Second

// ledgerConns are enough for the loops of all binaries in one process, and for what a
// demonstration asks besides.
const ledgerConns = compose.SchedulerConns + 16

// servers are an embedded PostgreSQL, migrated, and an embedded bus.
type servers struct {
	postgres *devstack.Postgres
	// nats, memory or kafka is the bus.
	nats   *devstack.NATS
	memory *membus.Broker
	kafka  kafka
}

// kafka is where a broker is, and whether it is a real one.
type kafka struct {
	url  string
	real bool
}

// serverOptions say how servers are to run.
type serverOptions struct {
	// dir holds their data.
	dir string
	// bus is BusNATS, BusMemory or BusKafka.
	bus string
	// postgresPort and natsPort are 0 for a free one.
	postgresPort, natsPort int
}

// startServers starts the servers and pushes their ends on the service's stack. They
// are fully durable.
func startServers(ctx context.Context, s *app.Service, o serverOptions) (*servers, error) {
	srv := &servers{}
	if err := srv.startPostgres(ctx, s, o); err != nil {
		return nil, err
	}
	switch o.bus {
	case BusMemory:
		srv.memory = membus.NewBroker(membus.Options{})
		return srv, nil
	case BusKafka:
		return srv, srv.startKafka(s)
	}
	nats, err := devstack.StartNATS(devstack.NATSOptions{
		StoreDir: filepath.Join(o.dir, "nats"), Port: o.natsPort, Log: app.Component(s.Log, "nats-server"),
	})
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	s.Stack.Push("NATS", stopServers, func(context.Context) error { return nats.Stop() })
	srv.nats = nats
	return srv, nil
}

func (srv *servers) startPostgres(ctx context.Context, s *app.Service, o serverOptions) error {
	log, err := os.OpenFile(filepath.Join(o.dir, "postgres.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening PostgreSQL's log: %w", err)
	}
	s.Stack.Push("PostgreSQL's log", stopServers, func(context.Context) error { return log.Close() })
	postgres, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{
		DataDir: filepath.Join(o.dir, "postgres"), Port: o.postgresPort, Log: log,
		Notice: func(text string) { _, _ = fmt.Fprintln(s.Process.Stderr, text) },
	})
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	s.Stack.Push("PostgreSQL", stopServers, postgres.Stop)
	srv.postgres = postgres
	return ledger.MigrateUp(ctx, postgres.URL())
}

// startKafka takes the broker of the environment, or makes one.
func (srv *servers) startKafka(s *app.Service) error {
	if realKafka() {
		srv.kafka = kafka{os.Getenv("DULY_BUS_URL"), true}
		return nil
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return fmt.Errorf("starting a broker that speaks Kafka's protocol: %w", err)
	}
	s.Stack.Push("Kafka", stopServers, func(context.Context) error { cluster.Close(); return nil })
	srv.kafka.url = "kafka://" + cluster.ListenAddrs()[0]
	return nil
}

// describe says what the servers are.
func (srv *servers) describe() string {
	bus := "a bus in memory"
	switch {
	case srv.nats != nil:
		bus = "NATS JetStream on disk"
	case srv.kafka.real:
		bus = "Apache Kafka at " + app.Where(srv.kafka.url)
	case srv.kafka.url != "":
		bus = "a broker in memory that speaks Kafka's protocol"
	}
	return "PostgreSQL " + srv.postgres.Version() + ", " + bus
}

// apart gives the configuration topics of its own on a broker that outlives the ledger:
// what another ledger left there must not be taken for this one's.
func (srv *servers) apart(config *app.Config) {
	if srv.kafka.real {
		config.Prefix += "-" + strings.ToLower(rand.Text()[:8])
	}
}

// connect opens the bus of the configuration's lanes.
func (srv *servers) connect(ctx context.Context, s *app.Service, config *app.Config) (compose.Buses, error) {
	if srv.nats != nil {
		return compose.OpenBuses(ctx, s, app.BusSettings{BusURL: srv.nats.URL()}, config)
	}
	if srv.kafka.url != "" {
		return compose.OpenBuses(ctx, s, app.BusSettings{BusURL: srv.kafka.url}, config)
	}
	b := srv.memory.Connect()
	s.Stack.Push("bus", stopServers, func(context.Context) error { return b.Close() })
	return compose.Buses{Bus: b}, b.Ensure(ctx, config.LaneNames())
}

// running is what whoever added the loops works with.
type running struct {
	pool   *pgxpool.Pool
	ledger *ledger.Ledger
}

// addLoops connects to the servers and adds the loops of all binaries to the service:
// the same code, in one process.
func (srv *servers) addLoops(ctx context.Context, s *app.Service, config *app.Config, handlers map[string]handler.Handler) (running, error) {
	pool, err := compose.Pool(ctx, s, srv.postgres.URL(), ledgerConns)
	if err != nil {
		return running{}, err
	}
	l := ledger.New(pool)
	heart, err := compose.Heart(ctx, s, srv.postgres.URL(), l)
	if err != nil {
		return running{}, err
	}
	buses, err := srv.connect(ctx, s, config)
	if err != nil {
		return running{}, err
	}
	if err := compose.Scheduler(ctx, s, config, l); err != nil {
		return running{}, err
	}
	if err := compose.Dispatcher(s, config, l, buses); err != nil {
		return running{}, err
	}
	if !performs(config, handlers) {
		s.Log.InfoContext(ctx, "no worker here: every kind has channel go; run a worker of your own")
		return running{pool, l}, nil
	}
	return running{pool, l}, compose.Worker(s, config, compose.WorkerParts{Ledger: l, Heart: heart, Buses: buses, Handlers: handlers, Asking: l, Resolving: l})
}

// performs reports whether a worker in this process would have anything to do.
func performs(config *app.Config, handlers map[string]handler.Handler) bool {
	return len(handlers) > 0 || slices.ContainsFunc(config.Kinds(), func(k machine.Kind) bool { return k.Channel != app.ChannelGo })
}
