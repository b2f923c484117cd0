// SPDX-License-Identifier: MIT
// A client process of dlock-torture: node-redlock on one client of ioredis. README.md has the arguments
// and what it writes; rival.py is the same for Python.
import fs from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { default: Redis } = require('ioredis');
const { default: Redlock, ResourceLockedError } = require('redlock');
const INV_LOCK = 0, RET_LOCK = 3, INV_UNLOCK = 6, RET_UNLOCK = 7; // history.h
const OK = 0, TIMEOUT = 2, LOST = 4, UNKNOWN = 6; // types.h
const WAITS = 1;
const TIMEOUTS_MS = [0, 0, 0, 1, 20, 100, 500, 1000, 3000, 3000, 8000, 8000];
const PAUSE_MS = 200, JITTER_MS = 100; // those of redlock
const HEADER_SIZE = 64, RECORD_SIZE = 72, RECORDS = 1 << 20;

const words = process.argv.slice(-9);
const [uri, directory] = words;
const [seed, ttlMs, thinkUs, number, generation, threads, names] = words.slice(2).map(Number);
const opTimeoutMs = Math.max(Math.floor(ttlMs / 4), 250);

const boot = BigInt(process.env.TORTURE_BOOT_NS); // CLOCK_BOOTTIME less CLOCK_MONOTONIC
const nowNs = () => process.hrtime.bigint() + boot;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let leaving = false;
process.on('SIGTERM', () => { leaving = true; });
const shared = fs.openSync(`${directory}/shared`, 'r');
const word = Buffer.alloc(4);
const stopping = () => leaving || (fs.readSync(shared, word, 0, 4, 0) === 4 && word.readUInt32LE() !== 0);

// ---- the log: a file as log.h has it ----

const two = (n, width) => String(n).padStart(width, '0');
const log = fs.openSync(`${directory}/client-${two(number, 2)}-${two(generation, 3)}.log`, 'wx+', 0o600);
const pid = number * 100000 + generation + 1; // member_number
let used = 0, attempts = 0;

function header() {
  const bytes = Buffer.alloc(HEADER_SIZE);
  [0x31474f4c544c44n, BigInt(RECORD_SIZE), BigInt(RECORDS), BigInt(used)]
    .forEach((value, i) => bytes.writeBigUInt64LE(value, 8 * i));
  fs.writeSync(log, bytes, 0, HEADER_SIZE, 0);
}

function write(event, name, attempt, status = 0, untilNs = 0n) {
  const bytes = Buffer.alloc(RECORD_SIZE);
  bytes.writeBigUInt64LE(BigInt(used + 1), 0);
  bytes.writeBigInt64LE(nowNs(), 8);
  bytes.writeInt32LE(pid, 16);
  bytes.writeInt32LE(process.pid, 20);
  bytes.writeUInt32LE(name, 24);
  bytes.writeUInt8(event, 29);
  bytes.writeUInt16LE(status, 30);
  bytes.writeBigUInt64LE(attempt, 32);
  bytes.writeBigInt64LE(untilNs, 48);
  fs.writeSync(log, bytes, 0, RECORD_SIZE, HEADER_SIZE + used * RECORD_SIZE);
  used += 1;
  header();
}

fs.ftruncateSync(log, HEADER_SIZE + RECORDS * RECORD_SIZE);
header();

// ---- chance ----

function chanceOf(start) {
  let state = start >>> 0;
  return () => { // a linear congruential generator modulo 2^32
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// ---- the library ----

function connect() {
  const [, sentinels, hosts, service] = uri.match(/^redis(\+sentinel)?:\/\/([^/?]*)\/?([^?]*)/);
  const servers = hosts.split(',').map((server) => {
    const colon = server.lastIndexOf(':');
    return { host: server.slice(0, colon), port: Number(server.slice(colon + 1)) };
  });
  const options = { commandTimeout: opTimeoutMs };
  return sentinels ? new Redis({ ...options, sentinels: servers, name: service })
    : new Redis({ ...options, ...servers[0] });
}

const redis = connect();
redis.on('error', () => {});
const redlock = new Redlock([redis], { retryCount: 0 }); // take() tries again

// Was the name refused by the server, and not by a failure?
async function refused(error) {
  const stats = await Promise.all(error.attempts ?? []);
  const errors = stats.flatMap((each) => [...each.votesAgainst.values()]);
  return errors.length > 0 && errors.every((each) => each instanceof ResourceLockedError);
}

// ---- an actor, as actor.c has it ----

async function take(chance, name, attempt) {
  const limitNs = nowNs() + BigInt(TIMEOUTS_MS[Math.floor(chance() * TIMEOUTS_MS.length)]) * 1000000n;
  let status = null, untilNs = 0n, lock = null;
  write(INV_LOCK, name, attempt, WAITS);
  while (status === null) {
    try {
      lock = await redlock.acquire([`torture-${name}`], ttlMs);
      status = OK;
      untilNs = nowNs() + BigInt(lock.expiration - Date.now()) * 1000000n;
    } catch (error) {
      if (!await refused(error)) status = UNKNOWN;
      else if (nowNs() >= limitNs || stopping()) status = TIMEOUT;
      else await sleep(PAUSE_MS + (2 * chance() - 1) * JITTER_MS);
    }
  }
  write(RET_LOCK, name, attempt, status, untilNs);
  if (status === UNKNOWN) await sleep(PAUSE_MS);
  return lock;
}

async function give(name, attempt, lock) {
  let status = OK;
  write(INV_UNLOCK, name, attempt);
  try {
    await lock.release();
  } catch (error) {
    status = await refused(error) ? LOST : UNKNOWN;
  }
  write(RET_UNLOCK, name, attempt, status);
}

function holdMs(chance) {
  const way = chance() * 1000;
  const most = way < 650 ? 0.5 : way < 960 ? 10 : way < 995 ? ttlMs / 5 : 2 * ttlMs;
  return chance() * most;
}

async function actor(index) {
  const chance = chanceOf(seed + 7919 * (number * threads + index) + 104729 * generation);
  while (!stopping()) {
    const name = chance() < 0.5 ? 0 : Math.floor(chance() * names);
    await sleep(chance() * 2 * thinkUs / 1e3 * (chance() < 1 / 3 ? 3 : 1));
    attempts += 1;
    const attempt = (BigInt(pid) << 40n) | BigInt(attempts);
    const lock = await take(chance, name, attempt);
    if (lock === null) continue;
    await sleep(holdMs(chance));
    await give(name, attempt, lock);
  }
}

await Promise.all(Array.from({ length: threads }, (_, i) => actor(i)));
process.exit(0);
