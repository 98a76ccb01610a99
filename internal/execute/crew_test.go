package execute

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

const crewSize = 50

// batches gives the crew attempts in batches of growing size, as leases do.
func (c *crew) batches(attempts []*attempt) {
	for n := 1; len(attempts) > 0; n++ {
		n = min(n, len(attempts))
		c.start(attempts[:n])
		attempts = attempts[n:]
	}
}

func newAttempts() []*attempt {
	all := make([]*attempt, crewSize)
	for i := range all {
		all[i] = &attempt{}
	}
	return all
}

func TestNoAttemptWaitsForTheEndOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun, ended atomic.Int32
		end := make(chan struct{})
		c := crew{perform: func(*attempt) { begun.Add(1); <-end; ended.Add(1) }}
		c.batches(newAttempts())
		synctest.Wait()
		require.EqualValues(t, crewSize, begun.Load())
		c.start(newAttempts()[:1]) // while all the others are busy
		synctest.Wait()
		require.EqualValues(t, crewSize+1, begun.Load())
		close(end)
		synctest.Wait()
		require.EqualValues(t, crewSize+1, ended.Load())
		c.start(newAttempts()[:1]) // when all have gone home
		synctest.Wait()
		require.EqualValues(t, crewSize+2, ended.Load())
	})
}

func TestAnAttemptThatEndsItsGoroutineStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		c := crew{perform: func(*attempt) { begun.Add(1); runtime.Goexit() }}
		c.batches(newAttempts())
		synctest.Wait()
		require.EqualValues(t, crewSize, begun.Load())
	})
}

func TestEachAttemptRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ran := map[*attempt]int{}
		c := crew{perform: func(a *attempt) { mu.Lock(); ran[a]++; mu.Unlock() }}
		all := newAttempts()
		var putters sync.WaitGroup
		for i := range 5 {
			putters.Go(func() { c.batches(all[i*crewSize/5 : (i+1)*crewSize/5]) })
		}
		putters.Wait()
		synctest.Wait()
		for _, a := range all {
			require.Equal(t, 1, ran[a])
		}
		require.Len(t, ran, crewSize)
	})
}
