package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

const (
	oldBus = "nats://old:4222"
	newBus = "kafka://new:9092"
)

func (b *bench) moveBus() {
	b.t.Helper()
	require.NoError(b.t, b.MoveBus(b.t.Context(), machine.BusMove{From: oldBus, To: newBus, Actor: "alice"}))
}

// Whatever is ready when the lanes move is announced again at the emission that it
// has; what is settled or was lost before and announced anew comes once.
func TestEverythingReadyIsAnnouncedOnTheBusThatLanesMoveTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	lost := b.enqueue("lost", 3)
	b.announced()
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 3, b.judge(2), "judged, and announced anew behind the judge")
	again := b.announced()
	onOld := b.enqueue("old", 4)
	b.announced()
	taken := b.lease(onOld[:2]...)
	require.Len(t, taken, 2)
	fresh := b.enqueue("fresh", 2)

	b.moveBus()
	_, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.ErrorIs(t, err, machine.ErrLostTopic, "whoever relays to the old bus moves no cursor any more")
	b.claim(lane)
	announced := b.announced()
	for _, r := range slices.Concat(again, onOld[2:], fresh) {
		require.Contains(t, announced, r)
	}
	for _, r := range lost {
		require.NotContains(t, announced, r, "that emission was judged lost")
	}
	require.Len(t, b.lease(announced...), 3+2+2, "each is leased once; what had been leased is stale")
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'move bus' AND actor = 'alice' AND detail->>'from' = $1 AND detail->>'to' = $2`, oldBus, newBus))
}

// A mark on the old bus would speak for what waits on the new one.
func TestMarksOnTheOldBusAreVoidAfterAMove(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	for i := range 5 {
		b.enqueue(fmt.Sprint("a", i), 1)
	}
	b.announced()
	passed, standing := b.mark(0), b.mark(0)
	b.pass(0, passed.Number)
	b.ripen()
	_, more, err := b.Judge(t.Context(), lane, contact, 2)
	require.NoError(t, err)
	require.True(t, more, "the judge is in the middle of it")

	b.moveBus()
	b.pass(0, standing.Number)
	b.ripen()
	require.Zero(t, b.judge(10), "nothing that waits on the new bus is called lost")
	b.claim(lane)
	b.announced()
	next := b.mark(0)
	b.pass(0, next.Number)
	b.ripen()
	require.Equal(t, 5-2+2, b.judge(10), "the next mark speaks for all of it")
}

// A lane that was never judged begins at the beginning.
func TestLaneWithoutAJudgeMovesWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 3)
	require.Equal(t, refs, b.announced())
	b.moveBus()
	b.claim(lane)
	require.Equal(t, refs, b.announced())
}

func TestMoveFromAnotherBusIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	current := func() string {
		address, err := b.Bus(t.Context())
		require.NoError(t, err)
		return address
	}
	require.Empty(t, current())
	move := func(from, to, actor string) error {
		return b.MoveBus(t.Context(), machine.BusMove{From: from, To: to, Actor: actor})
	}
	require.ErrorIs(t, move(oldBus, oldBus, "alice"), machine.ErrBus)
	require.ErrorIs(t, move("", newBus, "alice"), machine.ErrBus)
	require.ErrorIs(t, move(oldBus, newBus, ""), machine.ErrBus)
	require.NoError(t, move(oldBus, newBus, "alice"))
	require.Equal(t, newBus, current())
	require.ErrorContains(t, move(oldBus, newBus, "alice"), "they are on kafka://new:9092 already")
	require.ErrorContains(t, move(oldBus, "nats://third:4222", "alice"), "they are on kafka://new:9092, not on nats://old:4222")
	require.NoError(t, move(newBus, oldBus, "alice"), "and back")
}

func TestLanesWithoutADispatcherAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unheld := func() []string {
		lanes, err := b.UnheldLanes(t.Context())
		require.NoError(t, err)
		return lanes
	}
	require.Contains(t, unheld(), lane)
	b.claim(lane)
	require.NotContains(t, unheld(), lane)
	b.moveBus()
	require.Contains(t, unheld(), lane)
	held, err := b.ClaimTopic(t.Context(), lane, b.holder, time.Minute)
	require.NoError(t, err)
	require.True(t, held)
	require.NotContains(t, unheld(), lane)
}
