# SPDX-License-Identifier: MIT
"""Clients: a store in use. A client belongs to the process that opened it."""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import threading
from typing import Any, List, Union

from . import _library as c
from ._errors import Closed, Error, Forked, NotHeld, Timeout, check
from ._notices import Notices
from ._times import timeout_ms_of
from ._views import Holder, Holders, Waiter, Waiters

Name = Union[str, bytes]

_REASONS = "expired", "taken", "max_hold", "session"  # enum dlock_reason, from 1 on
_SLICE_MS = 1000  # after which a signal ends observe


class Client:
    """A store. uri: as docs/uri.md says; None: $DLOCK_URI, then the SQLite file of this user.

    defaults: options as in a URI's query, "ttl=30s&wait=10s".
    create: False: a store that does not exist is not made, and raises NoStore.
    """

    def __init__(self, uri: str | None = None, defaults: str | None = None,
                 create: bool | None = None) -> None:
        options = c.sized(c.ClientOptions)
        options.defaults = None if defaults is None else defaults.encode()
        options.create = c.tri(create)
        self._pointer: int | None = None
        self._pid = os.getpid()
        self._pointer = _opened(None if uri is None else os.fsencode(uri), options)
        self.notices = Notices(self._pointer)

    def pointer(self) -> int:
        """The struct dlock_client *. Raises Forked in a forked child."""
        if self._pid != os.getpid():
            raise Forked("the client was opened before fork")
        if self._pointer is None:
            raise Closed
        return self._pointer

    @property
    def uri(self) -> str:
        """Without its secrets."""
        return str(c.library.dlock_client_uri(self.pointer()).decode())

    @property
    def server(self) -> str:
        """The server for messages, "SQLite 3.40.1"."""
        return str(c.library.dlock_client_server(self.pointer()).decode())

    def inspect(self, name: Name) -> List[Holder]:
        """The live holders of a name. A free name has none."""
        found = Holders()
        check(found.call("dlock_client_inspect", self.pointer(), name_bytes(name)))
        return found.views

    def list(self, prefix: Name = "") -> List[Holder]:
        """The live holders of all names that begin with prefix, in no promised order."""
        found = Holders()
        check(found.call("dlock_client_list", self.pointer(), name_bytes(prefix)))
        return found.views

    def waiters(self, name: Name) -> List[Waiter]:
        """Who waits for a name, in the order in which they are served. Raises Unsupported if the
        store does not show its queue."""
        found = Waiters()
        check(found.call("dlock_client_list_waiters", self.pointer(), name_bytes(name)))
        return found.views

    def observe(self, name: Name, known_fence: int = 0,
                timeout: float | None = None) -> List[Holder]:
        """Waits until the holder of a name is another than the one with this fencing token, and
        returns the holders then; none: that holder is gone, and nobody holds the name.

        known_fence: the fence of the holder that the caller knows; 0: none.
        timeout: seconds; None: forever. Raises Timeout if nothing changed; with known_fence 0 the
        name is free then.
        """
        key, left = name_bytes(name), timeout_ms_of(timeout)
        while True:
            part = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
            found = Holders()
            result = found.call("dlock_client_observe", self.pointer(), key, known_fence, part)
            left = left if left < 0 else left - part
            if result[0] == NotHeld.status:
                return []
            if result[0] != Timeout.status or left == 0:
                check(result)
                return found.views

    def stats(self) -> dict[str, Any]:
        """What the client has counted, as a dict. Outcomes are by name: "OK", "TIMEOUT" ...; losses
        by reason: "expired", "taken", "max_hold", "session"; waits and holds are a number, and
        the seconds of all together."""
        stats = c.sized(c.Stats)
        check(c.call("dlock_client_stats", self.pointer(), ctypes.byref(stats)))
        found: dict[str, Any] = {name: getattr(stats, name) for name in (
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
        lines: list[bytes] = []

        def add(_: Any, text: Any, size: int) -> bool:
            lines.append(ctypes.string_at(text, size))
            return False

        function = c.TextFunction(add)
        check(c.call_with_callback("dlock_client_metrics", self.pointer(),
                                   (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None), function, None))
        return b"".join(lines).decode()

    def break_lock(self, name: Name, owner: str | None = None) -> None:
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

    def __reduce__(self) -> Any:
        raise TypeError("a Client is a connection of its process, and cannot be copied or pickled")

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None and c is not None:
            self.close()


def _opened(uri: bytes | None, options: c.ClientOptions) -> int | None:
    """A struct dlock_client *. In the main thread the handler of a signal may end the opening: a
    thread closes the client then, which may wait for the store."""
    pointer = ctypes.c_void_p()
    if threading.current_thread() is not threading.main_thread():
        check(c.call("dlock_client_open", uri, ctypes.byref(options), ctypes.byref(pointer)))
        return pointer.value
    try:
        check(c.call("dlock_client_open_start", uri, ctypes.byref(options), ctypes.byref(pointer)))
        check(_end_of_opening(pointer.value))
    except Error:
        if pointer.value is not None:
            c.library.dlock_client_close(pointer)
        raise
    except BaseException:
        if pointer.value is not None:
            threading.Thread(target=c.library.dlock_client_close, args=(pointer,), daemon=True).start()
        raise
    return pointer.value


def _end_of_opening(client: int | None) -> tuple[int, str]:
    """Waits for the one notice of a new client: (status, message)."""
    notice = c.sized(c.Notice)
    poll = select.poll()
    poll.register(c.library.dlock_client_fd(client), select.POLLIN)
    while not notice.kind:
        poll.poll()
        check(c.call("dlock_client_next", client, ctypes.byref(notice)))
    return notice.status, c.text_of(notice.error) if notice.status else ""


def name_bytes(name: Name) -> bytes:
    if isinstance(name, str):
        return name.encode()
    if not isinstance(name, bytes):
        raise TypeError(f"want str or bytes, not {type(name).__name__}")
    return name


_shared: dict[str | None, Client] = {}  # of this process: URI to client
_mutex = threading.Lock()


def _shared_key(uri: str | None) -> str | None:
    return os.environ.get("DLOCK_URI") if uri is None else uri


def shared_is_open(uri: str | None) -> bool:
    return _shared_key(uri) in _shared


def shared_client(uri: str | None) -> Client:
    """The client that the locks of this process without a client of their own use."""
    key = _shared_key(uri)
    client = _shared.get(key)  # without the mutex: another store may be about to open
    if client is not None:
        return client
    with _mutex:
        if key not in _shared:
            _shared[key] = Client(uri)
        return _shared[key]


def _after_fork() -> None:
    global _shared, _mutex
    _shared, _mutex = {}, threading.Lock()


@atexit.register
def _close_all() -> None:
    for client in list(_shared.values()):
        client.close()


os.register_at_fork(after_in_child=_after_fork)
