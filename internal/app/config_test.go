package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// problems returns what is wrong with a configuration, a line each.
func problems(t *testing.T, text string) []string {
	t.Helper()
	_, err := ParseConfig("duly.yaml", []byte(text))
	require.Error(t, err)
	return strings.Split(err.Error(), "\n")
}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := ParseConfig("duly.yaml", []byte(text))
	require.NoError(t, err)
	return c
}

func TestAKindThatSaysNothingHasTheDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, "kinds:\n  ping: {channel: http}\n")
	want := machine.Kind{
		Name: "ping", Lane: "default", Channel: "http", Policy: machine.DefaultPolicy(),
		Promises: machine.Promises{Settle: 20 * time.Second, ResolveWithin: 7 * 24 * time.Hour}, RedriveBy: machine.RoleOperator,
	}
	require.Empty(t, cmp.Diff([]machine.Kind{want}, c.Kinds()))
	require.Equal(t, []Lane{{Name: "default", Pack: 32, Kinds: []string{"ping"}}}, c.Lanes)
	require.Equal(t, WorkerConfig{Slots: 100, LeaseTime: 30 * time.Second, Heartbeat: 5 * time.Second, Drain: 30 * time.Second, PauseBound: 5 * time.Second}, c.Worker)
	require.Equal(t, job.DefaultMaxPayload, c.MaxPayload)
	require.Equal(t, "duly", c.Prefix)
	require.Empty(t, c.Warnings())
	k, ok := c.Kind("ping")
	require.True(t, ok)
	require.NotNil(t, k.HTTP, "an http kind has a channel configuration, also an empty one")
	_, ok = c.Kind("pong")
	require.False(t, ok)
}

func TestEveryKeyIsTakenOver(t *testing.T) {
	t.Parallel()
	c := parse(t, `
prefix: acme
lanes:
  hooks: {pack: 8}
  unused: {}
kinds:
  notify:
    lane: hooks
    channel: http
    limit: 5s
    max_attempts: 3
    max_age: 12h
    max_lifetime: 2d
    base: 10s
    cap: 1m
    jitter: 0.1
    unclassified_cap: 2
    max_hold: 1h
    promises: {window: 24h, settle: 7s, resolve_within: 3d}
    codes: [NO_CONSENT]
    redrive_by: approver
    http: {method: PUT}
worker: {slots: 10, lease_time: 20s, heartbeat: 2s, drain: 15s, pause_bound: 3s}
limits: {max_payload: 1MiB}
`)
	want := machine.Kind{
		Name: "notify", Lane: "hooks", Channel: "http",
		Policy: machine.Policy{
			Limit: 5 * time.Second, MaxAttempts: 3, MaxAge: 12 * time.Hour, MaxLifetime: 48 * time.Hour, Base: 10 * time.Second,
			Cap: time.Minute, Jitter: 0.1, UnclassifiedCap: 2, MaxHold: time.Hour, LeaseTime: 20 * time.Second, PauseBound: 3 * time.Second,
		},
		Promises: machine.Promises{Window: 24 * time.Hour, Settle: 7 * time.Second, ResolveWithin: 72 * time.Hour},
		Codes:    []job.Code{"NO_CONSENT"}, RedriveBy: machine.RoleApprover,
	}
	require.Empty(t, cmp.Diff([]machine.Kind{want}, c.Kinds()))
	require.Equal(t, []string{"hooks", "unused"}, c.LaneNames())
	require.Equal(t, map[string]int{"hooks": 8, "unused": 32}, c.Packs())
	require.Equal(t, "acme", c.Prefix)
	require.Equal(t, 1<<20, c.MaxPayload)
	require.Equal(t, []string{
		"lane unused has no kind",
		"lane unused packs up to 32 references into a message, but a worker has 10 slots: what does not fit is held and comes again; lower lanes.unused.pack or raise worker.slots",
	}, c.Warnings())
	k, _ := c.Kind("notify")
	require.Equal(t, "PUT", k.HTTP.Method)
}

func TestEverythingThatIsWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`duly.yaml:1: prefix: "Duly!": a name is 1 to 64 characters of a-z, 0-9 and '-'`,
		`duly.yaml:3: lanes.mail.pack: "0": it must be between 1 and 1024`,
		`duly.yaml:4: lanes.Bad Lane: a name is 1 to 64 characters of a-z, 0-9 and '-'`,
		`duly.yaml:7: kinds.renewal-reminder.lane: "mial": there is no such lane; declare it as lanes.mial: {}`,
		`duly.yaml:8: kinds.renewal-reminder.limit: "0s": it must be positive`,
		`duly.yaml:9: kinds.renewal-reminder.max_atempts: there is no such key; did you mean "max_attempts"?`,
		`duly.yaml:10: kinds.renewal-reminder.jitter: "2": it must be between 0 and 1`,
		`duly.yaml:11: kinds.renewal-reminder.channel: "fax": it must be http, smtp or go`,
		`duly.yaml:13: kinds.hook.limit: "40s": it must be shorter than worker.lease_time - worker.heartbeat (25s), since an effect must fit into a lease`,
		`duly.yaml:14: kinds.hook.promises.window: "1m": it must be longer than a first attempt (limit + lease_time + pause_bound), one repeat (limit + pause_bound) and settle together (3m20s), or nothing could be repeated inside it`,
		`duly.yaml:15: kinds.hook.promises.lookup: "yes": it must be a mapping of keys to values`,
		`duly.yaml:17: kinds.hook.codes[1]: "no consent": a code is 1 to 64 characters of A-Z, 0-9 and '_', a letter first`,
		`duly.yaml:17: kinds.hook.codes[2]: "THROTTLED": it is one of Duly's own codes, which every kind has`,
		`duly.yaml:17: kinds.hook.codes[3]: "A": it is listed twice`,
		`duly.yaml:18: kinds.hook.redrive_by: "boss": it must be operator or approver`,
		`duly.yaml:20: kinds.hook.http.method: "GET": it must be POST, PUT or PATCH`,
		`duly.yaml:21: kinds.hook.http.allow_networks[0]: "10.0.0.0": it must be a network such as 10.1.0.0/16`,
		`duly.yaml:22: kinds.none.channel: it must be given: http, smtp or go`,
		`duly.yaml:23: kinds.two.http: the kind's channel is "go"; a kind has exactly one channel, two channels are two kinds`,
		`duly.yaml:24: kinds.empty: it has no value; give one or remove the key`,
		`duly.yaml:26: worker.slots: "0": it must be between 1 and 100000`,
		`duly.yaml:27: worker.drain: "thirty": it must be a duration with its unit, such as 500ms, 30s, 10m, 24h or 7d`,
		`duly.yaml:28: limits.max_payload: "10B": it must be between 1KiB and 16MiB`,
	}, problems(t, `prefix: Duly!
lanes:
  mail: {pack: 0}
  Bad Lane: {}
kinds:
  renewal-reminder:
    lane: mial
    limit: 0s
    max_atempts: 3
    jitter: 2
    channel: fax
  hook:
    limit: 40s
    promises: {window: 1m,
      lookup: yes}
    channel: http
    codes: [A, no consent, THROTTLED, A]
    redrive_by: boss
    http:
      method: GET
      allow_networks: [10.0.0.0]
  none: {}
  two: {channel: go, http: {}}
  empty:
worker:
  slots: 0
  drain: thirty
limits: {max_payload: 10B}
`))
}

func TestValuesThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a cap under the base":               {"kinds: {a: {channel: go, base: 1m, cap: 30s}}", `duly.yaml:1: kinds.a.cap: "30s": it must not be shorter than base (1m)`},
		"a lifetime under the age":           {"kinds: {a: {channel: go, max_lifetime: 1h}}", `duly.yaml:1: kinds.a.max_lifetime: "1h": it must not be shorter than max_age (1d)`},
		"an age under the limit":             {"kinds: {a: {channel: go, max_age: 1s}}", `duly.yaml:1: kinds.a.max_age: "1s": it must not be shorter than limit (10s)`},
		"an answer that could never count":   {"kinds: {a: {channel: go, promises: {resolve_within: 1m}}}", `duly.yaml:1: kinds.a.promises.resolve_within: "1m": it must be longer than limit + lease_time + pause_bound + settle (1m5s), or no answer "it did not happen" could ever count`},
		"a window of nothing":                {"kinds: {a: {channel: http, promises: {window: 0s}}}", `duly.yaml:1: kinds.a.promises.window: "0s": it must be longer than a first attempt (limit + lease_time + pause_bound), one repeat (limit + pause_bound) and settle together (1m20s), or nothing could be repeated inside it`},
		"a heartbeat as long as the lease":   {"kinds: {a: {channel: go}}\nworker: {heartbeat: 20s}", `duly.yaml:2: worker.lease_time: it must be at least 3 heartbeats (1m), or a worker that lives loses its leases`},
		"no kind":                            {"prefix: duly", `duly.yaml:1: kinds: at least one kind must be described`},
		"nothing at all":                     {"", `duly.yaml:1: kinds: at least one kind must be described`},
		"a kind whose name is no name":       {"kinds: {A_b: {channel: go}}", `duly.yaml:1: kinds.A_b: a name is 1 to 64 characters of a-z, 0-9 and '-'`},
		"what is no YAML":                    {"kinds: {", "duly.yaml:1: this is not valid YAML: "},
		"a limit that equals lease-hearbeat": {"kinds: {a: {channel: http, limit: 25s}}", `duly.yaml:1: kinds.a.limit: "25s": it must be shorter than worker.lease_time - worker.heartbeat (25s), since an effect must fit into a lease`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := problems(t, c.text)
			require.Len(t, got, 1)
			require.True(t, strings.HasPrefix(got[0], c.want), got[0])
		})
	}
}

func TestALaneWithASlowKindPacksOneByOneUnlessItSaysOtherwise(t *testing.T) {
	t.Parallel()
	c := parse(t, `
lanes: {slow: {}, mixed: {}, chosen: {pack: 4}}
kinds:
  a: {channel: go, lane: slow, limit: 11s}
  b: {channel: go, lane: mixed, limit: 10s}
  c: {channel: go, lane: mixed, limit: 20s}
  d: {channel: go, lane: chosen, limit: 20s}
`)
	require.Equal(t, map[string]int{"slow": 1, "mixed": 1, "chosen": 4}, c.Packs())
	require.Equal(t, []string{
		"lane mixed mixes kinds with a limit over 10s (c) with faster ones (b), which wait behind them: give the slow ones a lane of their own",
	}, c.Warnings())
}

func TestG14ConfigCheckNamesTheKindsThatADeployMayCut(t *testing.T) {
	t.Parallel()
	c := parse(t, "kinds: {report: {channel: go, limit: 10m}, ping: {channel: go}}\nworker: {drain: 1m}")
	require.Contains(t, c.Warnings()[len(c.Warnings())-1],
		"kind report may take 10m, longer than a worker drains (1m): a deploy can end its attempts")
}

func TestAFileThatCannotBeReadSaysHowToNameAnother(t *testing.T) {
	t.Parallel()
	_, err := LoadConfig(filepath.Join(t.TempDir(), "duly.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "--config")
	require.Empty(t, Problems(err))
}

func TestTheSummaryShowsDefaultsAndWarnings(t *testing.T) {
	t.Parallel()
	c := parse(t, "lanes: {spare: {}}\nkinds:\n  hook: {channel: http, promises: {window: 1d}}\n  ping: {channel: go, codes: [MINE]}\n")
	var table bytes.Buffer
	require.NoError(t, c.Summary().Table(&table))
	out := table.String()
	for _, want := range []string{"hook", "repeat within 1d", "ping", "a person decides", "30s to 30m", "32", "256KiB", "warning: lane spare has no kind"} {
		require.Contains(t, out, want)
	}
	encoded, err := json.Marshal(c.Summary())
	require.NoError(t, err)
	var back Summary
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Empty(t, cmp.Diff(c.Summary(), back))
	require.Equal(t, "7d", back.Kinds[1].MaxLifetime)
	require.Equal(t, c.Kinds()[1].Hash(), back.Kinds[1].Hash)
}

func TestProblemsKeepTheirPartsForScripts(t *testing.T) {
	t.Parallel()
	_, err := ParseConfig("duly.yaml", []byte("kinds:\n  a:\n    channel: go\n    limit: 0s\n    colour: red\n"))
	all := Problems(err)
	require.NotEmpty(t, all)
	require.Equal(t, 4, all[0].Line)
	require.Equal(t, "kinds.a.limit", all[0].Field)
	require.Equal(t, "0s", all[0].Value)
	require.Equal(t, 5, all[1].Line)
}
