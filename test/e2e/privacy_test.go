package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// G13: receivers that repeat in their answers what they were sent do not make Duly write
// it down: not in a log, a metric, a message on the bus, a notice or an event.
func TestG13NothingConfidentialIsWrittenDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.web.plans(func(v *visit) {
		if v.nth == 1 && v.about("first-busy") {
			v.response.Header().Set("Retry-After", "0")
			http.Error(v.response, payloadMarker+" "+destinationMarker+" "+authorization, http.StatusTooManyRequests)
			return
		}
		v.response.Header().Set("X-Error", payloadMarker)
		http.Error(v.response, payloadMarker+" "+destinationMarker+" "+authorization, http.StatusBadRequest)
	})
	r.mail.plans(func(l *letter) error {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "<" + l.to + ">: no such user here"}
	})
	r.start(scheduler, dispatcher, worker)
	r.enqueue(r.job(plain, "refused"), r.job(deduped, "refused"), r.job(plain, "first-busy"), r.job(mailed, "refused"))
	invalid := r.job(plain, "nowhere")
	invalid.Destination = "http://" + destinationMarker + ".invalid:70000/"
	forbidden := r.job(plain, "forbidden")
	forbidden.Destination = "http://10.0.0.1/" + destinationMarker
	nobody := r.job(mailed, "nobody")
	nobody.Destination = destinationMarker + " at example.com"
	r.enqueue(invalid, forbidden, nobody)
	require.Equal(t, map[job.State]int{job.Quarantined: 7}, r.account())
	r.await("the notices are on the bus", func() bool { return strings.Count(r.tap.String(), r.config.Prefix+".dead ") == 7 })
	r.private()
}
