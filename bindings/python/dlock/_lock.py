# SPDX-License-Identifier: MIT
"""Locks of one name, and semaphores."""

from __future__ import annotations

import asyncio
import ctypes
import os
from typing import Any, TypeVar

from . import _library as c
from ._client import Name, shared_is_open
from ._errors import check
from ._notices import LOCK, RDLOCK, RENEW, UNLOCK, ended
from ._owner import Owner
from ._times import AS_MADE, ms_of, timeout_ms_of

L = TypeVar("L", bound="Lock")


def _in_loop() -> bool:
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


class Lock(Owner[Name]):
    __doc__ = f"""A lock. name: str or bytes, 1 to 255 bytes.

    {Owner.__doc__}"""

    async def acquire_async(self: L, timeout: float | None = AS_MADE) -> L:
        """acquire for asyncio: waits without a thread. A task that is cancelled has not the lock."""
        handle = await self._own_handle_async()
        operation = LOCK if self._mode == c.EXCLUSIVE else RDLOCK
        timeout_ms = timeout_ms_of(self.timeout if timeout is AS_MADE else timeout)
        assert self._notices is not None
        check(await self._notices.run(handle, operation, timeout_ms))
        self._acquired = True
        return self

    async def release_async(self) -> None:
        """release for asyncio."""
        if self._pid != os.getpid() or self._pointer is None:
            return self.release()
        self._acquired = False
        return await self._operate(UNLOCK)

    async def renew_async(self) -> None:
        """renew for asyncio, with the ttl of the lock."""
        return await self._operate(RENEW)

    def downgrade(self) -> None:
        """Turns an exclusive lock into a shared one without a gap."""
        check(c.call("dlock_downgrade", self._held_pointer()))

    def keep(self, seconds: float) -> None:
        """Lets the name stay taken after the release, by nobody, until `seconds` after the present
        acquisition. 0: it is free at once."""
        check(c.call("dlock_keep_name", self._held_pointer(),
                     0 if seconds == 0 else ms_of(seconds, "keep")))

    def adopt(self, token: str) -> None:
        """Takes over the lease that another process of the same owner acquired, by its token. That
        process is dead, or does not use the lease any more and ends by os._exit."""
        check(c.call("dlock_adopt", self._own_handle(), token.encode()))
        self._acquired = True

    @property
    def fence(self) -> int:
        """The fencing token: greater for each later exclusive acquisition of the name. 0: none."""
        return self._instant("fence")

    @property
    def token(self) -> str | None:
        """The owner token, as `dlock inspect` shows it; None unless held."""
        text = ctypes.create_string_buffer(c.TOKEN_CHARS)
        if not self.held or not c.library.dlock_token(self._pointer, text, len(text)):
            return None
        return text.value.decode()

    async def __aenter__(self: L) -> L:
        return await self.acquire_async()

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Unlocks. A failure to unlock is raised unless the block raised something."""
        try:
            if kind is GeneratorExit and not _in_loop():  # the task is collected after its loop
                if self._notices is not None and self._pointer is not None:
                    self._notices.unlock(self._pointer)
            else:
                await self.release_async()
        except Exception:
            if kind is None:
                raise

    async def _operate(self, operation: int) -> None:
        """Begins an operation and waits for its end, which a cancelled task does, too."""
        handle = self._held_pointer()
        assert self._notices is not None
        check(await self._notices.run(handle, operation))

    async def _own_handle_async(self) -> int:
        """A client that is not open yet is opened by a thread."""
        ready = self._client or shared_is_open(self._uri)
        if ready or (self._pointer is not None and self._pid == os.getpid()):
            return self._own_handle()
        work = asyncio.get_running_loop().run_in_executor(None, self._own_handle)
        if await ended(work):
            work.exception()  # is not the one that this task ends with
            raise asyncio.CancelledError
        return work.result()


class SharedLock(Lock):
    """A lock that readers hold together, and that keeps a Lock of the same name out."""

    _is_shared = True


class Semaphore(Lock):
    """limit owners hold the name together, each with a permit. All users of the name say the same
    limit. options: as of Lock."""

    def __init__(self, name: Name, limit: int, **options: Any) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}, want 1 to 1000 permits")
        self._limit = limit
        super().__init__(name, **options)
        self._made_of["limit"] = limit

    @property
    def permit(self) -> int:
        """The number of the permit, from 0 on: the lowest that was free."""
        return self._instant("permit")
