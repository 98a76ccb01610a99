package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// services are what the compose file must run: the two servers, the migration, and the four programs.
var services = []string{"postgres", "nats", "migrate", "scheduler", "dispatcher", "worker", "dlq"}

// processes drain on SIGTERM, for drain at most.
var processes = []string{"scheduler", "dispatcher", "worker"}

const drain = 30 * time.Second

// checkCompose loads the file as strictly as compose itself and looks at every service.
func checkCompose(ctx context.Context, root, bin string, i image) error {
	file := filepath.Join(root, "docker-compose.yml")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	project, err := loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: content}},
		Environment: types.Mapping{}, // a newcomer's: every variable must have a default
	}, loader.WithProfiles([]string{"*"}))
	if err != nil {
		return fmt.Errorf("reading docker-compose.yml: %w", err)
	}
	known, err := knownVariables(root)
	if err != nil {
		return err
	}
	problems := []error{checkExecForm(content)}
	for _, name := range services {
		if _, exists := project.Services[name]; !exists {
			problems = append(problems, fmt.Errorf("services.%s is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		service := project.Services[name]
		for _, err := range []error{
			checkHealth(service),
			checkDependencies(project, service),
			checkRights(service),
			checkFiles(project, service),
			checkOrigin(service, i),
		} {
			if err != nil {
				problems = append(problems, fmt.Errorf("services.%s: %w", name, err))
			}
		}
		if service.Build == nil {
			continue
		}
		for _, err := range []error{checkVariables(service, known), checkCommands(ctx, service, bin), checkDrain(service)} {
			if err != nil {
				problems = append(problems, fmt.Errorf("services.%s: %w", name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// oneShot reports whether a service is meant to end.
func oneShot(s types.ServiceConfig) bool { return s.Restart == types.RestartPolicyNo }

// checkHealth: who runs for long says whether it works.
func checkHealth(s types.ServiceConfig) error {
	if oneShot(s) {
		return nil
	}
	if s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) == 0 {
		return errors.New("healthcheck is missing")
	}
	if s.HealthCheck.Test[0] != "CMD" {
		return fmt.Errorf("healthcheck.test begins with %q: only CMD needs no shell", s.HealthCheck.Test[0])
	}
	return nil
}

// checkDependencies: a service waits for what it needs to work, not merely to have started.
func checkDependencies(project *types.Project, s types.ServiceConfig) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.DependsOn)) {
		want := types.ServiceConditionHealthy
		if oneShot(project.Services[name]) {
			want = types.ServiceConditionCompletedSuccessfully
		}
		if got := s.DependsOn[name].Condition; got != want {
			problems = append(problems, fmt.Errorf("depends_on.%s.condition is %q, which must be %q", name, got, want))
		}
	}
	return errors.Join(problems...)
}

// checkRights: nobody is root by request.
func checkRights(s types.ServiceConfig) error {
	var problems []error
	if user, _, _ := strings.Cut(s.User, ":"); user == "root" || user == "0" {
		problems = append(problems, fmt.Errorf("user is %q", s.User))
	}
	if s.Privileged || len(s.CapAdd) > 0 {
		problems = append(problems, errors.New("asks for privileges"))
	}
	return errors.Join(problems...)
}

// checkFiles: what is mounted from the repository is there.
func checkFiles(project *types.Project, s types.ServiceConfig) error {
	var problems []error
	exists := func(what, file string) {
		if _, err := os.Stat(file); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	for _, volume := range s.Volumes {
		if volume.Type == types.VolumeTypeBind {
			exists("volumes", volume.Source)
		}
	}
	for _, config := range s.Configs {
		exists("configs."+config.Source, project.Configs[config.Source].File)
	}
	for _, secret := range s.Secrets {
		exists("secrets."+secret.Source, project.Secrets[secret.Source].File)
	}
	return errors.Join(problems...)
}

// checkOrigin: an image is ours and has its stage, or is a pinned one of others.
func checkOrigin(s types.ServiceConfig, i image) error {
	if s.Build == nil {
		return checkReference(s.Image)
	}
	if s.Build.Target != "" && !i.hasStage(s.Build.Target) {
		return fmt.Errorf("build.target %q is no stage of the Dockerfile", s.Build.Target)
	}
	return nil
}

// checkCommands: entrypoint and healthcheck name programs of the image and commands that these know.
func checkCommands(ctx context.Context, s types.ServiceConfig, bin string) error {
	if len(s.Entrypoint) == 0 {
		return errors.New("entrypoint is missing: one image holds all programs")
	}
	lines := [][]string{append(slices.Clone(s.Entrypoint), s.Command...)}
	if s.HealthCheck != nil && len(s.HealthCheck.Test) > 1 {
		lines = append(lines, s.HealthCheck.Test[1:])
	}
	var problems []error
	for _, line := range lines {
		name, isAbsolute := strings.CutPrefix(line[0], "/")
		if !isAbsolute || !slices.Contains(programs, name) {
			problems = append(problems, fmt.Errorf("%q is not a program of the image", line[0]))
			continue
		}
		problems = append(problems, checkHelp(ctx, filepath.Join(bin, name), line[1:]...))
	}
	return errors.Join(problems...)
}

// checkDrain: a process that drains is given the time to.
func checkDrain(s types.ServiceConfig) error {
	if !slices.Contains(processes, s.Name) {
		return nil
	}
	if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= drain {
		return fmt.Errorf("stop_grace_period must be longer than the drain of %s", drain)
	}
	return nil
}

// checkVariables: every DULY_ variable that is set has a reader and a value.
func checkVariables(s types.ServiceConfig, known map[string]bool) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		value := s.Environment[name]
		switch {
		case !strings.HasPrefix(name, "DULY_"):
		case !known[strings.TrimSuffix(name, "_FILE")]:
			problems = append(problems, fmt.Errorf("environment.%s: no program knows it", name))
		case value == nil || *value == "":
			problems = append(problems, fmt.Errorf("environment.%s is empty", name))
		}
	}
	return errors.Join(problems...)
}

var variable = regexp.MustCompile(`["\x60($]DULY_[A-Z_]+\b`)

// knownVariables are the names of DULY_ variables in the source of the programs.
func knownVariables(root string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, part := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			for _, found := range variable.FindAll(source, -1) {
				known[string(found[1:])] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// checkExecForm: a command written as one string is split by rules that nobody remembers, so each is a list. The
// loader turns strings into lists, so the text itself is looked at.
func checkExecForm(content []byte) error {
	var document struct {
		Services map[string]struct {
			Entrypoint, Command yaml.Node
			Healthcheck         struct{ Test yaml.Node }
		}
	}
	if err := yaml.Unmarshal(content, &document); err != nil {
		return err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(document.Services)) {
		service := document.Services[name]
		for field, node := range map[string]yaml.Node{
			"entrypoint": service.Entrypoint, "command": service.Command, "healthcheck.test": service.Healthcheck.Test,
		} {
			if !node.IsZero() && node.Kind != yaml.SequenceNode && node.Kind != yaml.AliasNode {
				problems = append(problems, fmt.Errorf("services.%s.%s, line %d: must be a list", name, field, node.Line))
			}
		}
	}
	return errors.Join(problems...)
}
