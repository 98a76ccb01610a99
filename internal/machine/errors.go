package machine

import "errors"

// Errors that every ledger answers with and loops act on.
var (
	// ErrWorkerEnded: the worker's row was ended; nothing of it may begin any more.
	// It drops everything and registers anew.
	ErrWorkerEnded = errors.New("the worker was ended in the ledger")
	// ErrLostTopic: another dispatcher holds the topic, or has moved its cursor.
	ErrLostTopic = errors.New("the topic is held by another dispatcher")
	// ErrUnclear: a commit was sent and its reply was lost. It is never sent again;
	// the caller reads back what became of it.
	ErrUnclear = errors.New("nobody knows whether the commit happened")
	// ErrAway: the ledger, or the way to it, takes nothing from anybody now. What was
	// asked is not to blame, and may be asked again as it was.
	ErrAway = errors.New("the ledger is away")
)
