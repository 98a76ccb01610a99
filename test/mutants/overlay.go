package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// errStale: a patch does not apply any more.
var errStale = errors.New("it does not apply")

// weaken writes the mutant's files, patched, below the folder, and returns the file that
// tells Go to read them in place of those of the repository.
func (m mutant) weaken(ctx context.Context, root, folder string) (overlay string, err error) {
	replace := map[string]string{}
	for _, file := range m.files {
		original, patched := filepath.Join(root, file), filepath.Join(folder, file)
		text, err := os.ReadFile(original)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errStale, err)
		}
		if err := os.MkdirAll(filepath.Dir(patched), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(patched, text, 0o644); err != nil {
			return "", err
		}
		replace[original] = patched
	}
	patch, err := filepath.Abs(m.patch)
	if err != nil {
		return "", err
	}
	apply := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", patch)
	apply.Dir = folder
	// The folder is no part of a repository, wherever temporary files lie.
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if said, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", errStale, strings.TrimSpace(string(bytes.ReplaceAll(said, []byte("error: "), nil))))
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
