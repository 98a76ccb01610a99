package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth, chartLabel, chartRight = 760, 210, 150
	chartBar, chartGap                 = 18, 8
	chartTitle, chartPanel             = 34, 22
)

// bar is a bar of a chart, with its least and greatest.
type bar struct {
	name, note string
	value      Spread
	strong     bool
}

// panel is a group of bars on one scale.
type panel struct {
	title string
	bars  []bar
}

// panels are what the chart shows of a report.
func (r Report) panels() []panel {
	var all []panel
	for _, m := range throughputs {
		p := panel{title: m.title + ", a second"}
		for _, who := range r.participants(Peers, Limits) {
			c, ok := cells(r.Cells).find(who.Key, m.measure)
			if !ok || who.Key == "raw-nats" { // messages are no rows
				continue
			}
			b := bar{name: who.Name, note: number(c.Rate.Median), value: c.Rate, strong: who.Key == reference}
			if who.Key != reference && c.Ratio.Rounds > 0 && who.Group == Peers {
				b.note += fmt.Sprintf(" (Duly: %s ×)", number(c.Ratio.Median))
			}
			p.bars = append(p.bars, b)
		}
		if len(p.bars) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// chart draws panels below each other: a bar to the median, a line from the least to the
// greatest.
func chart(w io.Writer, panels []panel) error {
	height := chartGap
	for _, p := range panels {
		height += chartTitle + len(p.bars)*(chartBar+chartGap) + chartPanel
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	y := chartGap
	for _, p := range panels {
		y = p.draw(&b, y)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws a panel from y on and returns where it ends.
func (p panel) draw(b *strings.Builder, y int) int {
	most := 0.0
	for _, bar := range p.bars {
		most = max(most, bar.value.Max)
	}
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n", y+chartTitle-14, escape(p.title))
	y += chartTitle
	scale := float64(chartWidth-chartLabel-chartRight) / max(most, 1e-9)
	for _, bar := range p.bars {
		colour := "#9aa7b5"
		if bar.strong {
			colour = "#2f6fb0"
		}
		middle, end := y+chartBar/2, chartLabel+int(bar.value.Max*scale)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`, chartLabel-8, y+chartBar-5, escape(bar.name))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, chartLabel, y, bar.value.Median*scale, chartBar, colour)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%d" y2="%d" stroke="#222222"/>`, chartLabel+bar.value.Min*scale, middle, end, middle)
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#222222">%s</text>`+"\n", end+6, y+chartBar-5, escape(bar.note))
		y += chartBar + chartGap
	}
	return y + chartPanel
}

// escape makes text safe inside XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes all
	return b.String()
}
