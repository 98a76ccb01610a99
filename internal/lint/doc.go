// Package lint keeps the shape of the repository: which package may import which, where SQL and the clock may
// appear, and that everything a user can import is documented.
//
// The rules are data (rules.go) and every check is a function from one parsed package to problems (checks.go), so a
// rule reads like the sentence it stands for. Nothing is compiled or type-checked, only parsed, which keeps the whole
// run well under a second and lets the checks be tested on small sources in memory.
//
// The package has no user but its own test: `go test ./internal/lint` reads the repository and fails on any problem.
package lint
