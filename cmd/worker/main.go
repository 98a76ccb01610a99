// Worker performs what the ledger says is due: the kinds of duly.yaml whose channel
// is http or smtp. Any number may run at once. For kinds with channel go, build a
// worker of your own: see package duly.dev/duly/pkg/worker.
package main

import (
	"os"

	"duly.dev/duly/pkg/worker"
)

func main() { os.Exit(worker.Main(nil)) }
