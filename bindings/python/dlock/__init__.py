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

from ._client import Client, Holder
from ._errors import (Already, Busy, Error, Forked, Lost, NotHeld, Timeout, Unavailable,
                      Unknown)
from ._library import library as _c
from ._lock import DOUBTFUL, FREE, HELD, LOST, Lock

__all__ = ["Already", "Busy", "Client", "DOUBTFUL", "Error", "FREE", "Forked", "HELD", "Holder",
           "LOST", "Lock", "Lost", "NotHeld", "Timeout", "Unavailable", "Unknown"]
__version__ = _c.dlock_version().decode()
