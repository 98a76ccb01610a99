// Package strictyaml decodes YAML that people write by hand, and tells them
// everything that is wrong with it at once, each with file, line, field and rule.
//
// A key that the Go value has no field for is a problem (with the nearest known
// key), and so are a key given twice, a value of the wrong type and a value that is
// missing. Nothing is guessed: a number is no string, a duration needs its unit.
// Anchors, aliases and merge keys work as in any YAML.
//
// What a value means is for the caller to check: Document.Problem gives a problem
// of his own the same shape and the line of its field.
package strictyaml
