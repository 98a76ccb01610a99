// Package secret refers to secrets that are kept outside the configuration: in a
// file, such as a mounted one, or in the environment. duly.yaml may name a secret
// and can never hold one, so it can be committed, shown and logged.
package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// MaxSize is the largest secret that is read, in bytes.
const MaxSize = 64 << 10

// Ref names where a secret is. Exactly one of its fields is set. Printing or
// logging a Ref shows only which one, since a secret may have been pasted into it
// by mistake.
type Ref struct {
	// File is the path of a file that holds the secret and nothing else; one line
	// end at its end is not part of it.
	File string `yaml:"file"`
	// Env is the name of an environment variable that holds the secret.
	Env string `yaml:"env"`
}

// Validate checks the reference without reading the secret; field is its name in
// the configuration.
func (r *Ref) Validate(field string) error {
	switch {
	case r.File == "" && r.Env == "":
		return fmt.Errorf("%s: it must name where the secret is: {file: PATH} or {env: NAME}", field)
	case r.File != "" && r.Env != "":
		return fmt.Errorf("%s: it must have a file or an env, not both", field)
	case strings.ContainsAny(r.Env, "=\x00"):
		return fmt.Errorf("%s.env: it must be the name of an environment variable", field)
	}
	return nil
}

// Load reads the secret and removes one line end from its end. Its errors name the
// place, never the secret.
func (r *Ref) Load() (string, error) {
	raw, err := r.read()
	if err != nil {
		return "", err
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	raw = bytes.TrimSuffix(raw, []byte("\r"))
	if len(raw) == 0 {
		return "", fmt.Errorf("the secret in %s is empty", r.place())
	}
	return string(raw), nil
}

func (r *Ref) read() ([]byte, error) {
	switch {
	case r.File != "":
		return readFile(r.File)
	case r.Env != "":
		v, ok := os.LookupEnv(r.Env)
		if !ok {
			return nil, fmt.Errorf("reading a secret: the environment variable %s is not set", r.Env)
		}
		return []byte(v), nil
	}
	return nil, errors.New("reading a secret: the reference names no file and no environment variable")
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading a secret: %w", err)
	}
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("reading a secret: %s is larger than %d bytes", path, MaxSize)
	}
	return raw, nil
}

func (r *Ref) place() string {
	if r.File != "" {
		return "the file " + r.File
	}
	return "the environment variable " + r.Env
}

// String says which kind of place the reference names, and no more.
func (r Ref) String() string {
	switch {
	case r.File != "":
		return "secret(file)"
	case r.Env != "":
		return "secret(env)"
	}
	return "secret(none)"
}

// GoString keeps %#v from showing more than String.
func (r Ref) GoString() string { return r.String() }

// LogValue keeps logs from showing more than String.
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.String()) }
