package worker_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/worker"
)

// A worker of your own: duly.yaml has a kind "greeting" with channel: go, and the
// environment says where the ledger and the bus are.
func ExampleRun() { //nolint:testableexamples // it runs until SIGTERM; TestExampleIsAWorkerThatStopsOnSIGTERM has it run
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := worker.Run(ctx, worker.Config{}, worker.Handlers{
		"greeting": handler.Func(func(ctx context.Context, j handler.Job) error {
			id, err := greet(ctx, j.EffectKey, j.Destination, j.Payload)
			handler.Receipt(ctx, id)
			return err
		}),
	})
	if err != nil {
		log.Print(err)
	}
}
