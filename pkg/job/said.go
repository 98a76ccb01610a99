package job

// Said is what came of asking a receiver about an effect that may have happened.
type Said string

const (
	// SaidYes: it happened.
	SaidYes Said = "yes"
	// SaidNo: it did not happen.
	SaidNo Said = "no"
	// SaidWorking: the receiver still works on it.
	SaidWorking Said = "working"
	// SaidNothing: there was no answer, or none that says anything; it is asked again.
	SaidNothing Said = "nothing"
)

// Sayings lists every Said.
func Sayings() []Said { return []Said{SaidYes, SaidNo, SaidWorking, SaidNothing} }
