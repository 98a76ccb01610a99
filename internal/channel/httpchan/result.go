package httpchan

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"duly.dev/duly/pkg/job"
)

// unusable is the result of a destination that Check refuses.
func (c *Channel) unusable(destination string, r *job.Refusal) job.Result {
	code := job.CodeDestinationInvalid
	if u, err := url.Parse(destination); err == nil && c.forbidden(u) != nil {
		code = job.CodeDestinationForbidden
	}
	why := r.More
	if why == "" {
		why = r.Rule.Text()
	}
	return job.NotDone(job.ClassPermanent, code, "the destination cannot be used: "+why)
}

// unanswered is the result of an exchange that ended without an answer.
func unanswered(ctx context.Context, p passage, err error) job.Result {
	switch {
	case p.refused != nil:
		return job.NotBegun(p.refused.Error())
	case p.maybe:
		return broken(ctx, err)
	case errors.Is(ctx.Err(), context.Canceled):
		return job.NotBegun("the attempt was stopped before anything was sent")
	}
	return unsent(ctx, err)
}

// unsent is the result of an exchange of which no byte was written: it did not
// happen.
func unsent(ctx context.Context, err error) job.Result {
	var forbidden *forbiddenError
	var secured *tlsError
	switch {
	case errors.As(err, &forbidden):
		return job.NotDone(job.ClassPermanent, job.CodeDestinationForbidden, forbidden.Error())
	case ctx.Err() != nil:
		return job.NotDone(job.ClassTransient, job.CodeUnreachable, "the limit was over before a connection was made; nothing was sent")
	case errors.As(err, &secured):
		return job.NotDone(job.ClassTransient, job.CodeTLS, secured.Error())
	}
	return job.NotDone(job.ClassTransient, job.CodeUnreachable, "nothing was sent: "+err.Error())
}

// broken is the result of an exchange of which some byte may have been written and
// nothing usable came back.
func broken(ctx context.Context, err error) job.Result {
	var timeout net.Error
	var netErr *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return job.MayBeDone(job.CodeTimeout, "no answer within the limit")
	case ctx.Err() != nil:
		return job.MayBeDone(job.CodeConnectionLost, "the attempt was stopped after the request was sent, before an answer")
	case errors.As(err, &timeout) && timeout.Timeout():
		return job.MayBeDone(job.CodeTimeout, "no answer in time")
	case errors.As(err, &netErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return job.MayBeDone(job.CodeConnectionLost, "the connection ended before an answer")
	case closedIdle(err):
		return job.MayBeDone(job.CodeConnectionLost, "the receiver closed a connection as it was used again, without an answer")
	}
	return job.MayBeDone(job.CodeUnexpectedAnswer, "the answer is not HTTP")
}

// closedIdle recognises an error of net/http that it does not export: the receiver
// closed a connection that had been used before, without a byte of an answer.
func closedIdle(err error) bool {
	return strings.Contains(err.Error(), "server closed idle connection")
}

// detail says the status in words and, of a redirect, where it points to: scheme
// and host alone, since the rest may be private.
func detail(resp *http.Response) string {
	d := fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode < 300 || resp.StatusCode > 399 {
		return strings.TrimSpace(d)
	}
	if to, err := resp.Location(); err == nil && to.Host != "" {
		return d + " to " + to.Scheme + "://" + to.Host
	}
	return strings.TrimSpace(d)
}

// decodeKey reads a Standard Webhooks secret. Its errors do not show it.
func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		return nil, errors.New("signing_secret: the secret is not base64")
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("signing_secret: the secret must be 24 to 64 bytes long, it has %d", len(key))
	}
	return key, nil
}
