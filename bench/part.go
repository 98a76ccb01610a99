package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// part is a piece of a document that a command writes, between two markers; what stands
// around them is a person's.
type part struct {
	// document is the file's name, name the part's.
	document, name string
	text           string
}

func (p part) begin() string {
	return fmt.Sprintf("<!-- %s: written by `go run . %s` in bench; do not edit -->", p.name, p.name)
}

func (p part) end() string { return fmt.Sprintf("<!-- end of %s -->", p.name) }

// in puts the part into the document, in place of the one that was there, or at its end.
func (p part) in(document string) (string, error) {
	whole := p.begin() + "\n" + strings.TrimRight(p.text, "\n") + "\n" + p.end() + "\n"
	before, rest, found := strings.Cut(document, p.begin())
	if !found {
		if document != "" {
			document = strings.TrimRight(document, "\n") + "\n\n"
		}
		return document + whole, nil
	}
	_, after, found := strings.Cut(rest, p.end())
	if !found {
		return "", fmt.Errorf("%s: the part %s does not end: %q is missing", p.document, p.name, p.end())
	}
	return before + whole + strings.TrimPrefix(after, "\n"), nil
}

// publish writes a command's figures, as JSON and as a part of a document, into the folder.
func publish(folder string, p part, figures any) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("%s.json: %w", p.name, err)
	}
	if err := os.WriteFile(filepath.Join(folder, p.name+".json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	path := filepath.Join(folder, p.document)
	document, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole, err := p.in(string(document))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(whole), 0o644)
}
