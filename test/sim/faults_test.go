package sim

import (
	"slices"
	"time"
)

// fault is something that goes wrong, or that somebody does in the middle of everything.
// The set is closed; what was asked for and never happened fails the run.
type fault string

// What happens to processes.
const (
	crash            fault = "crash"                   // a process is gone from one step to the next
	crashCommitted   fault = "crash, its call commits" // … and what it had sent is done
	crashUnsent      fault = "crash, its call is lost" // … and what it had sent never arrives
	freeze           fault = "pause"                   // a process rests, and then goes on
	freezePastLease  fault = "pause past the lease"    // … for so long that its leases end
	freezePastBroker fault = "pause past visibility"   // … and the broker delivers again what it holds
	deploy           fault = "deploy"                  // a process is told to stop, and another one starts
	oldVersion       fault = "worker without the kind" // a worker that does not know a kind yet
)

// What happens between a process and the ledger, and to the ledger.
const (
	callFails    fault = "ledger call fails"    // before it committed
	replyLost    fault = "commit reply lost"    // after it committed
	commitLate   fault = "commit comes late"    // nobody knows, and then it commits
	callSlow     fault = "ledger call slow"     // it takes seconds
	ledgerOutage fault = "ledger outage"        // every call fails for a while
	clockForward fault = "ledger clock forward" // its clock steps
	clockBack    fault = "ledger clock back"
)

// What happens on the bus.
const (
	ackLost        fault = "ack lost"
	duplicated     fault = "message duplicated"
	overtaken      fault = "message reordered"
	dropped        fault = "message dropped"
	unsendable     fault = "message unsendable"
	publishFails   fault = "publish fails"
	publishUnclear fault = "publish reply lost"
	busOutage      fault = "bus outage"
	busWiped       fault = "bus loses everything"
)

// What receivers do, each within what their kinds declare.
const (
	unreachable     fault = "receiver unreachable"
	refusesNow      fault = "receiver refuses for now"
	refusesForGood  fault = "receiver refuses for good"
	refusesOddly    fault = "receiver refuses, unclassified"
	asksToWait      fault = "receiver asks to wait"
	silent          fault = "receiver acts and does not answer"
	actsLate        fault = "receiver acts after the limit"
	requestLost     fault = "request lost"
	connectionLost  fault = "receiver acts, connection lost"
	connectionReset fault = "connection lost before the receiver acts"
	answersLate     fault = "answer after the limit"
	writesLate      fault = "paused between last check and first byte"
	panics          fault = "handler panics"
	neverReturns    fault = "handler outlives its limit"
	repeated        fault = "receiver dedupes a repeat"
	lookupSilent    fault = "lookup without an answer"
	lookupWorking   fault = "lookup says working"
)

// What persons and producers do.
const (
	cancels      fault = "cancel"
	redrives     fault = "redrive"
	redrivesBoth fault = "redrive asked twice"
	forces       fault = "forced redrive"
	resolvesYes  fault = "resolve as delivered"
	resolvesNo   fault = "resolve as not delivered"
	givesUp      fault = "give up"
	enqueuesBoth fault = "enqueue twice"
	replaces     fault = "replace"
)

// faults lists all of them.
func faults() []fault {
	return []fault{
		crash, crashCommitted, crashUnsent, freeze, freezePastLease, freezePastBroker, deploy, oldVersion,
		callFails, replyLost, commitLate, callSlow, ledgerOutage, clockForward, clockBack,
		ackLost, duplicated, overtaken, dropped, unsendable, publishFails, publishUnclear, busOutage, busWiped,
		unreachable, refusesNow, refusesForGood, refusesOddly, asksToWait, silent, actsLate, requestLost, connectionLost,
		connectionReset, answersLate, writesLate, panics, neverReturns, repeated, lookupSilent, lookupWorking,
		cancels, redrives, redrivesBoth, forces, resolvesYes, resolvesNo, givesUp, enqueuesBoth, replaces,
	}
}

// consequences are faults that follow from others, and are asked for with them.
var consequences = []fault{crashCommitted, crashUnsent, freezePastBroker, repeated}

// The lengths of a schedule. All of a kind's bounds are short, so that everything that can
// end does so within minutes.
const (
	limit         = 3 * time.Second
	longLimit     = 15 * time.Second // of the Go handler, which outlives a lease
	leaseTime     = 12 * time.Second
	heartbeat     = 2 * time.Second
	drain         = 5 * time.Second
	pauseBound    = 2 * time.Second
	settle        = 4 * time.Second
	window        = 60 * time.Second
	resolveWithin = 90 * time.Second
	visibility    = 6 * time.Second
	contactGap    = 5 * time.Second // the longest silence of the ledger that breaks no contact
	// stormy is how long things go wrong.
	stormy = 60 * time.Second
	// patience is how long everything may take to end once nothing goes wrong any more.
	patience = 6 * time.Minute
	// swing is how far the ledger's clock moves at most; receivers keep that much distance
	// from what they declare where it does.
	swing = 3 * time.Second
)

// plan is what is asked of one schedule: who takes part and what goes wrong.
type plan struct {
	workers, dispatchers, schedulers int
	jobs, pack, slots                int
	// rates are how often a fault happens of all times that it could; 0: it was not asked
	// for. incidents are those that happen at instants of their own.
	rates     map[fault]float64
	incidents map[fault]int
}

// rates are how often each fault happens where it is asked for.
var rates = map[fault]float64{
	oldVersion: 1, callFails: 0.02, replyLost: 0.02, commitLate: 0.02, callSlow: 0.01,
	ackLost: 0.2, duplicated: 0.2, overtaken: 0.3, dropped: 0.15, unsendable: 0.1, publishFails: 0.1, publishUnclear: 0.1,
	unreachable: 0.1, refusesNow: 0.15, refusesForGood: 0.08, refusesOddly: 0.08, asksToWait: 0.3, silent: 0.12, actsLate: 0.5,
	requestLost: 0.1, connectionLost: 0.1, connectionReset: 0.08, answersLate: 0.1, writesLate: 0.12, panics: 0.05, neverReturns: 0.06,
	lookupSilent: 0.3, lookupWorking: 0.3,
	cancels: 0.2, redrives: 0.5, redrivesBoth: 0.6, forces: 0.3, resolvesYes: 0.5, resolvesNo: 0.5, givesUp: 0.2, enqueuesBoth: 0.3, replaces: 0.3,
}

// incidents are the most of them in one schedule.
var incidents = map[fault]int{
	crash: 4, freeze: 3, freezePastLease: 2, deploy: 2, ledgerOutage: 2, clockForward: 1, clockBack: 1, busOutage: 1, busWiped: 1,
}

// calmSeeds is how many seeds lie between two in which nothing goes wrong at all.
const calmSeeds = 25

// newPlan draws the plan of a seed. About half of all faults are asked for in each, so that
// one does not hide what another does.
func newPlan(d dice, seed uint64) plan {
	c := d.roll("plan")
	p := plan{
		workers: 1 + c.of("workers").upTo(3), dispatchers: 1 + c.of("dispatchers").upTo(2), schedulers: 1 + c.of("schedulers").upTo(2),
		jobs: 5 + c.of("jobs").upTo(8), pack: 1 + c.of("pack").upTo(4), slots: 4 + 4*c.of("slots").upTo(3),
		rates: map[fault]float64{}, incidents: map[fault]int{},
	}
	if seed%calmSeeds == 0 {
		return p
	}
	for _, f := range faults() {
		asked := c.of(string(f))
		if !asked.below(0.5) || slices.Contains(consequences, f) {
			continue
		}
		p.rates[f] = rates[f]
		if most := incidents[f]; most > 0 {
			p.incidents[f] = 1 + asked.of("times").upTo(most)
		}
	}
	return p
}

// asked reports whether the fault was asked for.
func (p plan) asked(f fault) bool { return p.rates[f] > 0 || p.incidents[f] > 0 }

// clockSteps reports whether the ledger's clock is not to be trusted.
func (p plan) clockSteps() bool { return p.asked(clockForward) || p.asked(clockBack) }
