// Package e2e holds the tests that run Duly as its users do: the programs as processes,
// a PostgreSQL server, a NATS server, and receivers that know nothing of Duly and write
// down every effect before they answer. The tests kill, pause, restart and cut off what
// runs, and then compare what the ledger says with what the receivers saw.
//
// # How a test is made
//
// A rig (rig_test.go) is a ledger, a bus and receivers that no other test sees, and
// the processes of one test. What a test waits for has a generous bound, never an
// exact time: a busy machine makes a test slow, not wrong. At its end, account
// (account_test.go) checks what must hold after every test, whatever happened in it:
//
//   - every job that was accepted is in exactly one state (G2),
//   - no effect happened twice, and what is delivered happened (G1),
//   - what is quarantined or cancelled did not happen (G8),
//   - every job can be explained (G12),
//   - no log, metric or notice holds a payload, a destination or a credential (G13).
package e2e
