// Package natsbus is the bus on NATS JetStream (server 2.12.5 or newer).
//
// # Streams
//
// Each lane has a file stream of its own, <prefix>_work_<lane>, with two kinds of
// subjects: <prefix>.work.<lane>, from which workers consume, and
// <prefix>.retry.<lane>.<id>, where a delayed message waits as a message schedule
// of the server (Nats-Schedule: @at …) until the server itself publishes it on the
// first. A subject holds one schedule, so every delayed message has its own; nothing
// is delivered, held or un-acknowledged while it waits, and fresh work passes it by.
// The server strips Nats-Msg-Id from what it fires: our own id travels as ce-id.
// Notices go to <prefix>_dead, subject <prefix>.dead.
//
// # Retention
//
// The lanes' streams are WorkQueue streams: a message lives until it is acknowledged,
// however long that takes, and is gone afterwards. Under Limits retention acknowledged
// messages would have to be removed by age or size, and such a limit cannot tell them
// from unacknowledged ones. WorkQueue has two weaknesses, both harmless here:
//
//   - After a restart the server rebuilds its table of message ids from what is still
//     stored, so it no longer knows acknowledged ones: a true copy may be delivered
//     again. Its reference is stale, as the ledger says.
//   - An acknowledgement removes whatever has its sequence number. After a stream was
//     deleted and made anew, one that is late would remove a new message, were it
//     taken for the new consumer's. The subject of an acknowledgement holds the name
//     of its consumer, and that name carries the creation time of the stream. So it
//     goes nowhere. Within one stream a number is never given twice, unless the server
//     lost its newest messages; what a late acknowledgement removes then is lost like
//     those, and found like those.
//
// The server allows one consumer for a subject of a WorkQueue stream: the durable pull
// consumer that the whole fleet shares. Who needs it takes the one that is there and
// makes it otherwise. Notices are copies of what the ledger keeps and may have several
// readers, so <prefix>_dead keeps them for a time (Options.DeadMaxAge).
//
// # Loss
//
// When a stream or consumer is gone (deleted by hand, storage lost), publishers and
// consumers notice, make it anew, log and count it, and go on. What was in it is the
// business of the ledger's loss detection. The same holds for a consumer that is ahead
// of its stream, as a lost tail leaves it: it would pass over everything new up to
// there. A server flushes to disk every 2 minutes unless its sync_interval says
// otherwise, so a power failure loses acknowledged publishes; with sync_interval:
// always choose Options.AtomicBatches, which needs one sync a batch instead of one a
// message.
//
// # Refusals
//
// Bus.Ensure refuses streams and consumers that could drop or withhold
// unacknowledged work (bus.ErrUnsafe, naming each setting). A full quota of the
// account or server refuses new messages; that is back-pressure: Publish returns an
// error that passes. A limit on a lane's stream cannot do that, since the server does
// not combine "discard new" with message schedules.
package natsbus
