# SPDX-License-Identifier: MIT
"""The functions and structures of dlock.h, by ctypes. The other modules of the package call them."""

import ctypes
import os
import pathlib
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p

SONAME = "libdlock.so.0"

FOREVER, TRY, WAIT = -1, -2, -3
EXCLUSIVE, SHARED = 0, 1
ON = 1
TOKEN_CHARS = 33


class Error(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int), ("code", c_int32),
                ("retryable", c_bool), ("origin", c_char * 32), ("message", c_char * 256),
                ("node_count", c_uint32), ("nodes", c_void_p)]


class ClientOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("plugin_dirs", c_char_p), ("defaults", c_char_p),
                ("log", c_void_p), ("log_arg", c_void_p), ("on_lost", c_void_p),
                ("on_lost_arg", c_void_p), ("create", c_int)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("ttl_ms", c_int64), ("wait_ms", c_int64),
                ("op_timeout_ms", c_int64), ("max_hold_ms", c_int64), ("renew", c_int),
                ("fence", c_int), ("label", c_char_p), ("user", c_void_p), ("recursive", c_int),
                ("queue", c_int), ("end", c_int), ("limit", c_int64), ("keep_ms", c_int64),
                ("data", c_char_p), ("data_len", c_size_t)]


class Holder(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("mode", c_int), ("name", c_void_p),
                ("name_len", c_uint32), ("waiters", c_uint32), ("fence", c_uint64),
                ("fence_room", c_uint32), ("remaining_ms", c_int64), ("held_ms", c_int64),
                ("owner", c_char_p), ("label", c_char_p), ("limit", c_uint32),
                ("permit", c_uint32), ("kept", c_uint32), ("data_len", c_uint32),
                ("data", c_void_p)]


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
    _fields_ = [("struct_size", c_uint32), ("kind", c_int), ("reason", c_int),
                ("lock", c_void_p), ("user", c_void_p), ("fence", c_uint64), ("op", c_int),
                ("status", c_int)]


TextFunction = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t)
HolderFunction = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(Holder))

# name: result, arguments
FUNCTIONS = {
    "dlock_client_open": (c_int, [c_char_p, POINTER(ClientOptions), POINTER(c_void_p),
                                  POINTER(Error)]),
    "dlock_client_close": (None, [c_void_p]),
    "dlock_client_uri": (c_char_p, [c_void_p]),
    "dlock_client_stats": (c_int, [c_void_p, POINTER(Stats), POINTER(Error)]),
    "dlock_client_metrics": (c_int, [c_void_p, POINTER(c_char_p), TextFunction, c_void_p,
                                     POINTER(Error)]),
    "dlock_client_inspect": (c_int, [c_void_p, c_char_p, c_size_t, HolderFunction, c_void_p,
                                     POINTER(Error)]),
    "dlock_client_break": (c_int, [c_void_p, c_char_p, c_size_t, c_char_p, POINTER(Error)]),
    "dlock_client_fd": (c_int, [c_void_p]),
    "dlock_client_next": (c_int, [c_void_p, POINTER(Notice), POINTER(Error)]),
    "dlock_start": (c_int, [c_void_p, c_int, c_int64, POINTER(Error)]),
    "dlock_new": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(Options), POINTER(c_void_p),
                          POINTER(Error)]),
    "dlock_free": (None, [c_void_p]),
    "dlock_acquire": (c_int, [c_void_p, c_int, c_int64, POINTER(Error)]),
    "dlock_unlock": (c_int, [c_void_p, POINTER(Error)]),
    "dlock_renew": (c_int, [c_void_p, c_int64, POINTER(Error)]),
    "dlock_downgrade": (c_int, [c_void_p, POINTER(Error)]),
    "dlock_cancel": (None, [c_void_p]),
    "dlock_cancel_reset": (None, [c_void_p]),
    "dlock_state": (c_int, [c_void_p]),
    "dlock_remaining_ms": (c_int64, [c_void_p]),
    "dlock_fence": (c_uint64, [c_void_p]),
    "dlock_token": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "dlock_status_name": (c_char_p, [c_int]),
    "dlock_status_text": (c_char_p, [c_int]),
    "dlock_version": (c_char_p, []),
}


def _candidates():
    """$DLOCK_LIBRARY alone, or the library of the tree that this file is in, then the system's."""
    if os.environ.get("DLOCK_LIBRARY"):
        return [os.environ["DLOCK_LIBRARY"]]
    beside = []
    for folder in list(pathlib.Path(__file__).resolve().parents)[1:5]:
        beside += [folder / SONAME, folder / "lib64" / SONAME]
        beside += sorted(folder.glob("*-linux-*/" + SONAME))
    return [str(path) for path in beside if path.exists()] + [SONAME]


def _load():
    library = ctypes.CDLL(_candidates()[0])
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def sized(structure):
    """A structure of zeros with its size."""
    made = structure()
    made.struct_size = ctypes.sizeof(structure)
    return made


def call(name, *arguments):
    """Calls a function whose last argument is a struct dlock_error. Returns status and text."""
    error = sized(Error)
    status = getattr(library, name)(*arguments, byref(error))
    return status, error.message.decode("utf-8", "replace")
