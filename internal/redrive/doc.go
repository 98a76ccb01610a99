// Package redrive is what a person does about a job that the machine will not go on
// with by itself: open its next generation (redrive), say what became of it (resolve),
// or withdraw it (cancel).
//
// # Why a redrive makes a new generation
//
// What ended badly is never mutated back to life. A redrive appends the next generation
// and points the old one at it. The old one keeps its attempts, its events, its
// fingerprint and its rendered body as evidence, is in no loop and no list any more, and
// can still receive the late word of a worker that was thought dead. The new one begins
// with no attempts, an effect key of its own, and the fences and emission numbers going
// on, so that nothing that is still under way for the old one can touch it.
//
// An effect key of its own is also the risk: the receiver cannot tell that both
// generations are one job. So the machine lets only that be redriven of which, as far as
// anyone could know, nothing happened (quarantined). What may have happened (unknown) is
// redriven only when a person forces it and gives evidence, one job at a time.
//
// # Why there is a recovery key
//
// People and scripts press twice, replies get lost, two operators work on one list. The
// recovery key names one decision: asked again, however often and concurrently, it is
// answered with the generation that it made. Two different keys for one generation are
// two decisions, of which the second did not know of the first: it is refused and told
// of the successor. The generation that the person saw is part of the request for the
// same reason: a decision about generation 1 says nothing about generation 2.
//
// All of this is decided in the ledger, under the lock of the generation's row. What is
// checked here is what the ledger cannot know: that the request is complete, that the
// corrections obey the rules that producers obey, and that the kind's channel can use
// them.
package redrive
