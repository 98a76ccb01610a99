package main

// Group says in which part of the tables a contestant stands.
type Group string

const (
	// Peers are compared with each other.
	Peers Group = "peer"
	// Variants are the same programs in another setting.
	Variants Group = "variant"
	// Limits are what the machine does at most.
	Limits Group = "limit"
)

// entry is a contestant in the table, before it is made.
type entry struct {
	// key names it for --only and in JSON.
	key   string
	group Group
	make  func(Load) Contestant
}

// Load is what every contestant's jobs look like.
type Load struct {
	// Payload is the size of a payload, in bytes.
	Payload int `json:"payload"`
}

// contestants are all of them, in the order in which a round calls them. The first is
// what ratios refer to.
func contestants() []entry {
	return []entry{
		{"duly", Peers, newDuly},
		{"river", Peers, newRiver},
		{"graphile", Peers, newGraphile},
		{"pgboss", Peers, newPgBoss},
		{"asynq", Peers, newAsynq},
		{"duly-sync", Variants, newDulySync},
		{"duly-http", Variants, newDulyHTTP},
		{"river-unique", Variants, newRiverUnique},
		{"river-defaults", Variants, newRiverDefaults},
		{"raw-unnest", Limits, newRawUnnest},
		{"raw-copy", Limits, newRawCopy},
		{"raw-commit", Limits, newRawCommit},
		{"raw-nats", Limits, newRawNATS},
	}
}
