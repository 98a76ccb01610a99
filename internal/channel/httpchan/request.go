package httpchan

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"duly.dev/duly/internal/channel"
)

// request makes the request of an effect. Its body cannot be had a second time.
func (c *Channel) request(ctx context.Context, e channel.Effect) (*http.Request, error) {
	body := io.NopCloser(bytes.NewReader(e.Payload))
	req, err := http.NewRequestWithContext(ctx, c.method, e.Destination, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(e.Payload))
	// With GetBody the transport would send a request that carries an
	// Idempotency-Key again by itself when a used connection breaks.
	req.GetBody = nil
	req.Header = c.headers.Clone()
	req.Header.Set("Idempotency-Key", e.EffectKey)
	req.Header.Set("Duly-Kind", e.Kind)
	req.Header.Set("Duly-Attempt", strconv.Itoa(int(e.Attempt)))
	if e.TraceParent != "" && httpguts.ValidHeaderFieldValue(e.TraceParent) {
		req.Header.Set("Traceparent", e.TraceParent)
	}
	return req, c.sign(req.Header, e)
}

// sign adds a Standard Webhooks signature, if there is a secret for it. The message
// id is the effect key: what a receiver dedupes on, over all attempts.
func (c *Channel) sign(h http.Header, e channel.Effect) error {
	if c.signer == nil {
		return nil
	}
	now := time.Now()
	signature, err := c.signer.Sign(e.EffectKey, now, e.Payload)
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	h.Set(standardwebhooks.HeaderWebhookID, e.EffectKey)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}
