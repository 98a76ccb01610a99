package kafkabus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Nothing comes with the polls of a lane that is idle, so nothing says that the trouble is
// over; trouble that stands is said with each.
func TestARefusalThatIsNotRepeatedIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &member{label: "work.main", consumers: 1}
		denied := errors.New("not authorized")
		require.NoError(t, m.healthy())
		for range 100 {
			m.refused(denied)
			<-time.After(suspectEvery + fetchWait)
			require.ErrorIs(t, m.healthy(), denied)
		}
		<-time.After(refusalStands)
		require.NoError(t, m.healthy())

		m.worry(denied)
		<-time.After(time.Hour)
		require.ErrorIs(t, m.healthy(), denied, "it is not in the group")
	})
}
