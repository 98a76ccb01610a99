// Package kafkabus is the bus on Apache Kafka (2.8 or newer).
//
// A Kafka partition is a log that one consumer of a group reads at a time, and all that the
// broker knows of its progress is one number: everything before it is done. Duly needs
// more: messages that are done in any order, messages that wait for their time without
// being in the way, and a consumer that can die, be given up for dead or be replaced at any
// moment without a message being lost. This package makes the one out of the other.
//
// # Topics
//
// Each lane has a topic, <prefix>.work.<lane>, whose messages are dealt out over its
// partitions; a mark goes to the partition that it speaks of. The delay topics
// <prefix>.retry.<n>s are shared by all lanes. Notices go to <prefix>.dead, which keeps them
// for a time (Options.DeadMaxAge), since they are copies of what the ledger has. Publish
// returns when all replicas that are in sync have a message (acks=all, idempotent).
//
// # A watermark of our own
//
// Effects end in any order, and the client library's way to mark a record as done commits
// the newest one that was marked: a crash then loses all that is open before it. So each
// partition keeps its own watermark (partition.go), the first message that was handed out
// and is not settled, and only that is committed: at once when it rises, then again as soon
// as the last commit is answered, with what was settled meanwhile. What is done behind a hole
// is remembered nowhere else. After a crash it comes again, and is stale, as the ledger says.
//
// Where a partition begins is committed too, as soon as something of it came. A log that
// lost its end is read from where it begins to differ, or from its start where nobody can say;
// were the old offset left with the group, the log could grow to it, and the next consumer
// would pass over everything in between. A group that has
// committed nothing starts at the earliest message, and so does one whose offset is out of
// range; never at the end.
//
// # Revocation
//
// One goroutine polls and never waits for handlers: what nobody has asked for yet is a
// backlog, in order, and where it grows too long its partition is paused. When a partition is
// to go to another consumer (partitions move one by one, by cooperative balancing), nothing
// more is handed out of it, the backlog is dropped, its pause is lifted, since the library's
// pauses outlast a revocation, and what is in hand has a moment to be settled. Then the
// watermark is committed, and the partition is over for this process. If it comes back it is
// another one, from its committed offset. An acknowledgement that comes late has no effect
// and is no error; it is counted. A partition that was lost, as by a process that nobody
// heard for too long, is over at once.
//
// No commit follows a revocation. That is not only a matter of asking first: a commit can
// wait inside the library until the group was joined anew, and would then go out in the name
// of the new membership and undo what the new owner has committed. So every commit is asked
// once more when it is about to be written.
//
// Redelivery needs no precision. Whoever gets a message that another still works on finds
// its references leased, hence stale.
//
// # Marks
//
// A mark says that everything before it in its partition was leased, held or found stale. So
// it is handed out only to a consumer that has in hand all that is open before it; what was
// given back goes out first, and what was dropped unread takes the marks behind it along. A
// worker deals with what it received in the order in which it did.
//
// # Topics that are made anew
//
// A topic can be deleted and made again under the same name, and its offsets begin at 0
// once more. The ids of its topics are part of the name of every group. So what was committed
// for the old topic, however late, means nothing to the new one, which is read from its
// start. A session of a consumer (session.go) is with topics of certain ids; when a broker
// does not know them, or another has the name, the session ends with all that was in hand
// from it, and the next Receive begins another, making the topic if nobody has.
//
// # What cannot be decoded
//
// A disk or a foreign program can leave a batch of records whose checksum is wrong, that ends
// too early, or that decompresses to far too much. The client library stops before it, some
// of them without a word. So a partition whose fetches fail to decode, or that stands although
// there is more, is read as it is stored (damage.go); the first batch that cannot be decoded is
// handed out as one message of the type bus.TypeDamaged, which a worker sets aside like any
// that nobody understands, and reading goes on behind it. Where the
// broker itself cannot read what it has, that stands for what can be read next. A mark behind it passes in its turn,
// and the ledger announces anew what was in it.
//
// # Delays
//
// A log is read in order, so one message that waits for an hour would hold up all behind
// it. Hence tiers that double, 1 s to 4096 s, in each of which every message waits the same
// time: what is first is due first. A message is put into the largest tier that is not longer
// than what remains, and hops down; longer delays go round in the longest. Bus.Move, which
// every dispatcher runs, does that: it publishes a message to where it belongs next and only
// then acknowledges it. Messages of the shortest tier it holds until each one's own time. What
// counts is the time in the message; no clock of a broker is asked.
//
// # Retention
//
// A limit of age or size cannot tell acknowledged messages from others, so Ensure makes
// topics without one and refuses those that have any, as well as compaction, unclean
// elections and a single copy where there are three (bus.ErrUnsafe, naming each setting). What
// keeps the disk from filling is Bus.Move: it removes from every topic what its group has
// committed (truncate.go). Offsets that wait here for a hole to close are not committed, and
// groups of deleted topics name other ids.
package kafkabus
