# SPDX-License-Identifier: MIT
"""A class for each status that programs branch on, below the class of the standard library that
means the same; Error is the base of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._library import library

if TYPE_CHECKING:
    from ._views import Holder


class Error(Exception):
    """A call did not do what was asked. status is its number in types.h, name is its name."""

    status: int = 21

    def __init__(self, message: str = "", status: int | None = None) -> None:
        if status is not None:
            self.status = status
        super().__init__(message or library.dlock_status_text(self.status).decode())
        self.name: str = library.dlock_status_name(self.status).decode()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status), self.__dict__


class _Held(Error):
    """holders: who had the name just after the refusal, as far as the store tells; else empty."""

    holders: list[Holder] = []


class Busy(_Held, BlockingIOError):
    """One attempt was made, and another owner holds the lock."""
    status = 1


class Timeout(_Held, TimeoutError):
    """The lock was not acquired before the deadline."""
    status = 2


class Canceled(Error):
    """The wait was ended by cancel."""
    status = 3


class Lost(Error):
    """The lock was held, and no longer is."""
    status = 4


class NotHeld(Error, RuntimeError):
    """This object does not hold the lock."""
    status = 5


class Unknown(Error):
    """A request was sent, and no answer came. At worst the name stays taken for one ttl."""
    status = 6


class Unavailable(Error, ConnectionError):
    """The store cannot serve the request now."""
    status = 7


class NoQuorum(Unavailable):
    """No majority of the nodes could be reached."""
    status = 8


class Refused(Error, PermissionError):
    """The store refused the credentials or the permission."""
    status = 9


class Unsupported(Error, NotImplementedError):
    """This store cannot do that."""
    status = 12


class Invalid(Error, ValueError):
    """An argument, the URI or an option is wrong."""
    status = 13


class Already(Error, RuntimeError):
    """This object holds the lock or is acquiring it."""
    status = 14


class NoPlugin(Error, ImportError):  # type: ignore[misc]
    """The plugin of the store is not there, or cannot be loaded."""
    status = 15


class Forked(Error, RuntimeError):
    """The lock was acquired in another process, of which this one is a fork."""
    status = 18


class Closed(Error, RuntimeError):
    """The client is closed."""
    status = 19


class NoMemory(Error, MemoryError):
    """Out of memory or of another local resource."""
    status = 20


class NoStore(Error, FileNotFoundError):
    """The store does not exist."""
    status = 22


CLASSES: dict[int, type[Error]] = {each.status: each for each in (
    Busy, Timeout, Canceled, Lost, NotHeld, Unknown, Unavailable, NoQuorum, Refused, Unsupported,
    Invalid, Already, NoPlugin, Forked, Closed, NoMemory, NoStore)}
CLASSES.update(dict.fromkeys((16, 17), NoPlugin))  # it does not load; it is of another version


def error_of(status: int, message: str = "") -> Error:
    """The exception of a status. message: "" is the status's own text."""
    return CLASSES.get(status, Error)(message, status)


def check(result: tuple[int, str]) -> None:
    """Raises the exception of (status, message) unless the status is OK."""
    status, message = result
    if status != 0:
        raise error_of(status, message)
