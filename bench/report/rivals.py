# SPDX-License-Identifier: MIT
"""dlock against other libraries on the same servers: one line for each store and case."""
import figures

# Cases that other libraries run, too: workload, figure, its name, whether more is better.
CASES = (
    ("1 thread", "pairs_per_s", "one thread, pairs/s", True),
    ("8 threads, 8 names", "pairs_per_s", "8 threads, a name each, pairs/s", True),
    ("64 threads, 64 names", "pairs_per_s", "64 threads, a name each, pairs/s", True),
    ("hand-off to another process", "p50_us", "unlock to the next lock, p50 µs", False),
    ("8 processes, 1 name, 1 ms + 1 ms", "pairs_per_s", "8 contenders, locks/s", True),
    ("8 processes, 1 name, 1 ms + 1 ms", "least_over_most", "their fairness", True),
)
# Those that docs/benchmarks.md shows; its results show all.
IN_SHORT = ("one thread, pairs/s", "unlock to the next lock, p50 µs", "8 contenders, locks/s")
NAMES = {"sqlite": "SQLite", "redis": "Redis", "mysql": "MariaDB", "postgresql": "PostgreSQL",
         "etcd": "etcd", "zookeeper": "ZooKeeper"}


def family(case):
    """The store without the way in which it is used: "mysql, sessions" is of "mysql"."""
    return case["store"].split(",")[0]


def own_of(cases, store):
    """dlock with its default options, and by dlock_op_start where that was measured."""
    labels = (store, store + ", dlock_op_start")
    return [case for case in cases if case["role"] == "dlock" and case["subject"] in labels and case["rounds"]]


def best_of(cases, store, metric, more):
    known = [case for case in cases if case["role"] == "rival" and case["rounds"] and
             family(case) == store and figures.median(case, metric) is not None]
    key = lambda case: figures.median(case, metric)
    return (max if more else min)(known, key=key) if known else None


def label(case, store):
    name = NAMES.get(store, store.capitalize())
    return name + case["subject"][len(store):]


def line(case, rival, store, metric, more, text):
    own, other = figures.median(case, metric), figures.median(rival, metric)
    times = (own / other if more else other / own) if own and other else None
    return {"case": text, "store": label(case, store), "own": own, "rival": rival["subject"],
            "other": other, "times": times, "ahead": times is None or times >= 1}


def lines(report):
    """One for each case and store in which another library was measured."""
    found, groups = [], figures.workloads(report)
    stores = list(dict.fromkeys(family(case) for case in report["cases"] if case["role"] == "rival"))
    for workload, metric, text, more in CASES:
        cases = groups.get(workload, [])
        for store in stores:
            rival = best_of(cases, store, metric, more)
            for case in own_of(cases, store) if rival else []:
                if figures.median(case, metric) is not None:
                    found.append(line(case, rival, store, metric, more, text))
    return found
