#!/bin/bash
# Is each label that docs/testing.md names on some test? `ctest -L` of one that is on none runs
# nothing, and calls that a success.
#
#     test_labels.sh SOURCE-DIR BUILD-DIR
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"

# Not by ctest: it would begin the log of the run anew that this one is part of.
tests_of() {
    grep -rhE --include=CTestTestfile.cmake "LABELS \"([a-z;]+;)?$1(;|\")" "$2" | head -n 1 | grep .
}

labels=$(sed -n 's/.*and a label: \([a-z, ]*\) |$/\1/p' "$1/docs/testing.md" | tr -d ,)
check 'docs/testing.md names labels' [ -n "$labels" ]
for label in $labels; do
    check "label $label" tests_of "$label" "$2"
done
tap_end
