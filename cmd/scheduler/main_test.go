package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

const config = `
worker: {lease_time: 3s, heartbeat: 500ms}
kinds:
  reminder:
    channel: go
    limit: 1s
`

// patience is for machines that do much else.
const patience = 90 * time.Second

// start runs the program in this process until the test ends.
func start(t *testing.T, databaseURL string, output io.Writer) (exit func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duly.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		program := app.Program{Name: "duly-scheduler", Grammar: &grammar{}}
		code <- app.Exec(ctx, program, []string{"--database-url", databaseURL, "--config", file}, io.Discard, output)
	}()
	exit = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { exit() })
	return exit
}

// syncBuffer is a buffer that is read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 20*time.Millisecond, what)
}

func kind(t *testing.T) machine.Kind {
	t.Helper()
	parsed, err := app.ParseConfig("duly.yaml", []byte(config))
	require.NoError(t, err)
	return parsed.Kinds()[0]
}

func stateOf(t *testing.T, pool *pgxpool.Pool, id int64) job.State {
	t.Helper()
	var state job.State
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT state FROM duly.job WHERE id = $1`, id).Scan(&state))
	return state
}

var adminAddr = regexp.MustCompile(`"admin":"([^"]+)"`)

// Two schedulers run on one ledger: what comes due is made ready once, and what a silent
// worker held is ended once.
func TestSchedulersMakeReadyWhatIsDueAndEndWhatDiedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := ledgertest.URL(t)
	pool := ledgertest.Pool(t, databaseURL)
	output := [2]*syncBuffer{{}, {}}
	first, second := start(t, databaseURL, output[0]), start(t, databaseURL, output[1])
	l := ledger.New(pool)
	eventually(t, "the kinds are in the ledger", func() bool {
		kinds, err := l.Kinds(t.Context())
		return err == nil && len(kinds) == 1
	})
	made, err := l.Enqueue(t.Context(), pool, []job.Spec{
		{Kind: "reminder", Key: "now", Payload: []byte(`{}`)},
		{Kind: "reminder", Key: "soon", Payload: []byte(`{}`), Due: time.Now().Add(2 * time.Second)},
		{Kind: "reminder", Key: "late", Payload: []byte(`{}`), Deadline: time.Now().Add(2 * time.Second)},
	})
	require.NoError(t, err)
	w := machine.Worker{ID: uuid.NewString(), Label: "silent", Version: "v1", LeaseTime: 3 * time.Second}
	require.NoError(t, l.RegisterWorker(t.Context(), w))
	leases, err := l.Lease(t.Context(), machine.LeaseRequest{Worker: w, Kind: kind(t), Refs: []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}}})
	require.NoError(t, err)
	require.Len(t, leases.Grants, 1)

	eventually(t, "what is due is ready", func() bool { return stateOf(t, pool, made[1].Job) == job.Ready })
	eventually(t, "what is late is quarantined", func() bool { return stateOf(t, pool, made[2].Job) == job.Quarantined })
	eventually(t, "the silent worker's lease has ended", func() bool { return stateOf(t, pool, made[0].Job) == job.Unknown })
	var events, partitions int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM duly.event`).Scan(&events))
	require.Equal(t, 3, events, "each of it once")
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'duly.event'::regclass`).Scan(&partitions))
	require.Equal(t, 5, partitions, "four days and the default")

	for i, exit := range []func() int{first, second} {
		address := adminAddr.FindStringSubmatch(output[i].String())
		require.NotEmpty(t, address, output[i].String())
		eventually(t, "it is ready", func() bool { return status(t, "http://"+address[1]+"/readyz") == http.StatusOK })
		require.Zero(t, exit(), output[i].String())
	}
	ledgertest.Agrees(t, pool)
}

func status(t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestScheduleRefusesASchemaThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	databaseURL := ledgertest.URL(t)
	pool := ledgertest.Pool(t, databaseURL)
	_, err := pool.Exec(t.Context(), `INSERT INTO public.duly_migrations (version_id, is_applied) VALUES (99999, true)`)
	require.NoError(t, err)
	output := &syncBuffer{}
	code := start(t, databaseURL, output)
	eventually(t, "it says so", func() bool { return strings.Contains(output.String(), "start a newer program") })
	require.NotZero(t, code(), output.String())
}
