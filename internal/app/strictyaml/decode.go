package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Decode decodes the document into the struct that into points to, and returns all
// problems joined, in the order of the file. Fields are named by their yaml tags. A
// key that is absent leaves what the field holds, so defaults are given by filling
// the struct before; the elements of maps and lists begin as zero values.
//
// Fields may be strings, booleans, integers, floats, time.Duration (see
// ParseDuration), any encoding.TextUnmarshaler, and pointers, lists, maps by string
// and structs of these. Another type is a defect of the caller and panics.
func (d *Document) Decode(into any) error {
	if d.root == nil {
		return nil
	}
	c := &decoding{Document: d}
	c.value("", d.root, reflect.ValueOf(into).Elem())
	slices.SortStableFunc(c.problems, func(a, b *Problem) int { return a.Line - b.Line })
	errs := make([]error, len(c.problems))
	for i, p := range c.problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// decoding is one run of Decode.
type decoding struct {
	*Document
	problems []*Problem
	aliases  int // how deep the walk is inside aliases
}

// maxAliases is more than any sane nesting of aliases, and ends those in a circle.
const maxAliases = 16

func (c *decoding) refuse(field string, at ast.Node, rule string) {
	p := &Problem{File: c.file, Line: lineOf(at.GetToken()), Field: field, Rule: rule}
	if text, ok := scalar(at); ok && !secret(field) {
		p.Value = short(text)
	}
	c.problems = append(c.problems, p)
}

// value decodes a node into a value, whatever its type.
func (c *decoding) value(field string, node ast.Node, into reflect.Value) {
	node, leave, ok := c.resolve(field, node)
	defer leave()
	if !ok {
		return
	}
	if text, ok := scalar(node); ok {
		c.values[field] = text
	}
	switch {
	case node.Type() == ast.NullType:
		c.refuse(field, node, "it has no value; give one or remove the key")
	case into.Kind() == reflect.Pointer:
		fresh := reflect.New(into.Type().Elem())
		if !into.IsNil() {
			fresh.Elem().Set(into.Elem())
		}
		c.value(field, node, fresh.Elem())
		into.Set(fresh)
	case into.CanAddr() && reflect.PointerTo(into.Type()).Implements(textUnmarshaler):
		c.text(field, node, into)
	case into.Type() == durationType:
		c.duration(field, node, into)
	default:
		c.kind(field, node, into)
	}
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	durationType    = reflect.TypeFor[time.Duration]()
)

// resolve follows anchors and aliases to the node that is meant. leave must be
// called when the node has been decoded.
func (c *decoding) resolve(field string, node ast.Node) (_ ast.Node, leave func(), ok bool) {
	entered := 0
	leave = func() { c.aliases -= entered }
	for {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			target, known := c.anchors[name]
			entered++
			c.aliases++
			switch {
			case !known:
				c.refuse(field, n, fmt.Sprintf("there is no anchor &%s", name))
				return nil, leave, false
			case c.aliases > maxAliases:
				c.refuse(field, n, fmt.Sprintf("the alias *%s refers to itself", name))
				return nil, leave, false
			}
			node = target
		case *ast.TagNode:
			c.refuse(field, n, "tags such as "+n.GetToken().Value+" are not supported")
			return nil, leave, false
		default:
			return node, leave, true
		}
	}
}

func (c *decoding) text(field string, node ast.Node, into reflect.Value) {
	text, ok := scalar(node)
	if !ok {
		c.refuse(field, node, "it must be a single value")
		return
	}
	if err := into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil { //nolint:forcetypeassert // value has checked it
		c.refuse(field, node, err.Error())
	}
}

func (c *decoding) duration(field string, node ast.Node, into reflect.Value) {
	text, ok := scalar(node)
	if !ok {
		c.refuse(field, node, durationRule)
		return
	}
	v, err := ParseDuration(text)
	if err != nil {
		c.refuse(field, node, err.Error())
		return
	}
	into.SetInt(int64(v))
}

// kind decodes by the kind of Go value.
func (c *decoding) kind(field string, node ast.Node, into reflect.Value) {
	switch into.Kind() {
	case reflect.Struct:
		c.structure(field, node, into)
	case reflect.Map:
		c.mapping(field, node, into)
	case reflect.Slice:
		c.list(field, node, into)
	case reflect.String:
		c.plain(field, node, "it must be a text; put it in quotes", node.Type() == ast.StringType || node.Type() == ast.LiteralType, func(text string) error {
			into.SetString(text)
			return nil
		})
	case reflect.Bool:
		c.plain(field, node, "it must be true or false", node.Type() == ast.BoolType, func(text string) error {
			v, err := strconv.ParseBool(strings.ToLower(text))
			into.SetBool(v)
			return err
		})
	case reflect.Int, reflect.Int32, reflect.Int64:
		rule := "it must be a whole number"
		c.plain(field, node, rule, node.Type() == ast.IntegerType, func(text string) error {
			v, err := strconv.ParseInt(text, 0, into.Type().Bits())
			if err != nil {
				return errors.New(rule + fmt.Sprintf(" of at most %d bits", into.Type().Bits()))
			}
			into.SetInt(v)
			return nil
		})
	case reflect.Float64:
		rule := "it must be a number"
		c.plain(field, node, rule, node.Type() == ast.FloatType || node.Type() == ast.IntegerType, func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return errors.New(rule)
			}
			into.SetFloat(v)
			return nil
		})
	default:
		panic(fmt.Sprintf("strictyaml: %s is a %s, which is not supported", field, into.Type()))
	}
}

// plain decodes a scalar of one type.
func (c *decoding) plain(field string, node ast.Node, rule string, fits bool, set func(text string) error) {
	text, ok := scalar(node)
	if !ok || !fits {
		c.refuse(field, node, rule)
		return
	}
	if err := set(text); err != nil {
		c.refuse(field, node, err.Error())
	}
}

// entry is one key of a mapping.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
}

// entries lists the keys of a mapping, those of merged mappings last; false where
// the node is none.
func (c *decoding) entries(field string, node ast.Node) ([]entry, bool) {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		c.refuse(field, node, "it must be a mapping of keys to values")
		return nil, false
	}
	var own, merged []entry
	seen := map[string]bool{}
	for _, pair := range pairs {
		if pair.Key.Type() == ast.MergeKeyType {
			merged = append(merged, c.merge(field, pair.Value)...)
			continue
		}
		name := pair.Key.GetToken().Value
		if seen[name] {
			c.refuse(join(field, name), pair.Key, "the key is given twice")
			continue
		}
		seen[name] = true
		own = append(own, entry{name, pair.Key, pair.Value})
	}
	for _, e := range merged {
		if !seen[e.name] {
			seen[e.name] = true
			own = append(own, e)
		}
	}
	return own, true
}

// merge lists the keys that a merge key brings in.
func (c *decoding) merge(field string, node ast.Node) []entry {
	node, leave, ok := c.resolve(field, node)
	defer leave()
	if !ok {
		return nil
	}
	if list, isList := node.(*ast.SequenceNode); isList {
		var all []entry
		for _, one := range list.Values {
			all = append(all, c.merge(field, one)...)
		}
		return all
	}
	all, _ := c.entries(field, node)
	return all
}

func (c *decoding) structure(field string, node ast.Node, into reflect.Value) {
	all, ok := c.entries(field, node)
	if !ok {
		return
	}
	fields := map[string]reflect.Value{}
	fieldsOf(into, fields)
	for _, e := range all {
		at := join(field, e.name)
		target, known := fields[e.name]
		if !known {
			c.refuse(at, e.key, unknownKey(e.name, slices.Sorted(maps.Keys(fields))))
			c.problems[len(c.problems)-1].Value = ""
			continue
		}
		c.lines[at] = lineOf(e.key.GetToken())
		c.value(at, e.value, target)
	}
}

func (c *decoding) mapping(field string, node ast.Node, into reflect.Value) {
	all, ok := c.entries(field, node)
	if !ok {
		return
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(all)))
	for _, e := range all {
		at := join(field, e.name)
		c.lines[at] = lineOf(e.key.GetToken())
		element := reflect.New(into.Type().Elem()).Elem()
		c.value(at, e.value, element)
		into.SetMapIndex(reflect.ValueOf(e.name).Convert(into.Type().Key()), element)
	}
}

func (c *decoding) list(field string, node ast.Node, into reflect.Value) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		c.refuse(field, node, "it must be a list")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values)))
	for i, one := range sequence.Values {
		at := fmt.Sprintf("%s[%d]", field, i)
		c.lines[at] = lineOf(one.GetToken())
		c.value(at, one, into.Index(i))
	}
}

// fieldsOf maps the yaml names of a struct's fields, those of inlined structs too.
func fieldsOf(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case options == "inline":
			fieldsOf(v.Field(i), into)
		case name != "":
			into[name] = v.Field(i)
		}
	}
}

// scalar is the text of a node that holds one value.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}
