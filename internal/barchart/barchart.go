// Package barchart draws panels of horizontal bars as SVG: a bar to a value, and a line
// from the least to the greatest that was seen. It is for reports that commands write, so
// it has no style to choose and nothing to load.
package barchart

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The chart's measures, in pixels.
const (
	width, labels, right = 760, 210, 150
	thick, gap           = 18, 8
	title, below         = 34, 22
)

// Bar is one bar, with its least and greatest; where all are one, both are Value.
type Bar struct {
	Name, Note      string
	Value, Min, Max float64
	// Strong bars stand out.
	Strong bool
}

// Panel is a group of bars on one scale.
type Panel struct {
	Title string
	Bars  []Bar
}

// Write draws panels below each other.
func Write(w io.Writer, panels []Panel) error {
	height := gap
	for _, p := range panels {
		height += title + len(p.Bars)*(thick+gap) + below
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	y := gap
	for _, p := range panels {
		y = p.draw(&b, y)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws a panel from y on and returns where it ends.
func (p Panel) draw(b *strings.Builder, y int) int {
	most := 0.0
	for _, bar := range p.Bars {
		most = max(most, bar.Max)
	}
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n", y+title-14, escape(p.Title))
	y += title
	scale := float64(width-labels-right) / max(most, 1e-9)
	for _, bar := range p.Bars {
		colour := "#9aa7b5"
		if bar.Strong {
			colour = "#2f6fb0"
		}
		middle, end := y+thick/2, labels+int(bar.Max*scale)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`, labels-8, y+thick-5, escape(bar.Name))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labels, y, bar.Value*scale, thick, colour)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%d" y2="%d" stroke="#222222"/>`, labels+bar.Min*scale, middle, end, middle)
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#222222">%s</text>`+"\n", end+6, y+thick-5, escape(bar.Note))
		y += thick + gap
	}
	return y + below
}

// escape makes text safe inside XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes all
	return b.String()
}
