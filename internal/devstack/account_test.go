package devstack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountOfNobodyOnAnySystem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint32{"101": 101, "65534": 65534, "-2": 4294967294} {
		id, err := parseID(text)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
}

func TestAccountIsTheOwnerOfDataThatExists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		require.Nil(t, accountFor(dir), "an ordinary user runs the server as themself")
		return
	}
	owner := account{uid: 12345, gid: 54321}
	require.NoError(t, owner.own(dir))
	require.Equal(t, &owner, accountFor(dir))
	require.NotZero(t, accountFor(filepath.Join(dir, "new")).uid)
}

func TestAccountCannotEnterWhatIsClosedToIt(t *testing.T) {
	t.Parallel()
	outer := reachableDir(t)
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	stranger := &account{uid: nobody.uid - 1, gid: nobody.gid - 1}
	require.NoError(t, stranger.canEnter(inner))
	require.NoError(t, os.Chmod(outer, 0o700))
	require.ErrorContains(t, stranger.canEnter(inner), outer)
	require.NoError(t, (*account)(nil).canEnter(inner), "this process's own user needs no check")
}
