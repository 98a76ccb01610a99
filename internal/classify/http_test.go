package classify_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

var (
	delivered = classify.Verdict{Certainty: job.OutcomeDelivered}
	unknown   = func(c job.Code) classify.Verdict {
		return classify.Verdict{Certainty: job.OutcomeUnknown, Code: c}
	}
	transient = func(c job.Code) classify.Verdict {
		return classify.Verdict{Certainty: job.OutcomeFailed, Class: job.ClassTransient, Code: c}
	}
	permanent = func(c job.Code) classify.Verdict {
		return classify.Verdict{Certainty: job.OutcomeFailed, Class: job.ClassPermanent, Code: c}
	}
)

func TestHTTPStatusesHaveTheVerdictOfTheDesign(t *testing.T) {
	t.Parallel()
	table := classify.DefaultHTTP()
	for status, want := range map[int]classify.Verdict{
		100: unknown(job.CodeUnexpectedAnswer),
		101: unknown(job.CodeUnexpectedAnswer),
		103: unknown(job.CodeUnexpectedAnswer),
		200: delivered, 201: delivered, 202: delivered, 204: delivered, 299: delivered,
		301: unknown(job.CodeRedirected),
		302: unknown(job.CodeRedirected),
		304: unknown(job.CodeRedirected),
		307: unknown(job.CodeRedirected),
		400: permanent(job.CodeRejected),
		401: permanent(job.CodeUnauthorized),
		402: permanent(job.CodeRejected),
		403: permanent(job.CodeUnauthorized),
		404: permanent(job.CodeDestinationInvalid),
		405: permanent(job.CodeRejected),
		406: permanent(job.CodeRejected),
		407: unknown(job.CodeUnexpectedAnswer),
		408: unknown(job.CodeTimeout),
		409: unknown(job.CodeConflict),
		410: permanent(job.CodeDestinationGone),
		411: permanent(job.CodeRejected),
		413: permanent(job.CodeRejected),
		417: permanent(job.CodeRejected),
		418: unknown(job.CodeUnexpectedAnswer),
		422: permanent(job.CodeRejected),
		423: unknown(job.CodeUnexpectedAnswer),
		424: unknown(job.CodeUnexpectedAnswer),
		425: transient(job.CodeReceiverBusy),
		429: transient(job.CodeThrottled),
		431: unknown(job.CodeUnexpectedAnswer),
		451: unknown(job.CodeUnexpectedAnswer),
		500: unknown(job.CodeServerError),
		501: unknown(job.CodeServerError),
		502: unknown(job.CodeServerError),
		503: unknown(job.CodeServerError),
		504: unknown(job.CodeServerError),
		599: unknown(job.CodeServerError),
		0:   unknown(job.CodeUnexpectedAnswer),
		600: unknown(job.CodeUnexpectedAnswer),
		999: unknown(job.CodeUnexpectedAnswer),
	} {
		require.Equal(t, want, table.Classify(status), "status %d", status)
	}
}

// The statuses that prove that nothing happened are a closed list; a rule that
// adds one is a change of the design.
func TestNoOtherHTTPStatusProvesThatNothingHappened(t *testing.T) {
	t.Parallel()
	proves := func(s int) bool {
		return s >= 400 && s <= 406 || s >= 410 && s <= 417 || s == 422 || s == 425 || s == 429
	}
	table := classify.DefaultHTTP()
	for status := range 1000 {
		v := table.Classify(status)
		require.Equal(t, proves(status), v.Certainty == job.OutcomeFailed, "status %d", status)
		require.Equal(t, status >= 200 && status <= 299, v.Certainty == job.OutcomeDelivered, "status %d", status)
		requireWellFormed(t, v)
	}
}

func TestATableIsReadFromTheTop(t *testing.T) {
	t.Parallel()
	mine := append(classify.HTTPTable{{From: 503, To: 503, Verdict: transient(job.CodeReceiverBusy)}}, classify.DefaultHTTP()...)
	require.Equal(t, transient(job.CodeReceiverBusy), mine.Classify(503))
	require.Equal(t, unknown(job.CodeServerError), mine.Classify(502))
	require.Equal(t, unknown(job.CodeUnexpectedAnswer), classify.HTTPTable{}.Classify(200))
}

func TestAVerdictBecomesAResult(t *testing.T) {
	t.Parallel()
	receipt := &job.Receipt{ID: "r-1", Status: "200"}
	require.Equal(t, job.Done(receipt), delivered.Result("HTTP 200", receipt))

	r := transient(job.CodeThrottled).Result("HTTP 429", receipt)
	require.Equal(t, job.Result{
		Outcome: job.OutcomeFailed, Class: job.ClassTransient, Code: job.CodeThrottled, Detail: "HTTP 429", Receipt: receipt,
	}, r)
}

// requireWellFormed: a class belongs to a failure and to nothing else; a code to
// all but a delivery.
func requireWellFormed(t require.TestingT, v classify.Verdict) {
	require.Contains(t, []job.Outcome{job.OutcomeDelivered, job.OutcomeFailed, job.OutcomeUnknown}, v.Certainty)
	require.Equal(t, v.Certainty == job.OutcomeFailed, v.Class != "")
	require.Equal(t, v.Certainty == job.OutcomeDelivered, v.Code == job.CodeNone)
	require.True(t, v.Code.Known())
}

func TestEveryHTTPStatusHasAWellFormedVerdict(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requireWellFormed(t, classify.DefaultHTTP().Classify(rapid.Int().Draw(t, "status")))
	})
}
