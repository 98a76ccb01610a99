package eval

import (
	"context"
	"time"
)

// Case is one way in which something can go wrong.
type Case struct {
	// Name is how it is asked for, Title what goes wrong, and Guarantees what must hold.
	Name, Title string
	Guarantees  string
	// Expect says what must come of it.
	Expect string
	// runs: it needs a ledger that has runs, which the one in memory has not.
	runs bool
	// breaks names the promise that the receiver of the case breaks.
	breaks string
	// patience is how long the case may take; zero is the default.
	patience time.Duration
	// run brings the fault about, and says how the touched jobs must have ended once all
	// have; the error is what was waited for in vain.
	run func(ctx context.Context, w *world) (verify, error)
}

// verify checks what is particular to a case.
type verify func(a *account)

// defaultPatience is how long a case may take.
const defaultPatience = 90 * time.Second

// Cases lists every case, in the order of a job's path. What takes longest is among the
// last and begins first.
func Cases() []Case { //nolint:funlen // it is a table
	return []Case{
		{
			Name: "crash-after-lease", Title: "a worker dies after leasing", Guarantees: "G1 G4 G8",
			Expect: "may have happened: repeated where the receiver dedupes, asked about where it can be, else unknown", run: crashAfterLease,
		},
		{
			Name: "crash-before-effect", Title: "a worker dies before the first byte", Guarantees: "G1 G4 G8",
			Expect: "as after leasing: nobody can know that no byte was written", run: crashBeforeEffect,
		},
		{
			Name: "crash-after-effect", Title: "a worker dies after the effect", Guarantees: "G1 G8",
			Expect: "one effect; repeated under the same key, found out by asking, or unknown", run: crashAfterEffect,
		},
		{
			Name: "crash-after-commit", Title: "a worker dies after the commit, before it acknowledges", Guarantees: "G1 G3 G6",
			Expect: "delivered in one attempt; what comes again is stale", run: crashAfterCommit,
		},
		{
			Name: "lost-ack", Title: "acknowledgements are lost", Guarantees: "G3 G6",
			Expect: "delivered in one attempt; what comes again is stale", run: lostAck,
		},
		{
			Name: "duplicate-delivery", Title: "every message comes twice, to two workers", Guarantees: "G1 G6",
			Expect: "delivered in one attempt, sent once", run: duplicateDelivery,
		},
		{
			Name: "late-delivery", Title: "a message comes, or an attempt begins, after the deadline", Guarantees: "G7",
			Expect: "quarantined (deadline_passed), nothing sent", run: lateDelivery,
		},
		{
			Name: "concurrent-redrive", Title: "a redrive is asked for eight times at once, with two recovery keys", Guarantees: "G9",
			Expect: "one successor, one effect; the other key is told of it", run: concurrentRedrive,
		},
		{
			Name: "old-generation", Title: "copies of an old generation's messages come after a redrive", Guarantees: "G6 G9",
			Expect: "dropped; nothing sent under the old key", run: oldGeneration,
		},
		{
			Name: "permanent-error", Title: "the receiver refuses the content (422)", Guarantees: "G8",
			Expect: "quarantined (permanent) after one attempt", run: permanentError,
		},
		{
			Name: "timeout-after-accept", Title: "the receiver acts and never answers", Guarantees: "G1 G8",
			Expect: "one effect; repeated under the same key, found out by asking, or unknown", run: timeoutAfterAccept,
		},
		{
			Name: "answer-reply-lost", Title: "the reply to a looked-up answer's commit is lost", Guarantees: "G8",
			Expect: "the answer counts once", run: answerReplyLost,
		},
		{
			Name: "cleanup-reply-lost", Title: "a cleanup commits and its reply is lost", Guarantees: "G11",
			Expect: "removed once, behind the delivery", run: cleanupReplyLost,
		},
		{
			Name: "paused-worker", Title: "a worker is paused past its lease", Guarantees: "G1 G4 G5",
			Expect: "what had not begun never begins; what had happened is evidence", run: pausedWorker,
		},
		{
			Name: "lost-replies", Title: "the replies to a lease and to a result are lost", Guarantees: "G1 G5",
			Expect: "read back, and settled once: one attempt, sent once", run: lostCommitReply,
		},
		{
			Name: "ledger-away", Title: "the ledger cannot be reached for a while", Guarantees: "G2 G7",
			Expect: "no attempt is burned", run: ledgerAway,
		},
		{
			Name: "two-schedulers", Title: "two schedulers decide about one tick", Guarantees: "G10",
			Expect: "one run a period, each member once", runs: true, run: twoSchedulers,
		},
		{
			Name: "crash-in-freeze", Title: "a scheduler dies in the middle of a freeze", Guarantees: "G2 G10",
			Expect: "nothing is left of it; another freezes the run, each member once", runs: true, run: crashInFreeze,
		},
		{
			Name: "poison", Title: "a message that nobody understands, and a result that no ledger takes, at the head", Guarantees: "G2",
			Expect: "set aside, and unknown; those behind are delivered", run: poison,
		},
		{
			Name: "deploy", Title: "a worker is replaced while effects are under way", Guarantees: "G14",
			Expect: "no attempt is burned, nothing is unknown", run: deploy,
		},
		{
			Name: "crash-of-dispatcher", Title: "a dispatcher dies between publishing and its cursor", Guarantees: "G2 G6",
			Expect: "published again; the copies are stale", run: crashOfDispatcher,
		},
		{
			Name: "lost-bus", Title: "the bus loses what it acknowledged", Guarantees: "G2",
			Expect: "announced anew once a mark has passed; no attempt is burned", patience: 4 * time.Minute, run: lostBus,
		},
		{
			Name: "broken-window", Title: "a receiver that was promised to dedupe does not", Guarantees: "G1", breaks: "window",
			Expect: "the report names the promise", run: brokenWindow,
		},
		{
			Name: "broken-settle", Title: "a receiver acts later than its kind's settle, having said no", Guarantees: "G1", breaks: "settle",
			Expect: "the report names the promise", run: brokenSettle,
		},
	}
}
