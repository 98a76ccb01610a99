package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Where the binaries of PostgreSQL come from; see [PostgresOptions.Source].
const (
	sourceInstalled = "installed"
	sourceFetch     = "fetch"
)

// sourceVariable overrides where the binaries come from by default.
const sourceVariable = "DULY_POSTGRES"

// oldestMajor is the oldest PostgreSQL that Duly runs on.
const oldestMajor = 15

// binaries is one set of PostgreSQL's programs.
type binaries struct {
	folder  string // holds initdb and postgres
	version string // "15.14"
	major   int
}

func (b binaries) program(name string) string { return filepath.Join(b.folder, name) }

// locate returns the binaries that the source names. A major other than 0 is
// that of data that exists, which no other major can read.
func locate(ctx context.Context, options PostgresOptions, as *account, major int) (binaries, error) {
	source := options.Source
	if source == "" {
		source = os.Getenv(sourceVariable)
	}
	switch source {
	case sourceFetch:
		return fetch(ctx, options.Notice, as, major)
	case sourceInstalled:
		return findInstalled(ctx, as, major)
	case "":
		found, notFound := findInstalled(ctx, as, major)
		if notFound == nil {
			return found, nil
		}
		found, err := fetch(ctx, options.Notice, as, major)
		if err != nil {
			return binaries{}, errors.Join(notFound, err)
		}
		return found, nil
	default:
		if !filepath.IsAbs(source) {
			return binaries{}, fmt.Errorf("the source of PostgreSQL (%s) is %q: it must be %q, %q or the absolute path "+
				"of the folder that holds initdb and postgres", sourceVariable, source, sourceInstalled, sourceFetch)
		}
		return probe(ctx, source, as, major)
	}
}

// findInstalled returns the first installed binaries that can be used.
func findInstalled(ctx context.Context, as *account, major int) (binaries, error) {
	wanted := fmt.Sprintf("PostgreSQL %d or later", oldestMajor)
	if major != 0 {
		wanted = fmt.Sprintf("PostgreSQL %d", major)
	}
	problems := []error{fmt.Errorf("found no %s that is installed: install it, or set %s to the folder "+
		"that holds initdb and postgres", wanted, sourceVariable)}
	for _, folder := range usualFolders(ctx) {
		found, err := probe(ctx, folder, as, major)
		if err == nil {
			return found, nil
		}
		problems = append(problems, err)
	}
	return binaries{}, errors.Join(problems...)
}

// usualFolders lists where binaries may be: what the user's own settings name,
// then where packages put them, newest first.
func usualFolders(ctx context.Context) []string {
	var folders []string
	add := func(folder string) {
		if resolved, err := filepath.EvalSymlinks(folder); err == nil && !slices.Contains(folders, resolved) {
			folders = append(folders, resolved)
		}
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			add(filepath.Dir(resolved))
		}
	}
	if output, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		add(strings.TrimSpace(string(output)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // Red Hat
		"/usr/libexec/postgresql*",                           // Alpine
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew on Linux
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		slices.SortFunc(matches, func(a, b string) int { return majorInPath(b) - majorInPath(a) })
		for _, match := range matches {
			add(match)
		}
	}
	return folders
}

var lastNumber = regexp.MustCompile(`(\d+)\D*$`)

// majorInPath reads the major version from a folder's name; 0 if it has none.
func majorInPath(path string) int {
	match := lastNumber.FindStringSubmatch(path)
	if match == nil {
		return 0
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return 0
	}
	return major
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// probe returns the binaries in a folder, if they are complete, recent enough
// and open to the account. A major other than 0 is the only one accepted.
func probe(ctx context.Context, folder string, as *account, major int) (binaries, error) {
	refuse := func(err error) (binaries, error) {
		return binaries{}, fmt.Errorf("PostgreSQL binaries in %s: %w", folder, err)
	}
	if err := as.canEnter(folder); err != nil {
		return refuse(err)
	}
	if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err != nil {
		return refuse(err)
	}
	output, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return refuse(err)
	}
	match := versionLine.FindStringSubmatch(string(output))
	if match == nil {
		return refuse(fmt.Errorf("postgres --version says %q", strings.TrimSpace(string(output))))
	}
	found := binaries{folder: folder, version: match[1]}
	if found.major, err = strconv.Atoi(match[2]); err != nil {
		return refuse(err)
	}
	if found.major < oldestMajor {
		return refuse(fmt.Errorf("version %s is too old, Duly needs %d or later", found.version, oldestMajor))
	}
	if major != 0 && found.major != major {
		return refuse(fmt.Errorf("version %s cannot read data made by PostgreSQL %d", found.version, major))
	}
	return found, nil
}
