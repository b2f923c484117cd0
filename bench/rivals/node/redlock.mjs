// SPDX-License-Identifier: MIT
// node-redlock over ioredis, on all nodes that there are.
import { absent, nodes, plan, run } from './rival.mjs';

const Redis = (await import('ioredis').catch(() => absent('ioredis'))).default;
const found = await import('redlock').catch(() => absent('redlock'));
const Redlock = found.default.default ?? found.default;

// By default it gives up after ten tries, 200 ms apart.
const redlock = new Redlock(nodes().map((node) => new Redis(node)), plan.oneName ? { retryCount: 200 } : {});
redlock.on('error', () => {});
await run(async (name) => {
  const lock = await redlock.acquire([name], 30000);
  return () => lock.release();
});
