package classify_test

import (
	"testing"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// Whatever a receiver answers and a rule asks for, only a rule that matches says something;
// and what is evasive is never read as a "no" that was written for other statuses.
func FuzzLookupAnswer(f *testing.F) {
	f.Add("404", "/state", "done", 200, []byte(`{"state":"done"}`))
	f.Add("2xx", "", "", 204, []byte(nil))
	f.Add("200-204", "/a/0/b~1c", "1e3", 200, []byte(`{"a":[{"b/c":1e3}]}`))
	f.Add("5xx", "/", "", 500, []byte(`{"":true}x`))
	f.Add("204-200", "~2", "", 0, []byte(`[[[[`))
	f.Fuzz(func(t *testing.T, text, pointer, value string, status int, body []byte) {
		statuses, err := classify.ParseStatuses(text)
		if err != nil {
			return
		}
		if same, err := classify.ParseStatuses(statuses.String()); err != nil || same != statuses {
			t.Fatalf("%q is %s", text, statuses)
		}
		if pointer != "" && classify.CheckPointer(pointer) != nil {
			return
		}
		if evasive, is := statuses.Evasive(); is && !statuses.Has(evasive) {
			t.Fatalf("%s has no %d", statuses, evasive)
		}
		rule := classify.LookupRule{Status: statuses, Pointer: pointer, Said: job.SaidNo}
		if value != "" {
			rule.Equals = []string{value}
		}
		document := classify.ParseDocument(body)
		said := classify.LookupTable{rule}.Classify(status, document)
		got, there := document.Text(pointer)
		matches := statuses.Has(status) && (pointer == "" || there && (value == "" || got == value))
		if (said == job.SaidNo) != matches || said != job.SaidNo && said != job.SaidNothing {
			t.Fatalf("%d %q says %s by %+v", status, body, said, rule)
		}
	})
}
