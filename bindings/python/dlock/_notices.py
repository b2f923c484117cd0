# SPDX-License-Identifier: MIT
"""Operations that do not block, for asyncio: dlock_start, and the descriptor of a client's notices."""

import asyncio
import ctypes
import os
import select
import threading
import weakref

from . import _library as c

LOCK, RDLOCK, UNLOCK, RENEW = 1, 2, 3, 4  # enum dlock_op
_DONE = 1
_ALREADY, _CLOSED = 14, 19


class _Reader:
    """What a loop calls when notices are queued. Only the loop refers to it, so it ends with the
    loop. It keeps the futures, and by them the tasks, as long as the loop may run them."""

    def __init__(self, loop, take):
        self.loop, self.take, self.futures = loop, take, set()

    def __call__(self):
        self.take()


class _Watch:
    """A loop that has waits, as its Notices see it: the loop is not kept from its end."""

    def __init__(self, reader, descriptor, notices):
        self.key, self.descriptor, self.count = id(reader.loop), descriptor, 0
        self.reader = weakref.ref(reader, lambda _: notices.loop_ended(self))

    def soon(self, function, *arguments):
        """Lets the loop call a function. Returns whether it may: False if the loop has ended."""
        reader = self.reader()
        try:
            if reader is not None:
                reader.loop.call_soon_threadsafe(function, *arguments)
            return reader is not None
        except RuntimeError:  # closed
            return False


class _Wait:
    """An operation, until the task that began it has seen its end."""

    def __init__(self, lock, operation, future=None):
        self.lock, self.operation = lock, operation
        self.acquires = operation in (LOCK, RDLOCK)
        self.unlocks = False  # an orphan that is unlocked whatever its result is
        self.future = future and weakref.ref(future)
        self.result = None  # (status, message) as soon as DONE was taken
        self.watch = None
        self.orphan = False  # its task or its loop has ended: nobody will see its end

    def finish(self):
        future = self.future()
        if future is not None and not future.done():
            future.set_result(self.result)


class Notices:
    """The operations of a client that are under way. Loops of several threads may have some."""

    def __init__(self, client_pointer):
        self._client = client_pointer  # None: closed
        self._waits = {}  # struct dlock *: _Wait
        self._watches = {}  # id of a loop: _Watch
        self._reaps = False  # a thread takes the notices of orphans
        self._mutex = threading.RLock()  # the collector may end tasks, loops and locks at any time

    async def run(self, lock, operation, timeout_ms=0):
        """An operation: (status, message). A cancelled task waits for its end, and has no lock."""
        loop = asyncio.get_running_loop()
        future, cancelled = loop.create_future(), None
        wait = _Wait(lock, operation, future)
        with self._mutex:
            result = self._start_locked(loop, wait, timeout_ms)
        if result[0] != 0:
            return result
        try:
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
                if wait.acquires and not future.done():
                    c.library.dlock_cancel(lock)
                await ended(future)
        except BaseException:  # GeneratorExit: this task ends before its operation
            self._abandon(wait)
            raise
        self._settle(wait, cancelled)
        if cancelled is not None:
            if wait.acquires and wait.result[0] == 0:
                await self.run(lock, UNLOCK)
            raise cancelled
        return wait.result

    def unlock(self, lock):
        """Unlocks soon, for a task that may not wait any more."""
        with self._mutex:
            wait = self._waits.get(lock)
            if wait is not None:
                wait.unlocks = True
            elif c.call("dlock_start", lock, UNLOCK, 0)[0] == 0:
                self._waits[lock] = wait = _Wait(lock, UNLOCK)
                wait.orphan = True
            self._reap_locked()

    def forget(self, lock):
        """Drops what is known of a handle that is about to be freed."""
        with self._mutex:
            wait = self._waits.pop(lock, None)
            if wait is not None:
                self._close_locked(wait)

    def close(self):
        """Ends the operations that are under way with CLOSED, before the client is closed."""
        with self._mutex:
            self._client = None
            waits = list(self._waits.values())
            self._waits.clear()
            for wait in waits:
                self._close_locked(wait)

    def loop_ended(self, watch):
        """A loop is closed or collected: what its tasks acquire is undone. On any thread."""
        with self._mutex:
            if self._watches.get(watch.key) is not watch:
                return
            del self._watches[watch.key]
            os.close(watch.descriptor)
            for wait in list(self._waits.values()):
                if wait.watch is watch:
                    self._abandon(wait)
            self._reap_locked()

    def _start_locked(self, loop, wait, timeout_ms):
        if self._client is None:
            return _CLOSED, ""
        if wait.lock in self._waits:
            self._take_locked()
        if wait.lock in self._waits:
            return _ALREADY, ""
        self._listen_locked(loop, wait)
        result = c.call("dlock_start", wait.lock, wait.operation, timeout_ms)
        if result[0] == 0:
            self._waits[wait.lock] = wait
        else:
            self._unlisten(wait)
        return result

    def _settle(self, wait, cancelled):
        """In the loop's thread: the task has seen the end of its operation."""
        with self._mutex:
            self._unlisten(wait)
            if self._waits.get(wait.lock) is wait:
                del self._waits[wait.lock]
                if cancelled is not None and wait.acquires:
                    c.library.dlock_cancel_reset(wait.lock)

    def _abandon(self, wait):
        """No task will see the end of this operation. On any thread."""
        with self._mutex:
            if self._waits.get(wait.lock) is not wait:
                self._unlisten_soon(wait)
            elif not wait.orphan:
                wait.orphan = True
                if wait.result is not None:
                    self._undo_locked(wait)
                elif wait.acquires:
                    c.library.dlock_cancel(wait.lock)

    def _undo_locked(self, wait):
        """The operation of an orphan has ended: unlocks what it has acquired."""
        del self._waits[wait.lock]
        unlocks = wait.unlocks or wait.acquires and wait.result[0] == 0
        if wait.acquires:
            c.library.dlock_cancel_reset(wait.lock)
        wait.acquires = wait.unlocks = False
        if unlocks and c.call("dlock_start", wait.lock, UNLOCK, 0)[0] == 0:
            self._waits[wait.lock] = wait
            wait.result = None
            return
        self._unlisten_soon(wait)

    def _reap_locked(self):
        """Lets a thread take the notices of orphans, whose loops do so no more."""
        if self._reaps or self._client is None or not self._has_orphans():
            return
        descriptor = os.dup(c.library.dlock_client_fd(self._client))
        try:
            threading.Thread(target=self._reap, args=(descriptor,), daemon=True).start()
            self._reaps = True
        except RuntimeError:  # the interpreter ends, and closes the client
            os.close(descriptor)

    def _reap(self, descriptor):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            with self._mutex:
                self._take_locked()
                self._reaps = self._client is not None and self._has_orphans()
                if not self._reaps:
                    os.close(descriptor)
                    return
            poll.poll(200)  # ms: another thread may take the notices, or close the client

    def _has_orphans(self):
        return any(wait.orphan for wait in list(self._waits.values()))

    def _take(self):
        with self._mutex:
            self._take_locked()

    def _take_locked(self):
        """Takes all notices that are queued, whatever loop their operations are of."""
        while self._client is not None:
            notice, error = c.sized(c.Notice), c.sized(c.Error)
            if c.library.dlock_client_next(self._client, ctypes.byref(notice),
                                           ctypes.byref(error)) != 1:
                break
            wait = self._waits.get(notice.lock) if notice.kind == _DONE else None
            if wait is None:
                continue
            text = error.message.decode("utf-8", "replace") if notice.status else ""
            wait.result = notice.status, text
            if wait.orphan:
                self._undo_locked(wait)
            elif not wait.watch.soon(wait.finish):
                self.loop_ended(wait.watch)

    def _close_locked(self, wait):
        """A wait that was taken out of _waits ends with CLOSED."""
        if wait.result is None:
            wait.result = _CLOSED, ""
        if wait.orphan or not wait.watch.soon(wait.finish):
            self._unlisten_soon(wait)

    def _listen_locked(self, loop, wait):
        watch = self._watches.get(id(loop))
        if watch is None:
            reader = _Reader(loop, self._take)
            watch = _Watch(reader, os.dup(c.library.dlock_client_fd(self._client)), self)
            loop.add_reader(watch.descriptor, reader)
            self._watches[watch.key] = watch
        watch.reader().futures.add(wait.future())
        watch.count += 1
        wait.watch = watch

    def _unlisten_soon(self, wait):
        """_unlisten, on any thread."""
        if wait.watch is not None and not wait.watch.soon(self._unlisten, wait):
            self._unlisten(wait)

    def _unlisten(self, wait):
        with self._mutex:
            watch, wait.watch = wait.watch, None
            if watch is None or self._watches.get(watch.key) is not watch:
                return
            reader = watch.reader()
            watch.count -= 1
            if reader is not None:
                reader.futures.discard(wait.future())
            if watch.count == 0:
                del self._watches[watch.key]
                if reader is not None and not reader.loop.is_closed():
                    reader.loop.remove_reader(watch.descriptor)
                os.close(watch.descriptor)


async def ended(future):
    """Waits until a future is done, also while this task is cancelled. Returns whether it was."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
