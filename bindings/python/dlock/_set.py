# SPDX-License-Identifier: MIT
"""Several names that are held together."""

from __future__ import annotations

import ctypes
from typing import Any, Sequence

from . import _library as c
from ._client import Name, name_bytes, shared_client
from ._owner import Owner


class LockSet(Owner[Sequence[Name]]):
    __doc__ = f"""A set of 1 to 32 names: all are held, or none. Users of sets never wait for each
    other in a circle, whatever the order of their names.

    {Owner.__doc__}"""

    _prefix = "dlock_set_"

    def _key_of(self, name: Any) -> Any:
        if isinstance(name, (str, bytes)):
            raise TypeError("want a list of names, not one name")
        return [name_bytes(each) for each in name]

    def _new(self, client: int, pointer: Any) -> tuple[int, str]:
        count = len(self._key)
        return c.call("dlock_set_new", client, (ctypes.c_char_p * count)(*self._key),
                      (ctypes.c_size_t * count)(*map(len, self._key)), count,
                      ctypes.byref(self._options), pointer)

    def _holders(self) -> list[Any]:
        client = self._client or shared_client(self._uri)
        return [holder for key in self._key for holder in client.inspect(key)]

    @property
    def fences(self) -> list[int]:
        """The fencing tokens, in the order of the names."""
        members = [self._member(index) for index in range(len(self._key))]
        return [c.instant.dlock_fence(member) for member in members]

    def _member(self, index: int) -> Any:
        return c.instant.dlock_set_member(self._held_pointer(), index)
