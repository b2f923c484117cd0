#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Locks in an asyncio program: `async with lock(client, name)`, no thread for each lock.

    loop_asyncio.py LIBDLOCK URI NAME...
"""
import asyncio
import ctypes
import sys

LOCK, UNLOCK, DONE = 1, 3, 1


class Notice(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_int), ("reason", ctypes.c_int),
                ("lock", ctypes.c_void_p), ("user", ctypes.c_void_p), ("fence", ctypes.c_uint64),
                ("op", ctypes.c_int), ("status", ctypes.c_int)]


class Client:
    def __init__(self, library, uri):
        self.lib, self.handle, self.waits = ctypes.CDLL(library), ctypes.c_void_p(), {}
        self.lib.dlock_start.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p]
        for name in "dlock_free", "dlock_client_fd", "dlock_client_close":
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]
        if self.lib.dlock_client_open(uri.encode(), None, ctypes.byref(self.handle), None) != 0:
            raise OSError("cannot open " + uri)
        asyncio.get_running_loop().add_reader(self.lib.dlock_client_fd(self.handle), self.notices)

    def notices(self):
        notice = Notice(size=ctypes.sizeof(Notice))
        while self.lib.dlock_client_next(self.handle, ctypes.byref(notice), None) == 1:
            if notice.kind == DONE:
                self.waits.pop(notice.lock).set_result((notice.status, notice.fence))

    async def run(self, lock, operation):
        wait = self.waits[lock] = asyncio.get_running_loop().create_future()
        status = self.lib.dlock_start(lock, operation, 10000, None)
        return await wait if status == 0 else (status, 0)


async def work(client, name):
    lock = ctypes.c_void_p()
    assert client.lib.dlock_new(client.handle, name.encode(), len(name.encode()), None, ctypes.byref(lock), None) == 0
    status, fence = await client.run(lock.value, LOCK)
    print(f"{name}: locked, fence {fence}" if status == 0 else f"{name}: status {status}")
    if status == 0:
        await client.run(lock.value, UNLOCK)
    client.lib.dlock_free(lock)


async def main(library, uri, *names):
    client = Client(library, uri)
    await asyncio.gather(*(work(client, name) for name in names))
    client.lib.dlock_client_close(client.handle)

asyncio.run(main(*sys.argv[1:]))
