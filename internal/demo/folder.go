package demo

import (
	"errors"
	"fmt"
	"os"
)

// tempFolder makes a temporary folder that a server may enter which runs under another
// user, as PostgreSQL does where this process is root.
func tempFolder(name string) (string, error) {
	dir, err := os.MkdirTemp("", "duly-"+name+"-")
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // to be entered, not to be listed
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("making a temporary folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}
