// Package loss holds the tests of loss detection: it neither cries wolf nor sleeps. What
// only waits is not announced anew, however long it does and wherever; what the bus lost
// moves again within a minute and a half.
//
// Most of them run all loops (promotion, sweeps, dispatcher, worker) on the ledger and the
// broker in memory, in a bubble whose hours take no time (world_test.go). Those of a broker
// run against it, and move the ledger's clock instead.
package loss
