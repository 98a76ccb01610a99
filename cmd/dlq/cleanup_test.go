package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/explain"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// A cleanup that fails is listed, explained and retried; a job whose cleanup is done is
// shown as cleaned, and not redriven without force.
func TestCleanupsAreListedExplainedAndRetried(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	rule := machine.DefaultCleanup()
	rule.MaxTries, rule.After = 1, 0
	o.kind.Cleanup = &rule
	require.NoError(t, o.ledger.SyncKinds(t.Context(), []machine.Kind{o.kind}))
	require.Equal(t, "no cleanup has failed\n", o.ok("cleanup", "list"))

	_, err := o.pool.Exec(t.Context(), `CREATE TABLE drafts (operation_key text);
		CREATE FUNCTION may(key text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	require.NoError(t, err)
	by, err := o.ledger.OpenCleaner(t.Context(), ledger.CleanerOptions{Kind: "mail", Statement: `DELETE FROM drafts WHERE operation_key = $1 AND may($1)`, Timeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(by.Close)
	clean := func() {
		_, err := o.pool.Exec(t.Context(), `INSERT INTO drafts VALUES ('bad'), ('good')`)
		require.NoError(t, err)
		_, err = by.Clean(t.Context(), 10, time.Minute)
		require.NoError(t, err)
	}
	o.ended("bad", job.NotDone(job.ClassPermanent, job.CodeRejected, "550 no"))
	o.ended("good", job.Done(nil))
	clean()

	listed := o.ok("cleanup", "list", "--waiting")
	require.Contains(t, listed, "mail/bad")
	require.Contains(t, listed, "a person")
	var all struct {
		Cleanups []machine.CleanupEntry `json:"cleanups"`
	}
	o.json(&all, "cleanup", "list", "--kind", "mail")
	require.Len(t, all.Cleanups, 2)
	require.Equal(t, "the statement failed (SQLSTATE P0001)", all.Cleanups[0].Error)
	require.Contains(t, o.ok("explain", "mail/bad"), "dlq cleanup retry mail/bad --reason WHY")
	require.Contains(t, o.ok("show", "mail/bad"), "it waits for a person since")

	_, err = o.pool.Exec(t.Context(), `CREATE OR REPLACE FUNCTION may(key text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`)
	require.NoError(t, err)
	require.Contains(t, o.ok("cleanup", "retry", "mail/bad", "--reason", "repaired"), "mail/bad: its cleanup is tried at ")
	var again struct {
		Key    string    `json:"key"`
		NextAt time.Time `json:"next_at"`
	}
	o.json(&again, "cleanup", "retry", "mail/good")
	require.Equal(t, "good", again.Key)
	require.False(t, again.NextAt.IsZero())
	clean()
	require.Equal(t, "no cleanup has failed\n", o.ok("cleanup", "list"))
	require.Contains(t, o.ok("explain", "mail/good"), "delivered and cleaned")
	require.Contains(t, o.ok("list", "--state", "delivered"), "cleaned")
	require.Contains(t, o.ok("list"), "cleaned")
	var d explain.Document
	o.json(&d, "show", "mail/good")
	require.True(t, d.Cleaned)
	require.EqualValues(t, 2, d.Cleanup.Rows, "the rows of both rounds")
	require.Contains(t, o.refused("cleanup", "retry", "mail/good"), "its cleanup is done since")
	require.Contains(t, o.refused("cleanup", "retry", "mail/nobody"), "mail/nobody")

	o.ended("left", job.Done(nil))
	code, _, said := o.dlq("cleanup", "give-up", "mail/left")
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, said, "--reason")
	require.Contains(t, o.ok("cleanup", "give-up", "mail/left", "--reason", "removed by hand"), "mail/left: its cleanup was given up at ")
	require.Contains(t, o.refused("cleanup", "give-up", "mail/left", "--reason", "again"), "was given up at")
	require.Contains(t, o.ok("explain", "mail/left"), "dlq cleanup retry mail/left")
	require.Contains(t, o.ok("show", "mail/left"), "given up")

	redrive := []string{"redrive", "mail/bad", "--generation", "1", "--recovery-key", "k", "--approver", "ann", "--reason", "again"}
	require.Contains(t, o.refused(redrive...), "were removed by its cleanup")
	o.ok(append(redrive, "--force", "--evidence", "it needs no draft")...)
	code, _, _ = o.dlq("cleanup", "retry")
	require.Equal(t, app.ExitUsage, code)
}
