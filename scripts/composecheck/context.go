package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// copyContext copies into out the files of root that .dockerignore lets through. out must lie outside of root.
func copyContext(root, out string) error {
	keep, err := contextFilter(root)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root, name)
		if err != nil || within == "." {
			return err
		}
		if entry.IsDir() && within == ".git" {
			return fs.SkipDir // large, and never part of a build
		}
		if kept, err := keep(within); err != nil || !kept || !entry.Type().IsRegular() {
			return err
		}
		return copyFile(name, filepath.Join(out, within))
	})
}

// contextFilter returns whether a path, relative to root, is sent to a build.
func contextFilter(root string) (func(within string) (bool, error), error) {
	ignore, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	defer ignore.Close()
	patterns, err := ignorefile.ReadAll(ignore)
	if err != nil {
		return nil, fmt.Errorf("reading .dockerignore: %w", err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("reading .dockerignore: %w", err)
	}
	return func(within string) (bool, error) {
		ignored, err := matcher.MatchesOrParentMatches(within)
		return !ignored, err
	}, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}
