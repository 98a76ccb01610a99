// What the contestants that keep their jobs in PostgreSQL share.
import pg from "pg";

// connect opens a pool of exactly so many connections, all open from the beginning, so
// that nothing measured opens one.
export async function connect(url, connections) {
  const pool = new pg.Pool({ connectionString: url, min: connections, max: connections });
  // A connection that is lost ends nothing by itself: what runs on it fails.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()));
  for (const client of clients) client.release();
  return pool;
}

// statements is how many were sent: each is one round trip.
let statements = 0;

// onCompleted tells which jobs a statement completed as soon as the server has answered
// it: it ran in a transaction of its own, so they are then durably done. jobsOf returns
// the jobs that a statement would complete; undefined, if it is another statement.
//
// Neither library tells this: Graphile Worker's job:complete comes before a batched
// completion is even sent, and pg-boss has no such event.
export function onCompleted(jobsOf, tell) {
  const query = pg.Client.prototype.query;
  pg.Client.prototype.query = function (statement, ...rest) {
    statements++;
    const jobs = jobsOf(statement, rest[0]);
    if (!jobs) return query.call(this, statement, ...rest);
    const answered = rest.at(-1);
    if (typeof answered === "function") { // a pool asks with a callback
      return query.call(this, statement, ...rest.slice(0, -1), (error, result) => {
        if (!error) tell(jobs, result);
        answered(error, result);
      });
    }
    return query.call(this, statement, ...rest).then((result) => {
      tell(jobs, result);
      return result;
    });
  };
}

// counted adds to what work returns how many statements it sent.
export async function counted(work) {
  const before = statements;
  return { jobs: await work(), statements: statements - before };
}

// inTransaction runs work between BEGIN and COMMIT, on a connection of the pool, and
// returns what it returned.
export async function inTransaction(pool, work) {
  const client = await pool.connect();
  let failure;
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    client.release(failure); // a connection that failed is closed
  }
}
