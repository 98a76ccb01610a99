package dispatch

import "time"

// pace says how long to rest before the next look at a topic: not at all while more
// waits, a millisecond soon after there was work, so that what comes next can come
// together, and longer the longer it is quiet. So a reference waits little where work
// comes steadily, and an idle dispatcher costs next to nothing.
type pace struct {
	rest   time.Duration // the longest
	worked time.Time     // when there was work last
}

// soon is the shortest rest.
const soon = time.Millisecond

func (p *pace) next(saw sight, now time.Time) time.Duration {
	if saw != sawNothing {
		p.worked = now
	}
	if saw == sawMore {
		return 0
	}
	return min(max(now.Sub(p.worked)/8, soon), p.rest)
}

// sight is what a look at a topic saw.
type sight int

const (
	sawNothing sight = iota
	sawAll           // that is announced now
	sawMore          // than a page
)
