package lint

import (
	"path"
	"slices"
	"strings"
)

// layer says what the production files of some packages may import of this module. A pattern is a path relative to
// the module's root; a last element "..." stands for the package and everything below it.
type layer struct {
	packages []string
	imports  []string
	strict   bool // not even helpers
	why      string
}

// layers is the direction cmd → loops → bus | calendar | machine | classify → pkg/job. The first layer that names a
// package decides. A package that none names falls to the last: a helper that anybody may use and that rests on
// nothing but the vocabulary and other helpers.
var layers = []layer{
	{
		packages: []string{"pkg/job"},
		strict:   true,
		why:      "the vocabulary rests on nothing",
	},
	{
		packages: pureCores,
		imports:  []string{"pkg/job"},
		strict:   true,
		why:      "a pure core rests on the vocabulary alone",
	},
	{
		packages: loops,
		imports: []string{
			"pkg/job", "pkg/handler", "internal/bus", "internal/channel", "internal/calendar", "internal/machine", "internal/classify",
		},
		why: "a loop declares the interfaces that it needs; the ledger, the bus adapters and the channels plug in from cmd and pkg/worker",
	},
	{
		packages: []string{"internal/ledger/..."},
		imports:  []string{"pkg/job", "internal/machine", "internal/ledger/...", "migrations"},
		why:      "the ledger rests on the state machine",
	},
	{
		packages: []string{"internal/memledger"},
		imports:  []string{"pkg/job", "internal/machine"},
		why:      "the memory ledger rests on the state machine",
	},
	{
		packages: []string{"internal/explain"},
		imports:  []string{"pkg/job", "internal/machine"},
		why:      "an explanation is computed from what the ledger keeps",
	},
	{
		packages: []string{"internal/bus/..."},
		imports:  []string{"pkg/job", "internal/bus/..."},
		why:      "a bus carries references and knows nothing else",
	},
	{
		packages: []string{"internal/channel/..."},
		imports:  []string{"pkg/job", "pkg/handler", "internal/classify", "internal/channel/..."},
		why:      "a channel performs an effect and says what came of it",
	},
	{
		packages: []string{"pkg/handler"},
		imports:  []string{"pkg/job"},
		why:      "handler authors import the vocabulary alone",
	},
	{
		packages: []string{"pkg/duly"},
		imports:  []string{"pkg/job", "internal/ledger", "internal/machine", "internal/calendar"},
		why:      "producers get the ledger's door and no process",
	},
	{
		packages: []string{"migrations"},
		why:      "migrations are files",
	},
	composing,
}

// composing is the layer of the composers and of every program, wherever it lies.
var composing = layer{
	packages: composers,
	imports:  []string{"pkg/...", "internal/...", "migrations", "examples"}, // the last two are files
	why:      "programs are composed from pkg and internal, never from one another",
}

// helper is the layer of every package that layers does not name.
var helper = layer{
	imports: []string{"pkg/job"},
	why:     "a package that internal/lint does not place is a helper, which rests on the vocabulary and other helpers",
}

var (
	// pureCores compute: the same arguments give the same answer, and nothing outside is touched.
	pureCores = []string{"internal/machine", "internal/calendar", "internal/classify"}

	// loops hold the logic of the processes; each sees the outside only through its own small interfaces.
	loops = []string{"internal/schedule", "internal/dispatch", "internal/execute", "internal/redrive", "internal/sweep"}

	// composers put the parts together; they may import them all.
	composers = []string{
		"cmd/...", "pkg/worker", "pkg/dulytest", "internal/app", "internal/api", "internal/console", "internal/importer",
		"internal/compose", "internal/demo", "internal/eval", "internal/devstack/...", "test/...", "examples/...",
	}

	// sqlHomes are the folders where SQL may be written. What devstack asks a server that it started, and what
	// examples, evaluations and tests say to a database of their own, is not Duly's SQL.
	sqlHomes = []string{"internal/ledger/...", "migrations", "internal/devstack/...", "internal/eval", "examples/...", "test/..."}

	// devstackUsers may start embedded servers: what a newcomer runs, and tests.
	devstackUsers = []string{"cmd/duly", "internal/demo", "internal/eval", "internal/devstack/..."}

	// embeddedServers are what devstack wraps, and devstack itself.
	embeddedServers = []string{"github.com/fergusstrange/embedded-postgres/...", "github.com/nats-io/nats-server/..."}
)

// Third-party modules by what they are.
var (
	technologies = []string{
		"database/sql/...", "github.com/jackc/pgx/...", "github.com/lib/pq", "github.com/nats-io/...",
		"github.com/twmb/franz-go/...", "github.com/pressly/goose/...",
	}
	testOnly = []string{
		"testing/...", "net/http/httptest", "github.com/stretchr/testify/...", "github.com/google/go-cmp/...",
		"go.uber.org/goleak", "pgregory.net/rapid", "github.com/anishathalye/porcupine",
	}
	sideEffects = []string{
		"os/...", "syscall/...", "net/...", "crypto/rand", "log/...", "io/ioutil", "plugin",
	}
	// harmless are the parts of the folders above that only parse and format.
	harmless = []string{"net/url", "net/mail", "net/netip", "net/textproto"}
)

// clock and dice are the functions by which a computation ceases to be a function of its arguments.
var (
	clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	// diceFree are the names of math/rand that do not draw from the process-wide source.
	diceFree = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}
)

// layerOf returns the layer that decides about a package.
func layerOf(p *pkg) layer {
	for _, l := range layers {
		if matchAny(l.packages, p.path) {
			return l
		}
	}
	if p.isProgram() {
		return composing
	}
	return helper
}

// isHelper reports whether no layer names the package.
func isHelper(pkg string) bool {
	return !slices.ContainsFunc(layers, func(l layer) bool { return matchAny(l.packages, pkg) })
}

// isTestPackage reports whether a package exists for tests: it lies under test/, or its name ends in "test".
func isTestPackage(pkg string) bool {
	return match("test/...", pkg) || strings.HasSuffix(path.Base(pkg), "test")
}

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}

func match(pattern, pkg string) bool {
	tree, isTree := strings.CutSuffix(pattern, "/...")
	if !isTree {
		return pattern == pkg
	}
	return pkg == tree || strings.HasPrefix(pkg, tree+"/")
}
