// Composecheck says whether docker-compose.yml, the Dockerfile and the programs of the image agree, without a
// container engine. It is a module of its own so that the readers of those files stay out of Duly's dependencies.
//
//	composecheck context ROOT OUT     copies what a build of ROOT/Dockerfile would be sent, for a plain build of it
//	composecheck programs BIN         checks that the programs in BIN are static and start
//	composecheck compose ROOT BIN     checks the compose file and the Dockerfile against each other and the programs
//
// Every problem is printed on a line of its own; the exit code is 1 if there is any, 2 for a wrong call.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

const usage = "usage: composecheck context ROOT OUT | programs BIN | compose ROOT BIN"

func main() {
	err := run(context.Background(), os.Args[1:])
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUsage = errors.New(usage)

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "context":
		return copyContext(args[1], args[2])
	case len(args) == 2 && args[0] == "programs":
		return checkPrograms(ctx, args[1])
	case len(args) == 3 && args[0] == "compose":
		image, err := readDockerfile(args[1])
		if err != nil {
			return err
		}
		return errors.Join(checkImage(args[1], image), checkCompose(ctx, args[1], args[2], image))
	default:
		return errUsage
	}
}
