package dispatch

import "time"

// pace says how long to rest before the next look at a topic: not at all while there
// is work, a few milliseconds soon after it, and longer the longer it is quiet. So a
// reference waits little where work comes steadily, and an idle dispatcher costs next
// to nothing.
type pace struct {
	rest   time.Duration // the longest
	worked time.Time     // when there was work last
}

// soon is the shortest rest.
const soon = 5 * time.Millisecond

func (p *pace) next(worked bool, now time.Time) time.Duration {
	if worked {
		p.worked = now
		return 0
	}
	return min(max(now.Sub(p.worked)/8, soon), p.rest)
}
