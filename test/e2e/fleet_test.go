package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// G1, G2, C15, C37: two of each process share the work; one of each is killed in the
// middle, and the others go on.
func TestG2FleetOutlivesOneOfEach(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, servers{})
	r.remindSoon(2 * time.Second)
	var victims []*process
	for _, name := range []string{scheduler, dispatcher, worker} {
		victims = append(victims, r.startWith(name))
		r.start(name)
	}
	specs := append(r.jobs(plain, "p", 120), r.jobs(deduped, "d", 120)...)
	specs = append(specs, r.jobs(mailed, "m", 60)...)
	for i := range specs {
		if i%3 > 0 { // promoted by the schedulers, while they come and go
			specs[i].Due = time.Now().Add(rand.N(4 * time.Second))
		}
	}
	for _, p := range victims {
		p.ready()
	}
	r.enqueue(specs...)
	for i, p := range victims {
		r.await("work is done", func() bool { return r.web.total()+r.mail.total() > 40*(i+1) })
		p.kill()
	}
	states := r.account()
	require.Equal(t, 300, states[job.Delivered]+states[job.Unknown], "%v", states)
	require.GreaterOrEqual(t, states[job.Delivered], 120)
}
