package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"duly.dev/duly/internal/pause"
)

// hookServer receives webhooks as hookPlan says. It keeps every Idempotency-Key: what
// it did under a key it does once, also when it is asked twice at once or after a
// restart, and then answers as it did.
type hookServer struct {
	book     *logbook
	server   *http.Server
	listener net.Listener
	tries    tries
	serving  sync.WaitGroup

	mu    sync.Mutex
	known map[string]*known
}

// known is a key that was seen.
type known struct {
	mu   sync.Mutex
	done bool
}

// startHooks serves on the address until stop. What its log holds it has done.
func startHooks(address, logPath string) (*hookServer, error) {
	seen, err := readLogbook(logPath)
	if err != nil {
		return nil, err
	}
	book, err := openLogbook(logPath)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the receiver of webhooks: %w", err), book.close())
	}
	h := &hookServer{book: book, listener: listener, known: make(map[string]*known)}
	for key := range effects(seen) {
		h.known[key] = &known{done: true}
	}
	h.server = &http.Server{
		Handler: http.HandlerFunc(h.receive), ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // it misbehaves on purpose
	}
	h.serving.Go(func() { _ = h.server.Serve(listener) }) // it ends when the listener does
	return h, nil
}

// address is where the receiver listens, host:port.
func (h *hookServer) address() string { return h.listener.Addr().String() }

// stop ends the connections and closes the log.
func (h *hookServer) stop(context.Context) error {
	err := h.server.Close()
	h.serving.Wait()
	return errors.Join(err, h.book.close())
}

// receive answers one request.
func (h *hookServer) receive(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxMail)); err != nil || key == "" {
		http.Error(w, "an Idempotency-Key and a body of at most 1 MiB are needed", http.StatusBadRequest)
		return
	}
	plan := hookAt(r.URL.Path)
	misbehaves := h.tries.next(key) <= plan.tries
	if !misbehaves || plan.acts {
		if err := h.act(key, r.URL.Path); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if !misbehaves {
		h.answer(w, key, http.StatusOK)
		return
	}
	pause.For(r.Context(), plan.delay)
	if plan.status == 0 {
		panic(http.ErrAbortHandler) // how net/http closes a connection without an answer
	}
	if plan.retryAfter != "" {
		w.Header().Set("Retry-After", plan.retryAfter)
	}
	h.answer(w, key, plan.status)
}

func (h *hookServer) answer(w http.ResponseWriter, key string, status int) {
	if status == http.StatusOK {
		w.Header().Set("X-Receipt", "receipt-"+key)
	}
	w.WriteHeader(status)
}

// act does what the key stands for, once.
func (h *hookServer) act(key, path string) error {
	k := h.keep(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := h.book.write(sighting{At: time.Now(), Effect: key, To: path, Repeat: k.done}); err != nil {
		return err
	}
	k.done = true
	return nil
}

func (h *hookServer) keep(key string) *known {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, ok := h.known[key]
	if !ok {
		k = &known{}
		h.known[key] = k
	}
	return k
}
