// The figures of growth.lua for Node: async functions, timers, an EventEmitter.
// Usage: node --expose-gc node.mjs N

import { EventEmitter } from "node:events";

const count = Number(process.argv[2]);

// Processor time of the thread that runs JavaScript and of its helpers, in nanoseconds.
function now() {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}

function print(plot, value) {
  console.log(`${plot}\tNode\t${count}\t${value.toFixed(1)}`);
}

async function measure(plot, each, pass) {
  const figures = [];
  const began = now();
  do {
    const start = now();
    await pass();
    figures.push((now() - start) / each);
  } while ((figures.length < 3 || now() - began < 20e6) && figures.length < 100 && now() - began < 4e9);
  figures.sort((a, b) => a - b);
  print(plot, figures[figures.length >> 1]);
}

const repeats = Math.max(1, Math.floor(5000 / count));

function repeated(pass) {
  return async () => {
    for (let i = 0; i < repeats; i++) await pass();
  };
}

function makeGate() {
  let open;
  const gate = new Promise((resolve) => { open = resolve; });
  return { gate, open };
}

await measure("tasks", count * repeats, repeated(async () => {
  const { gate, open } = makeGate();
  const tasks = [];
  for (let i = 0; i < count; i++) tasks.push((async () => { await gate; })());
  open();
  for (const task of tasks) await task;
}));

const { gate, open } = makeGate();
const tasks = new Array(count).fill(null);
globalThis.gc();
const before = process.memoryUsage().heapUsed;
for (let i = 0; i < count; i++) tasks[i] = (async () => { await gate; })();
globalThis.gc();
print("memory", (process.memoryUsage().heapUsed - before) / count);

const CHILDREN = 20000;
await measure("siblings", CHILDREN, async () => {
  for (let i = 0; i < CHILDREN; i++) await (async () => {})();
});
open();
await Promise.all(tasks);

let handled = 0;
const emitter = new EventEmitter();
emitter.setMaxListeners(0);
for (let i = 0; i < count; i++) emitter.on("event", () => { handled++; });
await measure("handlers", count * repeats, repeated(async () => { emitter.emit("event", 1); }));

await measure("timers", count * repeats, repeated(() => new Promise((resolve) => {
  let left = count;
  for (let i = 0; i < count; i++) {
    setTimeout(() => {
      left--;
      if (left === 0) resolve();
    }, 1);
  }
})));
