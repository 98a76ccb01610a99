package barchart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/barchart"
)

func TestChartsAreWellFormedAndToScale(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, barchart.Write(&b, []barchart.Panel{
		{Title: "<one> & more", Bars: []barchart.Bar{{Name: "a", Note: "10", Value: 10, Min: 5, Max: 20}, {Name: "b", Note: "20", Value: 20, Min: 20, Max: 20, Strong: true}}},
		{Title: "nothing", Bars: []barchart.Bar{{Name: "c", Note: "0"}}},
	}))
	text := b.String()
	elements := map[string]int{}
	for decoder := xml.NewDecoder(&b); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	require.Equal(t, map[string]int{"svg": 1, "rect": 1 + 3, "line": 3, "text": 2 + 2*3}, elements)
	require.Contains(t, text, "&lt;one&gt; &amp; more")
	require.Contains(t, text, `width="200.0"`, "half of the longest")
	require.Contains(t, text, `width="400.0"`)
}
