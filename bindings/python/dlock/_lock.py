# SPDX-License-Identifier: MIT
"""Locks."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import threading

from . import _library as c
from ._attempt import Attempt
from ._client import Client, name_bytes, shared_client, shared_is_open
from ._errors import Busy, Lost, NotHeld, Timeout, check, error_of
from ._notices import LOCK, RDLOCK, RENEW, UNLOCK, ended

FREE, HELD, DOUBTFUL, LOST = "free", "held", "doubtful", "lost"
_STATES = (FREE, HELD, DOUBTFUL, LOST)


_MOST_MS = 2**63 - 1  # int64_t; for the library too long a time, and for a timeout forever


def _ms(seconds, what):
    if not 0 < seconds < math.inf:
        raise ValueError(f"{what} is {seconds}, want a number of seconds above 0")
    return min(math.ceil(seconds * 1000), _MOST_MS)


def _timeout_ms(timeout):
    if timeout is None:
        return c.WAIT
    if timeout == 0:
        return c.TRY
    return c.FOREVER if timeout == math.inf else _ms(timeout, "timeout")


def _in_loop():
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


class Lock:
    """A lock. The object is the owner: threads that exclude each other use an object each.

    name: str or bytes of 1 to 255 bytes.
    timeout: seconds to wait, or math.inf; 0: one attempt; None: as long as the URI says, or
    forever.
    ttl: length of the lease in seconds. dlock renews it while the lock is held.
    max_hold: seconds after which the lock is renewed no more.
    data: str or bytes, at most 1024, that inspect shows while the lock is held: no secrets.
    client: a Client; without it, all locks of this process with this uri share one. Such a lock
    may be made before a fork and used in the children, which get a client each; and it can be
    pickled. A copy is an owner of its own, which holds nothing.
    """

    def __init__(self, name: str | bytes, *, timeout: float | None = None,
                 ttl: float | None = None, max_hold: float | None = None, shared: bool = False,
                 label: str | None = None, uri: str | None = None, client: Client | None = None,
                 data: str | bytes | None = None) -> None:
        name_bytes(name)
        _timeout_ms(timeout)
        self.name = name
        self.timeout = timeout
        self._made_of = dict(ttl=ttl, max_hold=max_hold, shared=shared, label=label, uri=uri,
                             client=client, data=data)
        self._mode = c.SHARED if shared else c.EXCLUSIVE
        self._uri = uri
        self._client = client
        self._notices = None  # of the client of _pointer
        self._pointer = None
        self._pid = os.getpid()
        self._making = {}  # process: a mutex, which a fork may leave locked, so that each has its own
        self._acquired = False  # in process _pid, and not released
        self._options = c.sized(c.Options)
        self._options.ttl_ms = 0 if ttl is None else _ms(ttl, "ttl")
        self._options.max_hold_ms = 0 if max_hold is None else _ms(max_hold, "max_hold")
        self._options.label = None if label is None else label.encode()
        data = b"" if data is None else name_bytes(data)
        self._options.data = data
        self._options.data_len = len(data)

    def acquire(self, timeout: float | None = ...) -> Lock:
        """Acquires the lock. Returns self; raises Busy, Timeout, Unknown or another Error."""
        timeout_ms = _timeout_ms(self.timeout if timeout is ... else timeout)
        attempt = Attempt(self, self._own_handle(), self._mode)
        try:
            attempt.make(timeout_ms)
        except BaseException:
            # Python runs no handler of a signal between here and the end of the undoing call: a
            # second interrupt comes too late to keep the lock from being unlocked.
            attempt.abandoned = True
            if attempt.waits:
                if not attempt.is_done:
                    c.library.dlock_cancel(attempt.handle)
                attempt.undone.acquire()
            elif attempt.error.status == 0:
                c.library.dlock_unlock(attempt.handle, None)
            raise
        attempt.kept = self._acquired = True
        return self

    async def acquire_async(self, timeout: float | None = ...) -> Lock:
        """acquire for asyncio: waits without a thread. A task that is cancelled has not the lock."""
        handle = await self._own_handle_async()
        operation = LOCK if self._mode == c.EXCLUSIVE else RDLOCK
        timeout_ms = _timeout_ms(self.timeout if timeout is ... else timeout)
        check(await self._notices.run(handle, operation, timeout_ms))
        self._acquired = True
        return self

    def try_acquire(self) -> bool:
        """One attempt. Returns True, or False if another owner holds the lock."""
        try:
            self.acquire(0)
        except (Busy, Timeout):
            return False
        return True

    def release(self) -> None:
        """Unlocks. Raises Lost if the lock was lost before, NotHeld if it was not held."""
        if self._pid != os.getpid() and self._acquired:
            raise error_of(18, "the lock was acquired before fork")
        if self._pointer is None:
            raise error_of(NotHeld.status)
        self._acquired = False
        check(c.call("dlock_unlock", self._pointer))

    async def release_async(self) -> None:
        """release for asyncio."""
        if self._pid != os.getpid() or self._pointer is None:
            return self.release()
        self._acquired = False
        return await self._operate(UNLOCK)

    async def renew_async(self) -> None:
        """renew for asyncio, with the ttl of the lock."""
        return await self._operate(RENEW)

    def check(self) -> None:
        """Raises Lost if the lock is lost, NotHeld if it is not held. Sends nothing."""
        state = self.state
        if state == LOST:
            raise error_of(Lost.status)
        if state == FREE:
            raise error_of(NotHeld.status)

    def renew(self, ttl: float | None = None) -> None:
        """Extends the lease to ttl seconds from now. dlock renews by itself, too."""
        check(c.call("dlock_renew", self._held_pointer(), 0 if ttl is None else _ms(ttl, "ttl")))

    def downgrade(self) -> None:
        """Turns an exclusive lock into a shared one without a gap."""
        check(c.call("dlock_downgrade", self._held_pointer()))

    @property
    def state(self) -> str:
        """FREE, HELD, DOUBTFUL (held, but the last renewal failed) or LOST. FREE in a fork."""
        if self._pointer is None or self._pid != os.getpid():
            return FREE
        return _STATES[c.library.dlock_state(self._pointer)]

    @property
    def held(self) -> bool:
        return self.state in (HELD, DOUBTFUL)

    @property
    def fence(self) -> int:
        """The fencing token: greater for each later exclusive acquisition of the name. 0: none."""
        if self._pointer is None or self._pid != os.getpid():
            return 0
        return c.library.dlock_fence(self._pointer)

    @property
    def remaining(self) -> float:
        """Seconds for which the lease is valid; 0 unless held."""
        return c.library.dlock_remaining_ms(self._pointer) / 1000 if self.held else 0.0

    @property
    def token(self) -> str | None:
        """The owner token, as `dlock inspect` shows it; None unless held."""
        text = ctypes.create_string_buffer(c.TOKEN_CHARS)
        if not self.held or not c.library.dlock_token(self._pointer, text, len(text)):
            return None
        return text.value.decode()

    __enter__ = acquire  # itself: an interrupt at its return would be between the two

    def __reduce__(self):
        return _made_again, (type(self), self.name, self.timeout, self._made_of)

    def __exit__(self, kind: object, *_: object) -> bool:
        """Unlocks. A failure to unlock is raised unless the block raised something."""
        try:
            self.release()
        except Exception:
            if kind is None:
                raise
        return False

    async def __aenter__(self) -> Lock:
        return await self.acquire_async()

    async def __aexit__(self, kind: object, *_: object) -> bool:
        """Unlocks. A failure to unlock is raised unless the block raised something."""
        try:
            if kind is GeneratorExit and not _in_loop():  # the task is collected after its loop
                self._notices.unlock(self._pointer)
            else:
                await self.release_async()
        except Exception:
            if kind is None:
                raise
        return False

    def __del__(self):
        if getattr(self, "_pointer", None) is not None and self._pid == os.getpid():
            self._notices.forget(self._pointer)
            c.library.dlock_free(self._pointer)

    def _held_pointer(self):
        if self._pointer is None or self._pid != os.getpid():
            raise error_of(NotHeld.status)
        return self._pointer

    async def _operate(self, operation):
        """Begins an operation and waits for its end, which a cancelled task does, too."""
        check(await self._notices.run(self._held_pointer(), operation))

    async def _own_handle_async(self):
        """A client that is not open yet is opened by a thread."""
        ready = self._client or shared_is_open(self._uri)
        if ready or (self._pointer is not None and self._pid == os.getpid()):
            return self._own_handle()
        work = asyncio.get_running_loop().run_in_executor(None, self._own_handle)
        if await ended(work):
            work.exception()  # is not the one that this task ends with
            raise asyncio.CancelledError
        return work.result()

    def _own_handle(self):
        """The handle of this process. That of a parent is left alone: it is the parent's."""
        if self._pid == os.getpid() and self._pointer is not None:
            return self._pointer
        with self._making.setdefault(os.getpid(), threading.Lock()):
            if self._pid != os.getpid():
                self._pointer, self._pid, self._acquired = None, os.getpid(), False
            if self._pointer is None:
                name, pointer = name_bytes(self.name), ctypes.c_void_p()
                client = self._client or shared_client(self._uri)
                self._notices = client.notices
                check(c.call("dlock_new", client.pointer(), name, len(name),
                             ctypes.byref(self._options), ctypes.byref(pointer)))
                self._pointer = pointer.value
            return self._pointer


def _made_again(kind, name, timeout, made_of):
    return kind(name, timeout=timeout, **made_of)
