// The conversation with the bench: one JSON object a line. A request names an
// operation and carries a number that its answer carries too; what is told without
// being asked carries "event".
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

// about says which versions run.
export function about(library) {
  const description = new URL(`node_modules/${library}/package.json`, import.meta.url);
  return { node: process.version, version: JSON.parse(readFileSync(description, "utf8")).version };
}

// tell writes one line to the bench.
export function tell(message) {
  process.stdout.write(JSON.stringify(message) + "\n");
}

// serve answers requests with the operations until the bench closes standard input,
// and ends the process then.
export function serve(operations) {
  const lines = createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    const { id, op, args } = JSON.parse(line);
    try {
      if (!Object.hasOwn(operations, op)) throw new Error(`there is no operation ${op}`);
      tell({ id, result: (await operations[op](args ?? {})) ?? {} });
    } catch (error) {
      tell({ id, error: error?.stack ?? String(error) });
    }
  });
  lines.on("close", () => process.exit(0));
}
