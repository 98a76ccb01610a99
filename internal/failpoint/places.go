package failpoint

import "slices"

// Place names a place in the code.
type Place string

// The places, in the order of a job's path.
const (
	CommitCall      Place = "commit-call"
	CommitReply     Place = "commit-reply"
	FireOpened      Place = "fire-opened"
	FreezeMember    Place = "freeze-member"
	FreezeMembers   Place = "freeze-members"
	PromoteCall     Place = "promote-call"
	PromoteReply    Place = "promote-reply"
	RelayRead       Place = "relay-read"
	RelayPublished  Place = "relay-published"
	RelayAdvanced   Place = "relay-advanced"
	MarkIssued      Place = "mark-issued"
	MarkDelivered   Place = "mark-delivered"
	WorkerReceived  Place = "worker-received"
	LeaseCall       Place = "lease-call"
	LeaseReply      Place = "lease-reply"
	WorkerLeased    Place = "worker-leased"
	WorkerBegun     Place = "worker-begun"
	HTTPSent        Place = "http-sent"
	MailContent     Place = "mail-content"
	MailDot         Place = "mail-dot"
	WorkerDone      Place = "worker-done"
	SettleCall      Place = "settle-call"
	SettleBetween   Place = "settle-between"
	SettleReply     Place = "settle-reply"
	WorkerSettled   Place = "worker-settled"
	WorkerAck       Place = "worker-ack"
	HoldCall        Place = "hold-call"
	RegisterCall    Place = "register-call"
	HeartbeatCall   Place = "heartbeat-call"
	HeartbeatReply  Place = "heartbeat-reply"
	WorkerDraining  Place = "worker-draining"
	WorkerDrained   Place = "worker-drained"
	SweepEnded      Place = "sweep-ended"
	SweepDecided    Place = "sweep-decided"
	ExpireDecided   Place = "expire-decided"
	JudgeDecided    Place = "judge-decided"
	LookupTaken     Place = "lookup-taken"
	LookupAsked     Place = "lookup-asked"
	LookupAnswered  Place = "lookup-answered"
	CleanupTaken    Place = "cleanup-taken"
	CleanupRan      Place = "cleanup-ran"
	RedriveBetween  Place = "redrive-between"
	RedriveAppended Place = "redrive-appended"
)

// Info says what a place is.
type Info struct {
	Place Place
	// Err is the act that its error stands for: Fail, Lose, or empty where no error can be
	// returned. Every place can crash and pause besides.
	Err Act
	// Where says between what and what it lies.
	Where string
}

// Acts are what can be asked for there.
func (i Info) Acts() []Act {
	acts := []Act{Crash, Pause}
	if i.Err != "" {
		acts = append(acts, i.Err)
	}
	return acts
}

// offers reports whether the act can be asked for there.
func (i Info) offers(a Act) bool { return slices.Contains(i.Acts(), a) }

// Places lists all places. It is a function, so that programs which do not call it do not
// hold the names.
func Places() []Info {
	return []Info{
		{CommitCall, Fail, "before a COMMIT of the ledger is sent"},
		{CommitReply, Lose, "after a COMMIT of the ledger was answered"},
		{FireOpened, Fail, "a schedule has opened its runs and is not moved on"},
		{FreezeMember, Fail, "a batch of members of a run is written"},
		{FreezeMembers, Fail, "all members of a run are written and it is not committed"},
		{PromoteCall, Fail, "before due jobs are promoted"},
		{PromoteReply, Lose, "due jobs are promoted and nobody was told"},
		{RelayRead, Fail, "a page of the outbox is read and not published"},
		{RelayPublished, Fail, "a page is published and the cursor not moved"},
		{RelayAdvanced, Lose, "the cursor is moved and nobody was told"},
		{MarkIssued, Fail, "a mark is written and not published"},
		{MarkDelivered, "", "a mark was delivered and is not reported"},
		{WorkerReceived, "", "a message is received and nothing of it leased"},
		{LeaseCall, Fail, "before references are leased"},
		{LeaseReply, Lose, "references are leased and nobody was told"},
		{WorkerLeased, "", "attempts are leased and not begun"},
		{WorkerBegun, "", "the last check has passed and no byte is written"},
		{HTTPSent, "", "bytes of a request are written and nothing is answered"},
		{MailContent, Fail, "a mail is written without its final dot"},
		{MailDot, "", "the final dot is answered and the result not reported"},
		{WorkerDone, "", "the effect is over and its result not committed"},
		{SettleCall, Fail, "before results are committed"},
		{SettleBetween, Lose, "the deliveries of a batch are committed and the rest is not"},
		{SettleReply, Lose, "results are committed and nobody was told"},
		{WorkerSettled, "", "results are committed and no message is acknowledged"},
		{WorkerAck, Lose, "a message is to be acknowledged, and the bus does not hear it"},
		{HoldCall, Fail, "before references are held"},
		{RegisterCall, Fail, "before a worker writes its row"},
		{HeartbeatCall, Fail, "before a worker's leases are renewed"},
		{HeartbeatReply, Lose, "a worker's leases are renewed and it was not told"},
		{WorkerDraining, "", "a worker was told to stop and has not begun to"},
		{WorkerDrained, "", "everything is committed and the worker's row not ended"},
		{SweepEnded, "", "a dead worker's row is ended and its leases are not"},
		{SweepDecided, Fail, "leases of a dead worker are ended and not committed"},
		{ExpireDecided, Fail, "what has expired is ended and not committed"},
		{JudgeDecided, Fail, "lost references are announced anew and the judge's cursor is not moved"},
		{LookupTaken, Fail, "a question is taken and not asked"},
		{LookupAsked, Fail, "a receiver has answered and the ledger does not know"},
		{LookupAnswered, Fail, "an answer is decided about and not committed"},
		{CleanupTaken, Fail, "a cleanup is taken and not run"},
		{CleanupRan, Fail, "a cleanup has run and that it is done not committed"},
		{RedriveBetween, Fail, "a redriven generation is closed and has no successor"},
		{RedriveAppended, Fail, "a successor is appended and its audit not written"},
	}
}

// infos are the places by their names.
func infos() map[Place]Info {
	all := make(map[Place]Info)
	for _, i := range Places() {
		all[i.Place] = i
	}
	return all
}
