//go:build !unix

package devstack

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// platformError is nil where this package can run PostgreSQL.
func platformError() error {
	return errors.New("the built-in PostgreSQL runs on Linux and macOS only: " +
		"start a PostgreSQL 15 or later yourself, or use WSL")
}

func childAttributes(*account) *syscall.SysProcAttr { return nil }

func ownerOf(fs.FileInfo) (uid, gid uint32) { return 0, 0 }

// tryLock takes no lock: without PostgreSQL there is nothing to share.
func tryLock(*os.File) (bool, error) { return true, nil }
