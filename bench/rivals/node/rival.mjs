// SPDX-License-Identifier: MIT
// The loops of bench/loops.c for locks of Node: see ../README.md for arguments and result.
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => Number(process.hrtime.bigint());

const words = process.argv.slice(-6);
export const plan = {
  workers: Number(words[0]),
  oneName: words[1] === 'one',
  held: Number(words[2]) / 1e3,
  pause: Number(words[3]) / 1e3,
  seconds: Number(words[4]) / 1e3,
  handoff: words[5] === 'handoff',
};

export function absent(what) {
  console.error(`${what} is not installed (npm ci)`);
  process.exit(69);
}

export const nodes = () => process.env.BENCH_NODES.split(',').map((node) => {
  const colon = node.lastIndexOf(':');
  return { host: node.slice(0, colon), port: Number(node.slice(colon + 1)) };
});

function result(counts, times, seconds) {
  const sorted = Float64Array.from(times).sort();
  const quantile = (share) => (sorted.length
    ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] / 1e3 : -1);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const squares = counts.reduce((sum, count) => sum + count * count, 0);
  console.log(JSON.stringify({
    pairs: total,
    pairs_per_s: total / seconds,
    least_over_most: total ? Math.min(...counts) / Math.max(...counts) : -1,
    jain: total ? (total * total) / (counts.length * squares) : -1,
    p50_us: quantile(0.5),
    p90_us: quantile(0.9),
    p99_us: quantile(0.99),
    p99_9_us: quantile(0.999),
    worst_ms: sorted.length ? sorted[sorted.length - 1] / 1e6 : -1,
  }));
}

// lock(name) resolves to a function that unlocks.
export async function run(lock) {
  const counts = new Array(plan.workers).fill(0);
  const times = [];
  let last = null;
  let released = 0;
  const nameOf = (i) => `rival-${plan.oneName ? 0 : i}`;
  await (await lock(nameOf(0)))();

  const began = now();
  const goesOn = () => now() < began + plan.seconds * 1e9;
  const count = (i, ns) => { counts[i] += 1; times.push(ns); };

  async function pairs(i, unlock, asked) {
    let held = 0;
    if (plan.held) {
      const before = now();
      await sleep(plan.held);
      held = now() - before;
    }
    await unlock();
    count(i, now() - asked - held);
    if (plan.pause) await sleep(plan.pause);
  }

  async function handoff(i, unlock) {
    if (last !== null && last !== i) count(i, now() - released);
    last = i;
    await sleep(plan.held);
    released = now();
    await unlock();
    while (goesOn() && last === i) await sleep(0);
  }

  await Promise.all(counts.map(async (_, i) => {
    while (goesOn()) {
      const asked = now();
      let unlock;
      try { unlock = await lock(nameOf(i)); } catch { continue; }
      await (plan.handoff ? handoff(i, unlock) : pairs(i, unlock, asked)).catch(() => {});
    }
  }));
  result(counts, times, (now() - began) / 1e9);
  process.exit(0);
}
