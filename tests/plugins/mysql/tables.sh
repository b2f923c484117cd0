#!/bin/bash
# SPDX-License-Identifier: MIT
# tables.sh SOURCE-DIR BIN-DIR PORT SOCKET: what README.md tells those who run the database. Are the tables
# that it has those that the plugin makes (OPN-4, create=off), and does the query for KILL find the
# holder of strategy=session (C5)? TAP.
set -u
source_dir=$1 dlock=$2/dlock port=$3 socket=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
readme=$source_dir/plugins/mysql/README.md
store="mysql://u:secret@127.0.0.1:$port/locks?strategy="

sql() {
    mariadb --no-defaults -S "$socket" -u u -psecret -N -r locks "$@"
}

# The fragment of README.md that begins with this line.
fragment() {
    awk -v first="    $1" '$0 == first { on = 1 } on && !/^    / { exit } on { print substr($0, 5) }' "$readme"
}

all_tables() {
    sql -e 'SHOW TABLES'
}

drop_all() {
    all_tables | sed 's/.*/DROP TABLE `&`;/' | sql
}

tables_show() {
    all_tables | sed 's/.*/SHOW CREATE TABLE `&`;/' | sql && sql -e 'SELECT * FROM dlock_meta'
}

# STRATEGY: by hand, and used without the right to make any; then as the plugin makes them.
by_hand_as_by_the_plugin() {
    local hand made
    fragment "-- strategy=$1" | sql || return
    hand=$(tables_show) && [ -n "$hand" ] || return
    "$dlock" -u "$store$1&create=off" run a -- true || return
    drop_all
    "$dlock" -u "$store$1" run a -- true || return
    made=$(tables_show)
    drop_all
    same "$made" "$hand"
}

for strategy in row insert session; do
    check "tables of strategy=$strategy, made by hand" by_hand_as_by_the_plugin "$strategy"
done

# COMMAND...: exit 66, as for a file that is not there, and no table is made.
looks_in_vain() {
    local said
    "$dlock" -u "${store}row" "$@" 2>"$tap_tmp/err"
    said=$?
    same 66 "$said" && same "" "$(all_tables)"
}
check "C16 inspect makes no tables" looks_in_vain inspect a
check "C16 list makes no tables" looks_in_vain list
check "C16 break makes no tables" looks_in_vain break --yes a
check "C16 doctor makes no tables" looks_in_vain doctor

holder_start() {
    "$dlock" -u "${store}session" run a -- sh -c 'touch "$1"; exec sleep 60' sh "$tap_tmp/runs" &
    holder=$!
    for _ in {1..400}; do
        [ -e "$tap_tmp/runs" ] && return
        sleep 0.05
    done
    return 1
}

# break refers to README.md, which has the query.
holder_killed() {
    local query="SELECT conn FROM dlock_fences WHERE name=" page=plugins/mysql/README.md got=0 said
    holder_start || return
    "$dlock" -u "${store}session" break --yes a 2>"$tap_tmp/err"
    said=$?
    if ! same 78 "$said" || ! grep -qF "$page" "$tap_tmp/err" || ! grep -qF "$query" "$readme"; then
        kill "$holder"
        return 1
    fi
    sql -e "KILL $(sql -e "$query'a'")" || kill "$holder"
    wait "$holder" || got=$?
    same 70 "$got"
}
check "the connection of a holder is found and ended, and the holder ends with 70" holder_killed
tap_end
