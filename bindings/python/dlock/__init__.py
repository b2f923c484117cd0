# SPDX-License-Identifier: MIT
"""Distributed locks.

    import dlock

    with dlock.Lock("nightly-report", timeout=10) as lock:
        for page in range(3):
            lock.check()                 # raises dlock.Lost if the lock is lost
            write(page, lock.fence)

The store is that of the URI in DLOCK_URI, or of the argument uri. Without a URI it is the SQLite
file of this user. docs/guarantees.md of dlock says what a lock promises.
"""

from ._client import Client
from ._errors import (Already, Busy, Canceled, Closed, Error, Forked, Invalid, Lost, NoMemory,
                      NoPlugin, NoQuorum, NoStore, NotHeld, Refused, Timeout, Unavailable, Unknown,
                      Unsupported)
from ._library import library as _c
from ._lock import Lock, Semaphore, SharedLock
from ._owner import DOUBTFUL, FREE, HELD, LOST, Acquired
from ._set import LockSet
from ._views import Holder, Waiter

__all__ = ["Acquired", "Already", "Busy", "Canceled", "Client", "Closed", "DOUBTFUL", "Error",
           "FREE", "Forked", "HELD", "Holder", "Invalid", "LOST", "Lock", "LockSet", "Lost",
           "NoMemory", "NoPlugin", "NoQuorum", "NoStore", "NotHeld", "Refused", "Semaphore",
           "SharedLock", "Timeout", "Unavailable", "Unknown", "Unsupported", "Waiter"]
__version__: str = _c.dlock_version().decode()

for _name in __all__:  # tracebacks and pickles say dlock.Lost, and not where it is written
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "dlock"
