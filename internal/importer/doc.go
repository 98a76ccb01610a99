// Package importer reads jobs from a CSV or NDJSON file and enqueues them.
//
// A file may hold millions of rows, and some of them are wrong. So it is read as a
// stream, a batch of rows is a transaction, and one wrong row never costs its
// neighbours: it is refused with its line, field, value and rule, and reading goes on
// with the next line, also after a quote that was never closed. What was enqueued
// stays; importing the same file again continues where it stopped, since a key that
// exists with the same body is no new job.
//
// Every row ends in exactly one of three ways: it became a job, its key had been
// accepted before with the same body, or it was refused (Counts.Balanced).
//
// # Columns
//
//	kind         a configured kind; required
//	key          the operation key; required
//	subject      whom or what the job is about
//	period       the occurrence that it belongs to, such as 2026-W42
//	destination  the address of the effect
//	due          when it may first be tried; empty is now
//	deadline     from when on it must not begin any more; empty is never
//	zone         the IANA zone of local times in due and deadline
//	payload      one JSON value
//	payload.NAME one member of a payload that is an object of texts (CSV only)
//
// A CSV file begins with a header that names its columns, in any order. An NDJSON
// file has an object of these fields on each line; its payload is the JSON value
// itself. Times are RFC 3339 with an offset (2026-09-30T17:00:00+02:00), or local
// (2026-09-30T17:00) in the zone that the row names; "5 PM" is refused.
//
// A cell of payload.NAME is always a JSON text, also when it is empty or looks like a
// number, and the members are written in the order of their names: the same row gives
// the same payload, byte by byte, however the columns are ordered. For anything else
// there is payload.
package importer
