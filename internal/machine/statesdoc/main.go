// Command statesdoc writes docs/states.md from the transition table, so that the
// document cannot differ from the code: go generate ./internal/machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: statesdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(document()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
