package ledger //nolint:testpackage // what is internal is tested here

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

func TestAnErrorOfTheServerIsTheServersAndOfAReportTheReports(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&pgconn.PgError{Code: "57P01"}, // it is shut down
		&pgconn.PgError{Code: "57P03"}, // it starts
		&pgconn.PgError{Code: "53300"}, // too many connections
		&pgconn.PgError{Code: "40P01"}, // a deadlock, five times
		&pgconn.PgError{Code: "25006"}, // a standby
		&pgconn.ConnectError{},
		&net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
		io.ErrUnexpectedEOF,
		context.DeadlineExceeded,
	} {
		err = fmt.Errorf("settling 3 attempts: %w", err)
		require.ErrorIs(t, away(err), machine.ErrAway, "%v", err)
		require.ErrorIs(t, away(err), err)
	}
	for _, err := range []error{
		&pgconn.PgError{Code: "22021"}, // an invalid byte sequence
		&pgconn.PgError{Code: "23514"}, // a check constraint
		&pgconn.PgError{Code: "54000"}, // an index row that is too large
		errors.New("encoding a receipt"),
	} {
		require.NotErrorIs(t, away(err), machine.ErrAway, "%v", err)
	}
	require.NoError(t, away(nil))
}
