package eval

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// receiver is an HTTP receiver that writes down every request, and every effect before it
// answers. It knows nothing of the ledger. What it does with a request is its plan's affair;
// without one it acts, and says so.
type receiver struct {
	url     string
	server  *http.Server
	serving sync.WaitGroup
	over    chan struct{} // closed at its end

	mu    sync.Mutex
	plan  func(*visit)
	known map[string]*effect
	// forgets: it does not dedupe, whatever was promised of it.
	forgets bool
}

// effect is what a receiver knows of one effect key.
type effect struct {
	// requests came under the key; of effects, a receiver that dedupes has one at most.
	requests, effects int
	// repeats were answered from memory.
	repeats int
	// working counts requests that it works on.
	working int
	last    time.Time // when the last request came
}

// visit is one request.
type visit struct {
	receiver *receiver
	response http.ResponseWriter
	gone     context.Context //nolint:containedctx // it ends with the client, which is what a visit waits for
	kind     string
	key      string
	nth      int // of the requests under the key, from 1
}

// maxBody is the largest body of a request, in bytes.
const maxBody = 1 << 20

// startReceiver serves on a free port until stop.
func startReceiver() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a receiver: %w", err)
	}
	r := &receiver{url: "http://" + listener.Addr().String(), over: make(chan struct{}), known: make(map[string]*effect)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects", r.lookup)
	mux.HandleFunc("POST /", r.receive)
	r.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // it misbehaves on purpose
	}
	r.serving.Go(func() { _ = r.server.Serve(listener) }) // it ends when the listener does
	return r, nil
}

// stop ends the connections.
func (r *receiver) stop(context.Context) error {
	close(r.over)
	err := r.server.Close()
	r.serving.Wait()
	return err
}

// plans sets what is done with requests from now on; nil acts and says so.
func (r *receiver) plans(plan func(*visit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = plan
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	key := request.Header.Get("Idempotency-Key")
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, request.Body, maxBody)); err != nil || key == "" {
		return // the client was ended before it had sent everything: there is no request
	}
	v := &visit{receiver: r, response: w, gone: request.Context(), kind: request.Header.Get("Duly-Kind"), key: key}
	r.mu.Lock()
	e := r.of(key)
	e.requests++
	e.working++
	e.last = time.Now()
	v.nth = e.requests
	plan := r.plan
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.working--
	}()
	if plan == nil {
		plan = obliging
	}
	plan(v)
}

// obliging is what a good receiver does.
func obliging(v *visit) {
	v.act()
	v.answer(http.StatusOK)
}

// of returns what is known of the key, with the lock held.
func (r *receiver) of(key string) *effect {
	e := r.known[key]
	if e == nil {
		e = &effect{}
		r.known[key] = e
	}
	return e
}

// lookup says what became of an effect.
func (r *receiver) lookup(w http.ResponseWriter, request *http.Request) {
	e := r.effect(request.URL.Query().Get("key"))
	switch {
	case e.effects > 0:
		w.Header().Set("X-Receipt", "found")
	case e.working > 0 && !r.forgetful():
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (r *receiver) forgetful() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forgets
}

// breaks has the receiver keep none of what was promised of it.
func (r *receiver) breaks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets = true
}

// effect returns a copy of what is known of the key.
func (r *receiver) effect(key string) effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.known[key]; e != nil {
		return *e
	}
	return effect{}
}

// effects returns a copy of everything that is known.
func (r *receiver) effects() map[string]effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]effect, len(r.known))
	for key, e := range r.known {
		all[key] = *e
	}
	return all
}

// act has the effect, once a key where the kind's receiver was promised to dedupe.
func (v *visit) act() {
	r := v.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.of(v.key)
	if dedupes(v.kind) && e.effects > 0 && !r.forgets {
		e.repeats++
		return
	}
	e.effects++
}

// dedupes reports whether receivers of the kind are promised to dedupe.
func dedupes(kind string) bool { return kind == deduped || kind == cleaned }

func (v *visit) answer(status int) {
	if status == http.StatusOK {
		v.response.Header().Set("X-Receipt", "receipt-of-"+v.key)
	}
	v.response.WriteHeader(status)
}

// hangUp closes the connection without an answer.
func (v *visit) hangUp() { panic(http.ErrAbortHandler) }

// untilGone waits until the client has given up.
func (v *visit) untilGone() {
	select {
	case <-v.gone.Done():
	case <-v.receiver.over:
	}
}

// rest waits for d, whatever the client does.
func (v *visit) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.receiver.over:
	}
}
