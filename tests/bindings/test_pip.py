# SPDX-License-Identifier: MIT
"""Does pip install the package in a fresh environment, without network? And the wheel of scripts/wheel?

    test_pip.py SOURCE-DIR [wheel REDIS-PORT]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import tap

SOURCE = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory()
OUTSIDE = {key: value for key, value in os.environ.items()
           if not key.startswith(("PYTHON", "DLOCK_", "PIP_"))}


def said(*command, env=None):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=FOLDER.name,
                          env=OUTSIDE if env is None else env).stdout


def fresh(name):
    """The Python of a new environment with pip."""
    said(sys.executable, "-m", "venv", f"{FOLDER.name}/{name}")
    return f"{FOLDER.name}/{name}/bin/python"


def install(python, *what):
    said(python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", *what)


def sources():
    return set(os.listdir(f"{SOURCE}/bindings/python")) - {"__pycache__"}


def version():
    with open(f"{SOURCE}/include/dlock/version.h", encoding="utf-8") as header:
        return ".".join(re.findall(r"_(?:MAJOR|MINOR|PATCH) (\d+)\n", header.read()))


class Pip(unittest.TestCase):
    def test_pip(self):
        """pip installs the package from its folder, with the version of the library and its types"""
        python = fresh("pip")
        before = sources()
        install(python, f"{SOURCE}/bindings/python")
        self.assertEqual(sources(), before)
        where, *versions = said(python, "-c", "import dlock, importlib.metadata as m\n"
                                "print(dlock.__file__, dlock.__version__, m.version('dlock'))",
                                env=dict(OUTSIDE, DLOCK_LIBRARY=os.environ["DLOCK_LIBRARY"])).split()
        self.assertTrue(where.startswith(f"{FOLDER.name}/pip/"), where)
        self.assertEqual(versions, [version()] * 2)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(where), "py.typed")))
        said(python, "-m", "pip", "check")

    def test_no_library(self):
        """without the library the import says what is missing"""
        python = fresh("without")
        install(python, f"{SOURCE}/bindings/python")
        text = subprocess.run([python, "-c", "import dlock"], stderr=subprocess.PIPE, text=True,
                              env=dict(OUTSIDE, DLOCK_LIBRARY="/nowhere/libdlock.so.0"),
                              check=False).stderr
        self.assertIn("ImportError: dlock needs the library libdlock.so.0: /nowhere/", text)


class Wheel(unittest.TestCase):
    def licenses(self, path):
        """Each library in the wheel has the terms of its package beside it, and what they name."""
        with zipfile.ZipFile(path) as wheel:
            folder = f"dlock-{version()}.dist-info/licenses/"
            texts = {name[len(folder):]: wheel.read(name).decode() for name in wheel.namelist()
                     if name.startswith(folder)}
            libraries = {name[len("dlock.libs/"):] for name in wheel.namelist()
                         if name.startswith("dlock.libs/")}
        index = dict(line.split() for line in texts.pop("INDEX").splitlines())
        self.assertEqual(set(index), libraries)
        for package in index.values():
            self.assertIn("opyright", texts[package])
            for named in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", texts[package]):
                self.assertTrue(named in texts or not os.path.exists(f"/usr/share/common-licenses/{named}"), named)

    def test_wheel(self):
        """the wheel locks in a fresh environment, with its own libraries, beside others of Python"""
        house = f"{FOLDER.name}/wheelhouse"
        name = said(f"{SOURCE}/scripts/wheel", house, env=OUTSIDE).strip()
        self.assertRegex(name, rf"^dlock-{re.escape(version())}-py3-none-manylinux_2_\d+_\w+\.whl$")
        self.licenses(f"{house}/{name}")
        python = fresh("wheel")
        install(python, f"{house}/{name}")
        lines = said(python, "-c", PROGRAM, f"sqlite://{FOLDER.name}/locks.db",
                     f"redis://127.0.0.1:{sys.argv[3]}?restart_guard=0").splitlines()
        self.assertEqual(lines[0], version())
        self.assertEqual(lines[1:3], ["True", "True"])
        self.assertEqual(lines[3:6], ["UNAVAILABLE"] * 3)
        mapped = set(lines[6].split())
        self.assertTrue(any("libpq" in path for path in mapped))
        for path in mapped:
            self.assertIn("/wheel/lib/", path)
        self.assertEqual(lines[7], "ok")


# Prints what of the client libraries is in this process; then whether others of Python load beside.
PROGRAM = """
import dlock, re, sys
print(dlock.__version__)
for uri in sys.argv[1:]:
    with dlock.Lock("wheel", uri=uri, timeout=0) as lock: print(lock.held)
for uri in ("etcd://127.0.0.1:1", "zookeeper://127.0.0.1:1", "postgresql://u@127.0.0.1:1/x"):
    try: dlock.Client(uri)
    except dlock.Error as error: print(error.name)
with open("/proc/self/maps") as maps:
    print(*set(re.findall(r"/\\S*/lib(?:dlock|pq|hiredis|mariadb|ssl-|crypto-|krb5|ldap)\\S*", maps.read())))
import hashlib, sqlite3, ssl
ssl.create_default_context(); sqlite3.connect(":memory:").close()
print("ok")
"""

if __name__ == "__main__":
    tap.main("__main__.Wheel" if sys.argv[2:3] == ["wheel"] else "__main__.Pip")
