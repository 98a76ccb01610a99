package httpchan_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/pkg/job"
)

func TestADeliveryCarriesThePayloadByteForByteAndItsHeaders(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, body = r, must(io.ReadAll(r.Body))
		w.Header().Set("X-Message-Id", " m-77 ")
		w.WriteHeader(http.StatusAccepted)
	})
	cfg := local()
	cfg.ReceiptHeader = "X-Message-Id"
	cfg.Headers = map[string]string{"X-Team": "billing"}
	c := newChannel(t, cfg, 0)

	var n begun
	e := effect(s.URL+"/hooks?x=1", &n)
	e.Payload = []byte("{ \"n\": 12345678901234567890,\n \"t\": \"é\" }")
	r := deliver(t, c, e)

	require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
	require.Equal(t, "202", r.Receipt.Status)
	require.Equal(t, "m-77", r.Receipt.ID)
	require.False(t, r.Receipt.At.IsZero())
	require.EqualValues(t, 1, n.Load())
	require.Equal(t, e.Payload, body)
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "/hooks?x=1", got.RequestURI)
	require.EqualValues(t, len(e.Payload), got.ContentLength)
	for name, want := range map[string]string{
		"Idempotency-Key": "renewal-reminder/r-1:1:http",
		"Content-Type":    "application/json",
		"Duly-Kind":       "renewal-reminder",
		"Duly-Attempt":    "3",
		"Traceparent":     e.TraceParent,
		"User-Agent":      "Duly",
		"X-Team":          "billing",
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
	require.Empty(t, got.Header.Get("Accept-Encoding"))
	require.Empty(t, got.Header.Get("Webhook-Id"))
}

func TestMethodContentTypeAndUserAgentMayBeReplaced(t *testing.T) {
	t.Parallel()
	var got *http.Request
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	cfg := local()
	cfg.Method = http.MethodPut
	cfg.Headers = map[string]string{"content-type": "application/vnd.acme+json", "User-Agent": "Acme"}
	require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, cfg, 0), effect(s.URL, new(begun))).Outcome)
	require.Equal(t, http.MethodPut, got.Method)
	require.Equal(t, []string{"application/vnd.acme+json"}, got.Header.Values("Content-Type"))
	require.Equal(t, []string{"Acme"}, got.Header.Values("User-Agent"))
}

func TestATraceThatIsNoHeaderIsLeftOut(t *testing.T) {
	t.Parallel()
	var got *http.Request
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	e := effect(s.URL, new(begun))
	e.TraceParent = "00-a\r\nX-Evil: 1"
	require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, local(), 0), e).Outcome)
	require.Empty(t, got.Header.Get("Traceparent"))
	require.Empty(t, got.Header.Get("X-Evil"))
}

func TestASignedDeliveryIsVerifiedByStandardWebhooks(t *testing.T) {
	t.Parallel()
	key := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	verifier, err := standardwebhooks.NewWebhook(key)
	require.NoError(t, err)
	var verified error
	var header http.Header
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		verified = verifier.Verify(must(io.ReadAll(r.Body)), r.Header)
	})
	cfg := local()
	cfg.SigningSecret = file(t, key+"\n")
	cfg.SecretHeaders = map[string]*secret.Ref{"Authorization": file(t, "Bearer hunter2\n")}
	require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, cfg, 0), effect(s.URL, new(begun))).Outcome)
	require.NoError(t, verified)
	require.Equal(t, "renewal-reminder/r-1:1:http", header.Get("Webhook-Id"))
	require.Equal(t, "Bearer hunter2", header.Get("Authorization"))
}

func TestEveryStatusIsClassifiedAndRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]job.Result{
		200: {Outcome: job.OutcomeDelivered},
		204: {Outcome: job.OutcomeDelivered},
		301: {Outcome: job.OutcomeUnknown, Code: job.CodeRedirected},
		307: {Outcome: job.OutcomeUnknown, Code: job.CodeRedirected},
		304: {Outcome: job.OutcomeUnknown, Code: job.CodeRedirected},
		401: {Outcome: job.OutcomeFailed, Class: job.ClassPermanent, Code: job.CodeUnauthorized},
		404: {Outcome: job.OutcomeFailed, Class: job.ClassPermanent, Code: job.CodeDestinationInvalid},
		408: {Outcome: job.OutcomeUnknown, Code: job.CodeTimeout},
		409: {Outcome: job.OutcomeUnknown, Code: job.CodeConflict},
		410: {Outcome: job.OutcomeFailed, Class: job.ClassPermanent, Code: job.CodeDestinationGone},
		422: {Outcome: job.OutcomeFailed, Class: job.ClassPermanent, Code: job.CodeRejected},
		425: {Outcome: job.OutcomeFailed, Class: job.ClassTransient, Code: job.CodeReceiverBusy},
		429: {Outcome: job.OutcomeFailed, Class: job.ClassTransient, Code: job.CodeThrottled},
		501: {Outcome: job.OutcomeUnknown, Code: job.CodeServerError},
		503: {Outcome: job.OutcomeUnknown, Code: job.CodeServerError},
	} {
		var requests begun
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "http://10.0.0.1:8080/secret/path?token=hunter2")
			w.WriteHeader(status)
		})
		r := deliver(t, newChannel(t, local(), 0), effect(s.URL, new(begun)))
		require.Equal(t, want.Outcome, r.Outcome, status)
		require.Equal(t, want.Class, r.Class, status)
		require.Equal(t, want.Code, r.Code, status)
		require.EqualValues(t, 1, requests.Load(), status)
		require.NotContains(t, r.Detail, "hunter2")
		require.NotContains(t, r.Detail, "path")
		if r.Code == job.CodeRedirected {
			require.Contains(t, r.Detail, "to http://10.0.0.1:8080")
		}
	}
}

func TestInformationalAnswersAreSkipped(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
	})
	r := deliver(t, newChannel(t, local(), 0), effect(s.URL, new(begun)))
	require.Equal(t, job.OutcomeDelivered, r.Outcome)
	require.Equal(t, "201", r.Receipt.Status)
}

func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	receiver := time.Now().Add(10 * time.Minute).UTC()
	at := receiver.Add(90 * time.Second)
	for _, value := range []string{
		"90", at.Format(http.TimeFormat), at.Format("Monday, 02-Jan-06 15:04:05 GMT"), at.Format(time.ANSIC),
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", receiver.Format(http.TimeFormat))
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		r := deliver(t, newChannel(t, local(), 0), effect(s.URL, new(begun)))
		require.Equal(t, job.ClassTransient, r.Class)
		require.Equal(t, 90*time.Second, r.RetryAfter, value)
	}
}

func TestARetryAfterDoesNotMakeAServerErrorCertain(t *testing.T) {
	t.Parallel()
	var effects begun
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := deliver(t, newChannel(t, local(), 0), effect(s.URL, new(begun)))
	require.Equal(t, job.OutcomeUnknown, r.Outcome)
	require.Equal(t, job.CodeServerError, r.Code)
	require.Equal(t, "503", r.Receipt.Status)
	require.EqualValues(t, 1, effects.Load())
}

func TestALargeResponseIsReadWithinBoundsAndIsADelivery(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("a"), 64<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				stopped <- err
				return
			}
		}
	})
	cfg := local()
	cfg.MaxResponse = 1 << 10
	r := deliver(t, newChannel(t, cfg, 0), effect(s.URL, new(begun)))
	require.Equal(t, job.OutcomeDelivered, r.Outcome)
	require.Error(t, <-stopped, "the connection was closed")
}

func TestNothingOfAPayloadOrASecretIsInADetail(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.Copy(w, r.Body)
	})
	cfg := local()
	cfg.SecretHeaders = map[string]*secret.Ref{"Authorization": file(t, "hunter2")}
	r := deliver(t, newChannel(t, cfg, 0), effect(s.URL+"/?token=hunter2", new(begun)))
	require.Equal(t, "HTTP 400 Bad Request", r.Detail)
}

func TestARefusedBeginHandsTheAttemptBackAndWritesNothing(t *testing.T) {
	t.Parallel()
	var requests begun
	s := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	c := newChannel(t, local(), time.Hour)
	refusing := effect(s.URL, new(begun))
	refusing.Begin = func() error { return errors.New("the deadline has passed") }

	r := deliver(t, c, refusing)
	require.Equal(t, job.NotBegun("the deadline has passed"), r)

	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(s.URL, new(begun))).Outcome)
	r = deliver(t, c, refusing)
	require.Equal(t, job.OutcomeNotBegun, r.Outcome, "on a connection that was used before, too")
	require.EqualValues(t, 1, requests.Load())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func file(t testing.TB, content string) *secret.Ref {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return &secret.Ref{File: path}
}
