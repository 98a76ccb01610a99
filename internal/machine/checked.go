package machine

// Checked is what a check of a ledger looked at, and how many disagreements it found.
type Checked struct {
	Jobs        int `json:"jobs"`
	Generations int `json:"generations"`
	Events      int `json:"events"`
	Leases      int `json:"leases"`
	Keys        int `json:"keys"`
	Runs        int `json:"runs"`
	// Partly counts the generations of which not everything could be compared: a policy
	// of theirs is not known any more, or their first events are kept no more.
	Partly        int `json:"partly"`
	Disagreements int `json:"disagreements"`
}
