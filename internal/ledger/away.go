package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"duly.dev/duly/internal/machine"
)

// away marks an error that speaks of the server or of the way to it, so that nobody
// blames what was asked.
func away(err error) error {
	if err == nil || errors.Is(err, machine.ErrAway) || !isAway(err) {
		return err
	}
	return fmt.Errorf("%w: %w", machine.ErrAway, err)
}

func isAway(err error) bool {
	var connecting *pgconn.ConnectError
	var answered *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, &connecting):
		return true
	case errors.As(err, &answered):
		return awayClass(answered.Code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	return pgconn.SafeToRetry(err)
}

// awayClass reports whether an SQLSTATE speaks of the server: of a connection, a
// conflict that did not go away, what it is short of, an operator who stops it, the
// system under it, or a standby that takes no writes.
func awayClass(code string) bool {
	for _, class := range []string{"08", "40", "53", "57", "58", "55P03", "25006"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}
