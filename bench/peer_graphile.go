package main

import "fmt"

// graphileBest has what Graphile Worker's page on performance turns on, a local queue and
// batched completion, at the size that gave the most; see docs/performance.md.
var graphileBest = nodeTuning{
	processes: 2, producers: 2, batch: 5000, pool: 10,
	throughput: map[string]any{
		"concurrentJobs": 24, "maxPoolSize": 10,
		"localQueue":            map[string]any{"size": 2000},
		"completeJobBatchDelay": 0, "failJobBatchDelay": 0,
	},
	// A completion that waits for others only waits, when there are few.
	quiet: map[string]any{"completeJobBatchDelay": -1, "failJobBatchDelay": -1},
}

func newGraphile(l Load) Contestant {
	return &nodePeer{
		load: l, name: "Graphile Worker", script: "graphile.mjs", database: "bench_graphile", around: len(`""`), tuning: graphileBest,
		settings: func(t nodeTuning) []Setting {
			return []Setting{
				{"bulk", fmt.Sprintf("graphile_worker.add_jobs, %d jobs a statement, %d producers, no job keys", t.batch, t.producers)},
				{"throughput", t.text(t.throughput) + "; a refetchDelay gives nothing"},
				{"latency and idle", "the same, with " + t.text(t.quiet)},
				{"done", "the DELETE that completes a batch of jobs has returned, watched at its driver: its event job:complete comes before that; afterwards its table is asked whether it is empty"},
				{"unequal", "a job that is done is deleted, and no history is kept; add_jobs sends a NOTIFY in every transaction, which makes commits wait for each other"},
			}
		},
	}
}
