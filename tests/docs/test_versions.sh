#!/bin/bash
# SPDX-License-Identifier: MIT
# Has the table of versions in README.md the form that scripts/versions gives it, and nothing that failed?
#
#     test_versions.sh SOURCE-DIR
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
cd "$1" || exit 1

sed -n '/^<!-- versions -->$/,/^<!-- end -->$/p' README.md | sed '1,3d; $d' >"$tap_tmp/table"
sed -n 's/^| `\([^`]*\)` .*/\1/p' "$tap_tmp/table" >"$tap_tmp/names"

has_a_form() {
    ! grep -vxE '\| `[a-z0-9-]+` \| ([A-Za-z]+ [0-9][0-9.a-z-]*(, )?)+ \| [^|]+ \| ([0-9]+ passed, 0 failed(, [0-9]+ skipped)?(, [0-9]+ void)?|no warning( outside of the tests)?) \| 20[0-9]{2}-[0-9]{2}-[0-9]{2} \|' \
        "$tap_tmp/table"
}
# Without the rows that nobody has run.
rows_in_order() {
    diff <(scripts/versions --list | grep -xFf "$tap_tmp/names") "$tap_tmp/names"
}

check "the table has rows" test -s "$tap_tmp/names"
check "each has its version, what passed, and its day" has_a_form
check "they are rows of scripts/versions, each once, in its order" rows_in_order
tap_end
