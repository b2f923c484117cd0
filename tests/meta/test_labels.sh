#!/bin/bash
# Is each label that docs/testing.md names on some test? `ctest -L` of one that is on none runs
# nothing, and calls that a success.
#
#     test_labels.sh SOURCE-DIR BUILD-DIR
set -u
# shellcheck source=tests/tap.sh
. "$1/tests/tap.sh"

tests_of() {
    ctest --test-dir "$2" -N -L "^$1\$" | grep -E '^Total Tests: [1-9]'
}

labels=$(sed -n 's/.*by label: \([a-z ]*\)$/\1/p' "$1/docs/testing.md")
check 'docs/testing.md names labels' [ -n "$labels" ]
for label in $labels; do
    check "label $label" tests_of "$label" "$2"
done
tap_end
