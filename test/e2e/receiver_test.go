package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authorization is the credential that receivers ask for.
const authorization = "Bearer credential-of-the-receiver"

// tally is what a receiver has written down, by effect key.
type tally struct {
	mu sync.Mutex
	// asked counts requests, effects what the receiver did because of them.
	asked, effects map[string]int
	// bodies are the digests of what was sent.
	bodies map[string]map[string]bool
	wrong  []string
	// changed is closed and replaced when anything is written down.
	changed chan struct{}
}

func newTally() tally {
	return tally{asked: map[string]int{}, effects: map[string]int{}, bodies: map[string]map[string]bool{}, changed: make(chan struct{})}
}

func (y *tally) notify() {
	close(y.changed)
	y.changed = make(chan struct{})
}

// ask writes a request down and returns how many there were under the key.
func (y *tally) ask(key string, body []byte) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.asked[key]++
	sum := sha256.Sum256(body)
	if y.bodies[key] == nil {
		y.bodies[key] = map[string]bool{}
	}
	y.bodies[key][hex.EncodeToString(sum[:])] = true
	y.notify()
	return y.asked[key]
}

// act writes an effect down; a receiver that dedupes has one a key.
func (y *tally) act(key string, dedupes bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !dedupes || y.effects[key] == 0 {
		y.effects[key]++
	}
	y.notify()
}

func (y *tally) complainf(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.wrong = append(y.wrong, fmt.Sprintf(format, args...))
}

// seen returns copies of the counts of requests and of effects.
func (y *tally) seen() (asked, effects map[string]int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return maps.Clone(y.asked), maps.Clone(y.effects)
}

// count returns the counts of one effect key.
func (y *tally) count(key string) (asked, effects int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.asked[key], y.effects[key]
}

// total returns how many effects there were.
func (y *tally) total() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, effects := range y.effects {
		n += effects
	}
	return n
}

// gate holds requests until it is opened, or until the receiver is closed.
type gate struct {
	opened chan struct{}
	once   sync.Once
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// webReceiver is an HTTP receiver. What it does is the plan's affair; without a plan it
// acts and says so.
type webReceiver struct {
	tally

	url    string
	server *http.Server
	closed chan struct{}

	mu   sync.Mutex
	plan func(*visit)
	// lookups counts the questions about each effect key.
	lookups map[string]int
}

// visit is one request to a webReceiver.
type visit struct {
	receiver *webReceiver
	response http.ResponseWriter
	// key is the effect key, nth which request under it this is, from 1.
	kind, key string
	nth       int
	// gone ends when the client has gone away.
	gone context.Context
}

// newWebReceiver starts a receiver that ends with the test.
func newWebReceiver(t *testing.T) *webReceiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &webReceiver{tally: newTally(), url: "http://" + listener.Addr().String() + "/" + destinationMarker, closed: make(chan struct{}), lookups: map[string]int{}}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			r.complainf("serving: %v", err)
		}
	}()
	t.Cleanup(func() {
		close(r.closed)
		require.NoError(t, r.server.Close())
		<-done
	})
	return r
}

// plans sets what the receiver does with a request.
func (r *webReceiver) plans(plan func(*visit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = plan
}

func (r *webReceiver) serve(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet {
		r.lookup(w, request)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the client was killed before it had sent everything: there is no request
	}
	key := request.Header.Get("Idempotency-Key")
	if got := request.Header.Get("Authorization"); got != authorization {
		r.complainf("%s came with the authorization %q", key, got)
	}
	v := &visit{
		receiver: r, response: w, kind: request.Header.Get("Duly-Kind"), key: key,
		nth: r.ask(key, body), gone: request.Context(),
	}
	r.mu.Lock()
	plan := r.plan
	r.mu.Unlock()
	if plan == nil {
		v.act()
		v.answer(http.StatusOK)
		return
	}
	plan(v)
}

// lookup says what became of an effect, truly; but first it breaks down, and then it says
// that it is not ready.
func (r *webReceiver) lookup(w http.ResponseWriter, request *http.Request) {
	key := strings.TrimPrefix(request.URL.Path, "/effects/")
	if got := request.Header.Get("Authorization"); got != authorization {
		r.complainf("a question about %s came with the authorization %q", key, got)
	}
	r.mu.Lock()
	r.lookups[key]++
	nth := r.lookups[key]
	r.mu.Unlock()
	_, effects := r.count(key)
	switch {
	case nth == 1:
		http.Error(w, payloadMarker+destinationMarker, http.StatusInternalServerError)
	case nth == 2:
		w.WriteHeader(http.StatusAccepted)
	case effects == 0:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = fmt.Fprintf(w, `{"state": "done", "id": "receipt of %d"}`, len(key))
	}
}

// questions is how often it was asked what became of effects.
func (r *webReceiver) questions() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.lookups {
		n += times
	}
	return n
}

// act has the effect. A receiver that has promised to dedupes.
func (v *visit) act() { v.receiver.act(v.key, v.kind == deduped) }

// answer says the status.
func (v *visit) answer(status int) { v.response.WriteHeader(status) }

// hangUp closes the connection without an answer.
func (v *visit) hangUp() { panic(http.ErrAbortHandler) }

// wait holds the request until the gate opens.
func (v *visit) wait(g *gate) {
	select {
	case <-g.opened:
	case <-v.receiver.closed:
	}
}

// waitUntilGone waits until the client has given up.
func (v *visit) waitUntilGone() {
	select {
	case <-v.gone.Done():
	case <-v.receiver.closed:
	}
}

// about reports whether the request is about the job with the key.
func (v *visit) about(key string) bool { return strings.Contains(v.key, "/"+key+":") }
