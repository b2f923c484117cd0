# SPDX-License-Identifier: MIT
"""The functions and structures of dlock.h, by ctypes. The other modules of the package call them."""

from __future__ import annotations

import _thread
import ctypes
import os
import pathlib
import threading
import types
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, TypeVar

SONAME = "libdlock.so.0"

TRY, FOREVER, AS_OPTIONS = 0, -1, -2
EXCLUSIVE, SHARED = 0, 1
ON, OFF = 1, 2
NOT_KNOWN = 0xFFFFFFFF
TOKEN_CHARS = 33


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("code", c_int32), ("retryable", c_bool),
                ("origin", c_char * 32), ("message", c_char * 256), ("nodes", c_void_p),
                ("node_room", c_uint32), ("node_count", c_uint32), ("reserved", c_uint64 * 4)]


class ClientOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("plugin_dirs", c_char_p), ("defaults", c_char_p),
                ("log", c_void_p), ("log_arg", c_void_p), ("on_lost", c_void_p),
                ("on_lost_arg", c_void_p), ("create", c_int)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("ttl_ms", c_int64), ("wait_ms", c_int64),
                ("op_timeout_ms", c_int64), ("max_hold_ms", c_int64), ("renew", c_int),
                ("fence", c_int), ("label", c_char_p), ("user", c_void_p), ("recursive", c_int),
                ("queue", c_int), ("end", c_int), ("limit", c_int64), ("keep_ms", c_int64),
                ("data", c_char_p), ("data_len", c_size_t), ("on_expiry", c_int)]


class Holder(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("mode", c_int), ("name", c_void_p),
                ("name_len", c_uint32), ("waiters", c_uint32), ("fence", c_uint64),
                ("fence_last", c_uint64), ("remaining_ms", c_int64), ("held_ms", c_int64),
                ("owner", c_char_p), ("label", c_char_p), ("limit", c_uint32),
                ("permit", c_uint32), ("kept", c_bool), ("data_len", c_uint32),
                ("data", c_void_p)]


class Waiter(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("mode", c_int), ("position", c_uint32),
                ("waited_ms", c_int64), ("owner", c_char_p), ("label", c_char_p)]


class Histogram(ctypes.Structure):
    _fields_ = [("count", c_uint64), ("sum_us", c_uint64), ("buckets", c_uint64 * 32)]


class Stats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("classes", c_uint32),
                ("acquisitions", c_uint64 * 32), ("unlocks", c_uint64 * 32),
                ("renewals", c_uint64 * 32), ("losses", c_uint64 * 8), ("handoffs", c_uint64),
                ("unknowns", c_uint64), ("sessions_opened", c_uint64),
                ("sessions_failed", c_uint64), ("sessions_broken", c_uint64), ("held", c_uint64),
                ("waiting", c_uint64), ("waits", Histogram), ("holds", Histogram)]


class Notice(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int), ("reason", c_int), ("op", c_int),
                ("status", c_int), ("lock", c_void_p), ("user", c_void_p), ("fence", c_uint64),
                ("error", Error)]


TextFunction = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t)
HolderFunction = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(Holder))
WaiterFunction = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(Waiter))

_ERROR, _OUT, _NAME = POINTER(Error), POINTER(c_void_p), (c_char_p, c_size_t)

# name: result, arguments
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "dlock_client_open": (c_int, [c_char_p, POINTER(ClientOptions), _OUT, _ERROR]),
    "dlock_client_open_start": (c_int, [c_char_p, POINTER(ClientOptions), _OUT, _ERROR]),
    "dlock_client_close": (None, [c_void_p]),
    "dlock_client_uri": (c_char_p, [c_void_p]),
    "dlock_client_server": (c_char_p, [c_void_p]),
    "dlock_client_stats": (c_int, [c_void_p, POINTER(Stats), _ERROR]),
    "dlock_client_metrics": (c_int, [c_void_p, POINTER(c_char_p), TextFunction, c_void_p, _ERROR]),
    "dlock_client_inspect": (c_int, [c_void_p, *_NAME, HolderFunction, c_void_p, _ERROR]),
    "dlock_client_list": (c_int, [c_void_p, *_NAME, HolderFunction, c_void_p, _ERROR]),
    "dlock_client_list_waiters": (c_int, [c_void_p, *_NAME, WaiterFunction, c_void_p, _ERROR]),
    "dlock_client_observe": (c_int, [c_void_p, *_NAME, c_uint64, c_int64, HolderFunction, c_void_p,
                              _ERROR]),
    "dlock_client_break": (c_int, [c_void_p, *_NAME, c_char_p, _ERROR]),
    "dlock_client_fd": (c_int, [c_void_p]),
    "dlock_client_next": (c_int, [c_void_p, POINTER(Notice), _ERROR]),
    "dlock_op_start": (c_int, [c_void_p, c_int, c_int64, _ERROR]),
    "dlock_new": (c_int, [c_void_p, *_NAME, POINTER(Options), _OUT, _ERROR]),
    "dlock_downgrade": (c_int, [c_void_p, _ERROR]),
    "dlock_keep_name": (c_int, [c_void_p, c_int64, _ERROR]),
    "dlock_adopt": (c_int, [c_void_p, c_char_p, _ERROR]),
    "dlock_token": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "dlock_set_new": (c_int, [c_void_p, POINTER(c_char_p), POINTER(c_size_t), c_size_t,
                              POINTER(Options), _OUT, _ERROR]),
    "dlock_status_name": (c_char_p, [c_int]),
    "dlock_status_text": (c_char_p, [c_int]),
    "dlock_version": (c_char_p, []),
}
# The same for dlock_ and dlock_set_.
_OWNER: dict[str, tuple[Any, list[Any]]] = {
    "free": (None, [c_void_p]),
    "acquire": (c_int, [c_void_p, c_int, c_int64, _ERROR]),
    "unlock": (c_int, [c_void_p, _ERROR]),
    "renew": (c_int, [c_void_p, c_int64, _ERROR]),
    "cancel": (None, [c_void_p]),
    "cancel_reset": (None, [c_void_p]),
}
for _name, _types in _OWNER.items():
    FUNCTIONS["dlock_" + _name] = FUNCTIONS["dlock_set_" + _name] = _types

# They return at once, and are called with the interpreter's lock held: no thread runs between the
# look at a handle and the call.
INSTANT: dict[str, tuple[Any, list[Any]]] = {
    "dlock_state": (c_int, [c_void_p]),
    "dlock_set_state": (c_int, [c_void_p]),
    "dlock_remaining_ms": (c_int64, [c_void_p]),
    "dlock_set_remaining_ms": (c_int64, [c_void_p]),
    "dlock_fence": (c_uint64, [c_void_p]),
    "dlock_permit": (c_uint32, [c_void_p]),
    "dlock_set_member": (c_void_p, [c_void_p, c_size_t]),
}


def _candidates() -> list[str]:
    """$DLOCK_LIBRARY alone, or that of a wheel, or of the tree that this file is in, then the system's."""
    if os.environ.get("DLOCK_LIBRARY"):
        return [os.environ["DLOCK_LIBRARY"]]
    here = pathlib.Path(__file__).resolve()
    beside = [here.parents[1] / "dlock.libs" / SONAME]
    for folder in list(here.parents)[1:5]:
        beside += [folder / SONAME, folder / "lib64" / SONAME]
        beside += sorted(folder.glob("*-linux-*/" + SONAME))
    return [str(path) for path in beside if path.exists()] + [SONAME]


def _typed(loaded: Any, functions: dict[str, tuple[Any, list[Any]]]) -> Any:
    for name, (result, arguments) in functions.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _load() -> tuple[Any, Any]:
    path = _candidates()[0]
    try:
        return _typed(ctypes.CDLL(path), FUNCTIONS), _typed(ctypes.PyDLL(path), INSTANT)
    except OSError as error:
        raise ImportError(f"dlock needs the library {SONAME}: {error}. Install it (on Debian: "
                          "libdlock0), or name its file in DLOCK_LIBRARY") from error


library, instant = _load()
_functions = {prefix: types.SimpleNamespace(**{name: getattr(library, prefix + name)
                                               for name in _OWNER})
              for prefix in ("dlock_", "dlock_set_")}


def functions_of(prefix: str) -> Any:
    """The functions of _OWNER, for locks or for sets."""
    return _functions[prefix]


S = TypeVar("S", bound=ctypes.Structure)


def sized(structure: type[S]) -> S:
    """A structure of zeros with its size."""
    made = structure()
    made.struct_size = ctypes.sizeof(structure)
    return made


def tri(value: bool | None) -> int:
    """enum dlock_tri; None: default."""
    return 0 if value is None else ON if value else OFF


def text_of(error: Error) -> str:
    return str(error.message.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> tuple[int, str]:
    """Calls a function whose last argument is a struct dlock_error. Returns status and text."""
    error = Error()
    status = getattr(library, name)(*arguments, byref(error))
    return status, text_of(error)


def call_with_callback(name: str, *arguments: Any) -> tuple[int, str]:
    """call, for a function that calls Python back. In the main thread the handler of a signal could
    run in the callback, where what it raises is lost with a part of the answer: another thread
    calls. An interrupt is raised as soon as the call has ended."""
    ended: list[Any] = []  # the answer, or what ctypes raised
    waiting = _thread.allocate_lock()
    interrupt: BaseException | None = None

    def run() -> None:
        try:
            ended.append(call(name, *arguments))
        except BaseException as error:
            ended.append(error)
        waiting.release()

    if threading.current_thread() is not threading.main_thread():
        return call(name, *arguments)
    waiting.acquire()
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # there can be no more threads
        return call(name, *arguments)
    while not ended:
        try:
            waiting.acquire()
        except BaseException as error:
            interrupt = error
    failed = interrupt or ended[0]
    if isinstance(failed, BaseException):
        raise failed
    return ended[0]  # type: ignore[no-any-return]
