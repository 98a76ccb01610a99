package app

import (
	"os"
	"strings"
	"testing"
)

// Whatever a configuration says, it is taken, or refused by file, line and field.
func FuzzConfig(f *testing.F) {
	for _, file := range []string{"../../examples/duly.yaml", "../../deploy/duly.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, text := range []string{
		"", "kinds: {a: {lane: l, channel: http, http: {}}}\nlanes: {l: {}}", "kinds: {a: {lane: l, channel: go, limit: 1s, promises: {window: 1s}}}",
		"schedules: {s: {kind: a, cron: '0 9 * * 1', zone: Europe/Paris, period: iso-week, key: 'a:{period}', select: SELECT 1}}",
		"kinds: {a: {promises: {lookup: {http: {url: 'https://r.example/{{.EffectKey}}', answers: [{status: 404, means: no}]}}}}}",
		"worker: {slots: -1}", "limits: {max_payload: 1TiB}", "holidays: {h: {weekend: [saturday]}}", "a: &a {<<: *a}", "kinds: [1]", "\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") || strings.Contains(text, "printf") {
			return // it would be read; a template may make a text of any length
		}
		config, err := ParseConfig("f.yaml", []byte(text))
		if err != nil && (config != nil || !strings.Contains(err.Error(), "f.yaml")) {
			t.Fatalf("refused without naming the file: %v", err)
		}
		if err != nil {
			return
		}
		for _, kind := range config.Kinds() {
			if kind.Name == "" || kind.Lane == "" || kind.Policy.Limit <= 0 || len(kind.Hash()) != 12 {
				t.Fatalf("taken: %+v", kind)
			}
		}
	})
}
