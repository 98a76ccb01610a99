package wire

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
)

// link is one connection over the wire.
type link struct {
	wire           *Wire
	client, server net.Conn
	started        bool              // PostgreSQL's start-up message has passed
	statements     map[string]string // prepared ones, by name
	pending        []byte            // of a message that is not whole yet

	mu   sync.Mutex
	mute bool // what the server answers is lost from here on
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	delete(l.wire.open, l.client)
	delete(l.wire.open, l.server)
}

// forward passes on what the client sends.
func (l *link) forward() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			l.wire.pass()
			if !l.deliver(buffer[:n]) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver sends bytes to the server, unless the exchange that they belong to is to be
// lost. It is false when the link has ended.
func (l *link) deliver(b []byte) bool {
	switch l.judge(b) {
	case LoseRequest:
		return false
	case LoseReply:
		l.mu.Lock()
		l.mute = true
		l.mu.Unlock()
	case LoseNothing:
	}
	_, err := l.server.Write(b)
	return err == nil
}

// judge reads PostgreSQL's messages out of the bytes and asks what is to be lost.
func (l *link) judge(b []byte) Loss {
	if !l.wire.postgres {
		return LoseNothing
	}
	worst := LoseNothing
	l.pending = append(l.pending, b...)
	for {
		kind, body, rest, ok := l.message(l.pending)
		if !ok {
			return worst
		}
		l.pending = rest
		statement, _, _ := bytes.Cut(body, []byte{0})
		_, second, _ := bytes.Cut(body, []byte{0})
		second, _, _ = bytes.Cut(second, []byte{0})
		switch kind {
		case 'P': // Parse: the statement's name and text
			l.statements[string(statement)] = string(second)
		case 'B': // Bind: the portal, the statement's name
			worst = max(worst, l.wire.decide(l.statements[string(second)]))
		case 'Q': // Query: the text
			worst = max(worst, l.wire.decide(string(statement)))
		}
	}
}

// message cuts the first message off; the start-up message has no kind.
func (l *link) message(b []byte) (kind byte, body, rest []byte, ok bool) {
	head := 5
	if !l.started {
		head = 4
	}
	if len(b) < head {
		return 0, nil, nil, false
	}
	end := head - 4 + int(binary.BigEndian.Uint32(b[head-4:]))
	if end < head || len(b) < end {
		return 0, nil, nil, false
	}
	if l.started {
		kind = b[0]
	}
	l.started = true
	return kind, b[head:end], b[end:], true
}

// back passes on what the server sends. Once the link is mute it swallows the answer,
// to its end, and then breaks: what the answer speaks of is done.
func (l *link) back() {
	buffer := make([]byte, 64<<10)
	var swallowed []byte
	for {
		n, err := l.server.Read(buffer)
		l.mu.Lock()
		mute := l.mute
		l.mu.Unlock()
		switch {
		case mute:
			swallowed = append(swallowed, buffer[:n]...)
			if len(swallowed) >= 6 && bytes.HasSuffix(swallowed, []byte{'Z', 0, 0, 0, 5, 'I'}) {
				return
			}
		case n > 0:
			l.wire.linger()
			if _, err := l.client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
