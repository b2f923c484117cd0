# SPDX-License-Identifier: MIT
"""A class for each status that programs branch on; Error is the base of all."""

from ._library import library


class Error(Exception):
    """A call did not do what was asked. status is its number in types.h, name is its name."""

    status = None

    def __init__(self, message, status=None):
        super().__init__(message)
        if status is not None:
            self.status = status
        self.name = library.dlock_status_name(self.status).decode()


class Busy(Error):
    """One attempt was made, and another owner holds the lock."""
    status = 1


class Timeout(Error, TimeoutError):
    """The lock was not acquired before the deadline."""
    status = 2


class Lost(Error):
    """The lock was held, and no longer is."""
    status = 4


class NotHeld(Error):
    """This object does not hold the lock."""
    status = 5


class Unknown(Error):
    """A request was sent, and no answer came. At worst the name stays taken for one ttl."""
    status = 6


class Unavailable(Error):
    """The store cannot serve the request now."""
    status = 7


class Already(Error):
    """This object holds the lock or is acquiring it."""
    status = 14


class Forked(Error):
    """The lock was acquired in another process, of which this one is a fork."""
    status = 18


_CLASSES = {each.status: each
            for each in (Busy, Timeout, Lost, NotHeld, Unknown, Unavailable, Already, Forked)}


def error_of(status, message=""):
    """The exception of a status. message: "" is the status's own text."""
    text = message or library.dlock_status_text(status).decode()
    return _CLASSES.get(status, Error)(text, status)


def check(result):
    """Raises the exception of (status, message) unless the status is OK."""
    status, message = result
    if status != 0:
        raise error_of(status, message)
