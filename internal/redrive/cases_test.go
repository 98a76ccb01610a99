package redrive_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

// C23: a recovery key that no index could hold is refused by the field, the rule and the
// number, before the ledger sees it.
func TestC23ARecoveryKeyThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	b := &book{}
	desk := redrive.NewDesk(b, b, redrive.Options{})
	r := request()
	for n, taken := range map[int]bool{job.MaxKey: true, job.MaxKey + 1: false, 10_000: false} {
		r.RecoveryKey = strings.Repeat("k", n)
		_, err := desk.Redrive(t.Context(), r)
		if taken {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, []string{"recovery_key"}, fields(err))
		require.Equal(t, job.RuleTooLong, job.Refusals(err)[0].Rule)
		require.ErrorContains(t, err, "at most 512 bytes")
	}
	require.Len(t, b.redrives, 1)
}
