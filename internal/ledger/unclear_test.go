package ledger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Through a bad hour the same references fail again and again, of one session after the
// other: each is looked for once, and none for ever.
func TestUnclearLeasesAreRememberedOnceAndNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var u unclearLeases
		refs := []job.Ref{{Job: 1, Generation: 1, Emission: 1}, {Job: 2, Generation: 1, Emission: 1}}
		for range 100 {
			u.note("ended", refs, machine.ErrUnclear)
		}
		u.note("ended", []job.Ref{{Job: 3, Generation: 1, Emission: 1}}, machine.ErrWorkerEnded)
		require.Equal(t, refs, u.of("ended"))
		require.Empty(t, u.of("another"))

		<-time.After(unclearFor - time.Second)
		u.note("next", refs[:1], machine.ErrUnclear)
		require.Equal(t, refs, u.of("ended"))
		<-time.After(time.Second)
		require.Equal(t, refs[:1], u.of("next"))
		require.Len(t, u.until, 1, "nobody asks for the worker that has ended")
		require.Empty(t, u.of("ended"))
	})
}
