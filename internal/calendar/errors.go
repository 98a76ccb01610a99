package calendar

import (
	"errors"
	"fmt"
)

// FieldError refuses one field of what a person wrote.
type FieldError struct {
	// Field is the name of the field as it is written, such as "cron".
	Field string
	// Value is what was given; empty where nothing was.
	Value string
	// Rule says what the value must be.
	Rule string
}

// Error is field "value": rule.
func (e *FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Rule
	}
	return fmt.Sprintf("%s %q: %s", e.Field, short(e.Value), e.Rule)
}

// refusals collects what is wrong, so that all of it is told at once.
type refusals []error

func (r *refusals) add(field, value, rule string, args ...any) {
	*r = append(*r, &FieldError{Field: field, Value: value, Rule: fmt.Sprintf(rule, args...)})
}

func (r *refusals) join() error { return errors.Join(*r...) }
