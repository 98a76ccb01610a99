package kafkabus_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"duly.dev/duly/internal/bus/kafkabus"
)

func TestWrongSettingsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"nats://a:1":                                 `scheme "nats"`,
		"kafka://":                                   "not of the form host:port",
		"kafka://a:b":                                "not of the form host:port",
		"kafka://a:1,":                               "not of the form host:port",
		"kafka://a:1/path":                           "not of the form host:port",
		"kafka://a:1?brokers=3":                      `no setting "brokers": those of a Kafka URL are ca_file, cert_file, key_file, partitions, replicas, sasl, tls`,
		"kafka://a:1?partitions=many":                `partitions="many": must be a whole number from 1 on`,
		"kafka://a:1?partitions=0":                   `partitions="0"`,
		"kafka://a:1?partitions=1001":                "partitions 1001: must be 1 to 1000",
		"kafka://a:1?partitions=1&partitions=2":      "partitions is given 2 times",
		"kafka://a:1?replicas=10":                    "replicas 10: must be 1 to 9",
		"kafka://a:1?tls=perhaps":                    `tls="perhaps": must be true or false`,
		"kafka://a:1?ca_file=x":                      "only with tls=true",
		"kafka://a:1?tls=true&ca_file=/nowhere":      "ca_file",
		"kafka://a:1?tls=true&cert_file=/nowhere":    "either both or neither",
		"kafka://a:1?sasl=plain":                     "names no user",
		"kafka://user@a:1":                           "the password is missing",
		"kafka://user:hunter2@a:1?sasl=magic":        `sasl="magic": must be plain, scram-sha-256 or scram-sha-512`,
		"kafka://user:hunter2@a:1?sasl=plain":        "in the clear",
		"kafka://user:hunter2%zz@a:1":                "not percent-encoded",
		"kafka://user:hunter2@a:1?%zz":               "not well-formed",
		"kafka://user:hunter2@a:1?tls=no&replicas=x": "replicas",
	} {
		_, err := kafkabus.Connect(t.Context(), url, kafkabus.Options{})
		require.ErrorIs(t, err, kafkabus.ErrSettings, url)
		require.ErrorContains(t, err, says, url)
		require.NotContains(t, err.Error(), "hunter2", url)
	}
	_, err := kafkabus.Connect(t.Context(), "kafka://a:1", kafkabus.Options{Prefix: "Not a prefix", SessionTimeout: 1, DeadMaxAge: 1})
	for _, text := range []string{"prefix", "session timeout", "dead max age"} {
		require.ErrorContains(t, err, text)
	}
}

func TestConnectWaitsForABroker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var log record
	_, err := kafkabus.Connect(ctx, "kafka://127.0.0.1:1", kafkabus.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.NotErrorIs(t, err, kafkabus.ErrSettings)
	require.Contains(t, log.String(), "waiting for Kafka")
}

func TestHealthySaysWhyNot(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{})
	require.NoError(t, b.Healthy())
	s.cluster.Close()
	require.Eventually(t, func() bool { return b.Healthy() != nil }, patience, 20*time.Millisecond)
	require.ErrorContains(t, b.Healthy(), s.address)
	s.start(t)
	require.Eventually(t, func() bool { return b.Healthy() == nil }, patience, 20*time.Millisecond)
}

func TestLogins(t *testing.T) {
	t.Parallel()
	for mechanism, query := range map[string]string{
		"PLAIN": "?sasl=plain", "SCRAM-SHA-256": "?sasl=scram-sha-256", "SCRAM-SHA-512": "",
	} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			s := startFake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "duly@work", "hunter2?:/"))
			var log record
			options := kafkabus.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			b := connect(t, "kafka://duly%40work:hunter2%3F%3A%2F@"+s.address+query, options)
			require.NoError(t, b.Ensure(t.Context(), []string{lane}))
			publish(t, b, 1, 1)
			receive(t, consume(t, b), 1)
			require.NoError(t, b.Close())
			require.NotContains(t, log.String(), "hunter2")

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := kafkabus.Connect(ctx, "kafka://duly%40work:wrong1@"+s.address+query, kafkabus.Options{})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "wrong1")
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, file := selfSigned(t)
	s := startFake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	b := connect(t, s.url()+"?tls=true&ca_file="+file+"&partitions=2&replicas=1", kafkabus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{lane}))
	publish(t, b, 1, 2)
	require.ElementsMatch(t, numbers(1, 2), jobsOf(t, receive(t, consume(t, b), 2)))

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := kafkabus.Connect(ctx, s.url()+"?tls=true", kafkabus.Options{})
	require.Error(t, err, "nobody vouches for it")
}

// selfSigned makes a certificate of this machine and a file that vouches for it.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// record is a log that may be written while it is read.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// A fault that is over must not count against a lane on which nothing comes.
func TestAPassingErrorOfAPartitionDoesNotKeepAnIdleLaneUnhealthy(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 1)
	ack(t, receive(t, consume(t, b), 1)...)
	require.NoError(t, b.Healthy())
	var denied atomic.Bool
	denied.Store(true)
	s.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		request := r.(*kmsg.FetchRequest)
		if !denied.Load() || len(request.Topics) == 0 {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.FetchResponse)
		for _, topic := range request.Topics {
			refused := kmsg.NewFetchResponseTopic()
			refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				one := kmsg.NewFetchResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				refused.Partitions = append(refused.Partitions, one)
			}
			response.Topics = append(response.Topics, refused)
		}
		return response, nil, true
	})
	require.Eventually(t, func() bool { return b.Healthy() != nil }, patience, 20*time.Millisecond)
	require.ErrorContains(t, b.Healthy(), kerr.TopicAuthorizationFailed.Message)
	denied.Store(false)
	require.Eventually(t, func() bool { return b.Healthy() == nil }, patience, 20*time.Millisecond)
}
