# SPDX-License-Identifier: MIT
"""Makes report.html, with plots, of what dlock-bench --targets --json wrote; or the tables of
docs/benchmarks.md and docs/benchmarks/results.md, and the plots.

    main.py REPORT.json DIRECTORY           DIRECTORY/report.html
    main.py REPORT.json docs --docs         what the markers of both pages enclose, docs/benchmarks/*.svg
"""
import json
import pathlib
import sys

import page
import plots
import tables


def write_html(report, directory):
    drawn = plots.draw_all(report, directory / "plots")
    (directory / "report.html").write_text(page.render(report, drawn), encoding="utf-8")


def between(text, marker, inside):
    """The text with what stands between a pair of markers replaced."""
    begin, end = "<!-- %s -->\n" % marker, "<!-- end -->"
    at = text.index(begin) + len(begin)
    return text[:at] + inside + text[text.index(end, at):]


def write_between(file, parts):
    text = file.read_text(encoding="utf-8")
    for marker, inside in parts.items():
        text = between(text, marker, inside)
    file.write_text(text, encoding="utf-8")


def write_docs(report, directory):
    plots.draw_all(report, directory / "benchmarks")
    write_between(directory / "benchmarks.md", {
        "machine": tables.machine(report), "summary": tables.summary(report)})
    write_between(directory / "benchmarks" / "results.md", {
        "machine": tables.machine(report),
        "summary": tables.summary(report, cases=None),
        "behind": tables.behind(report),
        "targets": tables.targets(report),
        "cases": tables.cases(report),
        "rivals": tables.rivals(report)})


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    directory = pathlib.Path(sys.argv[2])
    (write_docs if "--docs" in sys.argv[3:] else write_html)(report, directory)


main()
