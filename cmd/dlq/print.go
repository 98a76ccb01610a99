package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON prints one JSON object.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// table prints rows below a heading, in columns.
func table(w io.Writer, heading []string, rows [][]string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = orDash(c)
		}
		_, _ = fmt.Fprintln(columns, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return columns.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// at is an instant in a table; empty where there is none.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// words joins what is not empty.
func words(parts ...string) string {
	var given []string
	for _, p := range parts {
		if p != "" {
			given = append(given, p)
		}
	}
	return strings.Join(given, " ")
}

// cut shortens a text for a table.
func cut(s string, runes int) string {
	r := []rune(s)
	if len(r) <= runes {
		return s
	}
	return string(r[:runes-1]) + "…"
}
