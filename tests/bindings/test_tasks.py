# SPDX-License-Identifier: MIT
"""Do the eight Python programs of docs/bindings.md do what the page says, and do they have types?

    test_tasks.py SOURCE-DIR [types]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import tap

SOURCE = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory()
with open(f"{SOURCE}/docs/bindings.md", encoding="utf-8") as page:
    TASKS = re.findall(r"^\*\*(\d)\. (.*?)\.?\*\*.*?```python\n(.*?)```", page.read(), re.S | re.M)

# What each prints, as a pattern.
PRINTS = {
    1: r"page 1 fence (\d+)\npage 2 fence \1\npage 3 fence \1\n",
    2: r"working\n",
    3: r"(page [123] fence \d+\n){3}",
    4: r"two readers\n",
    5: r"card 0\n",
    6: r"transfer, fences \d+ \d+\n",
    7: r"this hour's run\n",
    8: r"leader http://10\.0\.0\.3:8080 since [\d.]+\nstill \[b'leader'\]\n",
}


def says(task, uri):
    return subprocess.run([sys.executable, "-W", "error", "-c", TASKS[task - 1][2]],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=dict(os.environ, DLOCK_URI=uri)).stdout


def mypy(text):
    path = f"{FOLDER.name}/program.py"
    with open(path, "w", encoding="utf-8") as program:
        program.write(text)
    return subprocess.run(["mypy", "--strict", "--no-error-summary", "--cache-dir",
                           f"{FOLDER.name}/cache", path], stdout=subprocess.PIPE, text=True,
                          check=False, env=dict(os.environ, MYPYPATH=f"{SOURCE}/bindings/python")
                          ).stdout


class Tasks(unittest.TestCase):
    def test_refused(self):
        """task 2 says who has the lock"""
        import dlock
        uri = f"sqlite://{FOLDER.name}/refused.db"
        with dlock.Lock("nightly-report", uri=uri):
            self.assertRegex(says(2, uri), rf"^held by another owner; held by .*:{os.getpid()}")

    def test_all(self):
        """the page has eight tasks, and each has a test"""
        self.assertEqual([int(number) for number, _, _ in TASKS], sorted(PRINTS))


class Types(unittest.TestCase):
    def test_package(self):
        """mypy --strict accepts the package"""
        self.assertEqual(mypy("import dlock\nprint(dlock.__version__)\n"), "")

    def test_wrong(self):
        """mypy finds a wrong name, a wrong option and a forgotten list"""
        for line in ("dlock.Lock(5)", "dlock.Lock('x', tll=3)", "dlock.LockSet([5])",
                     "dlock.Client().list(7)", "x: int = dlock.Lock('x').acquire()"):
            self.assertIn("error:", mypy(f"import dlock\n{line}\n"), line)


def _test_of(task, title, wanted):
    def test(self):
        self.assertRegex(says(task, f"sqlite://{FOLDER.name}/{task}.db"), f"^{wanted}$")

    def types(self):
        self.assertEqual(mypy(TASKS[task - 1][2]), "")

    test.__doc__ = f"task {task} works: {title}"
    types.__doc__ = f"mypy --strict accepts task {task}"
    return test, types


for _task, _wanted in PRINTS.items():
    _test, _types = _test_of(_task, TASKS[_task - 1][1], _wanted)
    setattr(Tasks, f"test_{_task}", _test)
    setattr(Types, f"test_{_task}", _types)

if __name__ == "__main__":
    tap.main("__main__.Types" if sys.argv[2:] == ["types"] else "__main__.Tasks")
