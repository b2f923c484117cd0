#!/bin/bash
# Do the functions of the postgresql plugin get a new number when they change? A client judges them by
# that number alone: functions that changed without one stay old in every store that has them.
#
#     test_functions.sh SOURCE-DIR
#
# The file functions.sha256, beside this one, has a line for each number: what it numbers, the number,
# the release that brought it, and the sum of the statements, without comments.
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
cd "$1" || exit 1
here=tests/plugins/postgresql
record=$here/functions.sha256

# sum FILE
sum() {
    sed 's/ *--.*//; /^$/d' "$1" | sha256sum | cut -d ' ' -f 1
}

# number FILE: the highest of the marks "-- dlock functions N". A client of an earlier release looks for
# its own.
number() {
    sed -n 's/.*-- dlock functions \([0-9]*\)$/\1/p' "$1" | sort -n | tail -n 1
}

# is_recorded WHAT FILE
is_recorded() {
    local n has release
    n=$(number "$2")
    has=$(sum "$2")
    release=$(awk -v what="$1" -v n="$n" '$1 == what && $2 == n { print $3 }' "$record")
    grep -qx "$1 $n ${release:-?} $has" "$record" && return
    if [ -n "$release" ] && grep -q "^## \[$release\]" CHANGELOG.md; then
        echo "$2 has changed, and its functions still have the number $n of release $release. Give them the next"
        echo "number (plugins/postgresql/schema.h, and each mark in the file), keep the file of that release"
        echo "for test_pg_upgrade, and write to $record:"
        echo "$1 $((n + 1)) RELEASE $has"
    else
        echo "write to $record:"
        echo "$1 $n ${release:-RELEASE} $has"
    fi
    return 1
}

# every_function_has_it FILE
every_function_has_it() {
    same "$(grep -c '^CREATE OR REPLACE FUNCTION' "$1")" "$(grep -c -- "-- dlock functions $(number "$1")\$" "$1")"
}

# A copy of row.sql with one change.
changed() {
    sed "$1" plugins/postgresql/row.sql >"$tap_tmp/row.sql"
    ! cmp -s plugins/postgresql/row.sql "$tap_tmp/row.sql" && is_recorded row "$tap_tmp/row.sql"
}

plugin_knows() {
    local known
    known=$(sed -n 's/^#define PG_SCHEMA_FUNCTIONS  *\([0-9]*\)$/\1/p' plugins/postgresql/schema.h)
    same "$known $known" "$(number plugins/postgresql/row.sql) $(number plugins/postgresql/session.sql)"
}

check 'the statements of row.sql are those of their number' \
    is_recorded row plugins/postgresql/row.sql
check 'the statements of session.sql are those of their number' \
    is_recorded session plugins/postgresql/session.sql
check 'the file with functions 1 is what it was' \
    same "row 1 before-0.2.0 $(sum $here/row_functions_1.sql)" "$(grep '^row 1 ' "$record")"
check 'each function of row.sql has the number' every_function_has_it plugins/postgresql/row.sql
check 'each function of session.sql has the number' every_function_has_it plugins/postgresql/session.sql
check 'the plugin looks for that number in both' plugin_knows
check_not 'a statement that changes is seen' changed 's/fence = fence + 32/fence = fence + 64/'
check_not 'a statement more is seen' changed '$ a SELECT 1;'
check 'a comment that changes needs no number' changed 's/^-- Tables and functions of/-- All about/'
tap_end
