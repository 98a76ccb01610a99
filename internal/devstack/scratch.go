package devstack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lockName is the file in a folder of this package whose lock says that some
// process is using the folder.
const lockName = "lock"

// newScratch makes a temporary folder that is removed by the function
// returned. A process that was killed cannot remove its folders; the next one
// to ask for a folder with the same name does.
func newScratch(name string) (folder string, remove func() error, err error) {
	removeAbandoned(name)
	folder, err = os.MkdirTemp("", name+"-*")
	if err != nil {
		return "", nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	// The lock gets its name once it is held: otherwise another process could
	// see it free, and the folder as abandoned.
	lock, err := os.CreateTemp(folder, lockName+"-*")
	if err != nil {
		return "", nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	remove = func() error {
		defer lock.Close()
		return os.RemoveAll(folder)
	}
	if _, err = tryLock(lock); err == nil {
		err = os.Rename(lock.Name(), filepath.Join(folder, lockName))
	}
	if err != nil {
		_ = remove()
		return "", nil, fmt.Errorf("locking a temporary folder: %w", err)
	}
	return folder, remove, nil
}

// removeAbandoned removes the temporary folders of processes that are gone.
// What it cannot remove, such as another user's folders, it leaves.
func removeAbandoned(name string) {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), name+"-*", lockName))
	if err != nil {
		return
	}
	for _, path := range locks {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		lock, err := os.Open(path)
		if err != nil {
			continue
		}
		if free, err := tryLock(lock); err == nil && free {
			removeAround(lock.Name())
		}
		_ = lock.Close()
	}
}

// removeAround removes the folder of a lock, the lock last: where something
// cannot be removed yet, because an orphaned server is still shutting down, the
// folder can be found again.
func removeAround(lock string) {
	folder := filepath.Dir(lock)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return
		}
	}
	_ = os.RemoveAll(folder)
}

// lockFolder waits for the lock of a folder that several processes share. The
// lock ends when the file is closed, or with this process.
func lockFolder(ctx context.Context, folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		held, err := tryLock(lock)
		if held {
			return lock, nil
		}
		if err == nil {
			err = sleep(ctx, 100*time.Millisecond)
		}
		if err != nil {
			_ = lock.Close()
			return nil, fmt.Errorf("waiting for the lock of %s: %w", folder, err)
		}
	}
}

// sleep waits for the duration or the end of ctx, whose error it returns.
func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
