package handler

import (
	"context"
	"sync"
	"time"

	"duly.dev/duly/pkg/job"
)

// Receipt keeps what the receiver answered, such as the id that a provider gave the
// message. It is stored with the job as the proof that its effect happened, also
// where the handler fails afterwards. The last call counts. With a context that is not
// a handler's it does nothing.
func Receipt(ctx context.Context, id string) { ReceiptStatus(ctx, id, "") }

// ReceiptStatus is Receipt with the protocol's status, such as "202".
func ReceiptStatus(ctx context.Context, id, status string) {
	if b, ok := ctx.Value(receiptKey{}).(*receiptBox); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.receipt = &job.Receipt{ID: id, Status: status, At: time.Now().UTC()}
	}
}

type receiptKey struct{}

type receiptBox struct {
	mu      sync.Mutex
	receipt *job.Receipt
}

// WithReceipt returns a context that takes a receipt, and the function that reads it:
// nil where none was given. Workers and test kits use it around Handle.
func WithReceipt(ctx context.Context) (context.Context, func() *job.Receipt) {
	b := &receiptBox{}
	return context.WithValue(ctx, receiptKey{}, b), func() *job.Receipt {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.receipt
	}
}
