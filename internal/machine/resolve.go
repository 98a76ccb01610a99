package machine

import "time"

// The types of this file are about destinations that are bound late: asked for right
// before an attempt. A generation's first attempt fixes that it is so (Promises.Resolve);
// where it leads is stored before each attempt begins, so that whoever repeats one that may
// have happened goes to the same place.

// Bound is the address that an attempt of a generation was sent to, or may have been; zero
// where none was stored.
type Bound struct {
	// Address is where, and By the means by which it was found.
	Address string
	By      Means
	// Fence is that of the attempt that stored it, and At when it did.
	Fence int64
	At    time.Time
}

// MeansGiven: the address is the one that the job was given, since its kind has nothing
// any more by which it could be asked for.
const MeansGiven Means = "given"

// Binding is an address to be stored for an attempt that is about to begin.
type Binding struct {
	Attempt
	Address string
	By      Means
}

// Resolves reports whether the address of the attempt is to be asked for before it begins:
// the generation is bound late, no person has given the address, and either nothing of it
// may have happened or nothing was sent, since no address was stored.
func (g Grant) Resolves() bool {
	return g.Row.Promises.Resolve != "" && !g.Row.Pinned && !g.Repeats()
}

// Repeats reports whether the attempt must go where one went that may have happened.
func (g Grant) Repeats() bool {
	return g.Row.Promises.Resolve != "" && g.Row.InDoubt() && g.Bound.Address != ""
}

// Pins reports whether the successor of a row keeps the destination that a person gave: with
// this redrive, or with an earlier one whose destination it copies.
func (r RedriveRequest) Pins(row Row) bool { return r.Destination != "" || row.Pinned }
