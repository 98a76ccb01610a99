package failpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRulesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"worker-leased":           "PLACE=ACT",
		"worker-leased=boom":      `act "boom"`,
		"nowhere=crash":           `no place "nowhere"`,
		"worker-leased=error":     "offers [crash pause]",
		"settle-reply=error":      "offers [crash pause lose]",
		"worker-leased=crash@0":   "number of a pass",
		"worker-leased=crash@x":   "number of a pass",
		"worker-leased=crash%0":   "a share above 0",
		"worker-leased=crash%101": "a share above 0",
		"worker-leased=pause:-1s": "duration of a pause",
		"worker-leased=crash:1s":  "duration of a pause",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, says, text)
	}
	_, err := Parse("nowhere=crash, worker-leased=boom")
	require.ErrorContains(t, err, "nowhere")
	require.ErrorContains(t, err, "boom", "all that is wrong is told at once")
}

func TestARuleFiresWhenItSays(t *testing.T) {
	t.Parallel()
	rules, err := Parse(" worker-leased=crash@3 , settle-reply=lose, lease-call=pause:2s@1,")
	require.NoError(t, err)
	require.Len(t, rules, 3)
	leased, settled := infos()[WorkerLeased], infos()[SettleReply]
	require.Equal(t, []Act{"", "", Crash, ""}, passes(rules[0], 1, leased, 4))
	require.Equal(t, []Act{Lose, Lose, Lose}, passes(rules[1], 1, settled, 3))
	require.Equal(t, []Act{"", ""}, passes(rules[0], 1, settled, 2), "a rule is about its place alone")
	require.Equal(t, 2*time.Second, rules[2].pause)
}

func TestTheDiceArePureFunctionsOfSeedRulePlaceAndPass(t *testing.T) {
	t.Parallel()
	rules, err := Parse("*=any%20,*=lose%20")
	require.NoError(t, err)
	reply, done := infos()[SettleReply], infos()[WorkerDone]
	first := passes(rules[0], 7, reply, 500)
	require.Equal(t, first, passes(rules[0], 7, reply, 500))
	require.NotEqual(t, passes(rules[0], 7, reply, 500), passes(rules[0], 8, reply, 500))
	require.NotEqual(t, passes(rules[0], 7, reply, 500), passes(rules[0], 7, done, 500))

	acts := map[Act]int{}
	for _, a := range passes(rules[0], 7, reply, 5000) {
		acts[a]++
	}
	require.InDelta(t, 1000, 5000-acts[""], 150, "a share is what it says")
	for _, a := range reply.Acts() {
		require.InDelta(t, 333, acts[a], 100, "any act is each of those that the place offers, equally often")
	}
	require.Equal(t, make([]Act, 500), passes(rules[1], 7, done, 500), "a place that has no reply to lose loses none")
}

// passes are what a rule does at the first n passes.
func passes(r Rule, seed uint64, i Info, n int) []Act {
	acts := make([]Act, n)
	for pass := range n {
		acts[pass] = r.at(seed, i, pass+1)
	}
	return acts
}
