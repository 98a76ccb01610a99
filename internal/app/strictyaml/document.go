package strictyaml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	// File is the name that was given to Parse; Line counts from 1.
	File string `json:"file"`
	Line int    `json:"line"`
	// Field is the path of keys, such as "kinds.renewal-reminder.limit"; elements of
	// lists are "codes[0]". It is empty for the whole file.
	Field string `json:"field,omitempty"`
	// Value is what was given, cut; empty where there is none or it is secret.
	Value string `json:"value,omitempty"`
	// Rule says what the value must be.
	Rule string `json:"rule"`
}

// Error is file:line: field: "value": rule.
func (p *Problem) Error() string {
	s := fmt.Sprintf("%s:%d: ", p.File, p.Line)
	if p.Field != "" {
		s += p.Field + ": "
	}
	if p.Value != "" {
		s += fmt.Sprintf("%q: ", p.Value)
	}
	return s + p.Rule
}

// Document is a parsed file.
type Document struct {
	file    string
	root    ast.Node // nil when the file says nothing
	anchors map[string]ast.Node
	lines   map[string]int    // by field
	values  map[string]string // by field; scalars only
}

// Parse reads the YAML of a file, which is named for problems only. What is no YAML,
// or holds several documents, is a *Problem.
func Parse(file string, data []byte) (*Document, error) {
	d := &Document{file: file, anchors: map[string]ast.Node{}, lines: map[string]int{}, values: map[string]string{}}
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var broken yaml.Error
	switch {
	case errors.As(err, &broken):
		return nil, &Problem{File: file, Line: lineOf(broken.GetToken()), Rule: "this is not valid YAML: " + broken.GetMessage()}
	case err != nil:
		return nil, &Problem{File: file, Line: 1, Rule: "this is not valid YAML: " + err.Error()}
	}
	for _, document := range parsed.Docs {
		switch {
		case document.Body == nil || document.Body.Type() == ast.CommentType:
		case d.root != nil:
			return nil, &Problem{File: file, Line: lineOf(document.Body.GetToken()), Rule: "the file must hold one document, not several"}
		default:
			d.root = document.Body
		}
	}
	if d.root != nil {
		ast.Walk(collector(d.anchors), d.root)
	}
	return d, nil
}

// collector finds the anchors of a document.
type collector map[string]ast.Node

// Visit implements ast.Visitor.
func (c collector) Visit(node ast.Node) ast.Visitor {
	if anchor, ok := node.(*ast.AnchorNode); ok {
		c[anchor.Name.GetToken().Value] = anchor.Value
	}
	return c
}

// Problem makes a problem with a field that Decode has seen, or that is missing: it
// gets the line of the field or of the nearest field that holds it, and its value.
func (d *Document) Problem(field, rule string) *Problem {
	p := &Problem{File: d.file, Line: 1, Field: field, Rule: rule}
	if !secret(field) {
		p.Value = short(d.values[field])
	}
	for at := field; at != ""; at = parent(at) {
		if line, ok := d.lines[at]; ok {
			p.Line = line
			break
		}
	}
	return p
}

// Has reports whether the file gives the field. It is known after Decode.
func (d *Document) Has(field string) bool {
	_, ok := d.lines[field]
	return ok
}

// parent is the field that holds a field; empty at the top.
func parent(field string) string {
	return field[:max(strings.LastIndexAny(field, ".["), 0)]
}

// secret reports whether a field's value must not be shown.
func secret(field string) bool {
	name := field[strings.LastIndex(field, ".")+1:]
	for _, word := range []string{"password", "secret", "token", "authorization", "headers"} {
		if strings.Contains(strings.ToLower(name), word) || strings.Contains(strings.ToLower(parent(field)), word) {
			return true
		}
	}
	return false
}

func short(value string) string {
	if r := []rune(value); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return value
}
