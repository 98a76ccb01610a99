package eval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

//go:embed handler.yaml
var handlerText string

// handlerKind is the one kind of handler.yaml.
const handlerKind = "handler"

// HandlerOptions say which receiver is tried, and how its effects are counted.
type HandlerOptions struct {
	// URL is where effects are sent to, as POST with an Idempotency-Key. Required.
	URL string
	// CountURL is asked how many effects there were under a key, which stands for {key} in
	// it. Empty: the handler says so in the header Duly-Effects of its answers.
	CountURL string
	// Payload is the JSON value that is sent. Default: a small one.
	Payload []byte
	// Headers are sent with every request: NAME=VALUE, or NAME=env:VARIABLE for a credential.
	Headers []string
	// Wait is how long after its answer the handler is sent the same once more.
	Wait time.Duration
	// Out and JSON are as in Options.
	Out  string
	JSON bool
}

// promise is what a handler is tried for.
const promise = "window"

// TryHandler tries whether an HTTP receiver acts once per effect key, prints the report,
// and fails with ErrViolated unless it does. Everything is sent by the real worker and its
// channel, over a ledger and a bus in memory.
func TryHandler(ctx context.Context, p *app.Process, o HandlerOptions) (Report, error) {
	log, done, err := openLog()
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	report := newReport(p.Version, nil)
	report.Servers[handlerKind] = "the handler at " + o.URL
	t, err := newTrials(ctx, log, o)
	if err == nil {
		report.Rows = t.all(ctx)
		err = t.world.end(context.WithoutCancel(ctx))
	}
	report.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	if err != nil || ctx.Err() != nil {
		return report, errors.Join(err, ctx.Err(), done(false))
	}
	err = errors.Join(report.write(p, o.JSON, o.Out), report.verdict())
	return report, errors.Join(err, done(err == nil))
}

// trials try a handler.
type trials struct {
	HandlerOptions

	world   *world
	headers http.Header
	counter *http.Client
	run     string        // makes keys that no evaluation had before
	took    time.Duration // how long the handler takes

	mu   sync.Mutex
	said map[string]string // the last Duly-Effects, by effect key
	sent map[string]int    // requests, by effect key
}

func newTrials(ctx context.Context, log *slog.Logger, o HandlerOptions) (*trials, error) {
	t := &trials{
		HandlerOptions: o, headers: make(http.Header), counter: &http.Client{Timeout: 10 * time.Second},
		run: strings.ToLower(rand.Text()[:8]), said: make(map[string]string), sent: make(map[string]int),
	}
	if t.Payload == nil {
		t.Payload = []byte(`{"from":"duly eval","customer":"eval"}`)
	}
	if !json.Valid(t.Payload) {
		return nil, app.Exit(app.ExitUsage, errors.New("--payload: it must be one JSON value"))
	}
	if t.CountURL != "" && !strings.Contains(t.CountURL, "{key}") {
		return nil, app.Exit(app.ExitUsage, errors.New("--count-url: it must have {key} in it, which stands for the effect key"))
	}
	w, err := newWorld(ctx, &site{adapter: Memory}, log, handlerText, nil, t.configure)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	t.world = w
	if refusal := w.channels[handlerKind].Check(o.URL, t.Payload); refusal != nil {
		return nil, app.Exit(app.ExitUsage, errors.Join(fmt.Errorf("--handler: %w", refusal), w.end(ctx)))
	}
	w.saw = t.saw
	return t, nil
}

// configure puts the headers into the configuration of the channel.
func (t *trials) configure(config *app.Config) error {
	k, _ := config.Kind(handlerKind)
	k.HTTP.Headers, k.HTTP.SecretHeaders = make(map[string]string), make(map[string]*secret.Ref)
	for _, text := range t.Headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--header %s: it must be NAME=VALUE, or NAME=env:VARIABLE", name)
		}
		if variable, is := strings.CutPrefix(value, "env:"); is {
			ref := &secret.Ref{Env: variable}
			k.HTTP.SecretHeaders[name] = ref
			text, err := ref.Load()
			if err != nil {
				return fmt.Errorf("--header %s: %w", name, err)
			}
			t.headers.Set(name, text)
			continue
		}
		k.HTTP.Headers[name] = value
		t.headers.Set(name, value)
	}
	if err := k.HTTP.Validate(); err != nil {
		return fmt.Errorf("--header: %w", err)
	}
	return nil
}

// saw takes note of an answer.
func (t *trials) saw(effectKey string, r job.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[effectKey]++
	if r.Receipt != nil && r.Receipt.ID != "" {
		t.said[effectKey] = r.Receipt.ID
	}
}

// trial is one way to try a handler.
type trial struct {
	name, title, expect string
	run                 func(t *trials, ctx context.Context) ([]string, error) // the effect keys that must have one effect each
}

// handlerTrials are all of them, in their order.
func handlerTrials() []trial {
	const one = "one effect under the key"
	return []trial{
		{"once", "a job is sent once", one, (*trials).once},
		{"again-later", "the same key comes again after it was answered", one, (*trials).againLater},
		{"reply-lost", "the answer is lost, and the worker repeats", one, (*trials).replyLost},
		{"connection-cut", "the connection breaks while the handler works, and the worker repeats", one, (*trials).connectionCut},
		{"two-at-once", "the same key comes twice at the same time", one, (*trials).twoAtOnce},
		{"worker-dies", "the worker dies after the effect, and another repeats", one, (*trials).workerDies},
		{"other-keys", "the same payload comes under other keys, one of them of the next generation", "one effect under each key", (*trials).otherKeys},
	}
}

// all tries everything. Where a handler does not take a single job, or nobody can count its
// effects, nothing else would say anything.
func (t *trials) all(ctx context.Context) []Row {
	var rows []Row
	for _, one := range handlerTrials() {
		row := Row{Case: one.name, Title: one.title, Adapter: handlerKind, Guarantees: promise, Expect: one.expect}
		row.States = make(map[job.State]int)
		if len(rows) > 0 && rows[0].Verdict.fails() {
			row.Verdict, row.Note = NotApplicable, "not tried: once did not pass"
		} else {
			t.try(ctx, one, &row)
		}
		rows = append(rows, row)
	}
	return rows
}

func (t *trials) try(ctx context.Context, one trial, row *Row) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, defaultPatience)
	defer cancel()
	before := t.world.counted(&t.world.fired)
	keys, err := one.run(t, ctx)
	row.Injected = t.world.counted(&t.world.fired) - before
	if err != nil {
		row.Problems = append(row.Problems, err.Error())
	}
	for _, key := range keys {
		n, err := t.count(ctx, key)
		row.Jobs, row.Effects, row.Duplicates = row.Jobs+1, row.Effects+n, row.Duplicates+max(0, n-1)
		t.mu.Lock()
		row.Sends += t.sent[key]
		t.mu.Unlock()
		switch {
		case err != nil:
			row.Problems = append(row.Problems, err.Error())
		case n > 1:
			row.Problems = append(row.Problems, fmt.Sprintf("it breaks its %s: %d effects under the key %s", promise, n, key))
		case n == 0:
			row.Problems = append(row.Problems, "no effect is counted under the key "+key)
		}
	}
	row.judge("")
	row.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
}

// count asks how many effects there were under a key.
func (t *trials) count(ctx context.Context, effectKey string) (int, error) {
	var text string
	where := "the header Duly-Effects of the last answer"
	if t.CountURL == "" {
		t.mu.Lock()
		text = t.said[effectKey]
		t.mu.Unlock()
		if text == "" {
			return 0, errors.New("nobody says how many effects there were: have the handler answer with a header Duly-Effects, the number of effects under the key so far, or name a --count-url")
		}
	} else {
		var err error
		where = "--count-url"
		if text, err = t.ask(ctx, effectKey); err != nil {
			return 0, fmt.Errorf("asking --count-url: %w", err)
		}
	}
	n, err := parseCount(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", where, err)
	}
	return n, nil
}

// maxCount is how much is read of an answer to --count-url, in bytes.
const maxCount = 64 << 10

func (t *trials) ask(ctx context.Context, effectKey string) (string, error) {
	address := strings.ReplaceAll(t.CountURL, "{key}", url.QueryEscape(effectKey))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	request.Header = t.headers.Clone()
	response, err := t.counter.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxCount))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %s", response.Status)
	}
	return string(content), err
}

// parseCount reads a number, or the member effects of a JSON object.
func parseCount(text string) (int, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n, nil
	}
	var object struct {
		Effects *int `json:"effects"`
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&object); err != nil || object.Effects == nil || *object.Effects < 0 {
		return 0, errors.New(`it must be a number, or JSON such as {"effects": 1}`)
	}
	return *object.Effects, nil
}

// spec makes a job for the handler, and its effect key.
func (t *trials) spec(name string) (job.Spec, string) {
	s := job.Spec{Kind: handlerKind, Key: "eval-" + t.run + "-" + name, Subject: "eval", Destination: t.URL, Payload: t.Payload}
	return s, job.WireEffectKey(s.Kind, s.Key, 1, httpchan.Name)
}

// deliver enqueues a job and waits until it is delivered.
func (t *trials) deliver(ctx context.Context, s job.Spec) error {
	if err := t.world.enqueue(ctx, s); err != nil {
		return err
	}
	var now string
	err := t.world.await(ctx, "the job is delivered", func() (bool, error) {
		story, err := t.world.store.Show(ctx, s.Kind, s.Key)
		if err != nil {
			return false, err
		}
		g, _ := story.Current()
		now = fmt.Sprintf("%s %s %s", g.State, g.LastCode, g.Detail)
		switch g.State {
		case job.Quarantined, job.Unknown, job.Cancelled:
			return false, fmt.Errorf("the handler did not take it: it is %s", now)
		case job.Scheduled, job.Ready, job.Leased:
			return false, nil
		case job.Delivered:
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w; it is %s", err, now)
	}
	return nil
}

// send performs one effect directly, beside the ledger.
func (t *trials) send(ctx context.Context, s job.Spec, generation int32) job.Result {
	effectKey := job.WireEffectKey(s.Kind, s.Key, generation, httpchan.Name)
	r := t.world.channels[handlerKind].Deliver(ctx, channel.Effect{
		Kind: s.Kind, Key: s.Key, Subject: s.Subject, Destination: s.Destination, Payload: s.Payload,
		Generation: generation, Attempt: 1, EffectKey: effectKey, Begin: func() error { return nil },
	})
	t.saw(effectKey, r)
	return r
}

func (t *trials) once(ctx context.Context) ([]string, error) {
	if _, err := t.world.fleet(ctx, 1); err != nil {
		return nil, err
	}
	s, key := t.spec("once")
	began := time.Now()
	err := t.deliver(ctx, s)
	t.took = time.Since(began)
	t.world.fire(1)
	return []string{key}, err
}

func (t *trials) againLater(ctx context.Context) ([]string, error) {
	s, key := t.spec("once")
	pause.For(ctx, t.Wait)
	t.world.fire(1)
	if r := t.send(ctx, s, 1); r.Outcome != job.OutcomeDelivered {
		return []string{key}, fmt.Errorf("a key that it has acted under is not answered with 2xx: %s", cmp.Or(r.Detail, string(r.Code)))
	}
	return []string{key}, nil
}

// first has a hook act at the first moment of a job alone.
func first(key string, act hook) hook {
	var once sync.Once
	return func(m moment) (err error) {
		if m.key == key {
			once.Do(func() { err = act(m) })
		}
		return err
	}
}

func (t *trials) replyLost(ctx context.Context) ([]string, error) {
	s, key := t.spec("reply-lost")
	t.world.on(done, first(s.Key, func(moment) error {
		t.world.fire(1)
		return &errReplaced{job.MayBeDone(job.CodeConnectionLost, "the answer was lost on its way")}
	}))
	return []string{key}, t.deliver(ctx, s)
}

// connectionCut breaks the connection sooner and sooner, until the handler was at work.
func (t *trials) connectionCut(ctx context.Context) ([]string, error) {
	const tries = 6
	var keys []string
	for n := range tries {
		s, key := t.spec(fmt.Sprintf("connection-cut-%d", n))
		keys = append(keys, key)
		after := t.took >> (n + 1)
		if n == tries-1 {
			after = 0
		}
		var mu sync.Mutex
		cut := false
		t.world.on(begun, first(s.Key, func(m moment) error {
			time.AfterFunc(after, m.cut)
			return nil
		}))
		t.world.on(done, first(s.Key, func(m moment) error {
			mu.Lock()
			defer mu.Unlock()
			if cut = m.result.Outcome == job.OutcomeUnknown; cut {
				t.world.fire(1)
			}
			return nil
		}))
		if err := t.deliver(ctx, s); err != nil {
			return keys, err
		}
		mu.Lock()
		enough := cut
		mu.Unlock()
		if enough {
			break
		}
	}
	return keys, nil
}

func (t *trials) twoAtOnce(ctx context.Context) ([]string, error) {
	const pairs = 10
	var keys []string
	for n := range pairs {
		s, key := t.spec(fmt.Sprintf("two-at-once-%d", n))
		keys = append(keys, key)
		var sending sync.WaitGroup
		for range 2 {
			sending.Go(func() { t.send(ctx, s, 1) })
		}
		sending.Wait()
		t.world.fire(1)
		// Whoever was told to come again comes again.
		err := t.world.awaitThat(ctx, "the handler answers 2xx", func() bool { return t.send(ctx, s, 1).Outcome == job.OutcomeDelivered })
		if err != nil {
			return keys, err
		}
	}
	return keys, nil
}

func (t *trials) workerDies(ctx context.Context) ([]string, error) {
	s, key := t.spec("worker-dies")
	t.world.on(done, first(s.Key, func(m moment) error {
		t.world.fire(1)
		m.proc.kill()
		return nil
	}))
	if _, err := t.world.worker(ctx); err != nil { // another takes its place
		return nil, err
	}
	return []string{key}, t.deliver(ctx, s)
}

func (t *trials) otherKeys(ctx context.Context) ([]string, error) {
	var keys []string
	for _, name := range []string{"other-keys-a", "other-keys-b"} {
		s, key := t.spec(name)
		keys = append(keys, key)
		if err := t.deliver(ctx, s); err != nil {
			return keys, err
		}
	}
	s, _ := t.spec("other-keys-a")
	r := t.send(ctx, s, 2)
	t.world.fire(1)
	keys = append(keys, job.WireEffectKey(s.Kind, s.Key, 2, httpchan.Name))
	if r.Outcome != job.OutcomeDelivered {
		return keys, fmt.Errorf("the key of a next generation is not answered with 2xx: %s", cmp.Or(r.Detail, string(r.Code)))
	}
	return keys, nil
}
