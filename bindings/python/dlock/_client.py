# SPDX-License-Identifier: MIT
"""Clients: a store in use. A client belongs to the process that opened it."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import typing

from . import _library as c
from ._errors import check, error_of
from ._notices import Notices


class Holder(typing.NamedTuple):
    """A holder of a name. remaining and held are seconds; None: not known.

    data: the bytes that the holder publishes.
    """

    owner: str
    label: str
    shared: bool
    fence: int
    remaining: float | None
    held: float | None
    waiters: int | None
    data: bytes


_REASONS = "expired", "taken", "max_hold", "session"  # enum dlock_reason, from 1 on


class Client:
    """A store. uri: as docs/uri.md says; None: $DLOCK_URI, then the SQLite file of this user.

    defaults: options as in a URI's query, "ttl=30s&wait=10s".
    """

    def __init__(self, uri: str | None = None, defaults: str | None = None) -> None:
        options = c.sized(c.ClientOptions)
        options.defaults = None if defaults is None else defaults.encode()
        pointer = ctypes.c_void_p()
        self._pointer = None
        self._pid = os.getpid()
        check(c.call("dlock_client_open", None if uri is None else os.fsencode(uri),
                     ctypes.byref(options), ctypes.byref(pointer)))
        self._pointer = pointer.value
        self.notices = Notices(self._pointer)

    def pointer(self) -> int:
        """The struct dlock_client *. Raises Forked in a forked child."""
        if self._pid != os.getpid():
            raise error_of(18, "the client was opened before fork")
        if self._pointer is None:
            raise error_of(19)
        return self._pointer

    @property
    def uri(self) -> str:
        return c.library.dlock_client_uri(self.pointer()).decode()

    def inspect(self, name: str | bytes) -> list[Holder]:
        """The live holders of a name, as a list. A free name has none."""
        found, key = [], name_bytes(name)

        def add(_, holder):
            found.append(_holder(holder.contents))
            return False

        function = c.HolderFunction(add)
        check(c.call("dlock_client_inspect", self.pointer(), key, len(key), function, None))
        return found

    def stats(self) -> dict:
        """What the client has counted, as a dict. Outcomes are by name: "OK", "TIMEOUT" ...; losses
        by reason: "expired", "taken", "max_hold", "session"; waits and holds are a number, and
        the seconds of all together."""
        stats = c.sized(c.Stats)
        check(c.call("dlock_client_stats", self.pointer(), ctypes.byref(stats)))
        found = {name: getattr(stats, name) for name in (
            "handoffs", "unknowns", "sessions_opened", "sessions_failed", "sessions_broken",
            "held", "waiting")}
        for name in ("acquisitions", "unlocks", "renewals"):
            found[name] = {c.library.dlock_status_name(status).decode(): count
                           for status, count in enumerate(getattr(stats, name)) if count > 0}
        found["losses"] = {reason: stats.losses[i + 1] for i, reason in enumerate(_REASONS)
                           if stats.losses[i + 1] > 0}
        for name in ("waits", "holds"):
            histogram = getattr(stats, name)
            found[name] = (histogram.count, histogram.sum_us / 1e6)
        return found

    def metrics(self, **labels: str) -> str:
        """The same for each class of names, as OpenMetrics text. labels: of all series."""
        pairs = [text.encode() for pair in labels.items() for text in pair]
        lines = []

        def add(_, text, size):
            lines.append(ctypes.string_at(text, size))
            return False

        function = c.TextFunction(add)
        check(c.call("dlock_client_metrics", self.pointer(),
                     (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None), function, None))
        return b"".join(lines).decode()

    def break_lock(self, name: str | bytes, owner: str | None = None) -> None:
        """Takes the name away from its holder. owner: only from the holder with this token."""
        key = name_bytes(name)
        check(c.call("dlock_client_break", self.pointer(), key, len(key),
                     None if owner is None else owner.encode()))

    def close(self) -> None:
        """Unlocks what is held, and disconnects. In a forked child: nothing."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None and self._pid == os.getpid():
            self.notices.close()
            c.library.dlock_client_close(pointer)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("a Client is a connection of its process, and cannot be copied or pickled")

    def __del__(self):
        if getattr(self, "_pointer", None) is not None and c is not None:
            self.close()


def _holder(info):
    def seconds(ms):
        return None if ms < 0 else ms / 1000

    return Holder(info.owner.decode("utf-8", "replace"), info.label.decode("utf-8", "replace"),
                  info.mode == c.SHARED, info.fence, seconds(info.remaining_ms),
                  seconds(info.held_ms), None if info.waiters == 0xFFFFFFFF else info.waiters,
                  ctypes.string_at(info.data, info.data_len) if info.data else b"")


def name_bytes(name):
    if isinstance(name, str):
        return name.encode()
    if not isinstance(name, (bytes, bytearray, memoryview)):
        raise TypeError(f"want str or bytes, not {type(name).__name__}")
    return bytes(name)


_shared = {}  # of this process: URI to client
_mutex = threading.Lock()


def _shared_key(uri):
    return os.environ.get("DLOCK_URI") if uri is None else uri


def shared_is_open(uri):
    return _shared_key(uri) in _shared


def shared_client(uri):
    """The client that the locks of this process without a client of their own use."""
    key = _shared_key(uri)
    client = _shared.get(key)  # without the mutex: another store may be about to open
    if client is not None:
        return client
    with _mutex:
        if key not in _shared:
            _shared[key] = Client(uri)
        return _shared[key]


def _after_fork():
    global _shared, _mutex
    _shared, _mutex = {}, threading.Lock()


@atexit.register
def _close_all():
    for client in list(_shared.values()):
        client.close()


os.register_at_fork(after_in_child=_after_fork)
