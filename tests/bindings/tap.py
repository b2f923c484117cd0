# SPDX-License-Identifier: MIT
"""Runs the unittest cases of a module and prints TAP."""

import atexit
import os
import subprocess
import sys
import tempfile
import time
import traceback
import unittest


class Within:
    """A time of at most `seconds` from now on. The ruler judges it (tests/kit/ruler): $DLT_RULER."""

    _file = None

    def __init__(self, seconds):
        if Within._file is None:
            directory = tempfile.TemporaryDirectory(prefix="dlock-test.")
            atexit.register(directory.cleanup)
            Within._file = directory.name + "/ruler"
            subprocess.run([os.environ["DLT_RULER"], "watch", Within._file], check=True)
        self.most_ms, self.begun, self.void = round(seconds * 1000), time.monotonic(), False

    def check(self):
        """Raises AssertionError when it is over, and the machine has not taken the time."""
        took_ms = round((time.monotonic() - self.begun) * 1000)
        if took_ms > self.most_ms:
            command = [os.environ["DLT_RULER"], "judge", Within._file, str(took_ms), str(self.most_ms)]
            ruling = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if ruling.returncode == 79:  # it could not be judged, which scripts/test counts
                if not self.void:
                    print("# void: " + ruling.stdout.strip(), flush=True)
                self.void = True
            elif ruling.returncode != 0:
                raise AssertionError("late: " + ruling.stdout.strip())


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0

    def _line(self, verdict, test, comment=""):
        self.count += 1
        text = test.shortDescription() or str(test)
        print(f"{verdict} {self.count} - {text}{comment}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")

    def _bad(self, test, err):
        self._line("not ok", test)
        for line in "".join(traceback.format_exception(*err)).splitlines():
            print("#   " + line)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)


def main(module="__main__"):
    result = _Result()
    unittest.defaultTestLoader.loadTestsFromName(module).run(result)
    print(f"1..{result.count}")
    sys.exit(0 if result.wasSuccessful() else 1)
