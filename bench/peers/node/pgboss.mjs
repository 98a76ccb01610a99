// pg-boss, driven by the bench.
import { PgBoss } from "pg-boss";
import { batches, drip, hammer, Stopwatches } from "./load.mjs";
import { connect, counted, inTransaction, onCompleted } from "./postgres.mjs";
import { about, serve, tell } from "./protocol.mjs";

// Two queues: a NOTIFY in every transaction wakes the worker at once, and makes commits
// wait for each other.
const plain = "bench";
const notified = "bench-notified";

let pool; // of single enqueues, and of questions
let payload;
let boss;
let stopwatches;

// pg-boss completes a batch with one statement, whose second value are the jobs.
onCompleted(
  (text, values) => (typeof text === "string" && text.includes("SET completed_on") ? values[1] : undefined),
  (jobs, { rows }) => {
    if (Number(rows[0].count) !== jobs.length) console.error(`${rows[0].count} of ${jobs.length} jobs were completed`);
    tell({ event: "done", jobs: Number(rows[0].count) });
    if (stopwatches) for (const job of jobs) stopwatches.stop(job);
  },
);

// enqueue enqueues one job in a transaction and returns it.
function enqueue(queue) {
  return inTransaction(pool, (client) => {
    const db = { executeSql: (text, values) => client.query(text, values) };
    return boss.send(queue, payload, { db });
  });
}

serve({
  about: () => about("pg-boss"),

  async open({ url, text, poolSize }) {
    payload = { t: text };
    pool = await connect(url, 32);
    boss = new PgBoss({ connectionString: url, max: poolSize, useListenNotify: true });
    boss.on("error", (error) => console.error(error));
    boss.on("warning", (warning) => console.error(warning));
    await boss.start();
    await boss.createQueue(plain);
    await boss.createQueue(notified, { notify: true });
  },

  insert: (args) => batches(args, (size) => boss.insert(plain, Array(size).fill({ data: payload }))),

  async analyze() {
    await pool.query("analyze pgboss.job");
  },

  async work({ settings: { queue, ...options } }) {
    await boss.work(queue, options, async () => {});
  },

  // Its workers end.
  async rest() {
    await Promise.all([boss.offWork(plain), boss.offWork(notified)]);
  },

  singles: (args) => counted(() => hammer(args, () => enqueue(plain))),

  async latency(args) {
    stopwatches = new Stopwatches();
    await drip(args, async () => {
      const began = performance.now();
      const job = await enqueue(notified);
      stopwatches.start(job, began);
    });
    await stopwatches.all();
    return { micros: stopwatches.micros };
  },

  // A job that is done stays, as completed.
  async left() {
    const { rows } = await pool.query("select count(*)::int as jobs from pgboss.job where name like 'bench%' and state <> 'completed'");
    return rows[0];
  },
});
