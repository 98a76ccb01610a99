package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheEnvironmentSaysHowOftenToCollect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gogc string
		want []int
	}{{"", []int{gcPercent}}, {"50", nil}, {"off", nil}} {
		var got []int
		tuneGC(func(name string) string {
			require.Equal(t, "GOGC", name)
			return c.gogc
		}, func(percent int) int { got = append(got, percent); return 100 })
		require.Equal(t, c.want, got, c.gogc)
	}
}
