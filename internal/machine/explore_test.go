package machine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// finding is a world in which something is wrong, and how it came about.
type finding struct {
	wrong []string
	path  []string
}

func (f finding) String() string {
	return strings.Join(f.wrong, "\n") + "\nafter: " + strings.Join(f.path, ", ")
}

// explore walks every world that can be reached, breadth first, so that what it
// finds is found by a shortest path. It returns the first finding, if any, and how
// many worlds it saw. more says which findings count; nil: all.
func (u universe) explore(counts func(wrong string) bool) (*finding, int) {
	type node struct {
		parent int32
		name   string
		t      int
	}
	start := u.start()
	seen := map[fingerprint]struct{}{u.fingerprint(start): {}}
	nodes := []node{{parent: -1}}
	path := func(i int32) []string {
		var names []string
		for ; i > 0; i = nodes[i].parent {
			names = append([]string{fmt.Sprintf("%s at %d", nodes[i].name, nodes[i].t)}, names...)
		}
		return names
	}
	frontier, first := []world{start}, int32(0)
	var found *finding
	for len(frontier) > 0 && found == nil {
		var next []world
		for i, w := range frontier {
			parent := first + int32(i)
			u.moves(w, func(m move) {
				if found != nil {
					return
				}
				m.to.settle()
				f := u.fingerprint(m.to)
				_, known := seen[f]
				if known && !u.suspicious {
					return
				}
				if wrong := slices.DeleteFunc(u.wrong(m.to), func(what string) bool { return counts != nil && !counts(what) }); len(wrong) > 0 {
					found = &finding{wrong, append(path(parent), fmt.Sprintf("%s at %d", m.name, w.t))}
					return
				}
				if known {
					return
				}
				seen[f] = struct{}{}
				nodes = append(nodes, node{parent, m.name, w.t})
				next = append(next, m.to)
			})
		}
		first += int32(len(frontier))
		frontier = next
	}
	return found, len(seen)
}

// promised are the promises to explore, by name.
func promised() map[string]Promises {
	all := map[string]Promises{
		"neither": {}, "window": {Window: remembered * unit}, "lookup": {Lookup: MeansHTTP}, "both": {Window: remembered * unit, Lookup: MeansHTTP},
	}
	for name, p := range all {
		p.Settle, p.ResolveWithin = unit, 4*unit
		all[name] = p
	}
	return all
}

// universes are the worlds that every run explores. DULY_EXPLORE=deep makes them
// larger, for minutes instead of seconds.
func universes(s subject) map[string]universe {
	all := make(map[string]universe)
	for name, p := range promised() {
		u := universe{promises: p, generations: 2, leases: 2, machine: s}
		all[name] = u
		u.deadline, u.calm = 4, true
		all[name+", deadline"] = u
	}
	forced := all["neither"]
	forced.mayForce, forced.calm = true, true
	all["neither, forced"] = forced
	more := all["window"]
	more.leases, more.calm = 3, true
	all["window, more leases"] = more
	if os.Getenv("DULY_EXPLORE") == "deep" {
		for name, u := range all {
			u.leases += 2
			u.generations++
			all[name] = u
		}
	}
	return all
}

func theMachine() subject { return subject{next: Next, redrive: Redrive} }

func TestNoOrderOfEventsBreaksAGuarantee(t *testing.T) {
	t.Parallel()
	for name, u := range universes(theMachine()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, worlds := u.explore(nil)
			if found != nil {
				require.Fail(t, found.String())
			}
			t.Logf("%d worlds", worlds)
			require.Greater(t, worlds, 1000, "the world has shrunk")
		})
	}
}
