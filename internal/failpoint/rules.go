package failpoint

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Act is what happens at a place.
type Act string

// The acts.
const (
	// Crash: the process ends, as by SIGKILL.
	Crash Act = "crash"
	// Pause: the goroutine waits.
	Pause Act = "pause"
	// Fail: what comes next fails, and did nothing.
	Fail Act = "error"
	// Lose: what was done fails; its reply was lost.
	Lose Act = "lose"
)

// anyAct is the act of a rule that takes whatever a place offers.
const anyAct Act = "any"

// everywhere is the place of a rule about all places that offer its act.
const everywhere Place = "*"

// defaultPause is how long a pause is of which nobody said it.
const defaultPause = time.Second

// Rule asks for faults at one place or at all.
type Rule struct {
	// Text is the rule as it was written.
	Text string

	place   Place
	act     Act
	pause   time.Duration
	nth     int     // the one pass that fires; 0 for no such
	percent float64 // of the passes; 0 for every one
}

// Parse reads rules as DULY_FAILPOINTS holds them. The error joins what is wrong with each.
func Parse(text string) ([]Rule, error) {
	var rules []Rule
	var errs []error
	known := infos()
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := parse(part, known)
		if err != nil {
			errs = append(errs, fmt.Errorf("failpoint rule %q: %w", part, err))
			continue
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(errs...)
}

func parse(text string, known map[Place]Info) (Rule, error) {
	place, rest, ok := strings.Cut(text, "=")
	r := Rule{Text: text, place: Place(place), pause: defaultPause}
	if !ok {
		return r, errors.New("it must be PLACE=ACT, such as worker-leased=crash@3")
	}
	var err error
	if i := strings.IndexAny(rest, "@%"); i >= 0 {
		if rest[i] == '@' {
			r.nth, err = strconv.Atoi(rest[i+1:])
		} else {
			r.percent, err = strconv.ParseFloat(rest[i+1:], 64)
		}
		if err != nil || r.nth < 0 || r.percent < 0 || r.percent > 100 || r.nth == 0 && r.percent == 0 {
			return r, errors.New("behind @ stands the number of a pass, from 1; behind % a share above 0 and at most 100")
		}
		rest = rest[:i]
	}
	act, d, timed := strings.Cut(rest, ":")
	r.act = Act(act)
	if timed {
		if r.pause, err = time.ParseDuration(d); err != nil || r.pause <= 0 || r.act != Pause {
			return r, errors.New("behind : stands the duration of a pause, such as pause:2s")
		}
	}
	return r, r.check(known)
}

// check refuses a place that there is not, and an act that it does not offer.
func (r Rule) check(known map[Place]Info) error {
	switch r.act {
	case Crash, Pause, Fail, Lose, anyAct:
	default:
		return fmt.Errorf("act %q: it must be crash, pause, error, lose or any", r.act)
	}
	if r.place == everywhere {
		return nil
	}
	info, ok := known[r.place]
	if !ok {
		return fmt.Errorf("there is no place %q", r.place)
	}
	if r.act != anyAct && !info.offers(r.act) {
		return fmt.Errorf("place %s offers %v", r.place, info.Acts())
	}
	return nil
}

// at says what the rule does at the n-th pass of a place, from 1; empty: nothing.
func (r Rule) at(seed uint64, i Info, n int) Act {
	if r.place != everywhere && r.place != i.Place || r.act != anyAct && !i.offers(r.act) {
		return ""
	}
	dice := r.dice(seed, i.Place, n)
	switch {
	case r.nth > 0 && n != r.nth, r.percent > 0 && dice.Float64()*100 >= r.percent:
		return ""
	case r.act == anyAct:
		return i.Acts()[dice.IntN(len(i.Acts()))]
	}
	return r.act
}

// dice are those of one pass: no other pass, rule or place moves them.
func (r Rule) dice(seed uint64, p Place, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s|%s|%d", r.Text, p, n) // it never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
