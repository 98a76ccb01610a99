package ledger

// Statement is the text of a statement, for tests that look at its plan.
func (*Ledger) Statement(name string) string { return stmt(name) }
