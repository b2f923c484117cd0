# SPDX-License-Identifier: MIT
"""Tables in Markdown."""
import pathlib

import figures
import rivals as standing

COLUMNS = (
    ("p50 µs", "p50_us"), ("p99 µs", "p99_us"), ("p99.9 µs", "p99_9_us"), ("max ms", "worst_ms"),
    ("fair", "least_over_most"), ("commands", "commands"), ("script µs", "script_us"), ("server µs", "server_cpu_us"),
    ("own µs", "own_cpu_us"),
)

NO_RIVAL = "No other library was measured.\n"
PROCESSES = ("etcdctl lock",)  # a process for each lock: a ratio would measure the start of programs


def table(head, rows):
    lines = [head, ["---"] + ["--:"] * (len(head) - 1)] + rows
    return "".join("| %s |\n" % " | ".join(line) for line in lines)


def machine(report):
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    return ("dlock %s, Linux %s, %d cores (%s), %d rounds of %d ms a case.\n"
            "Load average when it began: %.1f.\n") % (
        report["version"], report["kernel"], report["cores"], model, report["rounds"],
        report["duration_ms"], report.get("load_average", -1))


def verdict(ahead, times, rival):
    if rival in PROCESSES:
        return "a process a lock"
    return "%s %s x" % ("ahead" if ahead else "**behind**", figures.number(times))


def summary(report, cases=standing.IN_SHORT):
    """Of these cases: without the libraries that start a process a lock; of all: with them."""
    rows = [[line["case"], line["store"], figures.number(line["own"]),
             "%s (%s)" % (figures.number(line["other"]), line["rival"]),
             verdict(line["ahead"], line["times"], line["rival"])]
            for line in standing.lines(report)
            if cases is None or line["case"] in cases and line["rival"] not in PROCESSES]
    return table(["", "store", "dlock", "the best other library", ""], rows) if rows else NO_RIVAL


def behind(report):
    """Where another library wins."""
    found = [line for line in standing.lines(report) if not line["ahead"]]
    text = "".join("- %s, %s: %s has %s, dlock %s (%s x).\n" % (
        line["store"], line["case"], line["rival"], figures.number(line["other"]),
        figures.number(line["own"]), figures.number(line["times"])) for line in found)
    return text or "In no case of the table.\n"


def against(target):
    rival = target.get("rival")
    if not rival:
        return ""
    name = rival["subject"]
    return "%s: %s" % (name, verdict(rival["ahead"], rival["ratio"]["median"], name))


def targets(report):
    rows = [[target["id"] + " " + target["text"], figures.bound(target),
             figures.number(target["measured"]["median"]) if target["measured"] else "",
             "%s..%s" % (figures.number(target["measured"]["min"]),
                         figures.number(target["measured"]["max"])) if target["measured"] else "",
             figures.verdict(target), against(target)] for target in report["targets"]]
    return table(["", "target", "median", "range", "", "the best other library"], rows)


def row(case):
    rate = case["pairs_per_s"]
    ratio = None if case["subject"] in PROCESSES else figures.ratio(case)
    return [case["subject"], figures.spread(rate), figures.number(ratio)] + [
        figures.number(figures.median(case, metric)) for _, metric in COLUMNS]


def workload(name, cases):
    rows = [row(case) for case in cases if case["rounds"]]
    head = ["**%s**" % name, "pairs/s", "ratio"] + [title for title, _ in COLUMNS]
    return table(head, rows) + "\n" if rows else ""


def cases(report):
    """Without those that are in plots only, and without rivals."""
    text = ""
    for name, some in figures.workloads(report).items():
        if name.endswith("1 ms held") or name.split(" ")[0] in ("2", "4", "16", "32"):
            continue
        text += workload(name, [case for case in some if case["role"] != "rival"])
    return text.rstrip("\n") + "\n"


def rivals(report):
    text, absent = "", {}
    for name, some in figures.workloads(report).items():
        here = [case for case in some if case["role"] == "rival"]
        absent.update((case["subject"], case["absent"]) for case in here if "absent" in case)
        if any(case["rounds"] for case in here):
            text += workload(name, [case for case in some if case["role"] != "limit"])
    for subject, why in absent.items():
        text += "%s: %s.\n" % (subject, why)
    return text.rstrip("\n") + "\n" if text else NO_RIVAL
