package channel

import (
	"context"

	"duly.dev/duly/pkg/job"
)

// Addressee is a job whose address is asked for.
type Addressee struct {
	Kind, Key, Subject, Period string
	// Destination is the address that the producer gave, if any.
	Destination string
	// Generation counts the redrives, from 1.
	Generation int32
}

// Address is what came of asking where an effect goes now.
type Address struct {
	// Destination is the address; empty where there is none to be used.
	Destination string
	// Why says what an attempt without an address came to: an effect that did not happen.
	// It is set where Destination is empty.
	Why job.Result
}

// Resolver says where the effects of a kind's jobs go now. It is safe for concurrent use.
//
// Nothing has been sent when it is asked, so that whatever goes wrong is an effect that did
// not happen.
type Resolver interface {
	// Resolve asks about all jobs at once and returns one address each, in their order. ctx
	// ends when the answer is waited for no longer.
	Resolve(ctx context.Context, jobs []Addressee) []Address
}

// NoAddress says that there is no address to be used for a job, and that this would be so
// again.
func NoAddress(why string) Address {
	return Address{Why: job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, why)}
}

// Unresolved says that nobody knows the addresses of n jobs now.
func Unresolved(n int, why job.Result) []Address {
	all := make([]Address, n)
	for i := range all {
		all[i].Why = why
	}
	return all
}
