package duly_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
)

// A reminder is scheduled in the transaction that notes the renewal. Whoever does not
// know whether it was committed repeats it.
func ExampleClient_Schedule() {
	withLedger(func(pool *pgxpool.Pool) {
		ctx := context.Background()
		client := duly.NewClient(pool)
		deadline, err := duly.At("2027-09-30T17:00:00", "Europe/Paris")
		if err != nil {
			log.Panic(err)
		}
		reminder := job.Spec{
			Kind:         kind,
			Key:          "renewal:2027-09:customer-1842",
			Destination:  "ann@example.com",
			Payload:      []byte(`{"name":"Ann","plan":"gold"}`),
			Due:          deadline.Add(-7 * 24 * time.Hour),
			Deadline:     deadline,
			DeadlineZone: "Europe/Paris", DeadlineLocal: "2027-09-30T17:00:00",
		}
		for range 2 {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				// … the producer's own statements …
				s, err := client.Schedule(ctx, tx, reminder)
				fmt.Println(s.Status)
				return err
			})
			if err != nil {
				log.Panic(err)
			}
		}
		j, err := client.Job(ctx, reminder.Kind, reminder.Key)
		if err != nil {
			log.Panic(err)
		}
		fmt.Println(j.State, j.Waiting, j.WakeAt.UTC().Format(time.RFC3339))
	})
	// Output:
	// created
	// existing
	// scheduled due 2027-09-23T15:00:00Z
}

// Many jobs go in one call, which answers each of them. What is wrong with one is told
// of it alone.
func ExampleClient_ScheduleMany() {
	withLedger(func(pool *pgxpool.Pool) {
		ctx := context.Background()
		client := duly.NewClient(pool)
		specs := []job.Spec{
			{Kind: kind, Key: "customer-1", Payload: []byte(`{}`)},
			{Kind: kind, Key: " customer-2", Payload: []byte(`{"name":`)},
			{Kind: kind, Key: "customer-3", Payload: []byte(`{}`)},
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			all, err := client.ScheduleMany(ctx, tx, specs)
			for _, s := range all {
				fmt.Println(s.Status)
				for _, r := range job.Refusals(s.Reason) {
					fmt.Println("  ", r)
				}
			}
			return err
		})
		if err != nil {
			log.Panic(err)
		}
	})
	// Output:
	// created
	// refused
	//    key " customer-2": it must not begin or end with a space
	//    payload: it must be exactly one valid JSON value (it ends too early)
	// created
}

// A producer who changed his mind asks for another body, as long as no attempt has
// begun.
func ExampleReplace() {
	withLedger(func(pool *pgxpool.Pool) {
		ctx := context.Background()
		client := duly.NewClient(pool)
		spec := job.Spec{Kind: kind, Key: "customer-1", Payload: []byte(`{"plan":"gold"}`)}
		schedule := func(options ...duly.ScheduleOption) {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				s, err := client.Schedule(ctx, tx, spec, options...)
				fmt.Println(s.Status, errors.Is(err, job.ErrConflict))
				return err
			})
			if err != nil && !errors.Is(err, job.ErrConflict) {
				log.Panic(err)
			}
		}
		schedule()
		spec.Payload = []byte(`{"plan":"silver"}`)
		schedule()
		schedule(duly.Replace())
	})
	// Output:
	// created false
	// refused true
	// replaced false
}

// A job is withdrawn in the transaction that makes it pointless.
func ExampleClient_Cancel() {
	withLedger(func(pool *pgxpool.Pool) {
		ctx := context.Background()
		client := duly.NewClient(pool)
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.Schedule(ctx, tx, job.Spec{Kind: kind, Key: "customer-1", Payload: []byte(`{}`), Due: time.Now().Add(time.Hour)})
			return err
		})
		if err != nil {
			log.Panic(err)
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			// … the producer's own statements …
			c, err := client.Cancel(ctx, tx, kind, "customer-1", "billing", "the customer renewed")
			fmt.Println(c.State)
			return err
		})
		if err != nil {
			log.Panic(err)
		}
	})
	// Output: cancelled
}
