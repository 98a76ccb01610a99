package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func admin(t *testing.T, ready *Readiness, pprof bool) *Admin {
	t.Helper()
	registry := NewRegistry("v1")
	registry.MustRegister(ready)
	a, err := NewAdmin(AdminOptions{
		Addr: "127.0.0.1:0", Process: &Process{Name: "duly-test", Version: "v1", Log: quiet()},
		Registry: registry, Readiness: ready, Pprof: pprof,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Stop(context.Background())) })
	return a
}

func get(t *testing.T, a *Admin, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + a.Addr() + path)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestTheAdminServerAnswersMetricsAndHealth(t *testing.T) {
	t.Parallel()
	ready := &Readiness{}
	succeeded := ready.Loop("claim", time.Hour)
	a := admin(t, ready, false)
	a.Start()

	code, body := get(t, a, "/livez")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"process": "duly-test"`)

	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "claim has not succeeded yet")

	succeeded()
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusOK, code)
	var status Status
	require.NoError(t, json.Unmarshal([]byte(body), &status))
	require.True(t, status.Ready)
	require.Equal(t, "claim", status.Loops[0].Loop)

	code, body = get(t, a, "/metrics")
	require.Equal(t, http.StatusOK, code)
	for _, want := range []string{`duly_build_info{`, `version="v1"`, `duly_loop_last_success_timestamp_seconds{loop="claim"}`, "go_goroutines"} {
		require.Contains(t, body, want)
	}

	code, _ = get(t, a, "/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code, "profiles are served only where asked")
	code, body = get(t, a, "/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "/readyz")

	ready.Stopping()
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, `"stopping": true`)
}

func TestProfilesAreServedWhereAsked(t *testing.T) {
	t.Parallel()
	a := admin(t, &Readiness{}, true)
	a.Start()
	code, _ := get(t, a, "/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
}

func TestATakenPortIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	a := admin(t, &Readiness{}, false)
	_, err := NewAdmin(AdminOptions{Addr: a.Addr(), Process: &Process{Log: quiet()}, Registry: NewRegistry(""), Readiness: &Readiness{}})
	require.ErrorContains(t, err, "--admin-addr")
}

func TestReadinessIsTheLastSuccessOfEveryLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := &Readiness{}
		require.True(t, ready.Status().Ready, "a process without loops is ready")
		claim, relay := ready.Loop("claim", 10*time.Second), ready.Loop("relay", time.Minute)
		claim()
		require.False(t, ready.Status().Ready, "one loop has not succeeded yet")
		relay()
		require.True(t, ready.Status().Ready)
		<-time.After(11 * time.Second)
		status := ready.Status()
		require.False(t, status.Ready)
		require.Equal(t, "claim last succeeded 11s ago; its bound is 10s", status.Loops[0].Why)
		require.True(t, status.Loops[1].Ready)
		claim()
		require.True(t, ready.Status().Ready, "it recovers with the next success")
	})
}

// A process that still waits for its ledger has no loops that could say so.
func TestAProcessIsNotReadyBeforeItHasWhatItsLoopsNeed(t *testing.T) {
	t.Parallel()
	ready := &Readiness{}
	ready.Starting()
	status := ready.Status()
	require.False(t, status.Ready)
	require.True(t, status.Starting)
	ready.Started()
	require.True(t, ready.Status().Ready)
}

// What alerts on a loop that stands must see one that never succeeded.
func TestALoopThatHasNotSucceededShowsSinceWhen(t *testing.T) {
	t.Parallel()
	ready := &Readiness{}
	before := time.Now()
	ready.Loop("claim", time.Minute)
	registry := prometheus.NewRegistry()
	registry.MustRegister(ready)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.InDelta(t, before.Unix(), families[0].GetMetric()[0].GetGauge().GetValue(), 60)
}

func TestMetricNamesFollowTheConventions(t *testing.T) {
	t.Parallel()
	registry := NewRegistry("v1")
	ready := &Readiness{}
	ready.Loop("claim", time.Second)()
	registry.MustRegister(ready)
	problems, err := testutil.GatherAndLint(registry, "duly_build_info", "duly_loop_last_success_timestamp_seconds")
	require.NoError(t, err)
	require.Empty(t, problems)
}
