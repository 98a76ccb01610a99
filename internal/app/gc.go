package app

// gcPercent is how much the heap may grow between two collections, in percent of what is
// alive. Duly's processes keep little alive and allocate for every job: at Go's own 100
// they collect all the time.
const gcPercent = 400

// tuneGC sets gcPercent, unless the environment says how often to collect.
func tuneGC(environment func(name string) string, set func(percent int) int) {
	if environment("GOGC") == "" {
		set(gcPercent)
	}
}
