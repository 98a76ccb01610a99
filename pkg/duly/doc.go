// Package duly is the door for Go programs that schedule work.
//
// A job is scheduled in the producer's own transaction, together with the rows that
// are the reason for it: either both are committed or neither is. There is no message
// that could be sent for a row that was rolled back, and no row whose message was lost.
//
//	tx, err := pool.Begin(ctx)
//	…
//	_, err = client.Schedule(ctx, tx, job.Spec{
//		Kind:        "renewal-reminder",
//		Key:         "renewal:2026-09:customer-1842",
//		Destination: "ann@example.com",
//		Payload:     []byte(`{"name":"Ann"}`),
//		Due:         time.Now().Add(24 * time.Hour),
//	})
//	…
//	err = tx.Commit(ctx)
//
// # Identity
//
// Kind and key are the identity of a job. Scheduling the same key with the same body
// again, from anywhere and however often, is answered with the job that there is: a
// producer that does not know whether its commit succeeded simply repeats all of it.
// The same key with another body is a conflict, unless the caller asks for [Replace]
// and no attempt has begun.
//
// # Transactions
//
// Every isolation level works. Two transactions that schedule one key wait for each
// other: the second is answered once the first has committed, or creates the job if it
// rolled back. Under REPEATABLE READ and SERIALIZABLE the second gets a serialization
// failure (40001) instead; it is repeated as a whole, as such transactions always are.
// Transactions that schedule the same keys in different orders may deadlock (40P01):
// [Client.ScheduleMany] takes its rows in one order.
//
// A transaction may stay open for as long as it likes: its jobs are found when it
// commits, and those of others do not wait for it.
package duly
