package dispatch

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// C42: the broker loses messages and remembers their ids. The same page, relayed again since
// the cursor could not move, is answered as a duplicate of what is gone. That is a loss like
// any other: the ledger finds it, and announces it as another message.
func TestC42ADuplicateOfWhatIsGoneIsFoundByTheLedger(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var sent, failed atomic.Int32
		w.broker.SetFaults(membus.Faults{Fate: func(m bus.Message) membus.Fate {
			if m.Type == bus.TypeWork && carriesFirst(w, m) {
				sent.Add(1)
				return membus.Lose // its id stays
			}
			return membus.Keep
		}})
		want := w.enqueue("main", 5)
		w.ledger.Faults(func(method string) memledger.Fault {
			if method == "Advance" && failed.Add(1) == 1 {
				return memledger.Fail
			}
			return memledger.None
		})
		defer w.dispatcher()()
		var arrived []int64
		for range 120 {
			w.wait(time.Second)
			for _, m := range messages(w.T, w.broker.Connect(), "main") {
				if m.Type == bus.TypeMark {
					mark, err := bus.DecodeMark(m.Body)
					require.NoError(w, err)
					require.NoError(w, w.ledger.PassMark(w.Context(), "main", 0, mark.Number))
					continue
				}
				got, err := bus.DecodeEnvelope(m.Body)
				require.NoError(w, err)
				for _, r := range got.Refs {
					arrived = append(arrived, r.Job)
				}
			}
			_, _, err := w.ledger.Judge(w.Context(), "main", time.Hour, 1000)
			require.NoError(w, err)
		}
		require.Greater(w, failed.Load(), int32(1), "the page was relayed again")
		require.Greater(w, sent.Load(), int32(5), "and its copies were answered")
		slices.Sort(arrived)
		require.Equal(w, want, slices.Compact(arrived))
	})
}

// carriesFirst reports whether the message announces anything for the first time.
func carriesFirst(w *world, m bus.Message) bool {
	e, err := bus.DecodeEnvelope(m.Body)
	require.NoError(w, err)
	return slices.ContainsFunc(e.Refs, func(r job.Ref) bool { return r.Emission == 1 })
}
