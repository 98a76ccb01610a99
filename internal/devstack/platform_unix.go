//go:build unix

package devstack

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// platformError is nil where this package can run PostgreSQL.
func platformError() error { return nil }

// childAttributes puts a child into a process group of its own, lets it die
// with this process where the system can do that, and runs it as the account.
func childAttributes(as *account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attributes)
	if as != nil {
		attributes.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attributes
}

// ownerOf returns the user and the group that own a file.
func ownerOf(info fs.FileInfo) (uid, gid uint32) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return stat.Uid, stat.Gid
}

// tryLock takes the advisory lock of an open file and says whether it did.
// The lock ends with the file or with this process.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
