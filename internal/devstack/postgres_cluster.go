package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What the data folder of a server holds. The cluster is made under another
// name, so that one that has its name is complete.
const (
	clusterName    = "cluster"
	newClusterName = "cluster.new"
	passwordName   = "password"
)

func (p *Postgres) cluster() string { return filepath.Join(p.folder, clusterName) }

// prepare chooses the folder, the account and the binaries, and makes the
// cluster where there is none.
func (p *Postgres) prepare(ctx context.Context) error {
	if err := p.prepareFolder(); err != nil {
		return err
	}
	if err := p.account.canEnter(p.folder); err != nil {
		return err
	}
	major, err := clusterMajor(p.cluster())
	if err != nil {
		return err
	}
	if p.binaries, err = locate(ctx, p.options, p.account, major); err != nil {
		return err
	}
	passwordFile := filepath.Join(p.folder, passwordName)
	if major == 0 {
		p.password = rand.Text()
		if err := p.initialise(ctx, passwordFile); err != nil {
			return fmt.Errorf("making the cluster with initdb %s: %w", p.binaries.version, err)
		}
		return nil
	}
	password, err := os.ReadFile(passwordFile)
	if err != nil {
		return fmt.Errorf("reading the password of the cluster: %w", err)
	}
	p.password = strings.TrimSpace(string(password))
	return nil
}

// prepareFolder makes the data folder. Only a temporary one is given to the
// account: a folder that the user named may hold other things.
func (p *Postgres) prepareFolder() (err error) {
	if p.options.DataDir == "" {
		if p.folder, p.remove, err = newScratch("duly-postgres"); err != nil {
			return err
		}
		p.account = accountFor(p.cluster())
		return p.account.own(p.folder)
	}
	if p.folder, err = filepath.Abs(p.options.DataDir); err != nil {
		return err
	}
	p.account = accountFor(p.cluster())
	return os.MkdirAll(p.folder, 0o755)
}

// clusterMajor returns the major version that made the cluster; 0 if there is
// no cluster.
func clusterMajor(cluster string) (int, error) {
	text, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// initialise makes the cluster with the password.
func (p *Postgres) initialise(ctx context.Context, passwordFile string) error {
	if err := os.WriteFile(passwordFile, []byte(p.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := p.account.own(passwordFile); err != nil {
		return err
	}
	unfinished := filepath.Join(p.folder, newClusterName)
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := p.account.own(unfinished); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + unfinished,
		"--username=" + superuser,
		"--pwfile=" + passwordFile,
		"--auth=scram-sha-256",
		// Text is ordered by its bytes, the same on every machine.
		"--encoding=UTF8", "--locale=C",
	}
	if p.options.UnsafeNoSync {
		args = append(args, "--no-sync")
	}
	if err := run(ctx, p.account, p.folder, p.options.Log, p.binaries.program("initdb"), args...); err != nil {
		return err
	}
	return os.Rename(unfinished, p.cluster())
}
