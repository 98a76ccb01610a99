package ledger

import (
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/machine"
)

// Ledger is the ledger on PostgreSQL. It is safe for concurrent use.
type Ledger struct {
	pool    *pgxpool.Pool
	unclear unclearLeases
	idle    idleTopics
	sources map[string]*pgxpool.Pool // of selections, besides the ledger's own database

	mu    sync.RWMutex
	kinds map[int16]machine.Kind // by the ledger's id
	ids   map[string]int16       // by name
	// kindsRead is when the kinds were read last.
	kindsRead time.Time
	terms     map[int16]terms
	// termIDs finds the number of a channel and its promises.
	termIDs map[terms]int16
}

// terms are what a generation's first attempt fixes.
type terms struct {
	channel  string
	promises machine.Promises
}

// New makes a ledger on the pool, which stays the caller's to close. It does no
// I/O: kinds are read when they are first needed.
func New(pool *pgxpool.Pool) *Ledger {
	return &Ledger{
		pool:    pool,
		kinds:   make(map[int16]machine.Kind),
		ids:     make(map[string]int16),
		terms:   make(map[int16]terms),
		termIDs: make(map[terms]int16),
	}
}

// ErrSchema: the schema is older or newer than the program. What the loops act on is in
// machine, for every ledger: ErrWorkerEnded, ErrLostTopic, ErrUnclear, ErrAway.
var ErrSchema = errors.New("schema version")
