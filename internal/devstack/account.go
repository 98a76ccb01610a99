package devstack

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is the unprivileged user that PostgreSQL runs as where this process
// is root. A nil account is this process's own user.
type account struct {
	uid, gid uint32
}

// nobody is the user that the accounts named "postgres" and "nobody" fall back
// to on a system that has no list of users.
var nobody = account{uid: 65534, gid: 65534}

// accountFor returns the user that runs the server whose data is, or will be,
// in the folder cluster: data that exists is run by its owner.
func accountFor(cluster string) *account {
	if os.Geteuid() != 0 {
		return nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if uid, gid := ownerOf(info); uid != 0 {
			return &account{uid: uid, gid: gid}
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := lookUpAccount(name); err == nil {
			return found
		}
	}
	return &nobody
}

func lookUpAccount(name string) (*account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := parseID(found.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := parseID(found.Gid)
	if err != nil {
		return nil, err
	}
	if uid == 0 {
		return nil, fmt.Errorf("the user %q is root", name)
	}
	return &account{uid: uid, gid: gid}, nil
}

// parseID reads a user or group id; macOS writes that of nobody as -2.
func parseID(text string) (uint32, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	return uint32(id), err //nolint:gosec // -2 means 2³²-2
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// canEnter returns an error that names the first folder on the way to the
// folder, itself included, that keeps the account out.
func (a *account) canEnter(folder string) error {
	if a == nil {
		return nil
	}
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	if parent := filepath.Dir(resolved); parent != resolved {
		if err := a.canEnter(parent); err != nil {
			return err
		}
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&a.searchBit(info) == 0 {
		return fmt.Errorf("PostgreSQL does not run as root, and the user that runs it here (uid %d) "+
			"cannot enter %s (%s): choose a folder outside it", a.uid, resolved, info.Mode())
	}
	return nil
}

// searchBit is the permission bit that decides whether the account may enter
// the folder.
func (a *account) searchBit(info fs.FileInfo) fs.FileMode {
	switch uid, gid := ownerOf(info); {
	case uid == a.uid:
		return 0o100
	case gid == a.gid:
		return 0o010
	default:
		return 0o001
	}
}
