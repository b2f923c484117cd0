# SPDX-License-Identifier: MIT
"""What a report says, picked out of its JSON."""


def number(value):
    """As many digits as say something."""
    if value is None:
        return ""
    return "%.*f" % (0 if value >= 100 else 1 if value >= 10 else 2, value)


def median(case, metric):
    spread = case.get(metric)
    return spread["median"] if spread else None


def spread(value):
    if not value:
        return ""
    return "%s (%s..%s)" % tuple(number(value[key]) for key in ("median", "min", "max"))


def workloads(report):
    """Names in order, each with its cases."""
    groups = {}
    for case in report["cases"]:
        groups.setdefault(case["workload"], []).append(case)
    return groups


def find(report, workload, subject):
    for case in report["cases"]:
        if case["workload"] == workload and case["subject"] == subject and case["rounds"]:
            return case
    return None


def ratio(case):
    """Over the limit of the same store: of rates, or of times where there is a time only."""
    loop = case["load"]["loop"]
    return median(case, "rate_over_limit" if loop == "pairs" else "p50_over_limit")


def verdict(target):
    if target["met"] is None:
        return "not measured"
    return "met" if target["met"] else "not met"


def bound(target):
    sign = "≥" if target["bound"] == "least" else "≤"
    return "%s %s %s" % (sign, number(target["target"]), target["unit"])
