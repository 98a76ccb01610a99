package progress

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestATerminalShowsOneLineThatIsRedrawn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	b := newBar(&out, true, "importing", c.now)
	b.Show(0.5, "500 rows, 100/s")
	b.Show(0.6, "dropped: nobody reads that fast")
	c.at = c.at.Add(time.Second)
	b.Done(1, "done")
	require.Equal(t, "\rimporting [████████········]  50 %  500 rows, 100/s"+
		"\rimporting [████████████████] 100 %  done           \n", out.String())
	require.Equal(t, time.Second, b.Elapsed())
}

func TestAFileGetsALineNowAndThen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	b := newBar(&out, false, "importing", c.now)
	for range 11 {
		b.Show(0.5, "half")
		c.at = c.at.Add(time.Second)
	}
	b.Done(2, "all")
	require.Equal(t, "importing  50 %  half\nimporting  50 %  half\nimporting 100 %  all\n", out.String())
}

func TestOnlyATerminalIsOne(t *testing.T) {
	t.Parallel()
	require.False(t, Terminal(&bytes.Buffer{}))
	require.False(t, Terminal(nil))
	f, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.False(t, Terminal(f))
	New(nil, "to nobody").Done(1, "")
}
