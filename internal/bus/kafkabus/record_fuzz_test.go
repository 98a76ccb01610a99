package kafkabus

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
)

// Whoever wrote a record, it is a message or a foreign one; and what Duly would write of it
// reads as it was.
func FuzzRecord(f *testing.F) {
	f.Add("1.0", "duly.work", "id", "2026-09-30T17:00:00+02:00", "mail", []byte(`{"kind":"k"}`))
	f.Add("1.0", "duly.mark", "", "", "", []byte(`{}`))
	f.Add("0.3", "duly.work", "id", "never", "mail", []byte(nil))
	f.Add("1.0", "com.example", "\xff\x00", "9999-12-31T23:59:59.999999999Z", "Ünïcode", []byte{0})
	f.Fuzz(func(t *testing.T, version, kind, id, at, lane string, body []byte) {
		r := &kgo.Record{Value: body, Partition: 3}
		for key, value := range map[string]string{"specversion": version, "type": kind, "id": id, "dulyat": at, "dulylane": lane} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: attributePrefix + key, Value: []byte(value)})
		}
		m := decodeRecord(r)
		if !bytes.Equal(m.Body, body) || version != "1.0" && m.Type != "" {
			t.Fatalf("%+v", m)
		}
		if isMark(r) != (kind == string(bus.TypeMark)) {
			t.Fatal("what is a mark is seen from its header")
		}
		if m.Type == "" || m.At.Year() > 9999 || m.At.Equal(time.Time{}) && at != "" {
			return
		}
		again := decodeRecord(encodeRecord(m, topic{}, "duly", "stand-in"))
		again.Partition = m.Partition
		if m.ID == "" && m.Type != bus.TypeMark {
			again.ID = ""
		}
		if again.Type != m.Type || again.ID != m.ID || again.Lane != m.Lane || !again.At.Equal(m.At) || !bytes.Equal(again.Body, m.Body) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

// A URL is taken or refused, and no error repeats its password.
func FuzzURL(f *testing.F) {
	for _, url := range []string{
		"kafka://b1:9092,b2", "kafka://user:zq%40xj@b?tls=true&sasl=scram-sha-256", "kafka://user:zqxj@localhost?sasl=plain", "kafka://b?partitions=0",
		"kafka://b?tls=yes", "kafka://user:zqxj@b:x", "kafka://:@,", "kafka://b?%zz", "nats://b", "kafka://[::1]:9092/",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "_file") {
			return // it would be read
		}
		brokers, _, err := parseURL(url, Options{})
		if err == nil && len(brokers) == 0 {
			t.Fatalf("%q is taken and names no broker", url)
		}
		if err != nil && strings.Contains(err.Error(), "zqxj") {
			t.Fatalf("%q: the error repeats the password: %v", url, err)
		}
	})
}
