// SPDX-License-Identifier: MIT
// redis-semaphore over ioredis: mutex, or redlock on all nodes that there are.
import { absent, nodes, run } from './rival.mjs';

const Redis = (await import('ioredis').catch(() => absent('ioredis'))).default;
const { Mutex, RedlockMutex } = await import('redis-semaphore').catch(() => absent('redis-semaphore'));

const clients = nodes().map((node) => new Redis(node));
await run(async (name) => {
  const mutex = process.argv[2] === 'mutex' ? new Mutex(clients[0], name) : new RedlockMutex(clients, name);
  await mutex.acquire();
  return () => mutex.release();
});
