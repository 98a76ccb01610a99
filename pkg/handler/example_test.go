package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// A handler says how certain its end is: nil, it happened; NotDone, RetryAfter and
// Permanent, it did not; any other error, it may have.
func ExampleHandler() {
	send := handler.Func(func(ctx context.Context, j handler.Job) error {
		var p struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(j.Payload, &p); err != nil {
			return handler.Permanent(errors.New("the payload has no text"), job.CodePayloadInvalid)
		}
		id, status, err := callProvider(ctx, j.EffectKey, j.Destination, p.Text)
		switch {
		case err != nil:
			return err // it may have happened: nobody knows
		case status == http.StatusTooManyRequests:
			return handler.RetryAfter(errors.New("the provider is busy"), time.Minute)
		case status >= 400:
			return handler.NotDone(fmt.Errorf("the provider answered %d", status))
		}
		handler.Receipt(ctx, id)
		return nil
	})

	ctx, receipt := handler.WithReceipt(context.Background())
	err := send.Handle(ctx, handler.Job{Kind: "greeting", Key: "customer-1842", Destination: "+33612345678", Payload: []byte(`{"text":"Bonjour"}`)})
	fmt.Println(err, receipt().ID)

	err = send.Handle(ctx, handler.Job{Kind: "greeting", Key: "customer-1843", Payload: []byte(`[]`)})
	r := handler.Verdict(err)
	fmt.Println(r.Outcome, r.Class, r.Code)
	// Output:
	// <nil> msg-1
	// failed permanent PAYLOAD_INVALID
}

// callProvider stands for the client of a messaging service.
func callProvider(_ context.Context, _, _, _ string) (id string, status int, err error) {
	return "msg-1", http.StatusAccepted, nil
}

// A verdict is found through wrapping, so that a helper deep inside may give it.
func ExampleNotDone() {
	connect := handler.NotDone(errors.New("connection refused"), job.CodeUnreachable)
	r := handler.Verdict(fmt.Errorf("sending the greeting: %w", connect))
	fmt.Println(r.Outcome, r.Class, r.Code, r.Detail)

	r = handler.Verdict(errors.New("the connection broke while waiting for the answer"))
	fmt.Println(r.Outcome, r.Code)
	// Output:
	// failed transient UNREACHABLE sending the greeting: connection refused
	// unknown HANDLER_ERROR
}

// RetryAfter passes on how long the receiver asked to be left alone.
func ExampleRetryAfter() {
	r := handler.Verdict(handler.RetryAfter(errors.New("quota used up"), 90*time.Second))
	fmt.Println(r.Outcome, r.Code, r.RetryAfter)
	// Output: failed THROTTLED 1m30s
}

// A lookup beside a handler asks the receiver what became of an effect that may have
// happened. What it does not know is an error: then it is asked again.
func ExampleWithLookup() {
	send := handler.Func(func(context.Context, handler.Job) error {
		return errors.New("the connection broke while waiting for the answer")
	})
	look := func(_ context.Context, q handler.Question) (handler.Answer, error) {
		id, status := findAtProvider(q.EffectKey)
		switch status {
		case http.StatusOK:
			return handler.Happened(id), nil
		case http.StatusNotFound:
			return handler.DidNotHappen(), nil
		case http.StatusAccepted:
			return handler.StillWorking(), nil
		}
		return handler.Answer{}, fmt.Errorf("the provider answered %d", status)
	}
	h := handler.WithLookup(send, look) // and promises: {lookup: {go: {}}} in duly.yaml

	err := h.Handle(context.Background(), handler.Job{Kind: "greeting", Key: "customer-1842"})
	fmt.Println(handler.Verdict(err).Outcome)
	answer, err := handler.LookupOf(h)(context.Background(), handler.Question{EffectKey: "greeting/customer-1842:1:go"})
	said, receipt := answer.Said()
	fmt.Println(said, receipt, err)
	// Output:
	// unknown
	// yes msg-1 <nil>
}

// findAtProvider stands for the client of a messaging service.
func findAtProvider(string) (id string, status int) { return "msg-1", http.StatusOK }

// A cleanup beside a handler removes what was generated for a job, once the job is over
// and the kind's gate is open. It is called again where it failed.
func ExampleWithCleanup() {
	send := handler.Func(func(context.Context, handler.Job) error { return nil })
	tidy := func(_ context.Context, e handler.Ended) error {
		fmt.Println("removing the drafts of", e.Key, "which is", e.State)
		return nil
	}
	h := handler.WithCleanup(send, tidy) // and cleanup: {go: {}} in duly.yaml

	err := handler.CleanupOf(h)(context.Background(), handler.Ended{Kind: "greeting", Key: "customer-1842", State: job.Delivered})
	fmt.Println(err)
	// Output:
	// removing the drafts of customer-1842 which is delivered
	// <nil>
}

// A resolve beside a handler says where the effects go now: it is asked right before an
// attempt, about all jobs that are there at the same time.
func ExampleWithResolve() {
	send := handler.Func(func(context.Context, handler.Job) error { return nil })
	addresses := map[string]string{"customer 1842": "new@example.com"} // as the customers gave them last
	find := func(_ context.Context, jobs []handler.Addressee) ([]string, error) {
		found := make([]string, len(jobs))
		for i, j := range jobs {
			found[i] = addresses[j.Subject] // empty: there is none, and nothing is sent
		}
		return found, nil
	}
	h := handler.WithResolve(send, find) // and resolve: {go: {}} in duly.yaml

	found, err := handler.ResolveOf(h)(context.Background(), []handler.Addressee{
		{Kind: "greeting", Key: "customer-1842", Subject: "customer 1842", Destination: "old@example.com"},
		{Kind: "greeting", Key: "customer-1843", Subject: "customer 1843"},
	})
	fmt.Printf("%q %v\n", found, err)
	// Output: ["new@example.com" ""] <nil>
}
