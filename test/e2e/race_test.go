//go:build race

package e2e_test

// raceDetector: the programs are built as the tests are.
const raceDetector = true
