// Package explain says about any job, in plain words, what state it is in, why, what
// happens next and when, and what a person can do (guarantee G12). It computes that from
// what the ledger keeps and from nothing else, so that the command line, the console and
// the HTTP API say the same.
//
// [Of] explains; [Show] is the whole of a job as a document, with what is private left
// out unless it is asked for.
package explain
