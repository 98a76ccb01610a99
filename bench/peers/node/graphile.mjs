// Graphile Worker, driven by the bench.
import { Logger, run, runMigrations } from "graphile-worker";
import { batches, drip, hammer, Stopwatches } from "./load.mjs";
import { connect, counted, inTransaction, onCompleted } from "./postgres.mjs";
import { about, serve, tell } from "./protocol.mjs";

// A line a job would be measured too; this is how it is turned off.
process.env.NO_LOG_SUCCESS = "1";

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

let pool; // of the worker, and of the bulk inserts
let producers; // of single enqueues
let payload;
let worker;
let stopwatches;

onCompleted(
  (statement) => (statement?.name?.startsWith("complete_job") ? [statement.values[0]].flat() : undefined),
  (jobs) => {
    tell({ event: "done", jobs: jobs.length });
    if (stopwatches) for (const job of jobs) stopwatches.stop(job);
  },
);

const addMany = {
  name: "add_many",
  text: `select count(*) from graphile_worker.add_jobs(array(
    select ('bench', p::json, null, null, null, null, null, null)::graphile_worker.job_spec from unnest($1::text[]) p))`,
};
const addOne = { name: "add_one", text: "select id from graphile_worker.add_job('bench', $1::json)" };

// enqueue enqueues one job in a transaction and returns it.
async function enqueue() {
  const { rows } = await inTransaction(producers, (client) => client.query({ ...addOne, values: [payload] }));
  return rows[0].id;
}

serve({
  about: () => about("graphile-worker"),

  async open({ url, text, poolSize }) {
    payload = JSON.stringify(text);
    pool = await connect(url, poolSize);
    producers = await connect(url, 32);
    await runMigrations({ pgPool: pool, logger });
  },

  insert: (args) =>
    batches(args, (size) => pool.query({ ...addMany, values: [Array(size).fill(payload)] })),

  async analyze() {
    await pool.query("analyze graphile_worker._private_jobs");
  },

  async work({ settings }) {
    const preset = { worker: settings };
    worker = await run({ pgPool: pool, logger, noHandleSignals: true, taskList: { bench: () => {} }, preset });
  },

  singles: (args) => counted(() => hammer(args, enqueue)),

  async latency(args) {
    stopwatches = new Stopwatches();
    await drip(args, async () => {
      const began = performance.now();
      const job = await enqueue();
      stopwatches.start(job, began);
    });
    await stopwatches.all();
    return { micros: stopwatches.micros };
  },

  // Its worker ends.
  async rest() {
    await worker?.stop();
    worker = undefined;
  },

  // A job that is done is deleted.
  async left() {
    const { rows } = await pool.query("select count(*)::int as jobs from graphile_worker._private_jobs");
    return rows[0];
  },
});
