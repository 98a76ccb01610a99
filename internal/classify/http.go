package classify

import "duly.dev/duly/pkg/job"

// HTTPRule gives one verdict to an inclusive range of statuses.
type HTTPRule struct {
	From, To int
	Verdict  Verdict
}

// HTTPTable is an ordered list of rules; the first that matches decides.
type HTTPTable []HTTPRule

// DefaultHTTP is the table that the package's documentation explains.
func DefaultHTTP() HTTPTable {
	return HTTPTable{
		{200, 299, happened()},
		{300, 399, mayHaveHappened(job.CodeRedirected)},
		{401, 401, never(job.CodeUnauthorized)},
		{403, 403, never(job.CodeUnauthorized)},
		{404, 404, never(job.CodeDestinationInvalid)},
		{400, 406, never(job.CodeRejected)},
		{408, 408, mayHaveHappened(job.CodeTimeout)},
		{409, 409, mayHaveHappened(job.CodeConflict)},
		{410, 410, never(job.CodeDestinationGone)},
		{411, 417, never(job.CodeRejected)},
		{422, 422, never(job.CodeRejected)},
		{425, 425, later(job.CodeReceiverBusy)},
		{429, 429, later(job.CodeThrottled)},
		{500, 599, mayHaveHappened(job.CodeServerError)},
	}
}

// Classify returns the verdict about a status. What no rule covers may have
// happened: the receiver had the request.
func (t HTTPTable) Classify(status int) Verdict {
	for _, r := range t {
		if r.From <= status && status <= r.To {
			return r.Verdict
		}
	}
	return mayHaveHappened(job.CodeUnexpectedAnswer)
}
