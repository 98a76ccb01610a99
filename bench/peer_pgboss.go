package main

import "fmt"

// pgBossBest is what gave the most; see docs/performance.md.
var pgBossBest = nodeTuning{
	processes: 1, producers: 2, batch: 2000, pool: 10,
	throughput: map[string]any{
		"queue": "bench", "batchSize": 2000, "localConcurrency": 2, "burstWhenBatchFull": true, "pollingIntervalSeconds": 0.5,
	},
	quiet: map[string]any{"queue": "bench-notified", "batchSize": 100, "localConcurrency": 1},
}

func newPgBoss(l Load) Contestant {
	return &nodePeer{
		load: l, name: "pg-boss", script: "pgboss.mjs", database: "bench_pgboss", around: len(`{"t":""}`), tuning: pgBossBest,
		settings: func(t nodeTuning) []Setting {
			return []Setting{
				{"bulk", fmt.Sprintf("insert, %d jobs a statement, %d producers", t.batch, t.producers)},
				{"throughput", "work with " + t.text(t.throughput)},
				{"latency and idle", "the same, with " + t.text(t.quiet) + ": a queue with notify, and useListenNotify, since jobs wait for the next poll without; the other measurements have a queue without, which is faster there"},
				{"done", "the UPDATE that completes a batch of jobs has returned, watched at its driver; afterwards its table is asked whether all are completed"},
				{"unequal", "a handler takes a batch of jobs, which are completed or failed together; there is no history beside the row"},
			}
		},
	}
}
