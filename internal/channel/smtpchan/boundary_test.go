package smtpchan_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

func failed(class job.Class, code job.Code) job.Result {
	return job.Result{Outcome: job.OutcomeFailed, Class: class, Code: code}
}

func unknown(code job.Code) job.Result {
	return job.Result{Outcome: job.OutcomeUnknown, Code: code}
}

// verdict is a result without its texts.
func verdict(r job.Result) job.Result {
	return job.Result{Outcome: r.Outcome, Class: r.Class, Code: r.Code}
}

func TestC62EveryRefusalProvesThatNothingHappened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   func(string, int) string
		want job.Result
	}{
		"451 to the dot":         {on("dot", "451 4.4.2 timeout"), failed(job.ClassTransient, job.CodeReceiverBusy)},
		"554 to the dot":         {on("dot", "554 5.7.1 spam"), failed(job.ClassPermanent, job.CodeRejected)},
		"421 to the dot":         {on("dot", "421 4.3.2 shutting down"), failed(job.ClassTransient, job.CodeReceiverBusy)},
		"no such user":           {on("RCPT", "550 5.1.1 no such user"), failed(job.ClassPermanent, job.CodeDestinationInvalid)},
		"greylisted":             {on("RCPT", "450 4.2.0 Greylisted"), failed(job.ClassTransient, job.CodeGreylisted)},
		"throttled":              {on("MAIL", "454 Throttling failure"), failed(job.ClassTransient, job.CodeThrottled)},
		"policy":                 {on("MAIL", "550 5.7.1 no"), failed(job.ClassPermanent, job.CodeRejected)},
		"DATA refused":           {on("DATA", "451 later"), failed(job.ClassTransient, job.CodeReceiverBusy)},
		"DATA answered with 250": {on("DATA", "250 what"), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
		"authentication wanted":  {on("MAIL", "530 5.7.0 authenticate"), failed(job.ClassTransient, job.CodeUnauthorized)},
		"EHLO refused":           {on("EHLO", "554 no"), failed(job.ClassTransient, job.CodeUnreachable)},
		"garbage before the dot": {on("RCPT", "what?"), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
		"endless line":           {on("MAIL", "250 "+strings.Repeat("a", 10_000)), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
		"endless reply":          {on("MAIL", strings.Repeat("250-a\r\n", 200)+"250 a"), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
		"codes that differ":      {on("MAIL", "250-a\r\n251 a"), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
		"hung up at EHLO":        {on("EHLO", hangUp), failed(job.ClassTransient, job.CodeUnreachable)},
		"hung up at MAIL":        {on("MAIL", hangUp), failed(job.ClassTransient, job.CodeUnreachable)},
		"hung up at DATA":        {on("DATA", hangUp), failed(job.ClassTransient, job.CodeUnreachable)},
		"half a code":            {on("RCPT", "25"), failed(job.ClassUnclassified, job.CodeUnexpectedAnswer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{at: c.at}
			r := deliver(t, newChannel(t, config(s.start(t))), effect(new(begun)))
			require.Equal(t, c.want, verdict(r), r.Detail)
			require.NotEmpty(t, r.Detail)
		})
	}
}

func TestTheRecipientIsNotKeptOfAReplyThatRepeatsIt(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(string, int) string{
		"refused":  on("RCPT", "550 5.1.1 <Ada@Customer.example>: no such user"),
		"accepted": on("dot", "250 2.0.0 mail to ada@customer.example is queued as 4711"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{at: at}
			r := deliver(t, newChannel(t, config(s.start(t))), effect(new(begun)))
			for _, kept := range []string{r.Detail, r.Receipt.ID} {
				require.NotContains(t, strings.ToLower(kept), "ada@")
			}
			require.Contains(t, r.Detail+r.Receipt.ID, "(the recipient)")
		})
	}
}

func TestAGreetingThatRefusesIsTransient(t *testing.T) {
	t.Parallel()
	for greeting, want := range map[string]job.Result{
		"554 no SMTP service here":    failed(job.ClassTransient, job.CodeUnreachable),
		"421 too many connections":    failed(job.ClassTransient, job.CodeThrottled),
		"SSH-2.0-OpenSSH_9.6":         failed(job.ClassUnclassified, job.CodeUnexpectedAnswer),
		hangUp:                        failed(job.ClassTransient, job.CodeUnreachable),
		"220-first\r\n220-second\r\n": failed(job.ClassUnclassified, job.CodeUnexpectedAnswer),
	} {
		s := &script{greeting: greeting}
		var n begun
		r := deliver(t, newChannel(t, config(s.start(t))), effect(&n))
		require.Equal(t, want, verdict(r), greeting)
		require.Zero(t, n.Load())
	}
}

func TestC62AFinalDotWithoutAReplyIsUnknown(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]job.Result{
		hangUp:             unknown(job.CodeConnectionLost),
		"garbage":          unknown(job.CodeUnexpectedAnswer),
		"354 more":         unknown(job.CodeUnexpectedAnswer),
		"250-Ok\r\n451 No": unknown(job.CodeUnexpectedAnswer),
	} {
		s := &script{at: on("dot", answer)}
		r := deliver(t, newChannel(t, config(s.start(t))), effect(new(begun)))
		require.Equal(t, want, verdict(r), answer)
		_, mails := s.seen()
		require.Len(t, mails, 1, "it may have been sent, and is not sent again")
	}
}

func TestALimitThatEndsAfterTheFinalDotIsUnknown(t *testing.T) {
	t.Parallel()
	ctx := newLimit(t)
	s := &script{at: func(command string, _ int) string {
		if command == "dot" {
			ctx.end()
			return silent
		}
		return ""
	}}
	require.Equal(t, unknown(job.CodeTimeout), verdict(newChannel(t, config(s.start(t))).Deliver(ctx, effect(new(begun)))))
}

func TestAnAttemptThatIsStoppedAfterTheFinalDotIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{at: func(command string, _ int) string {
		if command == "dot" {
			cancel()
			return silent
		}
		return ""
	}}
	require.Equal(t, unknown(job.CodeConnectionLost), verdict(newChannel(t, config(s.start(t))).Deliver(ctx, effect(new(begun)))))
}

func TestALimitThatEndsBeforeTheFinalDotDidNotHappen(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"EHLO", "MAIL", "RCPT", "DATA"} {
		s := &script{at: on(command, silent)}
		c := newChannel(t, config(s.start(t)))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		r := c.Deliver(ctx, effect(new(begun)))
		cancel()
		require.Equal(t, failed(job.ClassTransient, job.CodeUnreachable), verdict(r), command)
	}
}

func TestAnAttemptThatIsStoppedBeforeItsContentNeverBegan(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{at: func(command string, _ int) string {
		if command == "RCPT" {
			cancel()
			return silent
		}
		return ""
	}}
	var n begun
	r := newChannel(t, config(s.start(t))).Deliver(ctx, effect(&n))
	require.Equal(t, job.OutcomeNotBegun, r.Outcome)
	require.Zero(t, n.Load())
}

// A server that stops reading in the middle of a large mail: the dot was never
// written, so the mail is not sent.
func TestC62AMailThatStopsHalfWayDidNotHappen(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(net.Conn, chan struct{}){
		"hangs up":      func(net.Conn, chan struct{}) {},
		"resets":        func(c net.Conn, _ chan struct{}) { _ = c.(*net.TCPConn).SetLinger(0) },
		"reads no more": func(_ net.Conn, over chan struct{}) { <-over },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			address, sawDot := halfReader(t, then, over)
			cfg := config(address)
			cfg.Text = strings.Repeat(strings.Repeat("a", 70)+"\n", 9<<20/71)
			c := newChannel(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), generous)
			defer cancel()
			var n begun
			e := effect(&n)
			e.Begin = func() error {
				n.Add(1)
				if name == "reads no more" {
					time.AfterFunc(200*time.Millisecond, cancel)
				}
				return nil
			}
			r := c.Deliver(ctx, e)
			close(over)
			require.Equal(t, failed(job.ClassTransient, job.CodeUnreachable), verdict(r), r.Detail)
			require.EqualValues(t, 1, n.Load())
			require.False(t, sawDot.Load())
		})
	}
}

// halfReader is a mail server that reads a kilobyte of the content and then does
// something else.
func halfReader(t *testing.T, then func(net.Conn, chan struct{}), over chan struct{}) (string, *atomic.Bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var sawDot atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		_, _ = io.WriteString(c, "220 hi\r\n")
		for _, answer := range []string{"250 hi", "250 ok", "250 ok", "354 go on"} {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			_, _ = io.WriteString(c, answer+"\r\n")
		}
		some := make([]byte, 1024)
		_, _ = io.ReadFull(r, some)
		sawDot.Store(bytes.Contains(some, []byte("\r\n.\r\n")))
		then(c, over)
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), &sawDot
}

func TestARefusedBeginHandsTheAttemptBackAndSendsNoContent(t *testing.T) {
	t.Parallel()
	s := &script{}
	c := newChannel(t, config(s.start(t)))
	e := effect(new(begun))
	e.Begin = func() error { return errors.New("the deadline has passed") }
	require.Equal(t, job.NotBegun("the deadline has passed"), deliver(t, c, e))
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	sessions, mails := s.seen()
	require.Len(t, mails, 1)
	require.Equal(t, 2, sessions, "the first session was dropped in the middle of DATA")
}

func TestBeginComesAfterTheServerSaidGoOn(t *testing.T) {
	t.Parallel()
	s := &script{}
	c := newChannel(t, config(s.start(t)))
	e := effect(new(begun))
	e.Begin = func() error {
		if s.count("DATA") != 1 {
			return errors.New("too early")
		}
		if _, mails := s.seen(); len(mails) != 0 {
			return errors.New("too late")
		}
		return nil
	}
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, e).Outcome)
}

func TestOneRecipientsRefusalIsNobodyElses(t *testing.T) {
	t.Parallel()
	s := &script{at: func(command string, n int) string {
		if command != "RCPT" {
			return ""
		}
		return []string{"250 ok", "550 5.1.1 unknown", "450 4.2.0 greylisted"}[n-1]
	}}
	c := newChannel(t, config(s.start(t)))
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	require.Equal(t, failed(job.ClassPermanent, job.CodeDestinationInvalid), verdict(deliver(t, c, effect(new(begun)))))
	require.Equal(t, failed(job.ClassTransient, job.CodeGreylisted), verdict(deliver(t, c, effect(new(begun)))))
	sessions, mails := s.seen()
	require.Equal(t, 1, sessions)
	require.Len(t, mails, 1)
}

func TestASessionIsUsedAgainAfterAReset(t *testing.T) {
	t.Parallel()
	s := &script{}
	c := newChannel(t, config(s.start(t)))
	for range 5 {
		require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	}
	sessions, mails := s.seen()
	require.Equal(t, 1, sessions)
	require.Len(t, mails, 5)
	require.Equal(t, 4, s.count("RSET"))
	require.Equal(t, 1, s.count("EHLO"))
}

func TestAKeptSessionThatIsDeadIsReplacedOnceWithinTheAttempt(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(string, int) string{
		"dead at RSET": on("RSET", hangUp),
		"refuses RSET": on("RSET", "500 what"),
		"421 at MAIL": func(command string, n int) string {
			if command == "MAIL" && n == 2 {
				return "421 too many mails on this connection"
			}
			return ""
		},
		"dead at RCPT": func(command string, n int) string {
			if command == "RCPT" && n == 2 {
				return hangUp
			}
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{at: at}
			c := newChannel(t, config(s.start(t)))
			require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
			var n begun
			r := deliver(t, c, effect(&n))
			require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
			require.EqualValues(t, 1, n.Load())
			sessions, mails := s.seen()
			require.Equal(t, 2, sessions)
			require.Len(t, mails, 2)
		})
	}
}

func TestAKeptSessionThatDiesAfterTheFinalDotIsNotReplaced(t *testing.T) {
	t.Parallel()
	s := &script{at: func(command string, n int) string {
		if command == "dot" && n == 2 {
			return hangUp
		}
		return ""
	}}
	c := newChannel(t, config(s.start(t)))
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	require.Equal(t, unknown(job.CodeConnectionLost), verdict(deliver(t, c, effect(new(begun)))))
	sessions, mails := s.seen()
	require.Equal(t, 1, sessions)
	require.Len(t, mails, 2)
}

func TestAnUnusedSessionIsEndedAfterItsTime(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := &script{at: func(command string, _ int) string {
		if command == "QUIT" {
			close(gone)
		}
		return ""
	}}
	cfg := config(s.start(t))
	cfg.Idle = time.Millisecond
	c := newChannel(t, cfg)
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	<-gone
	require.Equal(t, 1, s.count("QUIT"))
}

func TestSessionsAreBoundedAndWaitingForOneBurnsNoAttempt(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := &script{at: func(command string, n int) string {
		if command == "RCPT" && n == 1 {
			close(arrived)
			<-release
		}
		return ""
	}}
	cfg := config(s.start(t))
	cfg.Sessions = 1
	c := newChannel(t, cfg)
	first := make(chan job.Result, 1)
	go func() { first <- c.Deliver(t.Context(), effect(new(begun))) }()
	<-arrived

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var n begun
	require.Equal(t, job.OutcomeNotBegun, c.Deliver(ctx, effect(&n)).Outcome)
	require.Zero(t, n.Load())

	close(release)
	require.Equal(t, job.OutcomeDelivered, (<-first).Outcome)
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	sessions, _ := s.seen()
	require.Equal(t, 1, sessions)
}

func TestASessionThatIsPutBackAfterCloseIsEnded(t *testing.T) {
	t.Parallel()
	arrived, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := &script{at: func(command string, _ int) string {
		switch command {
		case "RCPT":
			close(arrived)
			<-release
		case "QUIT":
			close(gone)
		}
		return ""
	}}
	c, err := smtpchan.New(config(s.start(t)))
	require.NoError(t, err)
	result := make(chan job.Result, 1)
	go func() { result <- c.Deliver(t.Context(), effect(new(begun))) }()
	<-arrived
	require.NoError(t, c.Close())
	close(release)
	require.Equal(t, job.OutcomeDelivered, (<-result).Outcome)
	<-gone
}

func TestAServerThatCannotBeReachedDidNotHappen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	var n begun
	r := deliver(t, newChannel(t, config(l.Addr().String())), effect(&n))
	require.Equal(t, failed(job.ClassTransient, job.CodeUnreachable), verdict(r))
	require.Zero(t, n.Load())
}
