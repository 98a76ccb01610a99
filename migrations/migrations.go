// Package migrations holds the ledger's schema as goose migrations. They are
// embedded in every binary; `duly migrate up` applies them. A migration is never
// edited once it has been released: the next one changes what it made.
package migrations

import "embed"

// FS holds the migration files at its root.
//
//go:embed *.sql
var FS embed.FS
