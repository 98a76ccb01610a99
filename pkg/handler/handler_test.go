package handler_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

func TestVerdictSaysNoMoreThanTheHandlerDid(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route")
	for name, c := range map[string]struct {
		err  error
		want job.Result
	}{
		"nil is delivered":                {nil, job.Done(nil)},
		"a plain error is unknown":        {cause, job.MayBeDone(job.CodeHandlerError, "no route")},
		"the end of a context is unknown": {context.DeadlineExceeded, job.MayBeDone(job.CodeHandlerError, "context deadline exceeded")},
		"NotDone is transient":            {handler.NotDone(cause), job.NotDone(job.ClassTransient, job.CodeHandlerError, "no route")},
		"NotDone takes a code":            {handler.NotDone(cause, "QUOTA"), job.NotDone(job.ClassTransient, "QUOTA", "no route")},
		"NotDone needs no reason":         {handler.NotDone(nil), job.NotDone(job.ClassTransient, job.CodeHandlerError, "the handler gave no reason")},
		"Permanent is permanent":          {handler.Permanent(cause, job.CodeRejected), job.NotDone(job.ClassPermanent, job.CodeRejected, "no route")},
		"RetryAfter is throttled":         {handler.RetryAfter(cause, time.Minute), retryAfter(job.CodeThrottled, time.Minute)},
		"RetryAfter takes a code":         {handler.RetryAfter(cause, time.Minute, job.CodeGreylisted), retryAfter(job.CodeGreylisted, time.Minute)},
		"a negative time is none":         {handler.RetryAfter(cause, -time.Minute), retryAfter(job.CodeThrottled, 0)},
		"the outermost verdict counts":    {handler.Permanent(handler.NotDone(cause)), job.NotDone(job.ClassPermanent, job.CodeHandlerError, "no route")},
		"a verdict is found when joined":  {errors.Join(io.EOF, handler.NotDone(cause)), job.NotDone(job.ClassTransient, job.CodeHandlerError, "EOF\nno route")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, handler.Verdict(c.err)))
		})
	}
}

func retryAfter(code job.Code, d time.Duration) job.Result {
	r := job.NotDone(job.ClassTransient, code, "no route")
	r.RetryAfter = d
	return r
}

func TestVerdictKeepsTheErrorForTheHandlersOwnCode(t *testing.T) {
	t.Parallel()
	for _, err := range []error{handler.NotDone(io.EOF), handler.Permanent(io.EOF), handler.RetryAfter(io.EOF, time.Second)} {
		require.ErrorIs(t, err, io.EOF)
		require.EqualError(t, err, "EOF")
	}
}

func TestReceiptIsKeptByTheContextOfTheAttempt(t *testing.T) {
	t.Parallel()
	ctx, receipt := handler.WithReceipt(t.Context())
	require.Nil(t, receipt())
	handler.Receipt(ctx, "a")
	handler.ReceiptStatus(ctx, "b", "202")
	require.Equal(t, "b", receipt().ID)
	require.Equal(t, "202", receipt().Status)
	handler.Receipt(t.Context(), "nobody takes it")
}
