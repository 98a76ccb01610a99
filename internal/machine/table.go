package machine

import "duly.dev/duly/pkg/job"

//go:generate go run ./statesdoc ../../docs/states.md

// cell is one cell of the transition table: what it says to a person, and what it
// does. A state that an event's line does not list changes nothing.
type cell struct {
	says string
	do   func(*transition)
}

// transitions are the cells by event and state.
type transitions map[Name]map[job.State]cell

// table is the whole state machine of the current generation. Lines are events,
// columns are states; docs/states.md is generated from it. Cancelled has no column:
// it changes no more.
var table = transitions{
	Due: {
		job.Scheduled: {"ready + emission; a retry: 5 s later. Expired: as `expire`", (*transition).promote},
	},
	Lost: {
		job.Ready: {"ready + emission. Expired: as `expire`", (*transition).emitAgain},
	},
	Lease: {
		job.Scheduled: {"leased, if a retry whose wake_at has come. Expired: as `expire`", (*transition).leaseRetry},
		job.Ready:     {"leased. Expired: as `expire`", (*transition).lease},
	},
	Hold: {
		job.Scheduled: {"new wake_at", (*transition).hold},
		job.Ready:     {"scheduled (held)", (*transition).hold},
	},
	HandedBack: {
		job.Leased: {"ready + emission, not counted", (*transition).handBack},
	},
	Done: {
		job.Scheduled:   {"delivered, late", (*transition).doneLate},
		job.Ready:       {"delivered, late", (*transition).doneLate},
		job.Leased:      {"delivered", (*transition).done},
		job.Unknown:     {"delivered, late", (*transition).doneLate},
		job.Quarantined: {"delivered, late", (*transition).doneLate},
		job.Delivered:   {"kept; recorded", (*transition).evidence},
	},
	NotDone: {
		job.Leased: {"scheduled (retry) + delayed emission, or quarantined (reason); in doubt: as `may_be_done`", (*transition).notDone},
	},
	MayBeDone: {
		job.Leased: {"repeatable now: scheduled (retry), in doubt; else unknown", (*transition).mayBeDone},
	},
	LeaseEnded: {
		job.Leased: {"as `may_be_done`", (*transition).mayBeDone},
	},
	AnswerYes: {
		job.Scheduled:   {"delivered", (*transition).answerYes},
		job.Ready:       {"delivered", (*transition).answerYes},
		job.Leased:      {"delivered", (*transition).answerYes},
		job.Unknown:     {"delivered", (*transition).answerYes},
		job.Quarantined: {"delivered", (*transition).answerYes},
		job.Delivered:   {"kept; recorded", (*transition).kept},
	},
	AnswerNo: {
		job.Unknown: {"asked after settle: as at the end of an attempt, no longer in doubt; closed: quarantined (too_old), or cancelled if requested", (*transition).answerNo},
	},
	Expire: {
		job.Scheduled: {"quarantined (reason); in doubt: unknown", (*transition).expire},
		job.Ready:     {"quarantined (reason); in doubt: unknown", (*transition).expire},
	},
	Close: {
		job.Unknown: {"closed: asked no more", (*transition).close},
	},
	Cancel: {
		job.Scheduled:   {"cancelled; in doubt: unknown, request noted", (*transition).cancel},
		job.Ready:       {"cancelled; in doubt: unknown, request noted", (*transition).cancel},
		job.Leased:      {"requested", (*transition).requestCancel},
		job.Unknown:     {"requested", (*transition).requestCancel},
		job.Quarantined: {"cancelled", (*transition).cancel},
		job.Delivered:   {"refused", (*transition).refuseDelivered},
	},
	Redriven: {
		job.Unknown:     {"successor, only forced with evidence", (*transition).succeed},
		job.Quarantined: {"successor", (*transition).succeed},
		job.Delivered:   {"refused", (*transition).refuseDelivered},
	},
}

// Says returns what the table's cell says, or "" where the event changes nothing.
func Says(name Name, state job.State) string { return table[name][state].says }
