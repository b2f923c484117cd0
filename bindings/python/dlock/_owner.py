# SPDX-License-Identifier: MIT
"""What locks, semaphores and sets have in common: they acquire, hold, lose and release."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Generic, TypeVar

from . import _library as c
from ._attempt import Attempt
from ._client import Client, Name, name_bytes, shared_client
from ._errors import Busy, Error, Forked, Lost, NotHeld, Timeout, _Held, check, error_of
from ._notices import Notices
from ._times import AS_MADE, ms_of, timeout_ms_of

FREE, HELD, DOUBTFUL, LOST = "free", "held", "doubtful", "lost"
_STATES = (FREE, HELD, DOUBTFUL, LOST)
_ENDS = ("process", "programs", "ttl")  # enum dlock_end
_EXPIRIES = ("report", "kill")  # enum dlock_expire

N = TypeVar("N")
O = TypeVar("O", bound="Owner[Any]")


class Acquired(Generic[O]):
    """What acquire returns: `with lock.acquire():` unlocks at the end of the block. It has all that
    the lock has. It is for one block: without the lock, or in a second one, `with` raises."""

    def __init__(self, owner: O) -> None:
        self._owner = owner
        self._had_block = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)

    def __enter__(self) -> O:
        if self._had_block:
            raise NotHeld("what acquire returned is for one block: acquire again")
        self._had_block = True
        if not self._owner.held:
            self._owner.release()  # raises Lost, which nobody else would acknowledge
            raise NotHeld
        return self._owner

    def __exit__(self, kind: object, *_: object) -> None:
        self._owner.__exit__(kind)

    def __reduce__(self) -> Any:
        raise TypeError("copy or pickle the lock, not what acquire returned")


class Owner(Generic[N]):
    """The object is the owner: threads that exclude each other use an object each.

    timeout: seconds to wait, or math.inf; 0: one attempt; None: as long as the URI says, or
    forever.
    ttl: length of the lease in seconds. dlock renews it while the lock is held.
    max_hold: seconds after which the lock is renewed no more.
    data: str or bytes, at most 1024, that inspect shows while the lock is held: no secrets.
    keep: seconds from the acquisition for which the name stays taken, also after a release.
    op_timeout: seconds that one exchange with the store may take.
    renew: False: dlock does not renew the lease by itself. queue: False: the order of arrival does
    not count. fence: True: Unsupported if the store has no fencing tokens.
    end: "process", "programs" or "ttl": when the lease ends if the process dies.
    on_expiry: "report", or "kill": the process is ended by SIGKILL if the lease ends before a
    renewal is confirmed, also while it is stopped.
    client: a Client; without it, all locks of this process with this uri share one. Such a lock
    may be made before a fork and used in the children, which get a client each; and it can be
    pickled. A copy is an owner of its own, which holds nothing.
    """

    _prefix = "dlock_"
    _is_shared = False
    _limit = 0

    def __init__(self, name: N, *, timeout: float | None = None, ttl: float | None = None,
                 max_hold: float | None = None, shared: bool = False, label: str | None = None,
                 uri: str | None = None, client: Client | None = None,
                 data: str | bytes | None = None, keep: float | None = None,
                 op_timeout: float | None = None, renew: bool | None = None,
                 queue: bool | None = None, fence: bool | None = None,
                 end: str = "process", on_expiry: str = "report") -> None:
        self._key = self._key_of(name)
        timeout_ms_of(timeout)
        if end not in _ENDS:
            raise ValueError(f"end is {end!r}, want one of {', '.join(_ENDS)}")
        if on_expiry not in _EXPIRIES:
            raise ValueError(f"on_expiry is {on_expiry!r}, want one of {', '.join(_EXPIRIES)}")
        self.name = name
        self.timeout = timeout
        self._made_of = dict(ttl=ttl, max_hold=max_hold, shared=shared, label=label, uri=uri,
                             client=client, data=data, keep=keep, op_timeout=op_timeout,
                             renew=renew, queue=queue, fence=fence, end=end, on_expiry=on_expiry)
        self._mode = c.SHARED if shared or self._is_shared else c.EXCLUSIVE
        self._uri = uri
        self._client = client
        self._notices: Notices | None = None  # of the client of _pointer
        self._pointer: int | None = None
        self._pid = os.getpid()
        # process: a mutex, which a fork may leave locked, so that each has its own
        self._making: dict[int, threading.Lock] = {}
        self._acquired = False  # in process _pid, and not released
        self._functions = c.functions_of(self._prefix)
        options = self._options = c.sized(c.Options)
        options.wait_ms = c.AS_OPTIONS
        for field, seconds in (("ttl", ttl), ("max_hold", max_hold), ("keep", keep),
                               ("op_timeout", op_timeout)):
            setattr(options, field + "_ms", 0 if seconds is None else ms_of(seconds, field))
        options.label = None if label is None else label.encode()
        options.renew, options.queue, options.fence = c.tri(renew), c.tri(queue), c.tri(fence)
        options.end = _ENDS.index(end)
        options.on_expiry = _EXPIRIES.index(on_expiry)
        options.limit = self._limit
        bytes_of_data = b"" if data is None else name_bytes(data)
        options.data, options.data_len = bytes_of_data, len(bytes_of_data)

    def _key_of(self, name: Any) -> Any:
        """The name as the library wants it. Raises TypeError."""
        return name_bytes(name)

    def _new(self, client: int, pointer: Any) -> tuple[int, str]:
        return c.call("dlock_new", client, self._key, len(self._key), ctypes.byref(self._options),
                      pointer)

    def _holders(self) -> list[Any]:
        return (self._client or shared_client(self._uri)).inspect(self._key)

    # __enter__ is the whole of an acquire: an interrupt at the return of another function would be
    # between that function and the block.
    def __enter__(self: O, timeout: float | None = AS_MADE, acquired: Any = None, names: bool = True) -> O:
        timeout_ms = timeout_ms_of(self.timeout if timeout is AS_MADE else timeout)
        attempt = Attempt(self, self._own_handle(), self._mode, self._functions, self._notices)
        try:
            attempt.make(timeout_ms)
            if attempt.error.status != 0:
                raise self._refused(attempt.error, names)
        except BaseException:
            # Python runs no handler of a signal between here and the end of the undoing call: a
            # second interrupt comes too late to keep the lock from being unlocked.
            if attempt.begun.status == 0:  # under way: free cancels it, and unlocks
                self._pointer = None
                attempt.functions.free(attempt.handle)
            elif attempt.thread is not None:
                attempt.thread.abandoned = True
                attempt.functions.cancel(attempt.handle)
                attempt.thread.undone.acquire()
                attempt.functions.cancel_reset(attempt.handle)  # the thread was faster
            elif attempt.error.status == 0:
                attempt.functions.unlock(attempt.handle, None)
            raise
        if attempt.thread is not None:
            attempt.thread.kept = True
        self._acquired = True
        return self if acquired is None else acquired  # type: ignore[no-any-return]

    def acquire(self: O, timeout: float | None = AS_MADE) -> Acquired[O]:
        """Acquires the lock; raises Busy, Timeout, Unknown or another Error. What it returns is for
        `with lock.acquire():`; without a block, call release."""
        return self.__enter__(timeout, Acquired(self))  # type: ignore[return-value]

    def try_acquire(self) -> bool:
        """One attempt. Returns True, or False if another owner holds the lock."""
        try:
            self.__enter__(0, None, False)
        except (Busy, Timeout):
            return False
        return True

    def cancel(self) -> None:
        """Ends the acquire of another thread on this object, or else the next one, by Canceled."""
        if self._pointer is not None and self._pid == os.getpid():
            self._functions.cancel(self._pointer)

    def release(self) -> None:
        """Unlocks. Raises Lost if the lock was lost before, NotHeld if it was not held."""
        if self._pid != os.getpid() and self._acquired:
            raise Forked("the lock was acquired before fork")
        if self._pointer is None:
            raise NotHeld
        self._acquired = False
        check(c.call(self._prefix + "unlock", self._pointer))

    def renew(self, ttl: float | None = None) -> None:
        """Extends the lease to ttl seconds from now. dlock renews by itself, too."""
        check(c.call(self._prefix + "renew", self._held_pointer(),
                     0 if ttl is None else ms_of(ttl, "ttl")))

    def check(self) -> None:
        """Raises Lost if the lock is lost, NotHeld if it is not held. Sends nothing."""
        state = self.state
        if state == LOST:
            raise Lost
        if state == FREE:
            raise NotHeld

    @property
    def state(self) -> str:
        """FREE, HELD, DOUBTFUL (held, but the last renewal failed) or LOST. FREE in a fork."""
        return _STATES[self._instant("state")]

    @property
    def held(self) -> bool:
        return self.state in (HELD, DOUBTFUL)

    @property
    def remaining(self) -> float:
        """Seconds for which the lease is valid; 0 unless held."""
        return self._instant("remaining_ms") / 1000

    def __exit__(self, kind: object, *_: object) -> None:
        """Unlocks. A failure to unlock is raised unless the block raised something."""
        try:
            self.release()
        except Exception:
            if kind is None:
                raise

    def __reduce__(self) -> Any:
        return _made_again, (type(self), self.name, self.timeout, self._made_of)

    def __del__(self) -> None:
        pointer = getattr(self, "_pointer", None)
        if pointer is not None and self._pid == os.getpid():
            if self._notices is not None:
                self._notices.forget(pointer)
            self._functions.free(pointer)

    def _instant(self, name: str) -> int:
        """What the library knows without the store; 0 in a fork. The pointer is read at last: the
        thread that acquires may be freeing it."""
        function = getattr(c.instant, self._prefix + name)
        return int(function(self._pointer)) if self._pid == os.getpid() else 0

    def _refused(self, error: Any, names: bool) -> Error:
        """The exception of an acquire. That of one that others keep out names them."""
        found = error_of(error.status, c.text_of(error))
        if names and isinstance(found, _Held):
            try:
                holders = [each for each in self._holders() if not each.kept]
            except Error:
                return found
            if holders:
                text = "; ".join(str(each) for each in holders)
                found = error_of(error.status, f"{c.text_of(error)}; held by {text}")
                found.holders = holders  # type: ignore[attr-defined]
        return found

    def _held_pointer(self) -> int:
        if self._pointer is None or self._pid != os.getpid():
            raise NotHeld
        return self._pointer

    def _own_handle(self) -> int:
        """The handle of this process. That of a parent is left alone: it is the parent's."""
        if self._pid == os.getpid() and self._pointer is not None:
            return self._pointer
        with self._making.setdefault(os.getpid(), threading.Lock()):
            if self._pid != os.getpid():
                self._pointer, self._pid, self._acquired = None, os.getpid(), False
            if self._pointer is None:
                pointer = ctypes.c_void_p()
                client = self._client or shared_client(self._uri)
                self._notices = client.notices
                check(self._new(client.pointer(), ctypes.byref(pointer)))
                self._pointer = pointer.value
            assert self._pointer is not None
            return self._pointer


def _made_again(kind: Any, name: Any, timeout: float | None, made_of: dict[str, Any]) -> Any:
    return kind(name, timeout=timeout, **made_of)
