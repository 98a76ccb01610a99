package ledger

import "github.com/jackc/pgx/v5/pgtype"

// uuid makes a hash an argument. Its type says what it is also to a connection that
// does not ask the server first, as behind some poolers.
func uuid[H ~[16]byte](h H) pgtype.UUID { return pgtype.UUID{Bytes: h, Valid: true} }
