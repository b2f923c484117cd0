# SPDX-License-Identifier: MIT
"""One acquire of a thread that signals may interrupt."""

from __future__ import annotations

import _thread
import threading
import time
from ctypes import byref
from typing import Any

from . import _library as c
from ._notices import Notices

_MORE = 1, 2, 6, 7, 8  # of one try: BUSY, TIMEOUT, UNKNOWN, UNAVAILABLE, NO_QUORUM
_NONE = -1  # no outcome


class Attempt:
    """The library writes an outcome to `error` and `begun` before Python can run the handler of a
    signal. So whoever interrupts the acquiring thread, they say what has to be undone.

    Handlers run in the main thread. So there a wait is an operation of dlock_op_start: the thread
    waits for the descriptor of the client, which a signal ends. A set has no such operation:
    another thread waits.
    """

    def __init__(self, owner: Any, handle: int, mode: int, functions: Any, notices: Any) -> None:
        self.owner = owner  # which frees the handle, is there as long as a thread uses it
        self.handle, self.mode, self.functions = handle, mode, functions
        self.notices: Notices = notices
        self.error, self.begun = c.Error(), c.Error()
        self.error.status = self.begun.status = _NONE
        self.thread: _Thread | None = None

    def make(self, timeout_ms: int) -> None:
        """Acquires. error has the outcome."""
        if threading.current_thread() is not threading.main_thread():
            self.functions.acquire(self.handle, self.mode, timeout_ms, byref(self.error))
            return
        begun = time.monotonic()
        self.functions.acquire(self.handle, self.mode, c.TRY, byref(self.error))
        if timeout_ms == c.TRY or self.error.status not in _MORE:
            return
        if timeout_ms > 0:  # and not 0, which would be another try
            timeout_ms = max(1, timeout_ms - int((time.monotonic() - begun) * 1000))
        if self.functions is c.functions_of("dlock_"):
            self.notices.wait(self, timeout_ms)
        else:
            _Thread(self).wait(timeout_ms)


class _Thread:
    """Waits for a set. It lives until `kept` or `abandoned`, and undoes what was abandoned."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.kept = self.abandoned = False
        # Locked until the wait has ended, and until it was undone. threading.Event is in pieces if
        # an interrupt comes while it waits.
        self.done, self.undone = _thread.allocate_lock(), _thread.allocate_lock()

    def wait(self, timeout_ms: int) -> None:
        self.done.acquire()
        self.undone.acquire()
        self.attempt.thread = self
        try:
            _thread.start_new_thread(self._run, (timeout_ms,))
        except RuntimeError:  # there can be no more threads
            self.attempt.thread = None
            raise
        self.done.acquire()

    def _run(self, timeout_ms: int) -> None:
        attempt = self.attempt
        attempt.functions.acquire(attempt.handle, attempt.mode, timeout_ms, byref(attempt.error))
        self.done.release()
        while not self.kept and not self.abandoned:
            time.sleep(0.002)
        if self.abandoned:
            if attempt.error.status == 0:
                attempt.functions.unlock(attempt.handle, None)
            attempt.functions.cancel_reset(attempt.handle)
        self.undone.release()
