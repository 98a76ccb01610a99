// Package examples holds the files that the demo runs on, so that an installed program
// has them too.
//
// renewals.csv is what a customer's system might export: more than a thousand
// reminders by mail and by webhook, and some rows that are wrong. Its times are
// offsets such as +3s, which the demo renders against its start before it imports the
// file: a file in a repository cannot be due now.
package examples

import _ "embed"

//go:generate go run ./mkrenewals renewals.csv

// Renewals is renewals.csv.
//
//go:embed renewals.csv
var Renewals []byte

// Config is duly.yaml.
//
//go:embed duly.yaml
var Config []byte

// DigestConfig is digest.yaml, the configuration of the weekly digest.
//
//go:embed digest.yaml
var DigestConfig []byte

// DigestSQL is digest.sql: statements about the tables of whoever sends the digest, each
// below its name.
//
//go:embed digest.sql
var DigestSQL string
