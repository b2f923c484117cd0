# SPDX-License-Identifier: MIT
"""Runs the unittest cases of a module and prints TAP."""

import sys
import traceback
import unittest


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
