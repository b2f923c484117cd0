# SPDX-License-Identifier: MIT
"""Makes the wheel of dlock (PEP 517 and 660). It needs nothing but Python: pip installs the package
also where no package index is in reach.

    backend.py FOLDER LIBS TEXTS TAG    a wheel with the libraries of the folder LIBS and their licenses, those of
                                        the folder TEXTS, as scripts/wheel calls it
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import re
import sys
import zipfile
from collections.abc import Iterable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include/dlock/version.h"
ANY = "py3-none-any"


def _version() -> str:
    if not HEADER.exists():
        raise FileNotFoundError(f"{HEADER}: the package is built in the tree of dlock, which has its "
                                "version; this needs pip 21.3 or later")
    return ".".join(re.findall(r"#define DLOCK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                               HEADER.read_text()))


def _metadata() -> str:
    """The table [project]. Python 3.9 has no reader of TOML: a key and a text a line are enough."""
    table = (HERE / "pyproject.toml").read_text().split("[project]\n")[1].split("\n[")[0]
    project = dict(re.findall(r'^([\w-]+) = "(.*)"$', table, re.M))
    return (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {_version()}\n"
            f"Summary: {project['description']}\nLicense: {project['license']}\n"
            f"Requires-Python: {project['requires-python']}\n"
            "Classifier: Operating System :: POSIX :: Linux\nClassifier: Typing :: Typed\n"
            "Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text())


def _write(folder: str, files: dict[str, bytes], tag: str, licenses: Iterable[pathlib.Path] = ()) -> str:
    """A wheel of these files; the licenses are those of others. Returns its name."""
    name = f"dlock-{_version()}"
    info = f"{name}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: dlock\nRoot-Is-Purelib: "
                              f"{str(tag == ANY).lower()}\nTag: {tag}\n").encode()
    files[f"{info}/LICENSE"] = (HERE.parents[1] / "LICENSE").read_bytes()
    for path in sorted(licenses):
        files[f"{info}/licenses/{path.name}"] = path.read_bytes()
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(f"{folder}/{name}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # of 1980: equal files make equal wheels
            entry.external_attr = (0o755 if ".so" in path else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return f"{name}-{tag}.whl"


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _package() -> dict[str, bytes]:
    paths = [*sorted((HERE / "dlock").glob("*.py")), HERE / "dlock/py.typed"]
    return {f"dlock/{path.name}": path.read_bytes() for path in paths}


def build_wheel(folder: str, settings: Any = None, metadata: Any = None) -> str:
    return _write(folder, _package(), ANY)


def build_editable(folder: str, settings: Any = None, metadata: Any = None) -> str:
    return _write(folder, {"dlock.pth": f"{HERE}\n".encode()}, ANY)


if __name__ == "__main__":
    _libs = {f"dlock.libs/{path.name}": path.read_bytes()
             for path in sorted(pathlib.Path(sys.argv[2]).iterdir())}
    print(_write(sys.argv[1], {**_package(), **_libs}, sys.argv[4], pathlib.Path(sys.argv[3]).iterdir()))
