# SPDX-License-Identifier: MIT
"""Plots in SVG, drawn by gnuplot."""
import subprocess

import figures

HEAD = """set terminal svg size 760,440 dynamic font "sans-serif,13" background "white"
set output "{output}"
set title "{title}"
set key outside right top samplen 2 spacing 1.1
set grid back lc rgb "#dddddd"
set border 3 lc rgb "#555555"
set tics nomirror
set xlabel "{x}"
set ylabel "{y}"
{more}
"""
COLOURS = ("#0b6e99", "#d9480f", "#2b8a3e", "#862e9c", "#e67700", "#364fc7", "#a61e4d", "#5c940d", "#495057", "#c2255c")
# A store has its colour in all plots, and its limit the same, dashed.
KIN = (("memory",), ("sqlite", "bare SQLite"),
       ("redis", "bare hiredis, with a fence", "bare queue, fence and grant"),
       ("redlock of 3", "3 bare nodes, all answers"), ("mysql", "bare UPDATE", "bare UPDATEs under GET_LOCK"),
       ("mysql, sessions", "bare FOR UPDATE and fence"), ("redlock of 5", "5 bare nodes, all answers"),
       ("postgresql", "bare plpgsql", "bare queue and NOTIFY"), ("etcd", "bare Txns", "bare queue and watch"),
       ("zookeeper", "bare flight", "bare nodes and watch"))
STORES = ("memory", "sqlite", "redis", "redlock of 3", "mysql", "mysql, sessions", "postgresql", "etcd", "zookeeper")
# Kin of a store of which another limit is drawn.
LEFT_OUT = ("bare hiredis", "bare hiredis, 64 at once", "bare hiredis, spinning", "bare hiredis, spinning with a fence",
            "redis, spin=off", "bare queue and grant", "bare GET_LOCK", "bare prepared UPDATE",
            "bare plpgsql, not prepared", "bare advisory lock")
LOG_X = "set logscale x 2\n"
LOG_Y = 'set logscale y 10\nset format y "%.0s%c"\n'


def colour(label, i):
    for which, kin in enumerate(KIN):
        if label in kin:
            return COLOURS[which]
    return COLOURS[i % len(COLOURS)]


def gnuplot(directory, name, title, x, y, curves, more="", how="linespoints lw 2 pt 7 ps 0.5"):
    """curves: (label, [(x, y)], dashed). Nothing is drawn of nothing."""
    curves = [curve for curve in curves if curve[1]]
    if not curves:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / (name + ".svg")
    text, parts = HEAD.format(output=file, title=title, x=x, y=y, more=more), []
    for i, (label, points, dashed) in enumerate(curves):
        lines = "".join("%g %g\n" % point for point in points)
        text += "$d%d << END\n%sEND\n" % (i, lines)
        parts.append('$d%d using 1:2 with %s dt %d lc rgb "%s" title "%s"' % (
            i, how, 2 if dashed else 1, colour(label, i), label.replace("_", " ")))
    subprocess.run(["gnuplot"], input=text + "plot " + ", ".join(parts) + "\n", text=True, check=True)
    return file


def bars(directory, name, title, x, rows, most):
    """rows: (label, value, role); the first is at the top."""
    if not rows:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / (name + ".svg")
    more = ("set terminal svg size 760,%d dynamic font 'sans-serif,13' background 'white'\n"
            "set style fill solid 0.8 noborder\nset xrange [0:%s]\nset yrange [%g:-0.7]\n"
            "unset key\nset ytics noenhanced\n" % (130 + 20 * len(rows), most, len(rows) - 0.3))
    text = more + HEAD.partition("\n")[2].format(output=file, title=title, x=x, y="", more="unset key") + "$d << END\n"
    for i, (label, value, role) in enumerate(rows):
        text += '%d %g "%s" %d\n' % (i, value, label, {"dlock": 0x0b6e99, "limit": 0x999999}.get(role, 0xd9480f))
    text += "END\nplot $d using (0):1:(0):2:($1-0.35):($1+0.35):4:ytic(3) with boxxyerror lc rgb variable\n"
    subprocess.run(["gnuplot"], input=text, text=True, check=True)
    return file


def against(report, names, subject, metric):
    """Points of a subject over the numbers that begin the names of workloads."""
    points = []
    for name in names:
        case = figures.find(report, name, subject)
        value = figures.median(case, metric) if case else None
        if value is not None:
            points.append((float(name.split(" ")[0]), value))
    return points


def threads(report, directory):
    names = ["1 thread"] + ["%d threads, %d names" % (n, n) for n in (2, 4, 8, 16, 32, 64)]
    curves = [(store, against(report, names, store, "pairs_per_s"), False) for store in STORES]
    curves += [(limit, against(report, names, limit, "pairs_per_s"), True)
               for limit in ("bare hiredis, with a fence", "bare UPDATE")]
    return gnuplot(directory, "threads", "Throughput against threads of one client, a name each",
                   "threads", "pairs a second", [c for c in curves if len(c[1]) > 1], LOG_X + LOG_Y)


def against_rivals(report, directory):
    """Redis, for which there are most other libraries."""
    names = ("1 thread", "8 threads, 8 names", "64 threads, 64 names")
    subjects = dict.fromkeys(
        case["subject"] for case in report["cases"] if case["store"] == "redis" and case["workload"] in names and
        (case["role"] == "rival" or case["subject"] in ("redis", "redis, dlock_op_start")))
    curves = [("dlock" + subject[len("redis"):] if case_is_own(report, subject) else subject,
               against(report, names, subject, "pairs_per_s"), not case_is_own(report, subject))
              for subject in subjects]
    return gnuplot(directory, "rivals", "Redis: dlock and other libraries (dashed), a name each",
                   "threads, coroutines or operations at once", "pairs a second",
                   [curve for curve in curves if curve[1]], LOG_X + "set yrange [0:*]\nset format y '%.0s%c'\n")


def case_is_own(report, subject):
    return any(case["role"] == "dlock" for case in report["cases"] if case["subject"] == subject)


def waiters(report, directory):
    names = ["%d processes, 1 name, 1 ms held" % n for n in (2, 4, 8, 16, 32)]
    stores = ("redis", "mysql", "redlock of 3", "bare queue, fence and grant")
    curves = [(store, against(report, names, store, "commands"), store.startswith("bare"))
              for store in stores]
    return gnuplot(directory, "waiters", "Commands an acquisition, those inside of scripts included",
                   "processes on one name", "commands", curves, LOG_X + "set yrange [0:*]\n")


def percentiles(report, directory, name, workload, title):
    """The x axis is stretched at the end: each step is a tenth of the rest."""
    curves = []
    for case in figures.workloads(report).get(workload, []):
        points = [(1 / (1 - share), us) for share, us in case["percentiles"] if share < 1]
        if case["role"] != "rival" and case["subject"] not in LEFT_OUT:
            curves.append((case["subject"], points, case["role"] == "limit"))
    more = ("set logscale x 10\n" + LOG_Y +
            'set xtics ("0" 1, "90%%" 10, "99%%" 100, "99.9%%" 1000, "99.99%%" 10000)\n')
    return gnuplot(directory, name, title, "share of all", "microseconds", curves, more,
                   "lines lw 2")


def fairness(report, directory):
    rows = [(case["subject"], figures.median(case, "least_over_most"), case["role"])
            for case in figures.workloads(report).get("8 processes, 1 name, 1 ms + 1 ms", [])
            if figures.median(case, "least_over_most") is not None]
    return bars(directory, "fairness", "Fairness: 8 contenders, 1 ms held + 1 ms pause",
                "least over most", rows, "1.05")


def rates(report, directory):
    rows = [(case["subject"], figures.median(case, "pairs_per_s"), case["role"])
            for case in figures.workloads(report).get("8 processes, 1 name, 1 ms + 1 ms", [])
            if case["rounds"]]
    return bars(directory, "contended", "Acquisitions a second: 8 contenders, 1 ms held + 1 ms pause",
                "acquisitions a second", rows, "1000")


def draw_all(report, directory):
    """Pairs of a caption and a file."""
    drawn = [
        ("How many pairs other libraries make on Redis", against_rivals(report, directory)),
        ("How much more threads get done", threads(report, directory)),
        ("What waiting costs the server", waiters(report, directory)),
        ("How long a pair takes, one thread", percentiles(
            report, directory, "alone", "1 thread", "Lock and unlock, one thread")),
        ("How long a hand-off takes", percentiles(
            report, directory, "handoff", "hand-off to another process",
            "From the unlock of one process to the lock of another")),
        ("How much contenders get", rates(report, directory)),
        ("How evenly they get it", fairness(report, directory)),
    ]
    return [(caption, file) for caption, file in drawn if file]
