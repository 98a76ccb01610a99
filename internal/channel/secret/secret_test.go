package secret_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/secret"
)

func TestASecretIsReadFromItsFileWithoutItsLineEnd(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", "hunter2\n\n": "hunter2\n", " hunter2 \n": " hunter2 ",
	} {
		path := filepath.Join(t.TempDir(), "password")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		got, err := (&secret.Ref{File: path}).Load()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestASecretIsReadFromTheEnvironment(t *testing.T) {
	t.Setenv("DULY_TEST_SECRET", "hunter2")
	got, err := (&secret.Ref{Env: "DULY_TEST_SECRET"}).Load()
	require.NoError(t, err)
	require.Equal(t, "hunter2", got)
}

func TestASecretThatIsNotThereIsAnErrorThatNamesThePlace(t *testing.T) {
	t.Parallel()
	_, err := (&secret.Ref{Env: "DULY_TEST_NOT_SET"}).Load()
	require.ErrorContains(t, err, "DULY_TEST_NOT_SET is not set")

	_, err = (&secret.Ref{File: filepath.Join(t.TempDir(), "none")}).Load()
	require.ErrorIs(t, err, os.ErrNotExist)

	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	_, err = (&secret.Ref{File: empty}).Load()
	require.ErrorContains(t, err, "is empty")

	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, bytes.Repeat([]byte("a"), secret.MaxSize+1), 0o600))
	_, err = (&secret.Ref{File: large}).Load()
	require.ErrorContains(t, err, "larger than")

	_, err = (&secret.Ref{File: t.TempDir()}).Load()
	require.Error(t, err, "a folder is no secret")

	_, err = (&secret.Ref{}).Load()
	require.Error(t, err)
}

func TestAReferenceNamesExactlyOnePlace(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&secret.Ref{File: "/run/secrets/x"}).Validate("password"))
	require.NoError(t, (&secret.Ref{Env: "X"}).Validate("password"))
	require.ErrorContains(t, (&secret.Ref{}).Validate("password"), "password: it must name where")
	require.ErrorContains(t, (&secret.Ref{File: "a", Env: "b"}).Validate("password"), "not both")
	require.ErrorContains(t, (&secret.Ref{Env: "A=b"}).Validate("password"), "password.env")
}

func TestAReferenceIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, r := range []secret.Ref{{File: "hunter2"}, {Env: "hunter2"}} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "ref", r, "ptr", &r)
		for _, shown := range []string{
			fmt.Sprint(r), fmt.Sprintf("%v %+v %#v %s", r, r, r, r), fmt.Sprintf("%v %+v", &r, &r), log.String(),
			fmt.Sprintf("%+v", struct{ Password *secret.Ref }{&r}),
		} {
			require.NotContains(t, shown, "hunter2")
		}
	}
	require.Equal(t, "secret(none)", secret.Ref{}.String())
}
