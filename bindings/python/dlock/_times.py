# SPDX-License-Identifier: MIT
"""Seconds as the milliseconds of dlock.h."""

from __future__ import annotations

import math
from typing import Any

from . import _library as c

AS_MADE: Any = ...  # the timeout that the lock was made with
_MOST_MS = 2**63 - 1  # int64_t; for the library too long a time, and for a timeout forever


def ms_of(seconds: float, what: str) -> int:
    if not 0 < seconds < math.inf:
        raise ValueError(f"{what} is {seconds}, want a number of seconds above 0")
    return min(math.ceil(seconds * 1000), _MOST_MS)


def timeout_ms_of(timeout: float | None) -> int:
    if timeout is None:
        return c.AS_OPTIONS
    if timeout == 0:
        return c.TRY
    return c.FOREVER if timeout == math.inf else ms_of(timeout, "timeout")
