// Package job is Duly's vocabulary: the words that every other package, the
// ledger's SQL, the command line, the metrics and the documents share.
//
// A job is one logical piece of work, identified by its kind and its operation
// key and by nothing else: no delivery id, attempt number or broker offset is
// ever an identity. A job is delivered in generations; each generation has one
// effect key, under which at most one external effect may happen. An attempt is
// one leased try inside a generation and ends in one of three outcomes:
//
//   - delivered: it happened;
//   - failed: it provably did not happen (a class and a code say why);
//   - unknown: it may have happened.
//
// Certainty is decided before class. "Did not happen" needs the protocol's word
// or the kind's own rule; everything else is unknown, and what may have happened
// is never treated as not sent.
//
// The package knows no I/O and depends on the standard library and x/text alone,
// so that producers, handler authors and tools can import it freely.
package job
