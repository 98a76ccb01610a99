package holiday

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rickar/cal/v2"
)

func init() {
	// The definitions compute in the zone of the machine unless told otherwise, where
	// midnight may not exist.
	cal.DefaultLoc = time.UTC
}

// Calendar are the holidays of a country or a region. It may be used concurrently.
type Calendar struct {
	definitions []*cal.Holiday

	mu    sync.Mutex
	years map[int]map[day]string
}

type day struct {
	month time.Month
	day   int
}

// Of finds the calendar of a country or a region by its code, such as "fr" or "de-by".
func Of(code string) (*Calendar, bool) {
	definitions, ok := countries[code]
	if !ok {
		return nil, false
	}
	return &Calendar{definitions: definitions, years: map[int]map[day]string{}}, true
}

// Codes lists the codes that Of knows, in order.
func Codes() []string { return slices.Sorted(maps.Keys(countries)) }

// On is the name of the holiday that is observed on a day, in the country's language;
// "" where there is none.
func (c *Calendar) On(year int, month time.Month, dayOfMonth int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	days, ok := c.years[year]
	if !ok {
		days = c.compute(year)
		c.years[year] = days
	}
	return days[day{month, dayOfMonth}]
}

// compute finds what is observed in a year. A holiday of a neighbouring year may be
// observed in this one.
func (c *Calendar) compute(year int) map[day]string {
	days := map[day]string{}
	for _, h := range c.definitions {
		for _, of := range []int{year - 1, year, year + 1} {
			_, observed := h.Calc(of)
			if observed.IsZero() || observed.Year() != year {
				continue
			}
			at := day{observed.Month(), observed.Day()}
			if days[at] == "" {
				days[at] = h.Name
			}
		}
	}
	return days
}
