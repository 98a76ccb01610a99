// Package dispatch is the dispatcher: it announces on the bus what the ledger's
// outbox holds.
//
// The outbox exists because a database and a broker cannot commit together. A state
// change and its announcement are one transaction in the ledger; the dispatcher
// carries the announcement over, and it may do so twice but never not at all. All of
// its rules follow from that:
//
//   - It reads a page, publishes it, waits until the broker has stored every message
//     of it, and only then moves the cursor. A crash anywhere repeats a page, and a
//     repeated reference is stale to whoever receives it.
//   - A topic has one dispatcher at a time, by a claim that ends by itself seconds
//     after its holder died. The claim only saves work: the cursor is moved by
//     compare-and-set, so even two that both believe they hold it do no harm.
//   - A broker that fails is back-pressure: nothing is skipped, the outbox grows, the
//     topic is given up so that another dispatcher may have better luck. But one
//     message that the broker will never take must not hold up the others: it is
//     halved until the reference that is to blame stands alone, and that one is set
//     aside, where people see it and from where it is tried again.
//   - When it is quiet every reference is a message of its own, so that work spreads
//     over the fleet; when much waits, references of a kind travel together.
//
// And since a broker may lose what it has acknowledged, the dispatcher sends marks
// behind what it relayed. A mark that comes out of the bus says that everything
// before it has come out too, or never will; the scheduler judges the rest.
//
// Each topic has a loop of its own (relay.go), which packs (pack.go), publishes
// (publish.go), sends marks (mark.go) and rests when there is nothing to do
// (pace.go). The Dispatcher starts one for every topic that appears in the ledger. Where a
// broker does not deliver a delayed message by itself (bus.Mover), it also keeps these
// moving (move.go).
package dispatch
