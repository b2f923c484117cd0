# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# ruler.sh - on top of tap.sh, upper bounds of time (ruler.h). Sourced; then ruler_begin once, before
# what is judged. A test compares no duration itself.

# ruler_begin BIN-DIR: the sampler ends with this program.
ruler_begin() {
    ruler=$1/ruler ruler_file=${tap_tmp:?}/ruler
    "$ruler" watch "$ruler_file" || {
        echo "Bail out! no $ruler"
        exit 1
    }
}

now_ms() {
    date +%s%3N
}

# is_late TOOK MOST: what took TOOK ms, and has ended just now, had at most MOST; the numbers are in
# $ruling. What the machine was too slow to judge is not late, and is noted for tap_result.
is_late() {
    local status=0
    ruling=$("$ruler" judge "$ruler_file" "$1" "$2") || status=$?
    [ "$status" -ne 79 ] || echo "$ruling" >>"$tap_tmp/void"
    [ "$status" -ne 0 ] && [ "$status" -ne 79 ]
}

# lasted LEAST TOOK MOST [WHAT]: the same, and says what is wrong. No machine makes LEAST fail.
lasted() {
    if [ "$2" -lt "$1" ]; then
        echo "${4:-time}: $2 ms, at least $1 expected"
        return 1
    fi
    if is_late "$2" "$3"; then
        echo "${4:-time}: late: $ruling"
        return 1
    fi
}
