package classify_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

func table(t *testing.T) classify.LookupTable {
	t.Helper()
	statuses := func(text string) classify.Statuses {
		s, err := classify.ParseStatuses(text)
		require.NoError(t, err)
		return s
	}
	return classify.LookupTable{
		{Status: statuses("200"), Pointer: "/state", Equals: []string{"sent", "1"}, Said: job.SaidYes},
		{Status: statuses("200"), Pointer: "/items/0/a~1b~0", Said: job.SaidYes},
		{Status: statuses("200-202"), Pointer: "/state", Equals: []string{"queued"}, Said: job.SaidWorking},
		{Status: statuses("404"), Said: job.SaidNo},
	}
}

func TestTheFirstRuleThatMatchesAnAnswerDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		want   job.Said
	}{
		{200, `{"state":"sent"}`, job.SaidYes},
		{200, `{"state":1}`, job.SaidYes},
		{200, `{"state":1.0}`, job.SaidNothing},
		{200, `{"state":"queued"}`, job.SaidWorking},
		{202, `{"state":"queued"}`, job.SaidWorking},
		{202, `{"state":"sent"}`, job.SaidNothing},
		{200, `{"items":[{"a/b~":true}]}`, job.SaidYes},
		{200, `{"items":[{"a/b~":null}]}`, job.SaidNothing},
		{200, `{"items":[{"a/b~":{}}]}`, job.SaidNothing},
		{200, `{"items":{"0":{"a/b~":1}}}`, job.SaidYes},
		{200, `{"items":[]}`, job.SaidNothing},
		{200, `{"state":"sent"} trailing`, job.SaidNothing},
		{200, `{"state":"sent"`, job.SaidNothing},
		{200, ``, job.SaidNothing},
		{404, `whatever`, job.SaidNo},
		{500, `{"state":"sent"}`, job.SaidNothing},
	} {
		require.Equal(t, c.want, table(t).Classify(c.status, classify.ParseDocument([]byte(c.body))), "%d %s", c.status, c.body)
	}
}

// A search answers 200 in any case; what was found is in the body. A body that is no JSON,
// or is not there whole, does not say that nothing was found.
func TestABodyThatCannotBeReadSaysNothing(t *testing.T) {
	t.Parallel()
	ok := classify.Statuses{From: 200, To: 200}
	search := classify.LookupTable{{Status: ok, Pointer: "/data/0/id", Said: job.SaidYes}, {Status: ok, Said: job.SaidNo}}
	for body, want := range map[string]job.Said{
		`{"data":[{"id":"m-1"}]}`: job.SaidYes,
		`{"data":[]}`:             job.SaidNo,
		`{"data":[{"id":"m-1"}`:   job.SaidNothing,
		`{"data":[]} {}`:          job.SaidNothing,
		`<html>try later</html>`:  job.SaidNothing,
		``:                        job.SaidNothing,
	} {
		require.Equal(t, want, search.Classify(200, classify.ParseDocument([]byte(body))), body)
	}
	require.Equal(t, job.SaidNothing, search.Classify(200, classify.Document{}), "a body that was too long")
}

func TestStatusesAreReadAndWrittenAlike(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]classify.Statuses{"404": {404, 404}, "2xx": {200, 299}, "200-204": {200, 204}, "599": {599, 599}} {
		got, err := classify.ParseStatuses(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := classify.ParseStatuses(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", "4", "40", "4040", "6xx", "099", "2XX", "204-200", "200-", "200-2xx", " 200", "２００"} {
		_, err := classify.ParseStatuses(text)
		require.Error(t, err, text)
	}
}

// What answers so says nothing about an effect, and must not be taken for "no".
func TestEvasiveStatusesCannotMeanNo(t *testing.T) {
	t.Parallel()
	for _, status := range []int{100, 199, 301, 304, 401, 403, 407, 408, 421, 425, 429, 500, 503, 599} {
		_, is := classify.Statuses{From: status, To: status}.Evasive()
		require.True(t, is, status)
	}
	for _, status := range []int{200, 204, 400, 402, 404, 409, 410, 422} {
		_, is := classify.Statuses{From: status, To: status}.Evasive()
		require.False(t, is, status)
	}
	at, is := classify.Statuses{From: 400, To: 499}.Evasive()
	require.True(t, is)
	require.Equal(t, 401, at)
}

func TestPointersAreChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"/", "/a", "/a/0", "/a~0b~1c", "/é"} {
		require.NoError(t, classify.CheckPointer(p), p)
	}
	for _, p := range []string{"a", "#/a", "/a~", "/a~2", "$.a"} {
		require.Error(t, classify.CheckPointer(p), p)
	}
}

// Whatever a receiver sends, nothing breaks, and nothing is read out of what is no JSON.
func TestAnyBodyIsReadWithoutHarm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.SampledFrom([]byte(`{}[]":,/~0 1atnull`)), 0, 40).Draw(t, "body")
		pointer := "/" + rapid.StringMatching(`[a0~1/]{0,6}`).Draw(t, "pointer")
		_, ok := classify.ParseDocument(body).Text(pointer)
		if ok {
			require.Contains(t, "{[", string(body[firstOf(body)]), "only objects and lists have values inside")
		}
	})
}

// firstOf is where the first byte is that is no space.
func firstOf(body []byte) int { return len(body) - len(bytes.TrimLeft(body, " ")) }
