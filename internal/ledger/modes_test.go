package ledger_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// modes are those that prepare nothing, besides the default.
var modes = []string{"cache_describe", "exec", "simple_protocol"}

// Behind a pooler that hands a connection on after each transaction nothing can be
// prepared; and a producer's own connection is in the mode that the producer likes.
func TestEveryModeOfAConnectionDoes(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := crewOn(benchOn(t, ledgertest.Pool(t, inMode(t, ledgertest.URL(t), mode))))
			c.claim(lane)

			done := c.enqueue("done", 1)[0]
			require.Equal(t, []job.Ref{done}, c.announced())
			again, err := c.Enqueue(t.Context(), c.pool, []job.Spec{{Kind: kind, Key: "done-0", Payload: []byte(`{}`)}})
			require.NoError(t, err)
			require.Equal(t, done.Job, again[0].Job)
			require.Equal(t, job.Delivered, c.settle(c.ask(c.worker, done).Grants[0], job.Done(&job.Receipt{ID: "4711"})).State)
			retry := c.ended("retried", job.NotDone(job.ClassTransient, job.CodeUnreachable, "nobody is there"))
			c.poison("poison")
			require.EqualValues(t, 2, c.redrive(redriveOf("poison", "r1", 1)).Generation)
			require.True(t, c.replace(specOf("a", `1`, time.Time{}))[0].Created)
			require.True(t, c.replace(specOf("a", `2`, time.Time{}))[0].Replaced)
			late := c.enqueue("late", 1)[0]
			grant := c.ask(c.worker, late).Grants[0]
			c.settle(grant, job.MayBeDone(job.CodeTimeout, "no answer"))
			require.True(t, c.settle(grant, job.Done(&job.Receipt{ID: "4712"})).Late)

			broken, _ := c.check(ledger.CheckRequest{})
			require.Empty(t, broken)
			c.retried(retry)
		})
	}
}

func inMode(t *testing.T, ledgerURL, mode string) string {
	t.Helper()
	address, err := url.Parse(ledgerURL)
	require.NoError(t, err)
	query := address.Query()
	query.Set("default_query_exec_mode", mode)
	address.RawQuery = query.Encode()
	return address.String()
}

func TestC66LostReplyIsUnclearInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ledgerURL := ledgertest.URL(t)
			c := crewOn(benchOn(t, ledgertest.Pool(t, ledgerURL)))
			refs := c.enqueue("a", 2)
			cut := &cut{}
			l := ledger.New(cut.pool(t, inMode(t, ledgerURL, mode)))
			request := machine.LeaseRequest{Worker: c.worker, Kind: c.kind, Refs: refs[:1]}
			_, err := l.Lease(t.Context(), request) // what is read once is known
			require.NoError(t, err)
			cut.armed.Store(true)
			request.Refs = refs[1:]
			_, err = l.Lease(t.Context(), request)
			require.ErrorIs(t, err, machine.ErrUnclear)
		})
	}
}

// retried promotes a job that waits for its next attempt, and leases it.
func (c *crew) retried(ref job.Ref) {
	c.t.Helper()
	c.redate(ref.Job, -time.Hour)
	c.promoteAll(10)
	row := c.row(ref.Job)
	require.Len(c.t, c.ask(c.worker, job.Ref{Job: row.Job, Generation: row.Generation, Emission: row.Emission}).Grants, 1)
}
