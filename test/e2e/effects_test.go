package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// misbehaviours are what receivers do that act and do not say so.
var misbehaviours = map[string]func(*visit){
	"acts-then-503":    func(v *visit) { v.act(); v.answer(http.StatusServiceUnavailable) },
	"acts-then-closes": func(v *visit) { v.act(); v.hangUp() },
	"acts-when-given-up": func(v *visit) {
		v.waitUntilGone()
		v.act()
	},
	"acts-then-redirects": func(v *visit) {
		v.act()
		v.response.Header().Set("Location", v.receiver.url)
		v.answer(http.StatusTemporaryRedirect)
	},
}

// G1, G8, C43, C59: a receiver acts and does not say so. Where it dedupes, the request
// comes again, within the window, and is delivered; where it does not, it never does.
func TestG8WhatMayHaveHappenedIsNeverTakenForNotSent(t *testing.T) {
	t.Parallel()
	s := calm
	s.Limit = "3s"
	r := newRig(t, s, servers{})
	r.web.plans(func(v *visit) {
		for name, misbehave := range misbehaviours {
			if v.about(name) && v.nth == 1 {
				misbehave(v)
				return
			}
		}
		v.act()
		v.answer(http.StatusOK)
	})
	r.start(scheduler, dispatcher, worker)
	r.enqueue(r.job(plain, "well-behaved")) // leaves a connection that can be used again
	r.await("a connection is warm", r.in(job.Delivered, 1))
	for name := range misbehaviours {
		r.enqueue(r.job(plain, name), r.job(deduped, name))
	}
	states := r.account()
	require.Equal(t, map[job.State]int{job.Delivered: 1 + len(misbehaviours), job.Unknown: len(misbehaviours)}, states)
	for _, g := range r.generations() {
		asked, effects := r.web.count(g.effectKey())
		require.Equal(t, 1, effects, "%s", g)
		switch {
		case g.Kind == deduped:
			require.Equal(t, job.Delivered, g.State, "%s", g)
			require.Equal(t, 2, asked, "%s", g)
		case g.Key != "well-behaved":
			require.Equal(t, job.Unknown, g.State, "%s", g)
			require.Equal(t, 1, asked, "%s", g)
		}
	}
}

// C62: a mail server that closes after the final dot leaves a doubt; one that refuses
// for now has not taken the mail.
func TestC62MailAfterTheFinalDot(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	closing, busy := generation{Kind: mailed, Key: "closing", Generation: 1}.effectKey(), generation{Kind: mailed, Key: "busy", Generation: 1}.effectKey()
	r.mail.plans(func(l *letter) error {
		switch {
		case l.id == closing:
			l.act()
			return l.hangUp()
		case l.id == busy && l.nth == 1:
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "come again"}
		}
		l.act()
		return nil
	})
	r.start(scheduler, dispatcher, worker)
	r.enqueue(r.job(mailed, "closing"), r.job(mailed, "busy"), r.job(mailed, "well-behaved"))
	require.Equal(t, map[job.State]int{job.Delivered: 2, job.Unknown: 1}, r.account())
	require.Equal(t, job.Unknown, r.state(mailed, "closing"))
	require.Equal(t, int32(1), r.attempts(mailed, "closing"))
	require.Equal(t, int32(2), r.attempts(mailed, "busy"))
}

// G7: what could not begin by its deadline is not sent after it.
func TestG7NothingBeginsAfterItsDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.start(scheduler, dispatcher)
	late := r.jobs(plain, "late", 3)
	late = append(late, r.jobs(deduped, "late", 3)...)
	late = append(late, r.jobs(mailed, "late", 3)...)
	for i := range late {
		late[i].Deadline = time.Now().Add(2 * time.Second)
	}
	r.enqueue(late...)
	r.await("the deadlines pass", r.in(job.Quarantined, 9))
	r.start(worker)
	r.enqueue(r.job(plain, "in-time"))
	require.Equal(t, map[job.State]int{job.Quarantined: 9, job.Delivered: 1}, r.account())
	require.Equal(t, 1, r.web.total()+r.mail.total())
}
