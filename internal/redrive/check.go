package redrive

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// CheckRequest checks a redrive by everything that can be said without the ledger, and
// returns all reasons to refuse it, joined, or nil.
func CheckRequest(req machine.RedriveRequest, o Options) error {
	all := []error{
		positive("generation", int64(req.Generation)),
		job.CheckText("recovery_key", req.RecoveryKey, job.MaxKey, true),
		job.CheckText("approver", req.Approver, job.MaxSubject, true),
		job.CheckText("actor", req.Actor, job.MaxSubject, true),
		job.CheckText("reason", req.Reason, job.MaxDetail, true),
		job.CheckText("evidence", req.Evidence, job.MaxDetail, req.Forced),
		checkCorrections(req, o),
	}
	return errors.Join(all...)
}

// checkCorrections holds the corrections to the rules that producers obey. A deadline
// that has passed is the ledger's to refuse, whose clock counts.
func checkCorrections(req machine.RedriveRequest, o Options) error {
	spec := job.Spec{
		Kind: req.Kind, Key: req.Key, Destination: req.Destination, Payload: req.Payload,
		Due: req.NotBefore, Deadline: req.Deadline, DeadlineZone: req.DeadlineZone, DeadlineLocal: req.DeadlineLocal,
	}
	if len(spec.Payload) == 0 {
		spec.Payload = []byte("null") // it is kept
	}
	var all []error
	for _, r := range job.Refusals(spec.Validate(time.Time{}, job.Limits{MaxPayload: o.MaxPayload, KnownZone: o.KnownZone})) {
		if r.Field == "due" {
			r.Field = "not_before"
		}
		all = append(all, r)
	}
	return errors.Join(all...)
}

// CheckAnswer checks a person's answer, and returns all reasons to refuse it, joined, or
// nil.
func CheckAnswer(a machine.Answer) error {
	return errors.Join(
		positive("fence", a.Fence),
		checkVerdict(a.Verdict),
		job.CheckText("evidence", a.Evidence, job.MaxDetail, true),
		job.CheckText("actor", a.Actor, job.MaxSubject, true),
	)
}

// CheckCancellation checks a cancellation, and returns all reasons to refuse it, joined,
// or nil.
func CheckCancellation(c machine.Cancellation) error {
	return errors.Join(
		job.CheckText("actor", c.Actor, job.MaxSubject, true),
		job.CheckText("reason", c.Reason, job.MaxDetail, false),
	)
}

func positive(field string, n int64) error {
	if n > 0 {
		return nil
	}
	return job.Refuse(field, strconv.FormatInt(n, 10), job.RuleRequired, "the one that you saw, which is 1 or more")
}

func checkVerdict(v machine.Verdict) error {
	all := machine.Verdicts()
	if slices.Contains(all, v) {
		return nil
	}
	words := make([]string, len(all))
	for i, known := range all {
		words[i] = string(known)
	}
	return job.Refuse("as", string(v), job.RuleRequired, "one of "+strings.Join(words, ", "))
}
