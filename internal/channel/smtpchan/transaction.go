package smtpchan

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/pkg/job"
)

// transaction sends one mail on one session.
type transaction struct {
	channel *Channel
	session *session
	message message
	begin   func() error

	// clean is true if the session can be used again.
	clean bool
	// useless is true if the session ended, or is being ended by the server, before
	// any content was sent.
	useless bool
}

// run goes through the transaction up to the reply to the final dot.
func (t *transaction) run(ctx context.Context, wake func() error) job.Result {
	if wake != nil {
		if err := wake(); err != nil {
			t.useless = true
			return t.channel.unsent(ctx, err, false)
		}
	}
	if code, why := t.session.unfit(t.message); code != job.CodeNone {
		t.clean = true
		return job.NotDone(job.ClassPermanent, code, why)
	}
	if err := t.session.envelope(t.message); err != nil {
		return t.before(ctx, err)
	}
	if err := t.begin(); err != nil {
		return job.NotBegun(err.Error())
	}
	if err := t.content(ctx); err != nil {
		return t.channel.unsent(ctx, err, true)
	}
	return t.end(ctx)
}

// before is the result of a transaction that ended before its content. After a
// refusal of this mail the session can be used for the next one.
func (t *transaction) before(ctx context.Context, err error) job.Result {
	if f, ok := errors.AsType[*failure](err); ok {
		t.clean = f.reply != nil && f.reply.Code != 421
		t.useless = !t.clean
	}
	return t.channel.unsent(ctx, err, false)
}

// content writes the mail up to, and without, the final dot.
func (t *transaction) content(ctx context.Context) error {
	if _, err := t.session.conn.Write(t.message.body); err != nil {
		return &failure{stage: classify.StageData, err: err}
	}
	if err := failpoint.At(failpoint.MailContent); err != nil {
		return &failure{stage: classify.StageData, err: err}
	}
	if err := ctx.Err(); err != nil {
		return &failure{stage: classify.StageData, err: err}
	}
	return nil
}

// end writes the final dot. From here on the mail may be sent.
func (t *transaction) end(ctx context.Context) job.Result {
	reply, err := t.session.command(classify.StageDot, 0, dot)
	if err != nil {
		return unanswered(ctx, err)
	}
	failpoint.Pass(failpoint.MailDot)
	t.clean = reply.Code != 421
	receipt := &job.Receipt{ID: strings.Join(strings.Fields(reply.Text), " "), Status: reply.Status(), At: time.Now()}
	receipt.ID = job.Storable(receipt.ID, job.MaxDetail)
	return t.channel.table.Classify(classify.StageDot, reply).Result("the mail was answered with "+reply.String(), receipt)
}

// unsent is the result of an attempt that ended before the final dot: it did not
// happen. begun says whether Begin was called.
func (c *Channel) unsent(ctx context.Context, err error, begun bool) job.Result {
	var f *failure
	isFailure := errors.As(err, &f)
	switch {
	case isFailure && f.reply != nil:
		receipt := &job.Receipt{Status: f.reply.Status(), At: time.Now()}
		return c.table.Classify(f.stage, *f.reply).Result(f.Error(), receipt)
	case errors.Is(ctx.Err(), context.Canceled) && !begun:
		return job.NotBegun("the attempt was stopped before the mail was sent")
	case ctx.Err() != nil:
		return job.NotDone(job.ClassTransient, job.CodeUnreachable, "the attempt ended before the mail was complete, so it was not sent")
	case isFailure && f.code != job.CodeNone:
		return job.NotDone(job.ClassTransient, f.code, f.Error())
	case errors.Is(err, classify.ErrReply):
		return job.NotDone(job.ClassUnclassified, job.CodeUnexpectedAnswer, err.Error())
	}
	return job.NotDone(job.ClassTransient, job.CodeUnreachable, "the mail was not sent: "+err.Error())
}

// unanswered is the result of an attempt whose final dot was written, or may have
// been, and got no reply that can be read.
func unanswered(ctx context.Context, err error) job.Result {
	switch {
	case errors.Is(err, classify.ErrReply):
		return job.MayBeDone(job.CodeUnexpectedAnswer, "the mail was complete, and its answer is not SMTP")
	case errors.Is(ctx.Err(), context.Canceled):
		return job.MayBeDone(job.CodeConnectionLost, "the attempt was stopped after the mail was complete, before its answer")
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return job.MayBeDone(job.CodeTimeout, "the mail was complete, and no answer came within the limit")
	}
	return job.MayBeDone(job.CodeConnectionLost, "the mail was complete, and the connection ended before its answer")
}
