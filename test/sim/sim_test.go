package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"duly.dev/duly/docs/model"
)

var (
	schedules = flag.Int("sim.schedules", 1000, "how many schedules are played")
	from      = flag.Uint64("sim.from", 1, "the seed of the first of them")
	reportTo  = flag.String("sim.report", "", "write the report to this file")
	journals  = flag.Uint64("sim.journals", 24, "of how many seeds journals are compared")
	again     = flag.Uint64("sim.seed", 0, "play this seed alone, and print its journal")
)

// enough is from how many schedules on each fault must have happened.
const enough = 1000

// summary is what many schedules came to.
type summary struct {
	mu     sync.Mutex
	fired  map[fault]int
	asked  map[fault]int
	steps  map[model.Step]int
	played int
	lasted time.Duration
	jobs   int
	doubts int
	acts   int
	begun  int
}

func (s *summary) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.played++
	s.lasted += w.elapsed()
	s.jobs += len(w.history.jobs)
	s.doubts += len(w.history.doubted)
	for _, n := range w.history.acts {
		s.acts += n
	}
	for _, a := range w.history.attempts {
		if a.begun {
			s.begun++
		}
	}
	for _, f := range faults() {
		s.fired[f] += w.fired[f]
		if w.plan.asked(f) || slices.Contains(consequences, f) {
			s.asked[f]++
		}
	}
	for _, all := range w.history.steps {
		for _, steps := range all {
			for _, step := range steps {
				s.steps[step]++
			}
		}
	}
}

// play plays one seed in a bubble.
func play(t *testing.T, seed uint64, look func(*world)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed)
		w.play()
		w.check()
		look(w)
	})
}

// Whatever goes wrong within what receivers and operators promise, every guarantee holds and
// everything comes to an end.
func TestSchedules(t *testing.T) { //nolint:tparallel // the seeds are; what is outermost waits for them
	t.Parallel()
	s := &summary{fired: map[fault]int{}, asked: map[fault]int{}, steps: map[model.Step]int{}}
	if *again != 0 {
		play(t, *again, func(w *world) { t.Log("\n" + w.text()); report(t, w) })
		return
	}
	players := uint64(runtime.GOMAXPROCS(0))
	t.Run("seeds", func(t *testing.T) {
		for first := range players {
			t.Run(fmt.Sprint(first), func(t *testing.T) {
				t.Parallel()
				for i := first; i < uint64(*schedules); i += players {
					seed := *from + i
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						play(t, seed, func(w *world) { s.add(w); report(t, w) })
					})
				}
			})
		}
	})
	s.tell(t)
}

// report tells what is broken, and how it is seen again.
func report(t *testing.T, w *world) {
	t.Helper()
	if len(w.broken) > 0 {
		t.Errorf("seed %d breaks %s\nplay it again: go test ./test/sim -run TestSchedules -sim.seed %d", w.seed, strings.Join(w.broken, "\n"), w.seed)
	}
}

// tell says how often everything happened. What was asked for must have.
func (s *summary) tell(t *testing.T) {
	t.Helper()
	for _, f := range faults() {
		if s.asked[f] > 0 && s.fired[f] == 0 && s.played >= enough {
			t.Errorf("fault %q was asked for in %d schedules and has not happened: it is not covered", f, s.asked[f])
		}
	}
	text := s.markdown(t.Failed())
	t.Log("\n" + text)
	if *reportTo != "" {
		if err := os.WriteFile(*reportTo, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// markdown is the report.
func (s *summary) markdown(failed bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Simulation\n\n%d schedules, from seed %d on: %s.\n", s.played, *from, map[bool]string{false: "no guarantee was broken, and everything came to its end", true: "FAILED"}[failed])
	fmt.Fprintf(&b, "%s of simulated time, %d jobs, %d attempts that began, %d effects, %d generations that were in doubt.\n", s.lasted.Round(time.Hour), s.jobs, s.begun, s.acts, s.doubts)
	seen := 0
	for _, step := range model.Table() {
		if s.steps[step] > 0 {
			seen++
		}
	}
	fmt.Fprintf(&b, "%d kinds of steps were made, of the %d that the formal model has.\n\n| fault | schedules that asked for it | happened |\n|---|---:|---:|\n", seen, len(model.Table()))
	for _, f := range faults() {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", f, s.asked[f], s.fired[f])
	}
	return b.String()
}

// A seed that fails can be played again, whatever else the machine does.
func TestOneSeedHasOneJournal(t *testing.T) {
	t.Parallel()
	for seed := *from; seed < *from+*journals; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			texts := map[string]bool{}
			for range 3 {
				play(t, seed, func(w *world) { texts[w.text()] = true })
			}
			if all := slices.Collect(maps.Keys(texts)); len(all) > 1 {
				t.Errorf("seed %d has %d journals; of two of them:\n%s", seed, len(all), cmp.Diff(strings.Split(all[0], "\n"), strings.Split(all[1], "\n")))
			}
		})
	}
}
