package failpoint

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine makes an engine whose crashes are counted, and the path of its log.
func engine(t *testing.T, text string) (e *Engine, path string, crashes *int) {
	t.Helper()
	rules, err := Parse(text)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "fired")
	log, err := OpenLog(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	e = NewEngine(rules, 1, log)
	crashes = new(int)
	e.kill = func() { *crashes++ }
	return e, path, crashes
}

func TestWhatFiresIsActedOnAndWrittenDown(t *testing.T) {
	t.Parallel()
	e, path, crashes := engine(t, "worker-leased=crash@2,settle-call=error@1,settle-reply=lose@1,worker-done=pause:30ms@1,hold-call=error@1")
	require.NoError(t, e.At(WorkerLeased))
	require.NoError(t, e.At(WorkerLeased))
	require.Equal(t, 1, *crashes)
	for _, p := range []Place{SettleCall, SettleReply} {
		err := e.At(p)
		require.ErrorIs(t, err, ErrInjected)
		var network net.Error
		require.ErrorAs(t, err, &network, "the ledger takes it for trouble on the way")
		require.NoError(t, e.At(p), "a pass fires once")
	}
	began := time.Now()
	require.NoError(t, e.At(WorkerDone))
	require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)

	fired, err := ReadLog(path)
	require.NoError(t, err)
	require.Equal(t, map[Place]map[Act]int{
		WorkerLeased: {Crash: 1}, SettleCall: {Fail: 1}, SettleReply: {Lose: 1}, WorkerDone: {Pause: 1},
	}, Count(fired))
	require.Equal(t, Firing{
		At: fired[0].At, PID: os.Getpid(), Place: WorkerLeased, Act: Crash, Rule: "worker-leased=crash@2", Pass: 2,
	}, fired[0])
	require.Equal(t, []string{"hold-call=error@1"}, Uncovered(e.rules, fired), "what never fired is named")
}

func TestTheFirstRuleThatFiresDecides(t *testing.T) {
	t.Parallel()
	e, path, _ := engine(t, "settle-call=pause:1ms@1,*=error")
	require.NoError(t, e.At(SettleCall))
	require.ErrorIs(t, e.At(SettleCall), ErrInjected)
	require.NoError(t, e.At(WorkerLeased), "a place that has no error has none by any rule")
	fired, err := ReadLog(path)
	require.NoError(t, err)
	require.Len(t, fired, 2)
}

func TestALogThatIsTornOrMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fired")
	fired, err := ReadLog(path)
	require.NoError(t, err)
	require.Empty(t, fired)
	require.NoError(t, os.WriteFile(path, []byte(`{"place":"settle-call","act":"error"}`+"\n"+`{"pla`), 0o600))
	_, err = ReadLog(path)
	require.ErrorContains(t, err, "line 2")
}

// A crash is the end of the process, at once, and its line is in the log.
func TestACrashIsASIGKILLAfterItsLineIsWritten(t *testing.T) {
	t.Parallel()
	const asked = "FAILPOINT_TEST_LOG"
	if path := os.Getenv(asked); path != "" {
		log, err := OpenLog(path)
		require.NoError(t, err)
		rules, err := Parse("worker-leased=crash@1")
		require.NoError(t, err)
		_ = NewEngine(rules, 1, log).At(WorkerLeased)
		t.Fatal("it went on")
	}
	path := filepath.Join(t.TempDir(), "fired")
	victim := exec.Command(os.Args[0], "-test.run=^TestACrashIsASIGKILLAfterItsLineIsWritten$", "-test.v")
	victim.Env = append(os.Environ(), asked+"="+path)
	output, err := victim.CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(output), "it went on")
	require.Equal(t, "signal: killed", victim.ProcessState.String())
	fired, err := ReadLog(path)
	require.NoError(t, err)
	require.Equal(t, map[Place]map[Act]int{WorkerLeased: {Crash: 1}}, Count(fired))
}
