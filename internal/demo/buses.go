package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"duly.dev/duly/internal/app"
)

// BusBoth measures NATS and Kafka side by side.
const BusBoth = "both"

// BusComparison is what two buses came to, measured in turn: the medians over the rounds.
type BusComparison struct {
	Rounds int           `json:"rounds"`
	NATS   []BenchResult `json:"nats"`
	Kafka  []BenchResult `json:"kafka"`
	// Phases are the medians of jobs a second by phase.
	Phases []BusPhase `json:"phases"`
}

// BusPhase is one phase on both buses.
type BusPhase struct {
	Name  string  `json:"name"`
	NATS  float64 `json:"nats_jobs_per_second"`
	Kafka float64 `json:"kafka_jobs_per_second"`
	// Ratio is the median of Kafka ÷ NATS in the same round.
	Ratio float64 `json:"ratio"`
}

// ErrNoBroker: a measurement of Kafka needs a real broker.
var ErrNoBroker = errors.New("there is no Kafka to measure: set DULY_BUS_URL=kafka://host:port; the broker in memory keeps nothing, and its figures would mean nothing")

// realKafka reports whether the environment names a broker.
func realKafka() bool { return strings.HasPrefix(os.Getenv("DULY_BUS_URL"), "kafka://") }

// BenchBuses measures NATS and Kafka on the same machine in turn, so many rounds, each
// with a ledger of its own. Kafka is the broker of DULY_BUS_URL; every publication waits
// for acks=all, as on NATS for the stream's. Whether and when brokers flush to their disks
// is their own settings' affair: NATS's here are its defaults (every two minutes).
func BenchBuses(ctx context.Context, p *app.Process, o BenchOptions, rounds int) (BusComparison, error) {
	if !realKafka() {
		return BusComparison{}, app.Exit(app.ExitUsage, ErrNoBroker)
	}
	out := p.Stdout
	if o.JSON {
		out = p.Stderr
	}
	quiet := *p
	quiet.Stdout = out
	one := o
	one.JSON = false
	c := BusComparison{Rounds: rounds}
	for round := range rounds {
		for _, bus := range []string{BusNATS, BusKafka} {
			if _, err := fmt.Fprintf(out, "round %d of %d: ", round+1, rounds); err != nil {
				return c, err
			}
			one.Bus = bus
			result, err := Bench(ctx, &quiet, one)
			if err != nil {
				return c, fmt.Errorf("round %d on %s: %w", round+1, bus, err)
			}
			if bus == BusNATS {
				c.NATS = append(c.NATS, result)
			} else {
				c.Kafka = append(c.Kafka, result)
			}
			if _, err := fmt.Fprintln(out); err != nil {
				return c, err
			}
		}
	}
	c.Phases = compareBuses(c.NATS, c.Kafka)
	if err := c.print(out); err != nil || !o.JSON {
		return c, err
	}
	return c, json.NewEncoder(p.Stdout).Encode(c)
}

// compareBuses compares phase by phase; round i of the one belongs to round i of the other.
func compareBuses(nats, kafka []BenchResult) []BusPhase {
	var all []BusPhase
	for i, phase := range nats[0].Phases {
		var a, b, ratios []float64
		for round := range nats {
			x, y := nats[round].Phases[i].JobsPerSecond, kafka[round].Phases[i].JobsPerSecond
			a, b, ratios = append(a, x), append(b, y), append(ratios, y/x)
		}
		all = append(all, BusPhase{phase.Name, median(a), median(b), median(ratios)})
	}
	return all
}

// median is the middle one; of an even number, the lower of the two.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}

func (c BusComparison) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-28s %14s %14s %14s\n", fmt.Sprintf("medians of %d rounds, jobs/s", c.Rounds), "NATS", "Kafka", "Kafka ÷ NATS"); err != nil {
		return err
	}
	for _, p := range c.Phases {
		if _, err := fmt.Fprintf(w, "%-28s %14.0f %14.0f %13.2f×\n", p.Name, p.NATS, p.Kafka, p.Ratio); err != nil {
			return err
		}
	}
	return nil
}
