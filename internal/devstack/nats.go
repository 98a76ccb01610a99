package devstack

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// NATSOptions says how a NATS server is to run. The zero value is a server on
// a free port whose streams are gone when it is stopped.
type NATSOptions struct {
	// StoreDir is the folder that holds the streams, made if it does not exist
	// and used again if it does; one server at a time may use it. Empty: a
	// temporary folder, removed by Stop.
	StoreDir string

	// Port on 127.0.0.1; 0 is a free one.
	Port int

	// SyncAlways syncs every write of a stream to disk before it is
	// acknowledged. Without it a crash of the machine loses what was written
	// in the last two minutes.
	SyncAlways bool

	// MaxStore bounds the bytes that all streams together may take; 0 leaves
	// the server's own bound, three quarters of what is free on the disk.
	MaxStore int64

	// Log receives the server's warnings and errors and, at debug level, its
	// notices. Nil discards them.
	Log *slog.Logger
}

// NATS is a NATS server with JetStream inside this process. Anyone on this
// machine may connect to it.
type NATS struct {
	server *server.Server
	port   int
	stop   func() error
}

// natsStartLimit is the longest that a server may take to accept connections
// once it has read its streams.
const natsStartLimit = 10 * time.Second

// StartNATS starts a server and returns when it accepts connections. The
// caller must call Stop.
func StartNATS(options NATSOptions) (*NATS, error) {
	folder, release, err := claimStore(options.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("preparing NATS: %w", err)
	}
	running, err := serveNATS(folder, options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting NATS: %w", err), release())
	}
	return &NATS{
		server: running,
		port:   running.Addr().(*net.TCPAddr).Port,
		stop: sync.OnceValue(func() error {
			running.Shutdown()
			running.WaitForShutdown()
			return release()
		}),
	}, nil
}

// URL returns the server's address (nats://…).
func (n *NATS) URL() string {
	address := url.URL{Scheme: "nats", Host: net.JoinHostPort(loopback, strconv.Itoa(n.port))}
	return address.String()
}

// Port returns the server's port, for another server to take its place.
func (n *NATS) Port() int { return n.port }

// Stop disconnects the clients, closes the streams and removes a temporary
// folder. A second call does nothing.
func (n *NATS) Stop() error { return n.stop() }

// claimStore makes the folder of the streams and takes its lock: the server
// itself would let two of them destroy each other's streams.
func claimStore(storeDir string) (folder string, release func() error, err error) {
	if storeDir == "" {
		return newScratch("duly-nats")
	}
	if folder, err = filepath.Abs(storeDir); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	held, err := tryLock(lock)
	if err == nil && !held {
		err = fmt.Errorf("another server is using %s: stop it first", folder)
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return folder, lock.Close, nil
}

func serveNATS(folder string, options NATSOptions) (*server.Server, error) {
	port := options.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	running, err := server.NewServer(&server.Options{
		ServerName:             "duly",
		Host:                   loopback,
		Port:                   port,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               folder,
		JetStreamMaxStore:      options.MaxStore,
		SyncAlways:             options.SyncAlways,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, err
	}
	log := &natsLog{next: options.Log}
	running.SetLoggerV2(log, false, false, false)
	running.Start()
	err = log.fatal()
	if err == nil && !running.ReadyForConnections(natsStartLimit) {
		err = errors.Join(fmt.Errorf("it accepted no connection within %s", natsStartLimit), log.fatal())
	}
	if err != nil {
		running.Shutdown()
		running.WaitForShutdown()
		return nil, err
	}
	return running, nil
}

// natsLog is the server's logger. It passes on what matters and remembers the
// error with which the server gave up, which it reports in no other way.
type natsLog struct {
	next *slog.Logger // may be nil

	mu     sync.Mutex
	reason error
}

func (l *natsLog) log(write func(*slog.Logger, string, ...any), format string, values []any) {
	if l.next != nil {
		write(l.next, fmt.Sprintf(format, values...), "server", "nats")
	}
}

// Noticef logs what is worth knowing only when something is searched for.
func (l *natsLog) Noticef(format string, values ...any) { l.log((*slog.Logger).Debug, format, values) }

// Warnf logs a warning.
func (l *natsLog) Warnf(format string, values ...any) { l.log((*slog.Logger).Warn, format, values) }

// Errorf logs an error.
func (l *natsLog) Errorf(format string, values ...any) { l.log((*slog.Logger).Error, format, values) }

// Fatalf logs and remembers the error with which the server gives up.
func (l *natsLog) Fatalf(format string, values ...any) {
	l.log((*slog.Logger).Error, format, values)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = errors.Join(l.reason, fmt.Errorf(format, values...))
}

// Debugf discards what only a developer of the server needs.
func (l *natsLog) Debugf(string, ...any) {}

// Tracef discards the traffic, which may hold what nobody should read.
func (l *natsLog) Tracef(string, ...any) {}

func (l *natsLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}
