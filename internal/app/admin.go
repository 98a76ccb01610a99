package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry of its own for a process, with the metrics of the
// process, of Go and of the build.
func NewRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "duly_build_info",
		Help:        "1, labelled by what this process was built from.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Admin serves what operators and their tools ask a process: /metrics, /livez,
// /readyz and, where wanted, /debug/pprof.
type Admin struct {
	listener net.Listener
	server   *http.Server
	failed   chan error
}

// AdminOptions are what NewAdmin needs.
type AdminOptions struct {
	// Addr is host:port; port 0 takes a free one.
	Addr string
	// Process names the process and its version in answers.
	Process *Process
	// Registry is what /metrics shows.
	Registry *prometheus.Registry
	// Readiness is what /readyz shows.
	Readiness *Readiness
	// Pprof serves /debug/pprof.
	Pprof bool
}

// NewAdmin binds the address, so that Addr is known and a taken port is an error
// here. Nothing is served before Start.
func NewAdmin(o AdminOptions) (*Admin, error) {
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin server: %w (choose another with --admin-addr or DULY_ADMIN_ADDR; port 0 takes a free one)", err)
	}
	return &Admin{
		listener: listener,
		server: &http.Server{
			Handler:           o.handler(time.Now()),
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       time.Minute,
			ErrorLog:          slog.NewLogLogger(o.Process.Log.Handler(), slog.LevelWarn),
		},
		failed: make(chan error, 1),
	}, nil
}

// Addr is where the server listens, such as "127.0.0.1:9101".
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// Start serves until Stop. Call it once.
func (a *Admin) Start() {
	go func() {
		if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("admin server: %w", err)
		}
		close(a.failed)
	}()
}

// Watch is a loop for a Group: it returns when ctx ends, or with an error when
// serving fails. The server goes on until Stop, so that a process that drains can
// be watched.
func (a *Admin) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.failed:
		return err
	}
}

// Stop ends the server, started or not, after the requests that are being answered.
func (a *Admin) Stop(ctx context.Context) error {
	err := a.server.Shutdown(ctx)
	if closed := a.listener.Close(); !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// handler routes the admin paths.
func (o AdminOptions) handler(started time.Time) http.Handler {
	mux := http.NewServeMux()
	paths := []string{"/livez", "/readyz", "/metrics"}
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry, EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"alive": true, "process": o.Process.Name, "version": o.Process.Version,
			"up": time.Since(started).Round(time.Second).String(),
		})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status, code := o.Readiness.Status(), http.StatusOK
		if !status.Ready {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, status)
	})
	if o.Pprof {
		paths = append(paths, "/debug/pprof/")
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"process": o.Process.Name, "version": o.Process.Version, "paths": paths})
	})
	return mux
}

// answer writes JSON that people can read.
func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(body) //nolint:errchkjson // the client has gone; what is answered can be encoded
}
