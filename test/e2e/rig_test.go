package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

// The kinds of every rig, each on a lane of its own.
const (
	plain   = "plain"   // HTTP, and nothing is promised
	deduped = "deduped" // HTTP, and the receiver dedupes
	askable = "askable" // HTTP, and the receiver can be asked
	mailed  = "mailed"  // SMTP
)

// What no log, metric, notice or message may ever show.
const (
	payloadMarker     = "confidential-payload"
	destinationMarker = "confidential-destination"
)

// patience bounds what a test waits for. It is far more than anything takes, so that a
// busy machine fails no test.
const patience = 2 * time.Minute

// settings are what differs from test to test in duly.yaml.
type settings struct {
	Prefix, MailServer string
	// LeaseTime decides how long the jobs of a dead worker wait. It is short where a
	// test waits for that, and long where a busy machine must not end a lease.
	LeaseTime, Heartbeat, Limit, Drain string
	Slots, Sessions                    int
	// Schedules are further sections of the file.
	Schedules string
	// Cleanup is that of the kind deduped.
	Cleanup string
}

var configuration = template.Must(template.New("duly.yaml").Parse(`
prefix: {{.Prefix}}
worker: {slots: {{.Slots}}, lease_time: {{.LeaseTime}}, heartbeat: {{.Heartbeat}}, drain: {{.Drain}}, pause_bound: 500ms}
lanes:
  plain: {pack: 4}
  deduped: {pack: 4}
  askable: {pack: 4}
  mailed: {pack: 4}
kinds:
  plain: &hook
    lane: plain
    channel: http
    limit: {{.Limit}}
    base: 100ms
    cap: 1s
    max_attempts: 50
    http: &receiver
      allow_networks: [127.0.0.0/8]
      secret_headers: {Authorization: {env: E2E_AUTHORIZATION}}
  deduped:
    <<: *hook
    lane: deduped
    promises: {window: 1h}
{{- with .Cleanup}}
    cleanup: {{.}}
{{- end}}
  askable:
    <<: *hook
    lane: askable
    promises:
      settle: 2s
      lookup:
        at_once: 4
        timeout: 10s
        http:
          url: '{{"{{.Origin}}/effects/{{.EffectKey}}"}}'
          answers:
            - {status: 200, pointer: /state, equals: [done], means: yes}
            - {status: 202, means: working}
            - {status: 404, means: no}
          receipt_pointer: /id
          allow_networks: [127.0.0.0/8]
          secret_headers: {Authorization: {env: E2E_AUTHORIZATION}}
  mailed:
    lane: mailed
    channel: smtp
    limit: {{.Limit}}
    base: 100ms
    cap: 1s
    max_attempts: 50
    smtp:
      server: {{.MailServer}}
      tls: none
      username: {env: E2E_MAIL_USER}
      password: {env: E2E_MAIL_PASSWORD}
      from: Duly <duly@example.com>
      subject: A reminder
      text: "{{"{{.Payload.text}}"}}"
      sessions: {{.Sessions}}
{{.Schedules}}`))

// quick is for tests that wait for leases to end.
var quick = settings{LeaseTime: "4s", Heartbeat: "800ms", Limit: "2s", Drain: "10s", Slots: 60, Sessions: 4}

// steady is for tests that wait for leases to end and do something within the limit of
// an effect before.
var steady = settings{LeaseTime: "8s", Heartbeat: "1500ms", Limit: "6s", Drain: "10s", Slots: 60, Sessions: 4}

// calm is for tests in which no lease may end by itself, however busy the machine is.
var calm = settings{LeaseTime: "60s", Heartbeat: "5s", Limit: "20s", Drain: "50s", Slots: 60, Sessions: 4}

// rig is a ledger, a bus and receivers of one test, and the processes that it runs.
type rig struct {
	t *testing.T
	// database and bus are the URLs that processes are given; those of the rig itself
	// stay what they were when a test puts a wire in between.
	database, bus string

	folder   string
	settings settings
	config   *app.Config
	pool     *pgxpool.Pool
	ledger   *ledger.Ledger
	web      *webReceiver
	mail     *mailbox
	tap      *record // every message that was published on the bus, with its headers

	mu        sync.Mutex
	processes []*process
	wires     []*wire
	accepted  map[string]bool // kind/key of every job that the ledger has acknowledged
}

// servers are where a rig is when it does not share what all tests share.
type servers struct{ database, bus string }

// newRig makes a rig in which nothing runs yet.
func newRig(t *testing.T, s settings, own servers) *rig {
	t.Helper()
	r := &rig{t: t, database: own.database, bus: own.bus, folder: t.TempDir(), accepted: map[string]bool{}}
	if r.database == "" {
		r.database = ledgertest.URL(t)
	}
	if r.bus == "" {
		r.bus = shared.bus.URL()
	}
	r.web, r.mail = newWebReceiver(t), newMailbox(t)
	s.Prefix, s.MailServer = "e2e-"+strings.ToLower(rand.Text()[:8]), r.mail.address
	r.settings = s
	r.configure(s)
	r.listen()
	r.pool = ledgertest.Pool(t, r.database)
	r.ledger = ledger.New(r.pool)
	require.NoError(t, r.ledger.SyncKinds(t.Context(), r.config.Kinds()))
	t.Cleanup(r.end)
	return r
}

func (r *rig) configure(s settings) {
	r.t.Helper()
	var text bytes.Buffer
	require.NoError(r.t, configuration.Execute(&text, s))
	require.NoError(r.t, os.WriteFile(r.configFile(), text.Bytes(), 0o600))
	var err error
	r.config, err = app.LoadConfig(r.configFile())
	require.NoError(r.t, err)
}

// configureSchedules changes the schedules that processes find from now on.
func (r *rig) configureSchedules(schedules string) {
	r.t.Helper()
	r.settings.Schedules = schedules
	r.configure(r.settings)
}

// accept notes a job that the ledger has acknowledged in another way than enqueue.
func (r *rig) accept(kind, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted[kind+"/"+key] = true
}

// listen writes down what is published on the bus.
func (r *rig) listen() {
	r.t.Helper()
	r.tap = &record{}
	if strings.HasPrefix(r.bus, "kafka://") {
		r.listenToKafka()
		return
	}
	conn, err := nats.Connect(r.bus, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	require.NoError(r.t, err)
	r.t.Cleanup(conn.Close)
	_, err = conn.Subscribe(r.config.Prefix+".>", func(m *nats.Msg) {
		_, _ = fmt.Fprintf(r.tap, "%s %v %s\n", m.Subject, m.Header, m.Data)
	})
	require.NoError(r.t, err)
	require.NoError(r.t, conn.Flush())
}

func (r *rig) configFile() string { return filepath.Join(r.folder, "duly.yaml") }

// remindSoon makes the bus give messages of a worker that died to another one after d,
// in place of its default of 30 s. Call it before any process runs.
func (r *rig) remindSoon(d time.Duration) {
	r.t.Helper()
	b, err := natsbus.Connect(r.t.Context(), r.bus, natsbus.Options{Prefix: r.config.Prefix, AckWait: d})
	require.NoError(r.t, err)
	require.NoError(r.t, b.Ensure(r.t.Context(), r.config.LaneNames()))
	require.NoError(r.t, b.Close())
}

// environment is what a process of the rig is told.
func (r *rig) environment() []string {
	return []string{
		"DULY_DATABASE_URL=" + r.database, "DULY_BUS_URL=" + r.bus, "DULY_CONFIG=" + r.configFile(),
		"DULY_LOG_LEVEL=debug", "E2E_AUTHORIZATION=" + authorization,
		"E2E_MAIL_USER=" + mailUser, "E2E_MAIL_PASSWORD=" + mailPassword,
	}
}

// start starts programs. They end with the test, which fails if one ends before, unless
// the test itself ended it.
func (r *rig) start(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.startWith(name)
	}
}

// one starts a program and waits until it is ready.
func (r *rig) one(name string) *process {
	r.t.Helper()
	return r.startWith(name).ready()
}

// startWith starts a program with more in its environment.
func (r *rig) startWith(name string, environment ...string) *process {
	r.t.Helper()
	r.mu.Lock()
	number := len(r.processes) + 1
	r.mu.Unlock()
	return r.add(launch(r.t, fmt.Sprintf("%s %d", name, number), append(r.environment(), environment...), program(r.t, name)))
}

// add makes the process one of the rig's.
func (r *rig) add(p *process) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes = append(r.processes, p)
	return p
}

// logs returns what all processes have written, by their names.
func (r *rig) logs() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	logs := make(map[string]string, len(r.processes))
	for _, p := range r.processes {
		logs[p.name] = p.log.String()
	}
	return logs
}

// end stops what still runs.
func (r *rig) end() {
	if r.t.Failed() {
		r.report()
	}
	r.mu.Lock()
	processes, wires := slices.Clone(r.processes), slices.Clone(r.wires)
	r.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range processes {
		ending.Go(p.end)
	}
	ending.Wait()
	for _, w := range wires { // after those who use them
		w.Close()
	}
}

// job makes a request for a job of the kind.
func (r *rig) job(kind, key string) job.Spec {
	s := job.Spec{
		Kind: kind, Key: key, Subject: "customer " + key,
		Payload: fmt.Appendf(nil, `{"text":"%s of %s"}`, payloadMarker, key),
	}
	if kind == mailed {
		s.Destination = destinationMarker + "-" + key + "@example.com"
	} else {
		s.Destination = r.web.url
	}
	return s
}

// jobs makes n requests of the kind, whose keys begin with the name.
func (r *rig) jobs(kind, name string, n int) []job.Spec {
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = r.job(kind, fmt.Sprintf("%s-%04d", name, i))
	}
	return specs
}

// enqueue has the ledger accept the requests, all of them, in one transaction.
func (r *rig) enqueue(specs ...job.Spec) {
	r.t.Helper()
	require.NoError(r.t, r.tryEnqueue(r.t.Context(), specs...))
}

// tryEnqueue is enqueue where the ledger may be away: what it acknowledged is noted.
func (r *rig) tryEnqueue(ctx context.Context, specs ...job.Spec) error {
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	made, err := r.ledger.Enqueue(ctx, tx, specs)
	if err != nil {
		return err
	}
	for _, m := range made {
		if m.Refused != nil {
			return m.Refused
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range specs {
		r.accepted[s.Kind+"/"+s.Key] = true
	}
	return nil
}

// await waits, with patience, until the condition holds.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	await(r.t, what, patience, holds)
}
