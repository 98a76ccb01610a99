package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// image is what the Dockerfile says.
type image struct {
	stages []instructions.Stage
}

// final is the stage that becomes the image.
func (i image) final() instructions.Stage { return i.stages[len(i.stages)-1] }

// hasStage reports whether a stage goes by the name.
func (i image) hasStage(name string) bool {
	return slices.ContainsFunc(i.stages, func(s instructions.Stage) bool { return s.Name == name })
}

func readDockerfile(root string) (image, error) {
	file, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return image{}, err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return image{}, fmt.Errorf("reading Dockerfile: %w", err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return image{}, fmt.Errorf("reading Dockerfile: %w", err)
	}
	if len(stages) == 0 {
		return image{}, errors.New("the Dockerfile has no stage")
	}
	return image{stages: stages}, nil
}

// checkImage: what is copied exists, the bases are pinned, and the image starts a program itself, as nobody special.
func checkImage(root string, i image) error {
	keep, err := contextFilter(root)
	if err != nil {
		return err
	}
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("Dockerfile: "+format, args...))
	}
	for _, stage := range i.stages {
		if stage.BaseName != "scratch" && !i.hasStage(stage.BaseName) {
			if err := checkReference(stage.BaseName); err != nil {
				report("FROM: %w", err)
			}
		}
		for _, command := range stage.Commands {
			copied, isCopy := command.(*instructions.CopyCommand)
			switch {
			case !isCopy:
			case copied.From == "":
				for _, source := range copied.SourcePaths {
					if err := sent(root, keep, source); err != nil {
						report("COPY %s: %w", source, err)
					}
				}
			case !i.hasStage(copied.From):
				report("COPY --from=%s: there is no such stage", copied.From)
			}
		}
	}
	if err := checkGoVersion(root, i); err != nil {
		report("%w", err)
	}
	return errors.Join(append(problems, checkFinalStage(i.final()))...)
}

// sent: the source of a COPY exists and .dockerignore lets it through.
func sent(root string, keep func(string) (bool, error), source string) error {
	source = path.Clean(source)
	if _, err := os.Stat(filepath.Join(root, source)); err != nil {
		return errors.New("there is no such file")
	}
	if source == "." {
		return nil
	}
	if kept, err := keep(source); err != nil || !kept {
		return errors.Join(errors.New(".dockerignore leaves it out"), err)
	}
	return nil
}

// checkFinalStage: a numeric user that is not root, exec form throughout, no shell needed.
func checkFinalStage(stage instructions.Stage) error {
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("Dockerfile, last stage: "+format, args...))
	}
	user, started := "", false
	for _, command := range stage.Commands {
		switch command := command.(type) {
		case *instructions.UserCommand:
			user = command.User
		case *instructions.EntrypointCommand:
			started = true
			if command.PrependShell {
				report("ENTRYPOINT is in shell form, and a shell eats SIGTERM")
			} else if !slices.Contains(programs, strings.TrimPrefix(command.CmdLine[0], "/")) {
				report("ENTRYPOINT %q is not one of the programs", command.CmdLine[0])
			}
		case *instructions.CmdCommand:
			if command.PrependShell {
				report("CMD is in shell form, and a shell eats SIGTERM")
			}
		case *instructions.RunCommand:
			if stage.BaseName == "scratch" {
				report("RUN has nothing to run in scratch")
			}
		}
	}
	if uid, err := strconv.Atoi(strings.Split(user, ":")[0]); err != nil || uid == 0 {
		report("USER %q must be a number other than 0, so that an orchestrator can tell that it is not root", user)
	}
	if !started {
		report("ENTRYPOINT is missing")
	}
	return errors.Join(problems...)
}

var (
	goBase      = regexp.MustCompile(`^golang:(\d+\.\d+\.\d+)(-\S+)?$`)
	goDirective = regexp.MustCompile(`(?m)^go (\S+)$`)
)

// checkGoVersion: the image is built with the Go that go.mod asks for; an older one would refuse.
func checkGoVersion(root string, i image) error {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	asked := goDirective.FindSubmatch(gomod)
	if asked == nil {
		return errors.New("go.mod names no Go version")
	}
	for _, stage := range i.stages {
		if base := goBase.FindStringSubmatch(stage.BaseName); base != nil {
			if base[1] != string(asked[1]) {
				return fmt.Errorf("FROM %s: go.mod says go %s", stage.BaseName, asked[1])
			}
			return nil
		}
	}
	return fmt.Errorf("no stage is built FROM golang:%s", asked[1])
}

// reference is a plain name of Docker Hub with a tag that moves only within what it names.
var reference = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9._-]+)?:[A-Za-z0-9._-]+$`)

func checkReference(name string) error {
	if !reference.MatchString(name) || strings.HasSuffix(name, ":latest") || strings.Contains(strings.Split(name, "/")[0], ".") && strings.Contains(name, "/") {
		return fmt.Errorf("%q must be a plain name with a version as its tag", name)
	}
	return nil
}
