#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Locks in an asyncio program: no thread for each lock, and the loop goes on while a lock waits.

    loop_asyncio.py URI NAME...
"""
import asyncio
import sys

import dlock


async def work(client, name):
    try:
        async with dlock.Lock(name, timeout=10, client=client) as lock:
            await asyncio.sleep(0.01)  # the work
            lock.check()               # raises dlock.Lost if the lock is lost
            print(f"{name}: locked, fence {lock.fence}")
    except dlock.Error as error:
        print(f"{name}: {error.name}: {error}")


async def main(uri, *names):
    with dlock.Client(uri) as client:
        await asyncio.gather(*(work(client, name) for name in names))

asyncio.run(main(*sys.argv[1:]))
