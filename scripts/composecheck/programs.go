package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// programs are what the image must hold.
var programs = []string{"scheduler", "dispatcher", "worker", "dlq", "duly"}

// checkPrograms: every program runs in an image that holds nothing else.
func checkPrograms(ctx context.Context, bin string) error {
	var problems []error
	for _, name := range programs {
		program := filepath.Join(bin, name)
		if err := checkStatic(program); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := checkHelp(ctx, program); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// checkStatic: the program asks for no interpreter and no shared library.
func checkStatic(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New("is not static: it names an interpreter")
		}
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return err
	}
	if len(libraries) > 0 {
		return fmt.Errorf("is not static: it needs %v", libraries)
	}
	return nil
}

// checkHelp: the program knows the command, starts in an empty environment and explains itself.
func checkHelp(ctx context.Context, program string, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	help := exec.CommandContext(ctx, program, append(command, "--help")...)
	help.Env = []string{} // none, not the caller's
	said, err := help.CombinedOutput()
	switch {
	case err != nil:
		return fmt.Errorf("%s %v --help: %w\n%s", filepath.Base(program), command, err, said)
	case len(said) == 0:
		return fmt.Errorf("%s %v --help says nothing", filepath.Base(program), command)
	default:
		return nil
	}
}
