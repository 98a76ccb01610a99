// What every contestant in this folder is given to do.
import { setTimeout as sleep } from "node:timers/promises";

// batches splits jobs into batches, which so many producers insert at once.
export async function batches({ jobs, batch, producers }, insert) {
  let next = 0;
  await together(producers, async () => {
    while (next < jobs) {
      const size = Math.min(batch, jobs - next);
      next += size;
      await insert(size);
    }
  });
}

// hammer does the same over and over, from so many clients at once, for so long, and
// returns how often it was done.
export async function hammer({ clients, milliseconds }, once) {
  const until = performance.now() + milliseconds;
  let done = 0;
  await together(clients, async () => {
    while (performance.now() < until) {
      await once();
      done++;
    }
  });
  return done;
}

// drip enqueues so many jobs a second, for so long, without waiting for those before.
// It returns when all were enqueued.
export async function drip({ rate, milliseconds }, enqueue) {
  const jobs = Math.floor((rate * milliseconds) / 1000);
  const start = performance.now();
  const pending = [];
  for (let i = 0; i < jobs; ) {
    const due = start + (i * 1000) / rate;
    const wait = due - performance.now();
    if (wait > 0) {
      await sleep(wait);
      continue;
    }
    pending.push(enqueue());
    i++;
  }
  await Promise.all(pending);
}

async function together(n, run) {
  await Promise.all(Array.from({ length: n }, run));
}

// Stopwatches bring together when a job's enqueue began and when it was durably done,
// whichever is known first.
export class Stopwatches {
  micros = [];
  #began = new Map();
  #ended = new Map();

  start(job, at) {
    const end = this.#ended.get(job);
    if (end === undefined) {
      this.#began.set(job, at);
      return;
    }
    this.#ended.delete(job);
    this.#took(end - at);
  }

  stop(job) {
    const now = performance.now();
    const at = this.#began.get(job);
    if (at === undefined) {
      this.#ended.set(job, now);
      return;
    }
    this.#began.delete(job);
    this.#took(now - at);
  }

  // all waits until every job whose enqueue began was done.
  async all() {
    while (this.#began.size > 0) await sleep(1);
  }

  #took(milliseconds) {
    this.micros.push(Math.round(milliseconds * 1000));
  }
}
