# SPDX-License-Identifier: MIT
"""The report as one HTML file: its plots are in it, and it fetches nothing."""
import html
import re

import figures
import tables

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1400px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { margin-bottom: 0 } h2 { margin-top: 2em } .dim { color: #666 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0; font-variant-numeric: tabular-nums }
th, td { padding: 2px 7px; text-align: right; border-bottom: 1px solid #e5e5e5; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.met { color: #2b8a3e } .missed { color: #c92a2a; font-weight: 600 } .limit td { color: #666; font-style: italic }
.rival td { color: #a6440a } .plots { display: grid; grid-template-columns: 1fr 1fr; gap: 1em }
.wide { overflow-x: auto } figure { margin: 0; border: 1px solid #e5e5e5; padding: 6px } figure svg { width: 100%; height: auto }
figcaption { font-weight: 600; padding: 4px }
@media (max-width: 900px) { .plots { grid-template-columns: 1fr } }
"""
COLUMNS = (
    ("p50 µs", "p50_us"), ("p90", "p90_us"), ("p99", "p99_us"), ("p99.9", "p99_9_us"),
    ("max ms", "worst_ms"), ("fair", "least_over_most"), ("Jain", "jain"), ("commands", "commands"),
    ("scripts", "script_calls"), ("script µs", "script_us"), ("server µs", "server_cpu_us"), ("own µs", "own_cpu_us"),
    ("cores", "share_of_a_core"), ("allocs", "allocations"), ("sockets", "sockets"),
    ("MB", "memory_mb"),
)


def cell(text, tag="td", attributes=""):
    return "<%s%s>%s</%s>" % (tag, attributes, html.escape(text), tag)


def targets(report):
    rows = []
    for target in report["targets"]:
        kind = {True: "met", False: "missed", None: "dim"}[target["met"]]
        rows.append("<tr>%s</tr>" % "".join((
            cell(target["id"] + " " + target["text"]), cell(figures.bound(target)),
            cell(figures.spread(target["measured"])),
            cell(figures.verdict(target), attributes=' class="%s"' % kind),
            cell(tables.against(target).replace("*", "")))))
    head = "".join(cell(text, "th") for text in ("", "target", "median (range)", "", "the best other library"))
    return "<table><tr>%s</tr>%s</table>" % (head, "".join(rows))


def row(case):
    cells = [cell(case["subject"]), cell(figures.spread(case["pairs_per_s"])),
             cell(figures.number(figures.ratio(case)))]
    if not case["rounds"]:
        why = case.get("absent") or case.get("failed") or "not run"
        cells = [cell(case["subject"]), cell(why, attributes=' colspan="%d"' % (len(COLUMNS) + 2))]
    else:
        cells += [cell(figures.number(figures.median(case, metric))) for _, metric in COLUMNS]
    return '<tr class="%s">%s</tr>' % (case["role"], "".join(cells))


def workload(name, cases):
    head = "".join(cell(text, "th")
                   for text in [name, "pairs/s (range)", "ratio"] + [title for title, _ in COLUMNS])
    return "<div class=wide><table><tr>%s</tr>%s</table></div>" % (
        head, "".join(row(case) for case in cases))


def plot(caption, file):
    """The picture itself: its identifiers are made different from those of the others."""
    svg = file.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg"):]
    names = set(re.findall(r'\bid="([^"]+)"', svg))
    for name in sorted(names, key=len, reverse=True):
        own = "%s-%s" % (file.stem, name)
        for pattern in ('id="%s"', "'#%s'", '"#%s"', "url(#%s)"):
            svg = svg.replace(pattern % name, pattern % own)
    return "<figure><figcaption>%s</figcaption>%s</figure>" % (html.escape(caption), svg)


def render(report, drawn):
    met = sum(1 for target in report["targets"] if target["met"])
    known = sum(1 for target in report["targets"] if target["met"] is not None)
    summary = "dlock %s, Linux %s, %d cores, %d rounds of %d ms a case, load average %.1f" % (
        report["version"], report["kernel"], report["cores"], report["rounds"], report["duration_ms"],
        report.get("load_average", -1))
    parts = ["<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>dlock-bench</title>",
             '<link rel="icon" href="data:,">', "<style>%s</style></head><body>" % STYLE,
             "<h1>dlock-bench</h1><p class=dim>%s</p>" % html.escape(summary),
             "<p>Medians of the rounds, and their range. Bare limits in italics, other libraries in "
             "orange. A ratio is taken round by round.</p>"]
    if report["targets"]:
        parts += ["<h2>Targets: %d of %d met</h2>" % (met, known), targets(report)]
    parts += ["<h2>Plots</h2><div class=plots>", *(plot(*one) for one in drawn), "</div>",
              "<h2>Cases</h2>"]
    parts += [workload(name, cases) for name, cases in figures.workloads(report).items()]
    return "\n".join(parts) + "</body></html>\n"
