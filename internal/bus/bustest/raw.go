package bustest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

// rawCases receive what Duly did not send.
var rawCases = map[string]func(*testing.T, *fixture){
	"what Duly did not send arrives without a type and blocks nothing": foreign,
}

// damageCases receive what cannot be decoded.
var damageCases = map[string]func(*testing.T, *fixture){
	"what cannot be decoded arrives as damaged and blocks nothing": damaged,
}

// foreign is what is undecodable, truncated, of another program, and larger than anything
// that Duly sends.
func foreign(t *testing.T, f *fixture) {
	var many strings.Builder
	for n := range bus.MaxRefs + 1 {
		fmt.Fprintf(&many, "[%d,1,1],", n+1)
	}
	bodies := []string{
		"", "{", `{"kind":"reminder","lane":"mail","refs":[[1,1`, "\x00\xff", `{"order": 1842}`,
		fmt.Sprintf(`{"kind":"reminder","lane":"mail","refs":[%s],"outbox":1}`, strings.TrimSuffix(many.String(), ",")),
		string(bytes.Repeat([]byte("x"), f.bus.MaxMessage())),
	}
	publish(t, f.bus, work(1, 1)...)
	for _, body := range bodies {
		f.Raw(t, lane, []byte(body))
	}
	publish(t, f.bus, work(2, 1)...)
	got := receive(t, consume(t, f.bus), len(bodies)+2, 10)
	var came []string
	for _, d := range got {
		if m := d.Message(); m.Type != bus.TypeWork {
			require.Empty(t, m.Type)
			came = append(came, string(m.Body))
		}
	}
	require.ElementsMatch(t, bodies, came)
	require.ElementsMatch(t, []int64{1, 2}, jobsOf(t, got))
	ack(t, got...)
}

// damaged: what comes is the same each time, so that it is set aside once, and not again
// once that is acknowledged.
func damaged(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	f.Damage(t, lane)
	publish(t, f.bus, work(11, 10)...)
	f.Damage(t, lane)
	dying := f.connect(t)
	got := receive(t, consume(t, dying), 22, 30)
	first := damagedAmong(got)
	require.Len(t, first, 2)
	require.ElementsMatch(t, numbers(1, 20), jobsOf(t, got))
	f.Crash(t, dying)
	c := consume(t, f.bus)
	got = receive(t, c, 22, 30)
	require.ElementsMatch(t, first, damagedAmong(got))
	require.ElementsMatch(t, numbers(1, 20), jobsOf(t, got))
	ack(t, got...)
	require.NoError(t, c.Close())
	publish(t, f.bus, work(21, 10)...)
	c = consume(t, f.connect(t))
	receiveSet(t, c, numbers(21, 10)...)
	receiveNone(t, c, f.Visibility/2)
}

// damagedAmong are the bodies of what came damaged.
func damagedAmong(deliveries []bus.Delivery) (bodies []string) {
	for _, d := range deliveries {
		if m := d.Message(); m.Type == bus.TypeDamaged {
			bodies = append(bodies, string(m.Body))
		}
	}
	return bodies
}
