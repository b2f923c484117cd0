# SPDX-License-Identifier: MIT
"""One acquire of a thread that signals may interrupt."""

import _thread
import threading
import time
from ctypes import byref

from . import _library as c
from ._errors import check

_MORE = 1, 2, 6, 7, 8  # of one try: BUSY, TIMEOUT, UNKNOWN, UNAVAILABLE, NO_QUORUM


class Attempt:
    """The library writes the outcome to `error` before Python can run the handler of a signal. So
    whoever interrupts the acquiring thread, error.status says whether the lock is held.

    An acquire that does not wait is undone by its own thread. In the main thread another thread
    waits, so that Ctrl-C and handlers of signals end the wait; that thread lives until `kept` or
    `abandoned` is set, and undoes what was abandoned.
    """

    def __init__(self, lock, handle, mode):
        self.lock = lock  # which frees the handle, is there as long as a thread uses it
        self.handle, self.mode = handle, mode
        self.error = c.sized(c.Error)
        self.error.status = -1  # no outcome
        self.waits = False  # in another thread, which undoes
        self.is_done = self.kept = self.abandoned = False
        # Locked until the wait has ended, and until it was undone. threading.Event is in pieces if
        # an interrupt comes while it waits.
        self.done, self.undone = _thread.allocate_lock(), _thread.allocate_lock()

    def make(self, timeout_ms):
        """Acquires, or raises. The caller sets `kept` or `abandoned` afterwards."""
        c.library.dlock_cancel_reset(self.handle)  # of an abandoned wait that was just over
        if threading.current_thread() is not threading.main_thread():
            self._acquire(timeout_ms)
        else:
            begun = time.monotonic()
            self._acquire(c.TRY)
            if timeout_ms != c.TRY and self.error.status in _MORE:
                if timeout_ms > 0:  # and not 0, which would be another try
                    timeout_ms = max(1, timeout_ms - int((time.monotonic() - begun) * 1000))
                self._wait(timeout_ms)
        check((self.error.status, self.error.message.decode("utf-8", "replace")))

    def _acquire(self, timeout_ms):
        c.library.dlock_acquire(self.handle, self.mode, timeout_ms, byref(self.error))

    def _wait(self, timeout_ms):
        self.done.acquire()
        self.undone.acquire()
        self.waits = True
        try:
            _thread.start_new_thread(self._run, (timeout_ms,))
        except RuntimeError:  # there can be no more threads
            self.waits = False
            raise
        self.done.acquire()

    def _run(self, timeout_ms):
        self._acquire(timeout_ms)
        self.is_done = True
        self.done.release()
        while not self.kept and not self.abandoned:
            time.sleep(0.002)
        if self.abandoned:
            if self.error.status == 0:
                c.library.dlock_unlock(self.handle, None)
            c.library.dlock_cancel_reset(self.handle)
        self.undone.release()
