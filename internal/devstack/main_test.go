package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// parentVariable makes this test program a process that starts a server on the
// data folder that it names ("-" for a temporary one), prints the folder and
// the server's address, and stays until it is killed.
const parentVariable = "DULY_TEST_DEVSTACK_PARENT"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(parentVariable); ok {
		if dir == "-" {
			dir = ""
		}
		p, err := StartPostgres(context.Background(), PostgresOptions{DataDir: dir, UnsafeNoSync: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.folder, p.URL())
		select {}
	}
	goleak.VerifyTestMain(m)
}

// parent is a process that has started a server.
type parent struct {
	command *exec.Cmd
	folder  string
	url     string
}

// startParent starts a process that starts a server; see parentVariable.
func startParent(t *testing.T, dir string) parent {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := parent{command: exec.Command(self)}
	p.command.Env = append(os.Environ(), parentVariable+"="+dir)
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	t.Cleanup(p.kill)
	_, err = fmt.Fscan(output, &p.folder, &p.url)
	require.NoError(t, err)
	return p
}

// kill ends the process without giving it a chance to stop its server.
func (p parent) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}
