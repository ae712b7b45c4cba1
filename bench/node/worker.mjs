// A message there and back with a small value, through Node's worker_threads: microseconds, the
// median of nine runs.
import { Worker } from "node:worker_threads";

const COUNT = 2000, RUNS = 9;
const worker = new Worker(
  'const { parentPort } = require("node:worker_threads"); parentPort.on("message", (value) => parentPort.postMessage(value));',
  { eval: true },
);

const trip = (value) => new Promise((done) => { worker.once("message", done); worker.postMessage(value); });

const figures = [];
for (let run = 0; run <= RUNS; run++) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < COUNT; i++) await trip(i);
  // The first run warms up.
  if (run > 0) figures.push(Number(process.hrtime.bigint() - start) / COUNT / 1e3);
}
figures.sort((a, b) => a - b);
console.log("node_worker_threads".padEnd(36), figures[RUNS >> 1].toFixed(1).padStart(10), "us".padEnd(8), "      - -");
await worker.terminate();
