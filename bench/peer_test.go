package main

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// child is a process that runs the shell script.
func child(t *testing.T, script string) *nodeChild {
	t.Helper()
	c, err := startChild(exec.Command("sh", "-c", script), newTally())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.input.Close() })
	return c
}

func TestChildAnswersAndTellsWhatIsDone(t *testing.T) {
	t.Parallel()
	c := child(t, `
		read request
		echo '{"event":"done","jobs":2}'
		echo 'what a library prints'
		echo '{"event":"done","jobs":3}'
		echo '{"id":1,"result":{"version":"1.2.3"}}'
		read end`)
	var about struct{ Version string }
	require.NoError(t, c.call(t.Context(), "about", nil, &about))
	require.Equal(t, "1.2.3", about.Version)
	require.NoError(t, c.done.wait(t.Context(), 5))
	require.Error(t, c.close(), "read at the end of the input fails")
}

func TestChildSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	c := child(t, `read request; echo '{"id":1,"error":"no such table"}'; read request`)
	require.ErrorContains(t, c.call(t.Context(), "left", nil, nil), "left: no such table")
	_ = c.close()
	require.Error(t, c.call(t.Context(), "left", nil, nil))
}

func TestChildThatEndsLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	c := child(t, `read request`)
	require.ErrorIs(t, c.call(t.Context(), "about", nil, nil), errNodeEnded)
	require.NoError(t, c.close())
}

func TestChildIsNotWaitedForLongerThanAsked(t *testing.T) {
	t.Parallel()
	c := child(t, `read request; read request`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.call(ctx, "about", nil, nil), context.DeadlineExceeded)
}

func TestDoneTaskIsToldByItsScriptAlone(t *testing.T) {
	t.Parallel()
	done := []any{"evalsha", "sha", 5, "asynq:{default}:active", "asynq:{default}:lease", "asynq:{default}:t:7", "asynq:{default}:processed:2026-01-01", "asynq:{default}:processed", "7", 0, 0}
	task, ok := doneTask(done)
	require.True(t, ok)
	require.Equal(t, "7", task)
	for name, other := range map[string][]any{
		"dequeue":   {"evalsha", "sha", 4, "asynq:{default}:pending", "asynq:{default}:paused", "asynq:{default}:active", "asynq:{default}:lease", 0, "asynq:{default}:t:", "", ""},
		"five keys": {"evalsha", "sha", 5, "asynq:{default}:t:7", "a", "b", "c", "d", "7"},
		"a command": {"get", "asynq:{default}:active"},
	} {
		_, ok := doneTask(other)
		require.False(t, ok, name)
	}
}

func TestRedisThatCanLoseIsRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, alwaysSynced(map[string]string{"appendonly": "yes", "appendfsync": "always"}))
	require.ErrorContains(t, alwaysSynced(map[string]string{"appendonly": "yes", "appendfsync": "everysec"}), "everysec")
	require.ErrorContains(t, alwaysSynced(nil), "appendonly")
}
