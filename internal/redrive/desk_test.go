package redrive_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

// book is a ledger that writes down what it is asked.
type book struct {
	story     machine.Story
	redrives  []machine.RedriveRequest
	answers   []machine.Answer
	cancelled []machine.Cancellation
}

func (b *book) Redrive(_ context.Context, r machine.RedriveRequest) (machine.Successor, error) {
	b.redrives = append(b.redrives, r)
	return machine.Successor{Generation: r.Generation + 1}, nil
}

func (b *book) Resolve(_ context.Context, a machine.Answer) (machine.Standing, error) {
	b.answers = append(b.answers, a)
	return machine.Standing{State: job.Delivered}, nil
}

func (b *book) Cancel(_ context.Context, c machine.Cancellation) (machine.Standing, error) {
	b.cancelled = append(b.cancelled, c)
	return machine.Standing{State: job.Cancelled}, nil
}

func (b *book) Find(context.Context, string, string) (machine.Story, error) { return b.story, nil }

func request() machine.RedriveRequest {
	return machine.RedriveRequest{Kind: "mail", Key: "k", Generation: 1, RecoveryKey: "fix-1", Approver: "ann", Actor: "bob", Reason: "corrected"}
}

func fields(err error) (names []string) {
	for _, r := range job.Refusals(err) {
		names = append(names, r.Field)
	}
	return names
}

func TestARequestMustSayWhoWhyAndWhatWasSeen(t *testing.T) {
	t.Parallel()
	require.NoError(t, redrive.CheckRequest(request(), redrive.Options{}))
	err := redrive.CheckRequest(machine.RedriveRequest{Kind: "mail", Key: "k", Forced: true}, redrive.Options{})
	require.Equal(t, []string{"generation", "recovery_key", "approver", "actor", "reason", "evidence"}, fields(err))
	require.ErrorIs(t, err, job.ErrRefused)
}

func TestCorrectionsObeyTheRulesOfProducers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 30, 15, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*machine.RedriveRequest)
		field  string
		rule   job.Rule
	}{
		"payload not JSON":       {func(r *machine.RedriveRequest) { r.Payload = []byte(`{`) }, "payload", job.RuleJSON},
		"payload too large":      {func(r *machine.RedriveRequest) { r.Payload = []byte(`"123456789"`) }, "payload", job.RuleTooLarge},
		"destination not text":   {func(r *machine.RedriveRequest) { r.Destination = "\xff" }, "destination", job.RuleUTF8},
		"deadline out of bounds": {func(r *machine.RedriveRequest) { r.Deadline = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC) }, "deadline", job.RuleYears},
		"start behind deadline":  {func(r *machine.RedriveRequest) { r.Deadline, r.NotBefore = at, at }, "not_before", job.RuleDueBeforeDeadline},
		"unknown zone":           {func(r *machine.RedriveRequest) { r.Deadline, r.DeadlineZone = at, "Mars/X" }, "deadline_zone", job.RuleUnknownZone},
	} {
		r := request()
		c.change(&r)
		refusals := job.Refusals(redrive.CheckRequest(r, redrive.Options{MaxPayload: 10, KnownZone: func(z string) bool { return z == "UTC" }}))
		require.Len(t, refusals, 1, name)
		require.Equal(t, []any{c.field, c.rule}, []any{refusals[0].Field, refusals[0].Rule}, name)
	}
}

func TestTheChannelIsAskedAboutTheBodyAsItWillBe(t *testing.T) {
	t.Parallel()
	var asked []string
	desk := func(b *book) *redrive.Desk {
		return redrive.NewDesk(b, b, redrive.Options{Check: func(kind, destination string, payload []byte) *job.Refusal {
			asked = append(asked, kind+" "+destination+" "+string(payload))
			if destination == "nowhere" {
				return job.Refuse("destination", destination, job.RuleDestination, "")
			}
			return nil
		}})
	}
	b := &book{story: machine.Story{Generations: []machine.Generation{{Row: machine.Row{Generation: 1}, Destination: "old", Payload: []byte(`1`)}}}}
	r := request()
	_, err := desk(b).Redrive(t.Context(), r)
	require.NoError(t, err)
	require.Empty(t, asked, "nothing was corrected")
	r.Payload = []byte(`2`)
	_, err = desk(b).Redrive(t.Context(), r)
	require.NoError(t, err)
	r.Destination = "nowhere"
	_, err = desk(b).Redrive(t.Context(), r)
	require.Equal(t, []string{"destination"}, fields(err))
	require.Equal(t, []string{"mail old 2", "mail nowhere 2"}, asked)
	require.Len(t, b.redrives, 2, "what is refused does not reach the ledger")

	r.Generation = 7
	_, err = desk(b).Redrive(t.Context(), r)
	require.NoError(t, err, "the ledger says what an older generation means")
}

func TestAnswersAndCancellationsMustSayWho(t *testing.T) {
	t.Parallel()
	b := &book{}
	desk := redrive.NewDesk(b, b, redrive.Options{})
	_, err := desk.Resolve(t.Context(), machine.Answer{Kind: "mail", Key: "k", Verdict: "maybe"})
	require.Equal(t, []string{"fence", "as", "evidence", "actor"}, fields(err))
	require.ErrorContains(t, err, "one of delivered, not-delivered, give-up")
	_, err = desk.Cancel(t.Context(), machine.Cancellation{Kind: "mail", Key: "k"})
	require.Equal(t, []string{"actor"}, fields(err))
	require.Empty(t, b.answers)
	require.Empty(t, b.cancelled)

	for _, v := range machine.Verdicts() {
		_, err = desk.Resolve(t.Context(), machine.Answer{Kind: "mail", Key: "k", Fence: 1, Verdict: v, Evidence: "log", Actor: "bob"})
		require.NoError(t, err)
	}
	_, err = desk.Cancel(t.Context(), machine.Cancellation{Kind: "mail", Key: "k", Actor: "bob"})
	require.NoError(t, err)
	require.Len(t, b.answers, 3)
	require.Len(t, b.cancelled, 1)
}
