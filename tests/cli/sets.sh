#!/bin/bash
# Tests: cli/acquire.c cli/cmd_run.c cli/environment.c
# SPDX-License-Identifier: MIT
# dlock run -n NAME -n NAME: several names, all or none (C18).
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"

all_are_held() {
    exits 0 "$dlock" run -n c -n a --name=b -- \
        sh -c 'for n in a b c; do "$0" inspect "$n" >/dev/null || exit 9; done' "$dlock"
    for name in a b c; do
        exits 1 "$dlock" inspect "$name"
    done
}

none_is_held() {
    "$dlock" run b -- sleep 60 &
    within 20 held b
    exits 75 "$dlock" run --nowait -n a -n b -n c -- touch ran
    one_line "^dlock: b: held by .*:$!@[0-9a-f]{8} for "
    exits 75 "$dlock" run --wait 300ms -n c -n b -n a -- touch ran
    exits 0 "$dlock" run --skip-quietly -n a -n b -- touch ran
    equal "" "$(cat err)" "standard error with --skip-quietly"
    [ ! -e ran ]
    exits 1 "$dlock" inspect a
    exits 1 "$dlock" inspect c
}

tells_the_fences() {
    "$dlock" run a -- true
    DLOCK_FENCE_7=outer exits 0 "$dlock" run --outcome events -n b -n a -- \
        sh -c 'echo "$DLOCK_NAME $DLOCK_FENCE $DLOCK_FENCE_0 $DLOCK_FENCE_1 ${DLOCK_FENCE_7-none}" >got'
    read -r name fence first second outer <got
    equal "b" "$name"
    equal "$fence" "$first"
    [ "$second" -gt 1 ]
    equal none "$outer" "a variable of an enclosing run"
    grep -qx "acquired fence_0=$first token_0=[0-9a-f]* fence_1=$second token_1=[0-9a-f]*" events
    exits 0 "$dlock" run a -- sh -c 'exit ${DLOCK_FENCE_0+1}'
}

nested_is_refused() {
    exits 64 "$dlock" run -n x -n b -- "$dlock" run -n a -n b -- touch ran
    one_line 'b: an enclosing dlock run holds this lock'
    [ ! -e ran ]
}

loss_ends_the_command() {
    "$dlock" run --ttl 3s -n a -n b -- sleep 60 &
    within 20 held b
    "$dlock" break --yes b
    wait $! || equal 70 $? "exit code"
    exits 1 "$dlock" inspect a
}

# shellcheck disable=SC2046 # words are options
bad_use() {
    exits 64 "$dlock" run -n a -n b -n a -- touch ran
    one_line 'the name a is twice in the set'
    exits 64 "$dlock" run -n a -n '' -- touch ran
    exits 64 "$dlock" run -n
    exits 64 "$dlock" run -n a -n b
    exits 64 "$dlock" run $(printf -- '-n %d ' {1..33}) -- touch ran
    one_line 'a set has at most 32'
    [ ! -e ran ]
    exits 0 "$dlock" run $(printf -- '-n %d ' {1..32}) -- true
    exits 0 "$dlock" --name-hex run -n 61 -n 62 -- sh -c '[ "$DLOCK_NAME" = a ]'
}

# worker N: takes sets of 3 of 6 names until the file stop is there; counts for each name.
worker() {
    while [ ! -e stop ]; do
        # shellcheck disable=SC2046 # words are names
        set -- $(printf '%s\n' 0 1 2 3 4 5 | shuf | head -3)
        "$dlock" run -n "$1" -n "$2" -n "$3" -- sh -c '
            for i; do read -r n <"n$i"; echo $((n + 1)) >"n$i"; done
            echo "$@" >>"$0"' "taken$BASHPID" "$1" "$2" "$3"
    done
}

no_circle() {
    local i workers=() seconds=3
    [ "${DLOCK_LONG_TESTS:-0}" = 0 ] || seconds=60
    for i in 0 1 2 3 4 5; do echo 0 >"n$i"; done
    for i in {1..16}; do
        worker &
        workers+=($!)
    done
    sleep "$seconds"
    touch stop
    wait "${workers[@]}"
    echo "$(cat taken* | wc -l) sets in $seconds s"
    for i in 0 1 2 3 4 5; do
        equal "$(cat taken* | grep -o "$i" | wc -l)" "$(cat "n$i")" "counter of name $i"
    done
}

shows "all names are held, and all are free afterwards" all_are_held
shows "no name is held if one is not to be had" none_is_held
shows "CMD and --outcome get a fence for each name" tells_the_fences
shows "a name that an enclosing run holds is refused" nested_is_refused
shows "the loss of one name ends the command, and frees the others" loss_ends_the_command
shows "names that make no set exit 64" bad_use
shows "16 shells with sets of 3 of 6 names in random order: no circle, exact counters" no_circle
tap_end
