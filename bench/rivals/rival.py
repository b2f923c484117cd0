# SPDX-License-Identifier: MIT
"""The loops of bench/loops.c for locks of Python: see README.md for arguments and result."""
import json
import sys
import threading
import time

now = time.perf_counter_ns


class Plan:
    """What the command line asks for; its arguments are the last six."""

    def __init__(self):
        words = sys.argv[-6:]
        self.workers = int(words[0])
        self.one_name = words[1] == "one"
        self.held = int(words[2]) / 1e6
        self.pause = int(words[3]) / 1e6
        self.seconds = int(words[4]) / 1e3
        self.handoff = words[5] == "handoff"

    def name(self, index):
        return "rival-%d" % (0 if self.one_name else index)


def absent(what):
    print("%s is not installed" % what, file=sys.stderr)
    sys.exit(69)


def quantile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))] / 1e3 if values else -1


def result(counts, times, seconds):
    times = sorted(times)
    total = sum(counts)
    squares = sum(count * count for count in counts)
    print(json.dumps({
        "pairs": total,
        "pairs_per_s": total / seconds,
        "least_over_most": min(counts) / max(counts) if total else -1,
        "jain": total * total / (len(counts) * squares) if total else -1,
        "p50_us": quantile(times, .5),
        "p90_us": quantile(times, .9),
        "p99_us": quantile(times, .99),
        "p99_9_us": quantile(times, .999),
        "worst_ms": times[-1] / 1e6 if times else -1,
    }))


class Crew:
    """Threads that lock and unlock. make(name) gives a pair of functions."""

    def __init__(self, plan, make):
        self.plan, self.make = plan, make
        self.counts = [0] * plan.workers
        self.times = [[] for _ in range(plan.workers)]
        self.last, self.released = None, 0
        self.start = threading.Barrier(plan.workers, action=self.begin)
        self.began = 0

    def begin(self):
        self.began = now()

    def goes_on(self):
        return now() < self.began + self.plan.seconds * 1e9

    def count(self, index, ns):
        self.counts[index] += 1
        self.times[index].append(ns)

    def pairs(self, index, lock, unlock):
        while self.goes_on():
            asked, held = now(), 0
            if not lock():
                continue
            if self.plan.held:
                before = now()
                time.sleep(self.plan.held)
                held = now() - before
            unlock()
            self.count(index, now() - asked - held)
            if self.plan.pause:
                time.sleep(self.plan.pause)

    def handoff(self, index, lock, unlock):
        while self.goes_on():
            if not lock():
                continue
            at = now()
            if self.last not in (None, index):
                self.count(index, at - self.released)
            self.last = index
            time.sleep(self.plan.held)
            self.released = now()
            unlock()
            while self.goes_on() and self.last == index:
                time.sleep(50e-6)

    def work(self, index):
        lock, unlock = self.make(self.plan.name(index))
        lock()
        unlock()
        self.start.wait()
        (self.handoff if self.plan.handoff else self.pairs)(index, lock, unlock)

    def run(self):
        threads = [threading.Thread(target=self.work, args=(i,)) for i in range(self.plan.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result(self.counts, [ns for some in self.times for ns in some], (now() - self.began) / 1e9)
