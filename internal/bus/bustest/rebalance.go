package bustest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var rebalanceCases = map[string]func(*testing.T, *fixture){
	"a consumer that comes while another is slow costs nothing": comesWhileSlow,
	"consumers that come and go all the time cost nothing":      comeAndGo,
}

// comesWhileSlow: what the slow one holds is acknowledged after the other has come, and
// perhaps taken its partitions over.
func comesWhileSlow(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 200)...)
	slow := consume(t, f.bus)
	held := receive(t, slow, 50, 50)
	other := f.connect(t)
	all := startReceiving(t, consume(t, other))
	publish(t, f.bus, work(201, 50)...)
	ack(t, held[25:]...) // a hole in front
	also := startReceiving(t, slow)
	ack(t, held[:25]...)
	missing := setOf(numbers(1, 250))
	for _, id := range jobsOf(t, held) {
		delete(missing, id)
	}
	untilAll(t, missing, all, also)
	all.stop()
	also.stop()
	require.NoError(t, other.Close())
	// Nothing that was acknowledged is forgotten, and nothing is left over.
	receiveNone(t, slow, f.Visibility+f.Visibility/2)
}

// comeAndGo is one consumer after the other that dies or leaves while it holds something.
func comeAndGo(t *testing.T, f *fixture) {
	const rounds, each = 5, 40
	steady := startReceiving(t, consume(t, f.bus))
	for round := range rounds {
		publish(t, f.bus, work(1+round*each, each)...)
		b := f.connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), f.Visibility/2)
		_, err := consume(t, b).Receive(ctx, each)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		if round%2 == 0 {
			f.Crash(t, b)
		} else {
			require.NoError(t, b.Close())
		}
	}
	untilAll(t, setOf(numbers(1, rounds*each)), steady)
}

// rawCases receive what Duly did not send.
var rawCases = map[string]func(*testing.T, *fixture){
	"what Duly did not send arrives without a type and blocks nothing": foreign,
}

func foreign(t *testing.T, f *fixture) {
	bodies := []string{"", "{", `{"kind":"reminder","lane":"mail","refs":[[1,1`, "\x00\xff"}
	for _, body := range bodies {
		f.Raw(t, lane, []byte(body))
	}
	publish(t, f.bus, work(1, 1)...)
	got := receive(t, consume(t, f.bus), len(bodies)+1, 10)
	var came []string
	for _, d := range got {
		if m := d.Message(); m.Type != bus.TypeWork {
			require.Empty(t, m.Type)
			came = append(came, string(m.Body))
		}
	}
	require.ElementsMatch(t, bodies, came)
	require.Equal(t, []int64{1}, jobsOf(t, got))
	ack(t, got...)
}
