package lint_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/lint"
)

// TestTheRepositoryKeepsItsShape is what the package is for.
func TestTheRepositoryKeepsItsShape(t *testing.T) {
	t.Parallel()
	problems, err := lint.Check(os.DirFS("../.."))
	require.NoError(t, err)
	for _, p := range problems {
		t.Error(p)
	}
}

// TestChecksReportWhatTheyForbid gives every rule a source that breaks it and one beside it that does not.
func TestChecksReportWhatTheyForbid(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		file string
		code string
		want string // empty: no problem
	}{
		{
			name: "a loop imports the ledger", file: "internal/dispatch/d.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
			want: "internal/dispatch must not import internal/ledger",
		},
		{
			name: "a loop imports another loop", file: "internal/dispatch/d.go",
			code: `import _ "duly.dev/duly/internal/sweep"`,
			want: "internal/dispatch must not import internal/sweep",
		},
		{
			name: "a loop imports a bus adapter", file: "internal/execute/e.go",
			code: `import _ "duly.dev/duly/internal/bus/natsbus"`,
			want: "internal/execute must not import internal/bus/natsbus",
		},
		{
			name: "a loop imports pgx", file: "internal/sweep/s.go",
			code: `import _ "github.com/jackc/pgx/v5"`,
			want: "internal/sweep must not import github.com/jackc/pgx/v5",
		},
		{
			name: "a loop imports NATS", file: "internal/redrive/r.go",
			code: `import _ "github.com/nats-io/nats.go/jetstream"`,
			want: "internal/redrive must not import github.com/nats-io/nats.go/jetstream",
		},
		{
			name: "a loop imports kgo", file: "internal/schedule/s.go",
			code: `import _ "github.com/twmb/franz-go/pkg/kgo"`,
			want: "internal/schedule must not import github.com/twmb/franz-go/pkg/kgo",
		},
		{
			name: "a loop imports what it may", file: "internal/dispatch/d.go",
			code: `import (
				_ "duly.dev/duly/internal/bus"
				_ "duly.dev/duly/internal/machine"
				_ "duly.dev/duly/internal/telemetry"
				_ "duly.dev/duly/pkg/job"
			)`,
		},
		{
			name: "a loop's test imports the memory ledger", file: "internal/dispatch/d_test.go",
			code: `import _ "duly.dev/duly/internal/memledger"`,
		},
		{
			name: "the vocabulary imports a helper", file: "pkg/job/j.go",
			code: `import _ "duly.dev/duly/internal/telemetry"`,
			want: "pkg/job must not import internal/telemetry",
		},
		{
			name: "a core imports another core", file: "internal/classify/c.go",
			code: `import _ "duly.dev/duly/internal/machine"`,
			want: "internal/classify must not import internal/machine",
		},
		{
			name: "the ledger imports a loop", file: "internal/ledger/l.go",
			code: `import _ "duly.dev/duly/internal/sweep"`,
			want: "internal/ledger must not import internal/sweep",
		},
		{
			name: "a helper imports the ledger", file: "internal/telemetry/t.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
			want: "internal/telemetry must not import internal/ledger",
		},
		{
			name: "a bus imports the ledger", file: "internal/bus/natsbus/n.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
			want: "internal/bus/natsbus must not import internal/ledger",
		},
		{
			name: "the memory ledger imports the ledger", file: "internal/memledger/m.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
			want: "internal/memledger must not import internal/ledger",
		},
		{
			name: "a channel imports the ledger", file: "internal/channel/smtpchan/s.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
			want: "internal/channel/smtpchan must not import internal/ledger",
		},
		{
			name: "a producer's package imports the process kit", file: "pkg/duly/d.go",
			code: `import _ "duly.dev/duly/internal/app"`,
			want: "pkg/duly must not import internal/app",
		},
		{
			name: "a program imports a program", file: "cmd/worker/main.go",
			code: `import _ "duly.dev/duly/cmd/duly"`,
			want: "cmd/worker must not import cmd/duly",
		},
		{
			name: "a program composes", file: "cmd/worker/main.go",
			code: `import _ "duly.dev/duly/internal/ledger"`,
		},
		{
			name: "a core reads files", file: "internal/calendar/c.go",
			code: `import _ "os"`,
			want: "internal/calendar must not import os: a pure core does no I/O",
		},
		{
			name: "a core speaks HTTP", file: "internal/classify/c.go",
			code: `import _ "net/http"`,
			want: "internal/classify must not import net/http",
		},
		{
			name: "a core knows databases", file: "internal/machine/m.go",
			code: `import _ "database/sql"`,
			want: "internal/machine must not import database/sql",
		},
		{
			name: "a core parses addresses", file: "internal/classify/c.go",
			code: `import _ "net/url"`,
		},
		{
			name: "a core reads the clock", file: "internal/machine/m.go",
			code: "import \"time\"\nvar start = time.Now()",
			want: "internal/machine must not use time.Now",
		},
		{
			name: "a core reads the clock under another name", file: "internal/calendar/c.go",
			code: "import clock \"time\"\nvar left = clock.Until(clock.Time{})",
			want: "internal/calendar must not use time.Until",
		},
		{
			name: "a core reckons with given times", file: "internal/calendar/c.go",
			code: "import \"time\"\nvar day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Hour)",
		},
		{
			name: "a core throws dice", file: "internal/machine/m.go",
			code: "import \"math/rand/v2\"\nvar n = rand.IntN(6)",
			want: "internal/machine must not use math/rand/v2.IntN",
		},
		{
			name: "a core throws dice that it was given", file: "internal/machine/m.go",
			code: "import \"math/rand/v2\"\nfunc roll(dice *rand.Rand) int { return dice.IntN(6) }",
		},
		{
			name: "SQL outside the ledger", file: "internal/redrive/r.go",
			code: "const q = `\n  SELECT id\n  FROM jobs`",
			want: "internal/redrive must not contain SQL",
		},
		{
			name: "SQL in small letters", file: "internal/sweep/s.go",
			code: `const q = "delete from duly.job where id = $1"`,
			want: "internal/sweep must not contain SQL",
		},
		{
			name: "an update", file: "internal/app/a.go",
			code: `const q = "UPDATE duly.job AS j SET state = $1"`,
			want: "internal/app must not contain SQL",
		},
		{
			name: "an insert put together from parts", file: "internal/api/a.go",
			code: `var q = "INSERT INTO " + table`,
			want: "internal/api must not contain SQL",
		},
		{
			name: "prose is not SQL", file: "internal/app/a.go",
			code: "const help = `Select the rows. Update what you want and set it. SELECT from nothing.`",
		},
		{
			name: "a flag's help is not SQL", file: "internal/app/a.go",
			code: "type flags struct { Query string `help:\"SELECT key FROM table\"` }",
		},
		{
			name: "SQL in the ledger", file: "internal/ledger/l.go",
			code: "const q = `SELECT 1`",
		},
		{
			name: "SQL in a test", file: "pkg/duly/d_test.go",
			code: "const q = `SELECT 1`",
		},
		{
			name: "production imports testing", file: "internal/app/a.go",
			code: `import _ "testing"`,
			want: "internal/app must not import testing outside its _test.go files",
		},
		{
			name: "production imports testify", file: "pkg/worker/w.go",
			code: `import _ "github.com/stretchr/testify/require"`,
			want: "pkg/worker must not import github.com/stretchr/testify/require",
		},
		{
			name: "production imports a test kit", file: "internal/app/a.go",
			code: `import _ "duly.dev/duly/internal/bus/bustest"`,
			want: "internal/app must not import duly.dev/duly/internal/bus/bustest",
		},
		{
			name: "a test kit imports testing", file: "internal/bus/bustest/b.go",
			code: `import _ "testing"`,
		},
		{
			name: "production imports devstack", file: "cmd/worker/main.go",
			code: `import _ "duly.dev/duly/internal/devstack"`,
			want: "cmd/worker must not import duly.dev/duly/internal/devstack",
		},
		{
			name: "production embeds PostgreSQL", file: "internal/app/a.go",
			code: `import _ "github.com/fergusstrange/embedded-postgres"`,
			want: "internal/app must not import github.com/fergusstrange/embedded-postgres",
		},
		{
			name: "the demo starts devstack", file: "internal/demo/d.go",
			code: `import _ "duly.dev/duly/internal/devstack"`,
		},
		{
			name: "an exported function without a comment", file: "pkg/job/j.go",
			code: `func Naked() {}`,
			want: "exported Naked has no doc comment",
		},
		{
			name: "an exported method without a comment", file: "pkg/job/j.go",
			code: "// List is a list.\ntype List[T any] []T\n\nfunc (l *List[T]) Len() int { return len(*l) }",
			want: "exported Len has no doc comment",
		},
		{
			name: "an exported type in a group without a comment", file: "pkg/job/j.go",
			code: "// These are types.\ntype (\n\tNaked int\n)",
			want: "exported Naked has no doc comment",
		},
		{
			name: "an exported constant without a comment", file: "pkg/job/j.go",
			code: "const (\n\tNaked = 1\n\tClad = 2 // has one\n)",
			want: "exported Naked has no doc comment",
		},
		{
			name: "what has a comment or no reader", file: "pkg/job/j.go",
			code: "// Small are numbers.\nconst (\n\tOne = 1\n\tTwo = 2\n)\n\ntype hidden int\n\nfunc (hidden) Method() {}",
		},
		{
			name: "an undocumented symbol outside pkg", file: "internal/app/a.go",
			code: `func Naked() {}`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			problems := check(t, map[string]string{c.file: "// Package fixture is documented.\npackage fixture\n\n" + c.code + "\n"})
			if c.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Contains(t, problems[0].Rule, c.want)
			require.Regexp(t, "^"+c.file+":[0-9]+$", problems[0].Position)
		})
	}
}

func TestAPackageWithoutADocCommentIsReportedOnce(t *testing.T) {
	t.Parallel()
	problems := check(t, map[string]string{
		"internal/mute/a.go":       "package mute\n",
		"internal/mute/b.go":       "package mute\n",
		"internal/told/doc.go":     "// Package told explains itself.\npackage told\n",
		"internal/told/other.go":   "package told\n",
		"internal/tests/a_test.go": "package tests\n",
	})
	require.Equal(t, []lint.Problem{{Position: "internal/mute", Rule: "the package has no doc comment"}}, problems)
}

func TestSQLFilesLieInTheirHomesAndStateTheirContract(t *testing.T) {
	t.Parallel()
	problems := check(t, map[string]string{
		"internal/ledger/told.sql":    "-- name: lease\n-- Takes references, returns rows.\nUPDATE job SET fence = fence + 1\n",
		"internal/ledger/mute.sql":    "-- name: one\n-- Returns one.\nSELECT 1\n\n-- name: two\nSELECT 2\n",
		"internal/ledger/bare.sql":    "SELECT 1\n",
		"internal/sweep/own.sql":      "-- a contract\nSELECT 1\n",
		"migrations/00001_ledger.sql": "SELECT 1\n",
	})
	require.Equal(t, []lint.Problem{
		{Position: "internal/ledger/bare.sql:1", Rule: "must begin with a comment"},
		{Position: "internal/ledger/mute.sql:5", Rule: "two must state its contract in a comment above the statement"},
		{Position: "internal/sweep/own.sql", Rule: "SQL belongs into internal/ledger or migrations"},
	}, problems)
}

func TestProgramsMayComposeWhereverTheyLie(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, map[string]string{
		"internal/machine/statesdoc/main.go": "// Statesdoc writes a page.\npackage main\n\nimport _ \"duly.dev/duly/internal/machine\"\n",
	}))
}

func TestFoldersThatAreNotOfTheModuleAreLeftOut(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, map[string]string{
		"bench/go.mod":           "module duly.dev/duly/bench\n",
		"bench/mute.go":          "package bench\n",
		"internal/testdata/a.go": "not even Go",
		".cache/a.go":            "not even Go",
		"_old/a.go":              "not even Go",
	}))
}

func TestWhatCannotBeReadIsAnErrorThatNamesTheFile(t *testing.T) {
	t.Parallel()
	_, err := lint.Check(fstest.MapFS{
		"go.mod":          {Data: []byte("module duly.dev/duly\n")},
		"internal/a/a.go": {Data: []byte("not even Go")},
	})
	require.ErrorContains(t, err, "internal/a/a.go")

	_, err = lint.Check(fstest.MapFS{})
	require.ErrorContains(t, err, "go.mod")

	_, err = lint.Check(fstest.MapFS{"go.mod": {Data: []byte("go 1.26\n")}})
	require.ErrorContains(t, err, "no module line")
}

// check runs the checks over sources in memory; the root is duly.dev/duly.
func check(t *testing.T, sources map[string]string) []lint.Problem {
	t.Helper()
	root := fstest.MapFS{"go.mod": {Data: []byte("module duly.dev/duly\n\ngo 1.26\n")}}
	for name, source := range sources {
		root[name] = &fstest.MapFile{Data: []byte(strings.TrimLeft(source, "\n"))}
	}
	problems, err := lint.Check(root)
	require.NoError(t, err)
	return problems
}
