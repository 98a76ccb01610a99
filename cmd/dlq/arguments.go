package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/machine"
)

// instant is an instant on the command line, with how it was put.
type instant struct {
	time.Time
	zone, local string
}

// UnmarshalText reads an instant with an offset, or a local time and a zone.
func (t *instant) UnmarshalText(text []byte) error {
	s := string(text)
	if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
		*t = instant{Time: at}
		return nil
	}
	i := max(strings.LastIndexByte(s, ' '), 0)
	local, localErr := calendar.ParseLocal(s[:i])
	zone, zoneErr := calendar.LoadZone(strings.TrimSpace(s[i:]))
	if err := errors.Join(localErr, zoneErr); err != nil {
		return fmt.Errorf("%q is no instant: give one with an offset (2026-09-30T17:00:00+02:00), or a local time and its zone (\"2026-09-30T17:00:00 Europe/Paris\"): %w", s, err)
	}
	at, _ := local.In(zone)
	*t = instant{at, zone.Name(), local.String()}
	return nil
}

// since is an instant, or how long ago it was.
type since struct{ instant }

// UnmarshalText reads a duration, or an instant.
func (t *since) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil {
		t.Time = time.Now().Add(-ago)
		return nil
	}
	return t.instant.UnmarshalText(text)
}

// place is a place in a list, as the list before printed it.
type place struct{ machine.ListPlace }

// UnmarshalText reads what MarshalText wrote.
func (p *place) UnmarshalText(text []byte) error {
	number, at, found := strings.Cut(string(text), "@")
	id, err := strconv.ParseInt(number, 10, 64)
	if err == nil && found {
		p.At, err = time.Parse(time.RFC3339Nano, at)
	}
	if err != nil {
		return fmt.Errorf("%q is no place in a list: give what the list before printed as its next", text)
	}
	p.Job = id
	return nil
}

// MarshalText writes String.
func (p place) MarshalText() ([]byte, error) { return []byte(p.String()), nil } //nolint:unparam // an interface of the standard library

// String is job@instant, or the job alone.
func (p place) String() string {
	s := strconv.FormatInt(p.Job, 10)
	if !p.At.IsZero() {
		s += "@" + p.At.UTC().Format(time.RFC3339Nano)
	}
	return s
}
