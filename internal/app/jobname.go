package app

import (
	"fmt"
	"strings"
)

// JobName is the name of a job on a command line: KIND/KEY, split at the first slash,
// since keys may have slashes and spaces. The zero value names none.
type JobName struct{ Kind, Key string }

// UnmarshalText reads KIND/KEY.
func (n *JobName) UnmarshalText(text []byte) error {
	kind, key, found := strings.Cut(string(text), "/")
	if !found || kind == "" || key == "" {
		return fmt.Errorf("%q is no job: a job is KIND/KEY, such as mail/customer-1842", text)
	}
	*n = JobName{kind, key}
	return nil
}

// String is KIND/KEY.
func (n JobName) String() string { return n.Kind + "/" + n.Key }
