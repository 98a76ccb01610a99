package machine

import (
	"fmt"
	"strconv"
	"time"
)

// column is one thing that a stored row says. It is compared to the depth.
type column struct {
	name string
	text func(Row) string
	to   depth
}

// compared is what Fold compares of a row. What a request gave, and the kind, are not
// among it: they are where a fold begins.
var compared = []column{
	{"state", func(r Row) string { return string(r.State) }, rest},
	{"attempt", func(r Row) string { return number(r.Attempt) }, rest},
	{"fence", func(r Row) string { return number(r.Fence) }, rest},
	{"emission", func(r Row) string { return number(r.Emission) }, rest},
	{"waiting", func(r Row) string { return string(r.Waiting) }, loosely},
	{"hold", func(r Row) string { return string(r.Hold) }, loosely},
	{"reason", func(r Row) string { return string(r.Reason) }, loosely},
	{"wake_at", func(r Row) string { return instant(r.WakeAt) }, loosely},
	{"successor", func(r Row) string { return number(r.Successor) }, loosely},
	{"cancel_requested", func(r Row) string { return strconv.FormatBool(r.CancelRequested) }, loosely},
	{"closed", func(r Row) string { return strconv.FormatBool(r.Closed) }, loosely},
	{"worker", func(r Row) string { return r.Worker }, loosely},
	{"leased_at", func(r Row) string { return instant(r.LeasedAt) }, loosely},
	{"unclassified", func(r Row) string { return number(r.Unclassified) }, otherwise},
	{"class", func(r Row) string { return string(r.LastClass) }, otherwise},
	{"code", func(r Row) string { return string(r.LastCode) }, otherwise},
	{"origin_at", func(r Row) string { return instant(r.Origin) }, otherwise},
	{"first_ready_at", func(r Row) string { return instant(r.FirstReady) }, otherwise},
	{"limit", func(r Row) string { return short(r.Limit) }, otherwise},
	{"doubt_since", func(r Row) string { return instant(r.DoubtSince) }, otherwise},
	{"doubt_until", func(r Row) string { return instant(r.DoubtUntil) }, otherwise},
	{"terms", terms, otherwise},
	{"announced", func(r Row) string { return strconv.FormatBool(r.Announced) }, otherwise},
	{"reported", func(r Row) string { return strconv.FormatBool(r.Reported) }, otherwise},
}

// compare holds the stored row against the folded one.
func (f *folder) compare() {
	var d differences
	for _, c := range compared {
		if f.depth <= c.to {
			d.add(c.name, c.text(f.stored), c.text(f.row))
		}
	}
	if !d.none() {
		stored, folded := d.texts()
		f.breaks(RuleRow, stored, folded)
	}
}

func short(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Truncate(time.Microsecond).String()
}

func terms(r Row) string {
	if !r.Fixed {
		return ""
	}
	p := r.Promises
	return fmt.Sprintf("%s window=%s lookup=%s settle=%s resolve_within=%s resolve=%s", r.Channel, p.Window, p.Lookup, p.Settle, p.ResolveWithin, p.Resolve)
}
