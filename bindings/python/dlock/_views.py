# SPDX-License-Identifier: MIT
"""Who holds a name, and who waits for it."""

from __future__ import annotations

import ctypes
from typing import Any, Generic, NamedTuple, TypeVar

from . import _library as c


class Holder(NamedTuple):
    """A holder of a name. remaining and held are seconds; None: not known.

    name: as bytes, which every name has; as text: name.decode().
    data: the bytes that the holder publishes.
    limit, permit: of a semaphore; limit 0: a lock.
    kept: nobody has the name any more, and it stays taken until `remaining` is over.
    """

    owner: str
    label: str
    shared: bool
    fence: int
    remaining: float | None
    held: float | None
    waiters: int | None
    data: bytes
    name: bytes
    limit: int
    permit: int
    kept: bool

    def __str__(self) -> str:
        return (self.label or self.owner) + ("" if self.held is None else
                                             f", for {self.held:.1f} s")


class Waiter(NamedTuple):
    """A waiter in the store's queue of a name. waited: seconds; None: not known."""

    owner: str
    label: str
    shared: bool
    position: int
    waited: float | None


def _seconds(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _holder(info: Any) -> Holder:
    return Holder(_text(info.owner), _text(info.label), info.mode == c.SHARED, info.fence,
                  _seconds(info.remaining_ms), _seconds(info.held_ms),
                  None if info.waiters == c.NOT_KNOWN else info.waiters,
                  ctypes.string_at(info.data, info.data_len) if info.data else b"",
                  ctypes.string_at(info.name, info.name_len), info.limit, info.permit,
                  info.kept)


def _waiter(info: Any) -> Waiter:
    return Waiter(_text(info.owner), _text(info.label), info.mode == c.SHARED, info.position,
                  _seconds(info.waited_ms))


V = TypeVar("V")


class _Views(Generic[V]):
    """The list that a function of the library fills by its callback."""

    function: Any
    view: Any

    def __init__(self) -> None:
        self.views: list[V] = []

    def call(self, name: str, client: int, key: bytes, *arguments: int) -> tuple[int, str]:
        make = type(self).view

        def add(_: Any, info: Any) -> bool:
            self.views.append(make(info.contents))
            return False

        return c.call_with_callback(name, client, key, len(key), *arguments,
                                    type(self).function(add), None)


class Holders(_Views[Holder]):
    function, view = c.HolderFunction, staticmethod(_holder)


class Waiters(_Views[Waiter]):
    function, view = c.WaiterFunction, staticmethod(_waiter)
