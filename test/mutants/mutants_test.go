package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// The patches beside this file are in order, so that a change which a patch no longer fits
// is noticed by whoever makes it.
func TestEveryMutantAppliesAndNamesATestThatIsThere(t *testing.T) {
	t.Parallel()
	all, err := readMutants(".")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 32)
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	require.NoError(t, applyAll(t.Context(), here, all), "change the patch as you changed the code, and see that it is still caught: make mutants")
	guarded := map[string]int{}
	for _, m := range all {
		guarded[m.guarantee]++
		for _, p := range m.proofs {
			require.True(t, declares(t, p), "%s: %s is not there", m.name, p)
		}
	}
	for _, g := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G12", "G13", "G14"} {
		require.Positive(t, guarded[g], "no mutant weakens %s", g)
	}
}

// The page of the last run speaks of these mutants.
func TestTheReportNamesEveryMutant(t *testing.T) {
	t.Parallel()
	all, err := readMutants(".")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/reports/mutants.md"))
	require.NoError(t, err)
	for _, m := range all {
		require.Contains(t, string(page), "| "+m.guarantee+" | "+m.name+" | "+escaped(m.says)+" | "+proofsOf(m)+" | caught |", "run make mutants")
	}
	require.Equal(t, len(all), strings.Count(string(page), "\n| G"), "run make mutants")
}

func declares(t *testing.T, p proof) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, p.folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.Contains(text, []byte("func "+p.test+"(t *testing.T)")) {
			return true
		}
	}
	return false
}

func TestMutantsAreReadStrictly(t *testing.T) {
	t.Parallel()
	const patch = "\n--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-a\n+b\n"
	m, err := parse("x", "It weakens\nthe x.\n\nGuarantee: G3\nCaught-by: pkg/x TestX\nCaught-by: pkg/y TestY\n"+patch)
	require.NoError(t, err)
	require.Equal(t, mutant{
		name: "x", says: "It weakens the x.", guarantee: "G3", files: []string{"x.go"},
		proofs: []proof{{"pkg/x", "TestX"}, {"pkg/y", "TestY"}},
	}, m)
	for wrong, text := range map[string]string{
		"no sentence":    "Guarantee: G3\n\nCaught-by: pkg/x TestX\n" + patch,
		"no guarantee":   "It weakens x.\n\nCaught-by: pkg/x TestX\n" + patch,
		"two guarantees": "It weakens x.\n\nGuarantee: G3\nGuarantee: G4\nCaught-by: pkg/x TestX\n" + patch,
		"no test":        "It weakens x.\n\nGuarantee: G3\n" + patch,
		"no patch":       "It weakens x.\n\nGuarantee: G3\nCaught-by: pkg/x TestX\n",
		"another line":   "It weakens x.\n\nGuarantee: G3\nCaught by pkg/x TestX\n" + patch,
	} {
		_, err := parse("x", text)
		require.Error(t, err, wrong)
	}
}

// A module of two functions, each with a test, and a test that always fails.
var toy = map[string]string{
	"go.mod":      "module toy\n\ngo 1.26\n",
	"toy.go":      "package toy\n\nfunc One() int {\n\treturn 1\n}\n\nfunc Two() int {\n\treturn 2\n}\n",
	"toy_test.go": "package toy\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Error(\"it is not one\")\n\t}\n}\n\nfunc TestWrong(t *testing.T) { t.Error(\"always\") }\n",
}

func change(from, to string) string {
	return "--- a/toy.go\n+++ b/toy.go\n@@ -3,3 +3,3 @@\n func One() int {\n-\treturn " + from + "\n+\treturn " + to + "\n }\n"
}

func TestEveryFateOfAMutantIsToldApart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, text := range toy {
		write(name, text)
	}
	head := func(test string) string {
		return "It weakens the toy.\n\nGuarantee: G1\nCaught-by: . " + test + "\n\n"
	}
	for name, text := range map[string]string{
		"caught":   head("TestOne") + change("1", "2"),
		"panics":   head("TestOne") + change("1", "[]int{}[One()-One()]"),
		"survives": head("TestOne") + "--- a/toy.go\n+++ b/toy.go\n@@ -7,3 +7,3 @@\n func Two() int {\n-\treturn 2\n+\treturn 3\n }\n",
		"broken":   head("TestOne") + change("1", "nothing"),
		"stale":    head("TestOne") + change("9", "2"),
		"nowhere":  head("TestNowhere") + change("1", "2"),
	} {
		write(filepath.Join("mutants", name+suffix), text)
	}
	all, err := readMutants(filepath.Join(folder, "mutants"))
	require.NoError(t, err)
	require.ErrorIs(t, applyAll(t.Context(), folder, all), errStale)

	var out bytes.Buffer
	l := laboratory{root: folder, atOnce: 2, out: &out}
	results, err := l.try(t.Context(), all)
	require.NoError(t, err)
	got := map[string]verdict{}
	for _, r := range results {
		got[r.name] = r.verdict
	}
	require.Equal(t, map[string]verdict{
		"caught": caught, "panics": caught, "survives": survived, "broken": broken, "stale": stale, "nowhere": unproved,
	}, got, out.String())
	require.ErrorContains(t, summary(results, 0, &out), "broken (does not build), nowhere (its test did not run), stale (does not apply), survives (survived)")
	page := markdown(results, "r")
	require.Contains(t, page, "6 mutants, 2 caught, 1: survived, 1: does not apply, 1: does not build, 1: its test did not run")
	require.Contains(t, page, "## Not caught")

	text, err := os.ReadFile(filepath.Join(folder, "toy.go"))
	require.NoError(t, err)
	require.Equal(t, toy["toy.go"], string(text), "the tree is as it was")

	byName := map[string]mutant{}
	for _, m := range all {
		byName[m.name] = m
	}
	require.NoError(t, l.baseline(t.Context(), []mutant{byName["caught"], byName["survives"]}))
	require.ErrorContains(t, l.baseline(t.Context(), []mutant{byName["nowhere"]}), "TestNowhere: there is no such test")
	wrong := byName["caught"]
	wrong.proofs = []proof{{".", "TestWrong"}}
	require.ErrorContains(t, l.baseline(t.Context(), []mutant{wrong}), "TestWrong fails without any patch: always")
}

func TestAStatementThatCannotBeReadCatchesNothing(t *testing.T) {
	t.Parallel()
	got := tested{fates: map[string]fate{"TestX": failed}, output: "    Error: leasing: ERROR: syntax error at or near \"AND\" (SQLSTATE 42601)\n"}
	v, why := judge(got, "TestX")
	require.Equal(t, broken, v)
	require.Contains(t, why, "syntax error")
}

func TestASampleHasSomeOfEveryGuaranteeAndFollowsItsSeed(t *testing.T) {
	t.Parallel()
	all, err := readMutants(".")
	require.NoError(t, err)
	one := sample(all, 1, "a")
	require.Equal(t, one, sample(all, 1, "a"))
	require.NotEqual(t, one, sample(all, 1, "b"))
	seen := map[string]bool{}
	for _, m := range one {
		require.False(t, seen[m.guarantee])
		seen[m.guarantee] = true
	}
	require.Len(t, seen, 14)
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-report", "x.md", "-sample", "1"}, {"-report", "x.md", "-only", "x"}, {"-only", "("}} {
		_, err := parseOptions(args)
		require.Error(t, err, "%v", args)
	}
	_, err := exec.LookPath("git")
	require.NoError(t, err, "patches are applied by git")
}
