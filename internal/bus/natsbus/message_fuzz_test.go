package natsbus

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Whoever wrote a message, it is one of Duly's or a foreign one; and what Duly would write
// of it reads as it was.
func FuzzMessage(f *testing.F) {
	f.Add("1.0", "duly.work", "id", "2026-09-30T17:00:00+02:00", "mail", []byte(`{"kind":"k"}`))
	f.Add("1.0", "duly.mark", "", "", "", []byte(`{}`))
	f.Add("%31.0", "duly.work", "%zz", "never", "%C3%A9", []byte(nil))
	f.Fuzz(func(t *testing.T, version, kind, id, at, lane string, body []byte) {
		header := nats.Header{}
		for key, value := range map[string]string{"specversion": version, "type": kind, "id": id, "dulyat": at, "dulylane": lane} {
			header[attributePrefix+key] = []string{value}
		}
		m := decodeMessage(&nats.Msg{Header: header, Data: body})
		if !bytes.Equal(m.Body, body) {
			t.Fatalf("%+v", m)
		}
		if m.Type == "" || m.ID == "" || m.At.Equal(time.Time{}) && at != "" {
			return
		}
		again := decodeMessage(&nats.Msg{Header: encodeHeader(m, "duly", "stand-in"), Data: body})
		if again.Type != m.Type || again.ID != m.ID || again.Lane != m.Lane || !again.At.Equal(m.At) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}
