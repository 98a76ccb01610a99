package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be one of the programs when it is called by a program's name.
func TestMain(m *testing.M) {
	if !slices.Contains(programs, filepath.Base(os.Args[0])) {
		os.Exit(m.Run())
	}
	if slices.Contains(os.Args, "refuse") {
		os.Exit(3)
	}
	fmt.Fprintln(os.Stdout, "help")
}

// TestProblemsAreReported breaks the repository's own files in one place each.
func TestProblemsAreReported(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, file, from, to string
		want                 string
	}{
		{name: "nothing is broken"},
		{
			name: "a field that compose does not know", file: "docker-compose.yml",
			from: "stop_grace_period: 45s", to: "stop_grace: 45s",
			want: "stop_grace",
		},
		{
			name: "a service is missing", file: "docker-compose.yml",
			from: "  scheduler:\n", to: "  planner:\n",
			want: "services.scheduler is missing",
		},
		{
			name: "a server says nothing about its health", file: "docker-compose.yml",
			from: "    healthcheck:\n      test: [CMD, pg_isready", to: "    labels:\n      test: [CMD, pg_isready",
			want: "labels",
		},
		{
			name: "a health check needs a shell", file: "docker-compose.yml",
			from: "test: [CMD, wget", to: "test: [CMD-SHELL, wget",
			want: `services.nats: healthcheck.test begins with "CMD-SHELL"`,
		},
		{
			name: "a dependency is only started", file: "docker-compose.yml",
			from: "condition: service_completed_successfully", to: "condition: service_started",
			want: `depends_on.migrate.condition is "service_started", which must be "service_completed_successfully"`,
		},
		{
			name: "a service does not exist", file: "docker-compose.yml",
			from: "    nats:\n      condition", to: "    rabbit:\n      condition",
			want: "rabbit",
		},
		{
			name: "a command in one string", file: "docker-compose.yml",
			from: "command: [migrate, up]", to: "command: migrate up",
			want: "services.migrate.command, line",
		},
		{
			name: "a variable that no program reads", file: "docker-compose.yml",
			from: "DULY_BUS_URL:", to: "DULY_BUZ_URL:",
			want: "environment.DULY_BUZ_URL: no program knows it",
		},
		{
			name: "a program that the image does not hold", file: "docker-compose.yml",
			from: "entrypoint: [/worker]", to: "entrypoint: [/labourer]",
			want: `services.worker: "/labourer" is not a program of the image`,
		},
		{
			name: "a command that the program refuses", file: "docker-compose.yml",
			from: "command: [migrate, up]", to: "command: [refuse]",
			want: "duly [refuse] --help: exit status 3",
		},
		{
			name: "too little time to drain", file: "docker-compose.yml",
			from: "stop_grace_period: 45s", to: "stop_grace_period: 30s",
			want: "services.worker: stop_grace_period must be longer than the drain of 30s",
		},
		{
			name: "root by request", file: "docker-compose.yml",
			from: "  read_only: true", to: "  user: root",
			want: `services.worker: user is "root"`,
		},
		{
			name: "a file that is not there", file: "docker-compose.yml",
			from: "file: deploy/duly.yaml", to: "file: deploy/dully.yaml",
			want: "services.worker: configs.duly:",
		},
		{
			name: "an image without a version", file: "docker-compose.yml",
			from: "image: postgres:18", to: "image: postgres",
			want: `services.postgres: "postgres" must be a plain name with a version`,
		},
		{
			name: "a stage that does not exist", file: "docker-compose.yml",
			from: "    context: .\n", to: "    context: .\n    target: final\n",
			want: `build.target "final" is no stage`,
		},
		{
			name: "a variable without a default", file: "docker-compose.yml",
			from: "${DULY_LOG_LEVEL:-info}", to: "${DULY_LOG_LEVEL}",
			want: "environment.DULY_LOG_LEVEL is empty",
		},
		{
			name: "an entrypoint in shell form", file: "Dockerfile",
			from: `ENTRYPOINT ["/duly"]`, to: `ENTRYPOINT /duly`,
			want: "ENTRYPOINT is in shell form",
		},
		{
			name: "the image runs as root", file: "Dockerfile",
			from: "USER 65532:65532", to: "USER 0:0",
			want: `USER "0:0" must be a number other than 0`,
		},
		{
			name: "an unknown instruction", file: "Dockerfile",
			from: "WORKDIR /src", to: "WORKDER /src",
			want: "WORKDER",
		},
		{
			name: "a source that does not exist", file: "Dockerfile",
			from: "COPY go.mod go.sum ./", to: "COPY go.mod go.sim ./",
			want: "COPY go.sim: there is no such file",
		},
		{
			name: "a source that is not sent", file: ".dockerignore",
			from: "bench\n", to: "bench\ngo.sum\n",
			want: "COPY go.sum: .dockerignore leaves it out",
		},
		{
			name: "a stage to copy from that does not exist", file: "Dockerfile",
			from: "COPY --from=build /out/ /", to: "COPY --from=builder /out/ /",
			want: "COPY --from=builder: there is no such stage",
		},
		{
			name: "another Go than go.mod's", file: "go.mod",
			from: "\ngo 1.", to: "\ngo 2.",
			want: "go.mod says go 2.",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root, bin := repository(t)
			if c.file != "" {
				replace(t, filepath.Join(root, c.file), c.from, c.to)
			}
			err := run(t.Context(), []string{"compose", root, bin})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestProgramsMustBeStatic(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, checkStatic("/bin/sh"), "is not static")

	bin := t.TempDir()
	write(t, filepath.Join(bin, "scheduler"), strings.Repeat("not a program\n", 9), 0o755)
	require.ErrorContains(t, run(t.Context(), []string{"programs", bin}), "scheduler: bad magic number")
}

func TestTheContextIsWhatDockerignoreLetsThrough(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	out := t.TempDir()
	require.NoError(t, run(t.Context(), []string{"context", root, out}))
	require.FileExists(t, filepath.Join(out, "go.mod"))
	require.FileExists(t, filepath.Join(out, "scripts/build"))
	require.NoDirExists(t, filepath.Join(out, "deploy"))
	require.NoFileExists(t, filepath.Join(out, "scripts/composecheck.go"))
}

func TestAWrongCallIsExplained(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, run(t.Context(), []string{"compose"}), errUsage)
}

// repository returns a copy of the files that are checked, and programs that know every command but "refuse".
func repository(t *testing.T) (root, bin string) {
	t.Helper()
	root, bin = t.TempDir(), t.TempDir()
	for _, name := range []string{"docker-compose.yml", "Dockerfile", ".dockerignore", "go.mod", "go.sum", "scripts/build"} {
		require.NoError(t, copyFile(filepath.Join("../..", name), filepath.Join(root, name)))
	}
	write(t, filepath.Join(root, "deploy/duly.yaml"), "kinds: {}\n", 0o644)
	write(t, filepath.Join(root, "scripts/composecheck.go"), "package x\n", 0o644)
	write(t, filepath.Join(root, "pkg/x.go"), "package x\n", 0o644)
	write(t, filepath.Join(root, "internal/x.go"), "package x\n", 0o644)
	write(t, filepath.Join(root, "cmd/x.go"), `package x

var known = []string{
	"DULY_DATABASE_URL", "DULY_BUS_URL", "DULY_CONFIG", "DULY_ADMIN_ADDR", "DULY_LOG_LEVEL", "DULY_WORKER_VERSION",
}
`, 0o644)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range programs {
		require.NoError(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	return root, bin
}

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), mode))
}

func replace(t *testing.T, name, from, to string) {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(content), from)
	write(t, name, strings.Replace(string(content), from, to, 1), 0o644)
}
