// Mutants weakens Duly in one place at a time and asks whether a test notices.
//
// A guarantee is worth what its tests can find. So each file NAME.patch beside this one
// takes one protection away, says in a sentence which, and names the guarantee that falls
// with it and the test that must fail:
//
//	What the patch weakens, in a sentence or two.
//
//	Guarantee: G5
//	Caught-by: internal/ledger TestG5LateFailureChangesNothingAndLateSuccessIsEvidence
//
//	--- a/internal/ledger/settle.sql
//	+++ b/internal/ledger/settle.sql
//	…
//
// The work tree is never changed. The patched files lie in a temporary folder, and Go is
// told to read them in place of the originals (its flag -overlay, passed in GOFLAGS so that
// tests which build programs build the weakened ones). What a patch does not touch comes
// from the build cache.
//
// A mutant is caught when every test that it names was started and did not pass. It is not
// caught by a patch that no longer applies, by code that does not build, by a statement that
// the database refuses to read, or by a test that fails without the patch as well: each of
// these is a failure of the run, as a survivor is.
package main
