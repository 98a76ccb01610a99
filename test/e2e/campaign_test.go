package e2e_test

import (
	"encoding/json"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

const campaign = `
schedules:
  campaign:
    cron: "0 9 * * MON"
    zone: UTC
    period: iso-week
    catch_up: none
    kind: mailed
    key: "campaign:{period}:{customer}"
    select: |
      SELECT n::text AS customer, mail AS destination, json_build_object('text', '` + payloadMarker + ` of ' || n) AS payload FROM recipient ORDER BY n
`

// C51, C52, C53: a campaign to 12,000 begins with more than a page of recipients who are
// blocklisted, which is not its end. The mail server asks 870 to come again (454), closes
// after 2,500 mails, some of them in the middle, and refuses the rest; the worker is killed
// with batches in hand, and another goes on where it was: whoever was sent to is not sent to
// again, nobody is left out, and the run is over when no member is pending.
func TestC51C52C53ACampaignGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	const broken = 20
	blocked, recipients, closesAfter, throttled := 2100, 12_000, 2500, int32(870)
	if raceDetector { // which is after races, and takes its time
		blocked, recipients, closesAfter, throttled = 525, 3000, 625, 217
	}
	s := quick
	s.Schedules, s.Sessions, s.Slots = campaign, 16, 200
	r := newRig(t, s, servers{})
	_, err := r.pool.Exec(t.Context(), `CREATE TABLE recipient (n int PRIMARY KEY, mail text)`)
	require.NoError(t, err)
	_, err = r.pool.Exec(t.Context(), `INSERT INTO recipient SELECT n, CASE WHEN n > $1 THEN 'c' || n || '@example.com' END FROM generate_series(1, $2) n`, blocked, blocked+recipients)
	require.NoError(t, err)

	var asked, closing atomic.Int32
	var open atomic.Bool
	tempfail := &smtp.SMTPError{Code: 454, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too much for now"}
	r.mail.plans(func(l *letter) error {
		if l.nth == 1 && l.to[len(l.to)-len("1@example.com")]%2 == 1 && asked.Add(1) <= throttled { // about every second, until there are so many
			return tempfail
		}
		if !open.Load() && r.mail.total() >= closesAfter {
			if closing.Add(1) <= broken {
				return l.hangUp() // behind the final dot: nobody can know
			}
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "closing"}
		}
		l.act()
		return nil
	})
	period := isoWeek(time.Now().Add(-14 * 24 * time.Hour))
	_, stderr, code := r.duly("runs", "start", "campaign", "--period", period)
	require.Zero(t, code, stderr)
	for n := range recipients {
		r.accept(mailed, "campaign:"+period+":"+strconv.Itoa(blocked+n+1))
	}
	r.start(scheduler, dispatcher)
	victim := r.one(worker)
	r.await("the mail server has closed", func() bool { return closing.Load() > broken })
	victim.kill()
	show := func() shownRun {
		stdout, stderr, code := r.dlq("runs", "show", "--json", "campaign", period)
		require.Zero(t, code, stderr)
		var shown shownRun
		require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
		return shown
	}
	before := show()
	require.True(t, before.Complete)
	require.True(t, before.Finished.IsZero(), "members are pending")
	require.Equal(t, []int{blocked + recipients, blocked, recipients}, []int{int(before.Selected), int(before.Refused), int(before.Expected)})
	sent := r.mail.total()
	open.Store(true)
	r.one(worker)
	states := r.account()

	require.GreaterOrEqual(t, states[job.Unknown], broken)
	require.Equal(t, recipients, states[job.Delivered]+states[job.Unknown], "each is delivered or unknown: %v", states)
	require.Less(t, states[job.Unknown], broken+s.Slots, "what was in the hands of the killed worker, and no more")
	require.GreaterOrEqual(t, r.mail.total(), states[job.Delivered])
	require.GreaterOrEqual(t, r.mail.total(), sent)
	r.await("the run is over", func() bool { return !show().Finished.IsZero() })
	require.True(t, show().Complete)
	for _, g := range r.generations() {
		_, effects := r.mail.count(g.effectKey())
		require.LessOrEqual(t, effects, 1, "%s", g)
	}
	require.Equal(t, throttled, min(asked.Load(), throttled))
}

// duly runs the tool.
func (r *rig) duly(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return r.say(tool, args...)
}
