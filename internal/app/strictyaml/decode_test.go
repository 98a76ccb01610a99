package strictyaml

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type file struct {
	Name  string            `yaml:"name"`
	Count int               `yaml:"count"`
	Share float64           `yaml:"share"`
	On    bool              `yaml:"on"`
	Limit time.Duration     `yaml:"limit"`
	Size  Size              `yaml:"size"`
	Codes []string          `yaml:"codes"`
	Kinds map[string]kind   `yaml:"kinds"`
	Extra *kind             `yaml:"extra"`
	Words map[string]string `yaml:"words"`
	Inner `yaml:",inline"`
	Not   string `yaml:"-"`
}

type kind struct {
	Limit    time.Duration `yaml:"limit"`
	Password string        `yaml:"password"`
	Attempts int32         `yaml:"max_attempts"`
}

type Inner struct {
	Inlined string `yaml:"inlined"`
}

func decode(t *testing.T, text string, into *file) error {
	t.Helper()
	d, err := Parse("f.yaml", []byte(text))
	require.NoError(t, err)
	return d.Decode(into)
}

// problems returns the lines of a joined error.
func problems(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestEveryTypeIsDecodedAndAbsentKeysKeepWhatWasThere(t *testing.T) {
	t.Parallel()
	got := file{Share: 0.5, Count: 1}
	require.NoError(t, decode(t, `
# a comment
name: "a name"
count: 3
on: true
limit: 1d12h
size: 256KiB
codes: [A, B]
kinds:
  mail: {limit: 10s}
  http:
    limit: 7d
    max_attempts: 8
extra: {password: x}
words:
  a: |
    two
    lines
inlined: yes it is
`, &got))
	require.Equal(t, file{
		Name: "a name", Count: 3, Share: 0.5, On: true, Limit: 36 * time.Hour, Size: 256 << 10, Codes: []string{"A", "B"},
		Kinds: map[string]kind{"mail": {Limit: 10 * time.Second}, "http": {Limit: 7 * 24 * time.Hour, Attempts: 8}},
		Extra: &kind{Password: "x"}, Words: map[string]string{"a": "two\nlines\n"}, Inner: Inner{"yes it is"},
	}, got)
}

func TestAllProblemsAreToldAtOnceWithTheirLines(t *testing.T) {
	t.Parallel()
	var got file
	err := decode(t, `name: 5
count: many
share: half
on: 1
limit: 30
size: big
codes: A
kinds:
  mail:
    limitt: 10s
    max_atempts: 3
    max_attempts: 99999999999
    password: [x]
    password: y
  http:
extra: [1]
words: {a: {b: c}}
colour: red
Not: x
`, &got)
	require.Equal(t, []string{
		`f.yaml:1: name: "5": it must be a text; put it in quotes`,
		`f.yaml:2: count: "many": it must be a whole number`,
		`f.yaml:3: share: "half": it must be a number`,
		`f.yaml:4: on: "1": it must be true or false`,
		`f.yaml:5: limit: "30": it must be a duration with its unit, such as 500ms, 30s, 10m, 24h or 7d`,
		`f.yaml:6: size: "big": it must be a size such as 4096, 256KiB or 1MiB`,
		`f.yaml:7: codes: "A": it must be a list`,
		`f.yaml:10: kinds.mail.limitt: there is no such key; did you mean "limit"?`,
		`f.yaml:11: kinds.mail.max_atempts: there is no such key; did you mean "max_attempts"?`,
		`f.yaml:12: kinds.mail.max_attempts: "99999999999": it must be a whole number of at most 32 bits`,
		`f.yaml:13: kinds.mail.password: it must be a text; put it in quotes`,
		`f.yaml:14: kinds.mail.password: the key is given twice`,
		`f.yaml:15: kinds.http: it has no value; give one or remove the key`,
		`f.yaml:16: extra: it must be a mapping of keys to values`,
		`f.yaml:17: words.a: it must be a text; put it in quotes`,
		`f.yaml:18: colour: there is no such key; known here: codes, count, extra, inlined, kinds, limit, name, on, share, size, words`,
		`f.yaml:19: Not: there is no such key; known here: codes, count, extra, inlined, kinds, limit, name, on, share, size, words`,
	}, problems(err))
	var p *Problem
	require.ErrorAs(t, err, &p)
}

func TestAnchorsAliasesAndMergeKeysWork(t *testing.T) {
	t.Parallel()
	var got file
	require.NoError(t, decode(t, `
extra: &base {limit: 10s, max_attempts: 3}
kinds:
  a: *base
  b:
    <<: *base
    limit: 20s
`, &got))
	require.Equal(t, map[string]kind{"a": {Limit: 10 * time.Second, Attempts: 3}, "b": {Limit: 20 * time.Second, Attempts: 3}}, got.Kinds)
}

func TestAliasesThatLeadNowhereOrInCirclesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"extra: *nothing", "extra: &e\n  <<: *e\n  limit: 1s", "name: !!str x"} {
		var got file
		d, err := Parse("f.yaml", []byte(text))
		if err == nil {
			err = d.Decode(&got)
		}
		require.Error(t, err, text)
	}
}

func TestWhatIsNoYAMLIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for text, line := range map[string]int{"a: 1\nb: [": 2, "a: 1\n\tb: 2": 2, "a: 1\n---\nb: 2": 3} {
		_, err := Parse("f.yaml", []byte(text))
		var p *Problem
		require.ErrorAs(t, err, &p, text)
		require.Equal(t, line, p.Line, "%q: %v", text, err)
	}
}

func TestAnEmptyFileDecodesToNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# only a comment\n", "---\n"} {
		var got file
		require.NoError(t, decode(t, text, &got), "%q", text)
		require.Equal(t, file{}, got)
	}
}

func TestProblemsOfTheCallerGetTheLineOfTheirFieldAndHideSecrets(t *testing.T) {
	t.Parallel()
	d, err := Parse("f.yaml", []byte("kinds:\n  mail:\n    limit: 0s\n    password: hunter2\n"))
	require.NoError(t, err)
	require.NoError(t, d.Decode(&file{}))
	require.EqualError(t, d.Problem("kinds.mail.limit", "it must be positive"), `f.yaml:3: kinds.mail.limit: "0s": it must be positive`)
	require.EqualError(t, d.Problem("kinds.mail.password", "it is too short"), `f.yaml:4: kinds.mail.password: it is too short`)
	require.EqualError(t, d.Problem("kinds.mail.promises.window", "it is missing"), `f.yaml:2: kinds.mail.promises.window: it is missing`)
	require.EqualError(t, d.Problem("lanes", "they are missing"), `f.yaml:1: lanes: they are missing`)
	require.True(t, d.Has("kinds.mail.limit"))
	require.False(t, d.Has("kinds.mail.max_attempts"))
}

func FuzzDecodeNeverPanics(f *testing.F) {
	for _, seed := range []string{"", "a: 1", "kinds: {a: {limit: 1s}}", "extra: &a {<<: *a}", "? a\n: b", "- 1", "&a *a", "name: |\n  x", "a: {b: [c, *d]}", "<<: x", "kinds: {? [a]: b}"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		d, err := Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		_ = d.Decode(&file{})
	})
}
