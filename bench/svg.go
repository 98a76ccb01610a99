package main

import (
	"fmt"

	"duly.dev/duly/internal/barchart"
)

// panels are what the chart shows of a report.
func (r Report) panels() []barchart.Panel {
	var all []barchart.Panel
	for _, m := range throughputs {
		p := barchart.Panel{Title: m.title + ", a second"}
		for _, who := range r.participants(Peers, Limits) {
			c, ok := cells(r.Cells).find(who.Key, m.measure)
			if !ok || who.Key == "raw-nats" { // messages are no rows
				continue
			}
			b := barchart.Bar{
				Name: who.Name, Note: number(c.Rate.Median), Value: c.Rate.Median, Min: c.Rate.Min, Max: c.Rate.Max,
				Strong: who.Key == reference,
			}
			if who.Key != reference && c.Ratio.Rounds > 0 && who.Group == Peers {
				b.Note += fmt.Sprintf(" (Duly: %s ×)", number(c.Ratio.Median))
			}
			p.Bars = append(p.Bars, b)
		}
		if len(p.Bars) > 0 {
			all = append(all, p)
		}
	}
	return all
}
