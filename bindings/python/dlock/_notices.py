# SPDX-License-Identifier: MIT
"""Operations that do not block, for asyncio: dlock_start, and the descriptor of a client's notices."""

import asyncio
import ctypes
import os
import threading

from . import _library as c

LOCK, RDLOCK, UNLOCK, RENEW = 1, 2, 3, 4  # enum dlock_op
_DONE = 1
_ALREADY, _CLOSED = 14, 19


class Notices:
    """The operations of a client that are under way. Loops of several threads may have some."""

    def __init__(self, client_pointer):
        self._client = client_pointer  # None: closed
        self._waits = {}  # struct dlock *: (loop, future)
        self._readers = {}  # loop: its own copy of the descriptor, and its number of operations
        self._mutex = threading.RLock()  # the collector may call forget at any allocation

    def start(self, lock, operation, timeout_ms=0):
        """Begins an operation. Returns a future of (status, message) of the running loop."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._mutex:
            result = self._start_locked(loop, future, lock, operation, timeout_ms)
        if result[0] != 0:
            future.set_result(result)
        return future

    def _start_locked(self, loop, future, lock, operation, timeout_ms):
        if self._client is None:
            return _CLOSED, ""
        if lock in self._waits:
            return _ALREADY, ""
        self._listen_locked(loop)
        result = c.call("dlock_start", lock, operation, timeout_ms)
        if result[0] == 0:
            self._waits[lock] = loop, future
        else:
            self._unlisten_locked(loop)
        return result

    def forget(self, lock):
        """Drops what is known of a handle that is about to be freed."""
        with self._mutex:
            wait = self._waits.pop(lock, None)
        if wait is not None:
            self._end(*wait, (_CLOSED, ""))

    def close(self):
        """Ends the operations that are under way with CLOSED, before the client is closed."""
        with self._mutex:
            self._client = None
            waits = list(self._waits.values())
            self._waits.clear()
        for wait in waits:
            self._end(*wait, (_CLOSED, ""))

    def _take(self):
        """Takes all notices that are queued, whatever loop their operations are of."""
        taken = []
        with self._mutex:
            while self._client is not None:
                notice, error = c.sized(c.Notice), c.sized(c.Error)
                if c.library.dlock_client_next(self._client, ctypes.byref(notice),
                                               ctypes.byref(error)) != 1:
                    break
                wait = self._waits.pop(notice.lock, None) if notice.kind == _DONE else None
                if wait is not None:
                    text = error.message.decode("utf-8", "replace") if notice.status else ""
                    taken.append((*wait, (notice.status, text)))
        for loop, future, result in taken:
            self._end(loop, future, result)

    def _end(self, loop, future, result):
        def finish():
            with self._mutex:
                self._unlisten_locked(loop)
            if not future.done():
                future.set_result(result)

        try:
            loop.call_soon_threadsafe(finish)
        except RuntimeError:  # the loop is closed, and its reader with it
            with self._mutex:
                reader = self._readers.pop(loop, None)
            if reader is not None:
                os.close(reader[0])

    def _listen_locked(self, loop):
        if loop not in self._readers:
            descriptor = os.dup(c.library.dlock_client_fd(self._client))
            loop.add_reader(descriptor, self._take)
            self._readers[loop] = [descriptor, 0]
        self._readers[loop][1] += 1

    def _unlisten_locked(self, loop):
        reader = self._readers.get(loop)
        if reader is None:
            return
        reader[1] -= 1
        if reader[1] == 0:
            del self._readers[loop]
            loop.remove_reader(reader[0])
            os.close(reader[0])


async def ended(future):
    """Waits until a future is done, also while this task is cancelled. Returns whether it was."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
