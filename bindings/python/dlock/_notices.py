# SPDX-License-Identifier: MIT
"""Operations that do not block: dlock_op_start, and the descriptor of a client's notices. For asyncio,
and for waits of the main thread."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import threading
import weakref
from ctypes import byref
from typing import TYPE_CHECKING, Any, Callable, Tuple

from . import _library as c

if TYPE_CHECKING:
    from ._attempt import Attempt

Loop = asyncio.AbstractEventLoop
Result = Tuple[int, str]  # a status, and its text

LOCK, RDLOCK, UNLOCK, RENEW = 1, 2, 3, 4  # enum dlock_op
_DONE = 1
_ALREADY, _CLOSED = 14, 19


class _Reader:
    """What a loop calls when notices are queued. Only the loop refers to it, so it ends with the
    loop. It keeps the futures, and by them the tasks, as long as the loop may run them."""

    def __init__(self, loop: Loop, take: Callable[[], None]) -> None:
        self.loop, self.take = loop, take
        self.futures: set[asyncio.Future[Result] | None] = set()

    def __call__(self) -> None:
        self.take()


class _Watch:
    """A loop that has waits, as its Notices see it: the loop is not kept from its end."""

    def __init__(self, reader: _Reader, descriptor: int, notices: Notices) -> None:
        self.key, self.descriptor, self.count = id(reader.loop), descriptor, 0
        self.reader = weakref.ref(reader, lambda _: notices.loop_ended(self))

    def soon(self, function: Callable[..., None], *arguments: object) -> bool:
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

    def __init__(self, lock: int, operation: int, future: asyncio.Future[Result] | None = None) -> None:
        self.lock, self.operation = lock, operation
        self.acquires = operation in (LOCK, RDLOCK)
        self.unlocks = False  # an orphan that is unlocked whatever its result is
        self._future = None if future is None else weakref.ref(future)
        self.result: Any = None  # a Result as soon as DONE was taken
        self.watch: Any = None  # the _Watch of its loop
        self.orphan = False  # its task or its loop has ended: nobody will see its end
        self.in_main = False  # the main thread waits for it

    def future(self) -> asyncio.Future[Result] | None:
        return None if self._future is None else self._future()

    def finish(self) -> None:
        future = self.future()
        if future is not None and not future.done():
            future.set_result(self.result)


class Notices:
    """The operations of a client that are under way. Loops of several threads may have some."""

    def __init__(self, client: int | None) -> None:
        self._client = client  # None: closed
        self._waits: dict[int, _Wait] = {}  # struct dlock_handle *: _Wait
        self._watches: dict[int, _Watch] = {}  # id of a loop: _Watch
        self._reaps = False  # a thread takes the notices of orphans
        self._inbox: list[c.Notice] = []  # notices that were taken, until their waits know
        self._mutex = threading.RLock()  # the collector may end tasks, loops and locks at any time

    async def run(self, lock: int, operation: int, timeout_ms: int = 0) -> Result:
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
        ended_as: Result = wait.result
        return ended_as

    def wait(self, attempt: Attempt, timeout_ms: int) -> None:
        """Acquires in the main thread: the handler of a signal may end the wait anywhere, and the
        caller frees the handle then if attempt.begun says that the operation was begun."""
        wait = _Wait(attempt.handle, RDLOCK if attempt.mode == c.SHARED else LOCK)
        wait.in_main = True
        with self._mutex:
            if self._client is None:
                attempt.error.status = _CLOSED
                return
            descriptor = c.library.dlock_client_fd(self._client)
            self._take_locked(finishes=False)  # nothing is left of an older handle at this address
            if self._is_in_use(wait.lock):
                attempt.error.status = _ALREADY
                return
            c.library.dlock_op_start(wait.lock, wait.operation, timeout_ms, byref(attempt.begun))
            if attempt.begun.status != 0:
                ctypes.pointer(attempt.error)[0] = attempt.begun
                return
            self._waits[wait.lock] = wait
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while wait.result is None:
            # ms: another thread may take the notice, which wakes nobody, or close the client.
            poll.poll(20 if self._watches or self._reaps else 1000)
            with self._mutex:
                # Before this thread takes their notices: it may be interrupted, and not they.
                for watch in list(self._watches.values()):
                    watch.soon(self._take)
                self._take_locked(finishes=False)
        self._waits.pop(wait.lock, None)
        attempt.error.message = wait.result[1].encode()[:255]
        attempt.error.status = wait.result[0]
        attempt.begun.status = -1

    def unlock(self, lock: int) -> None:
        """Unlocks soon, for a task that may not wait any more."""
        with self._mutex:
            wait = self._waits.get(lock)
            if wait is not None:
                wait.unlocks = True
            elif c.call("dlock_op_start", lock, UNLOCK, 0)[0] == 0:
                self._waits[lock] = wait = _Wait(lock, UNLOCK)
                wait.orphan = True
            self._reap_locked()

    def forget(self, lock: int) -> None:
        """Drops what is known of a handle that is about to be freed."""
        with self._mutex:
            wait = self._waits.pop(lock, None)
            if wait is not None:
                self._close_locked(wait)

    def close(self) -> None:
        """Ends the operations that are under way with CLOSED, before the client is closed."""
        with self._mutex:
            self._client = None
            waits = list(self._waits.values())
            self._waits.clear()
            for wait in waits:
                self._close_locked(wait)

    def loop_ended(self, watch: _Watch) -> None:
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

    def _start_locked(self, loop: Loop, wait: _Wait, timeout_ms: int) -> Result:
        if self._client is None:
            return _CLOSED, ""
        if self._inbox or wait.lock in self._waits:
            self._take_locked()
        if self._is_in_use(wait.lock):
            return _ALREADY, ""
        self._listen_locked(loop, wait)
        result = c.call("dlock_op_start", wait.lock, wait.operation, timeout_ms)
        if result[0] == 0:
            self._waits[wait.lock] = wait
        else:
            self._unlisten(wait)
        return result

    def _is_in_use(self, lock: int) -> bool:
        """Whether the end of an operation was not seen yet. Of the main thread's the library says
        so: an interrupt may have ended them."""
        return lock in self._waits and not self._waits[lock].in_main

    def _settle(self, wait: _Wait, cancelled: BaseException | None) -> None:
        """In the loop's thread: the task has seen the end of its operation."""
        with self._mutex:
            self._unlisten(wait)
            if self._waits.get(wait.lock) is wait:
                del self._waits[wait.lock]
                if cancelled is not None and wait.acquires:
                    c.library.dlock_cancel_reset(wait.lock)

    def _abandon(self, wait: _Wait) -> None:
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

    def _undo_locked(self, wait: _Wait) -> None:
        """The operation of an orphan has ended: unlocks what it has acquired."""
        del self._waits[wait.lock]
        unlocks = wait.unlocks or wait.acquires and wait.result[0] == 0
        if wait.acquires:
            c.library.dlock_cancel_reset(wait.lock)
        wait.acquires = wait.unlocks = False
        if unlocks and c.call("dlock_op_start", wait.lock, UNLOCK, 0)[0] == 0:
            self._waits[wait.lock] = wait
            wait.result = None
            return
        self._unlisten_soon(wait)

    def _reap_locked(self) -> None:
        """Lets a thread take the notices of orphans, whose loops do so no more."""
        if self._reaps or self._client is None or not self._has_orphans():
            return
        descriptor = os.dup(c.library.dlock_client_fd(self._client))
        try:
            threading.Thread(target=self._reap, args=(descriptor,), daemon=True).start()
            self._reaps = True
        except RuntimeError:  # the interpreter ends, and closes the client
            os.close(descriptor)

    def _reap(self, descriptor: int) -> None:
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

    def _has_orphans(self) -> bool:
        return any(wait.orphan for wait in list(self._waits.values()))

    def _take(self) -> None:
        with self._mutex:
            self._take_locked()

    def _take_locked(self, finishes: bool = True) -> None:
        """Takes all notices that are queued, whatever loop their operations are of.

        finishes: False: only the results of the main thread, which an interrupt may take from here
        at any moment. The others stay in the inbox, for their loops.
        """
        while self._client is not None:
            notice = c.sized(c.Notice)
            self._inbox.append(notice)  # first: what the library writes is not lost
            if c.library.dlock_client_next(self._client, byref(notice), None) or not notice.kind:
                break
        for notice in list(self._inbox):
            wait = self._waits.get(notice.lock) if notice.kind == _DONE else None
            if wait is not None and not wait.in_main and not finishes:
                continue
            with contextlib.suppress(ValueError):  # the handler of a signal was here meanwhile
                self._inbox.remove(notice)
            if wait is not None:
                self._finish_locked(wait, notice)

    def _finish_locked(self, wait: _Wait, notice: c.Notice) -> None:
        wait.result = notice.status, c.text_of(notice.error) if notice.status else ""
        if wait.in_main:
            return
        if wait.orphan:
            self._undo_locked(wait)
        elif not wait.watch.soon(wait.finish):
            self.loop_ended(wait.watch)

    def _close_locked(self, wait: _Wait) -> None:
        """A wait that was taken out of _waits ends with CLOSED."""
        if wait.result is None:
            wait.result = _CLOSED, ""
        if not wait.in_main and (wait.orphan or not wait.watch.soon(wait.finish)):
            self._unlisten_soon(wait)

    def _listen_locked(self, loop: Loop, wait: _Wait) -> None:
        watch = self._watches.get(id(loop))
        if watch is None:
            reader = _Reader(loop, self._take)
            watch = _Watch(reader, os.dup(c.library.dlock_client_fd(self._client)), self)
            loop.add_reader(watch.descriptor, reader)
            self._watches[watch.key] = watch
        listening = watch.reader()
        assert listening is not None
        listening.futures.add(wait.future())
        watch.count += 1
        wait.watch = watch

    def _unlisten_soon(self, wait: _Wait) -> None:
        """_unlisten, on any thread."""
        if wait.watch is not None and not wait.watch.soon(self._unlisten, wait):
            self._unlisten(wait)

    def _unlisten(self, wait: _Wait) -> None:
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


async def ended(future: asyncio.Future[Any]) -> bool:
    """Waits until a future is done, also while this task is cancelled. Returns whether it was."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
