# SPDX-License-Identifier: MIT
"""What Prometheus reads.

    scrape.py file FILE SERIES    the value of a series, by the OpenMetrics parser; "none": it is not there.
                                  A text that the parser, or that of the older text format, refuses is
                                  an error
    scrape.py url URL             the text there
"""

import sys
import urllib.request

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def quoted(value):
    return value.replace("\\", "\\\\").replace('"', '\\"')


def series(sample):
    labels = ",".join(f'{name}="{quoted(value)}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}}"


def value_of(path, wanted):
    with open(path, encoding="ascii") as file:
        text = file.read()
    samples = [sample for family in text_string_to_metric_families(text)
               for sample in family.samples]
    plain = [sample for family in parser.text_string_to_metric_families(text)
             for sample in family.samples]
    assert [(series(s), s.value) for s in samples] == [(series(s), s.value) for s in plain]
    assert len({series(s) for s in samples}) == len(samples), "a series twice"
    found = [s.value for s in samples if series(s) == wanted]
    return f"{found[0]:.15g}" if found else "none"


if sys.argv[1] == "file":
    print(value_of(sys.argv[2], sys.argv[3]))
else:
    with urllib.request.urlopen(sys.argv[2]) as page:
        print(page.read().decode(), end="")
