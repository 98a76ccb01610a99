package machine

import (
	"os"
	"runtime/debug"
	"testing"
)

// The exploration makes much garbage beside little that stays.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
