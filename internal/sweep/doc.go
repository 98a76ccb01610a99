// Package sweep finds what should have happened and did not.
//
// Every part of Duly may die between two steps. What it leaves behind is found here by
// time and by record, never by what somebody meant to do: workers that fell silent, and
// their leases; leases that outlived their limit; deadlines; unknown outcomes, about which
// receivers are asked (asking.go) and which are closed where nobody answered in time; rows
// that were generated for what is over, which are removed (cleanup.go); references that the
// bus lost; and, by a slow patrol over the whole ledger, whatever none of these found.
//
// Each loop is a file, with the small interface that it needs. They have the same form:
// rounds of bounded work, one after another while there is more, else at intervals.
// Any number of schedulers run them all at once. There is no leader: what must be done
// by one is claimed in the ledger, in the transaction that does it, and a claim ends
// with its transaction. A loop changes only what is still as it found it, so whatever
// two of them do to one row, one of them does nothing.
//
// No round begins while the ledger's clock is not to be trusted, and nobody is declared
// dead by a sweeper that was itself away (package contact).
package sweep
